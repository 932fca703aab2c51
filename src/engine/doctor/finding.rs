//! One finding of the doctor.

use crate::model::UntrustedText;
use schemars::JsonSchema;
use serde::Serialize;

/// Severity of a finding, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoctorSeverity {
    /// Prevents an apply.
    Problem,
    /// Could not be evaluated.
    Unknown,
    /// Works, but worth knowing.
    Note,
    /// No problem found.
    Ok,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorFinding {
    /// The check's name, one word: `tools`, `room`, `clock` …
    pub check: &'static str,
    /// How severe the finding is. `note` and `ok` do not change the exit code.
    pub weight: DoctorSeverity,
    /// A lowercase fragment.
    pub what: UntrustedText,
    /// How to fix it.
    pub hint: Option<UntrustedText>,
}

impl DoctorFinding {
    /// Returns a finding without a hint.
    pub(super) fn new(weight: DoctorSeverity, check: &'static str, what: impl Into<UntrustedText>) -> Self {
        Self { check, weight, what: what.into(), hint: None }
    }

    /// Adds how to fix it.
    pub(super) fn with_hint(mut self, hint: impl Into<UntrustedText>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
