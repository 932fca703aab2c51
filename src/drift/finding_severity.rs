//! The severity of a finding.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Known and intended, or of little consequence: an apply is due.
    Low,
    /// A step differs.
    Medium,
    /// A verification failed, or the repair takes the host out of service.
    High,
    /// A hardware fault.
    Critical,
}

impl FindingSeverity {
    /// Every severity, the most severe first.
    pub const WORST_FIRST: [FindingSeverity; 4] = [Self::Critical, Self::High, Self::Medium, Self::Low];

    /// Returns the name in machine formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}
