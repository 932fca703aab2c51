//! A finding of earlier runs.

use super::DriftCause;
use super::finding_severity::FindingSeverity;
use crate::model::{HostName, UntrustedText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A finding in the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownFinding {
    pub host: HostName,
    pub recipe: UntrustedText,
    pub step: UntrustedText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    pub cause: DriftCause,
    pub severity: FindingSeverity,
    /// RFC 3339, UTC.
    pub first_seen: String,
    /// When it last appeared; later than `first_seen` if it flaps.
    pub since: String,
    /// How often it appeared within a day.
    pub times: u32,
    /// Digest of the desired and observed values: another digest is a change.
    pub print: String,
    /// When it was found to be resolved. RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
}

impl KnownFinding {
    pub(super) fn finding_key(&self) -> FindingKey {
        let attribute = self.attribute.clone().unwrap_or_default();
        (self.host.clone(), self.recipe.raw().to_owned(), self.step.raw().to_owned(), attribute)
    }
}

/// The identity of a finding over time: host, recipe, step, attribute.
pub(super) type FindingKey = (HostName, String, String, String);
