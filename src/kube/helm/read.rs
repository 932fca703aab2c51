//! What helm prints, typed. Unknown fields are left alone, missing ones are an error.

use super::super::KubeError;
use crate::model::Value;
use crate::probe::ReleaseStatus;
use serde::Deserialize;

/// One line of `helm list`: a release and its last revision.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Listed {
    pub name: String,
    pub namespace: String,
    /// A number as text.
    pub revision: String,
    pub status: String,
    /// The chart's name and version with a dash between them, either of which may hold dashes.
    pub chart: String,
}

/// `helm get metadata`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Metadata {
    pub chart: String,
    pub version: String,
    pub revision: u64,
    pub status: String,
    /// `ssa` or `csa`; helm 3 has only the latter and does not say so.
    #[serde(default, rename = "applyMethod")]
    pub apply_method: String,
}

/// One revision of `helm history`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Revision {
    pub revision: u64,
    pub updated: jiff::Timestamp,
    pub status: String,
    #[serde(default)]
    pub description: String,
}

/// The part of a rehearsed upgrade that is read: it holds every template of the chart beside it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Rehearsed {
    pub manifest: String,
}

/// What a chart says of itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ChartFile {
    pub name: String,
    pub version: String,
}

/// Reads what `helm WHAT` printed.
///
/// # Errors
/// If it is not what that prints.
pub(super) fn json<T: for<'de> Deserialize<'de>>(what: &str, text: &str) -> Result<T, KubeError> {
    serde_json::from_str(text).map_err(|error| KubeError::new(format!("`helm {what}` says what is not known: {error}")))
}

/// Reads a release's own values. None are `null` for helm, and `{}` for who writes them.
pub(super) fn values(text: &str) -> Result<Value, KubeError> {
    let values: Value = json("get values", text)?;
    Ok(if values.is_null() { Value::Object(serde_json::Map::new()) } else { values })
}

impl Listed {
    /// Returns the version of the chart where it is the one of that name.
    pub fn version_of(&self, chart: &str) -> Option<&str> {
        let version = self.chart.strip_prefix(chart)?.strip_prefix('-')?;
        let number = version.strip_prefix('v').unwrap_or(version);
        number.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
    }
}

impl Revision {
    pub fn status(&self) -> ReleaseStatus {
        ReleaseStatus::of(&self.status)
    }
}

/// Returns whether helm says that there is no such release.
pub(super) fn is_absent(error: &str) -> bool {
    error.contains("release: not found")
}
