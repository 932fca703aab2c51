//! A finding of earlier runs.

use super::DriftCause;
use super::finding_severity::FindingSeverity;
use crate::model::{HostName, UntrustedText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A finding in the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownFinding {
    /// The host that differs from its declaration.
    pub host: HostName,
    /// The recipe of the step or verification; `hardware` or `kubernetes` for findings without a recipe.
    pub recipe: UntrustedText,
    /// The step, `step` or `step[key]`; the name of a verification; the part of the hardware.
    pub step: UntrustedText,
    /// The differing attribute: `content`, `mode` … Absent if the step differs as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// Why it differed when it was last new or changed.
    pub cause: DriftCause,
    /// How severe it was when it was last new or changed.
    pub severity: FindingSeverity,
    /// RFC 3339, UTC.
    pub first_seen: String,
    /// When it last appeared; later than `first_seen` if it flaps.
    pub since: String,
    /// When its step had last been applied at that time. RFC 3339; absent if it was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
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
