//! Why a probe has no answer.

use crate::model::UntrustedText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a probe has no answer. Never equivalent to "no change".
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct UnansweredReason {
    /// A lowercase fragment: `timed out after 10 s`, `dpkg-query is missing`, `permission denied`.
    pub why: String,
    /// The host's output about it, if there is any.
    pub said: Option<UntrustedText>,
    /// Whether forge skipped the read, since another user can redirect the path: a retry gives the same answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub barred: bool,
    /// Whether a program is missing on the host: a retry gives the same answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_tool: bool,
    /// Whether there is an answer, and a recording leaves it out because it contains a secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
    /// Whether a recording does not have the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrecorded: bool,
}

impl UnansweredReason {
    /// Returns a reason that a retry may resolve; `why` is a lowercase fragment.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), said: None, barred: false, lacks_tool: false, withheld: false, unrecorded: false }
    }

    /// Returns the reason for a program that the host does not have.
    pub fn missing_tool(tool: &str) -> Self {
        Self { lacks_tool: true, ..Self::new(format!("`{tool}` is missing")) }
    }

    /// Returns the reason for an answer that a recording leaves out because it contains a secret.
    pub(super) fn withheld_secret(why: &str) -> Self {
        Self { withheld: true, ..Self::new(why) }
    }

    /// Reports whether a retry may have an answer.
    pub fn is_retryable(&self) -> bool {
        !self.barred && !self.lacks_tool && !self.withheld
    }

    /// Adds the host's output to the reason.
    pub fn with_message(mut self, text: impl Into<UntrustedText>) -> Self {
        self.said = Some(text.into());
        self
    }
}
