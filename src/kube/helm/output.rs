//! Helm's output, typed. Unknown fields are ignored, missing ones are an error.

use super::super::KubeError;
use crate::model::Value;
use crate::object::ReleaseStatus;
use serde::Deserialize;

/// One entry of `helm list`: a release and its last revision.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ListedRelease {
    pub name: String,
    pub namespace: String,
    /// A number as text.
    pub revision: String,
    pub status: String,
    /// The chart's name and version, joined by a dash. Both may contain dashes.
    pub chart: String,
}

/// The output of `helm get metadata`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct HelmReleaseMetadata {
    pub chart: String,
    pub version: String,
    pub revision: u64,
    pub status: String,
    /// `ssa` or `csa`. Helm 3 supports only `csa` and does not report it.
    #[serde(default, rename = "applyMethod")]
    pub apply_method: String,
}

/// One entry of `helm history`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct HelmRevision {
    pub revision: u64,
    pub updated: jiff::Timestamp,
    pub status: String,
    #[serde(default)]
    pub description: String,
}

/// The manifest in the output of a dry-run upgrade. The output also has every template of the chart.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct HelmUpgradeDryRun {
    pub manifest: String,
}

/// The `Chart.yaml` of a chart.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ChartFile {
    pub name: String,
    pub version: String,
}

/// Parses the output of `helm WHAT`.
///
/// # Errors
/// The output does not have the expected form.
pub(super) fn parse_json<T: for<'de> Deserialize<'de>>(what: &str, text: &str) -> Result<T, KubeError> {
    serde_json::from_str(text).map_err(|error| KubeError::new(format!("unexpected output of `helm {what}`: {error}")))
}

/// Parses a release's own values. Helm prints `null` for no values; inventories write `{}`.
pub(super) fn parse_values(text: &str) -> Result<Value, KubeError> {
    let values: Value = parse_json("get values", text)?;
    Ok(if values.is_null() { Value::Object(serde_json::Map::new()) } else { values })
}

impl ListedRelease {
    /// Returns the version of the chart if it has that name.
    pub fn chart_version(&self, chart: &str) -> Option<&str> {
        let version = self.chart.strip_prefix(chart)?.strip_prefix('-')?;
        let number = version.strip_prefix('v').unwrap_or(version);
        number.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
    }
}

impl HelmRevision {
    pub fn status(&self) -> ReleaseStatus {
        ReleaseStatus::from_name(&self.status)
    }
}

/// Reports whether helm's error is that the release does not exist.
pub(super) fn is_release_not_found(error: &str) -> bool {
    error.contains("release: not found")
}
