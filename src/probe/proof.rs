//! What a cluster keeps of workloads that prove it: which declaration was proven last, and what of a run is still there.
//!
//! This question goes to an API and not to a host: no script asks it.

use super::ObjectId;
use serde::{Deserialize, Serialize};

/// What is known of a workload that proves something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofState {
    /// The last run that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<Proven>,
    /// What runs made and did not take away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
}

/// A run that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// Digest of what was declared.
    pub digest: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub time: String,
    pub run: String,
    /// What it came to: `succeeded after 12 s`.
    pub said: String,
}

/// An object that a run made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    pub id: ObjectId,
    pub uid: String,
    /// The run that made it.
    pub run: String,
}
