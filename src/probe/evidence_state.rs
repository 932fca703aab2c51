//! Evidence of changes on a host, as read.

use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parts of a host's logs that may show who changed it. Parts that were not requested are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceState {
    /// By name: `apt`, `journal`, `file:/etc/motd`.
    pub parts: BTreeMap<String, EvidencePart>,
}

/// One source of evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidencePart {
    /// The text as read; empty if it is missing.
    pub text: UntrustedText,
    /// Why it is missing: a lowercase fragment. Empty if it was read.
    pub lack: String,
}
