//! Records of proof workloads that a cluster keeps: which declaration was proven last, and which objects of a run are
//! left.
//!
//! This query goes to an API and not to a host: no script sends it.

use super::ObjectId;
use serde::{Deserialize, Serialize};

/// The state of a proof workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofState {
    /// The last run that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<ProvenRun>,
    /// Objects that runs created and did not remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftoverObject>,
}

/// A run that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenRun {
    /// Digest of the declaration.
    pub digest: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// The ID of the run that proved it.
    pub run: String,
    /// Its result: `succeeded after 12 s`.
    pub said: String,
}

/// An object that a run created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoverObject {
    /// The object that is left.
    pub id: ObjectId,
    /// The uid of the object: an object of the same name with another uid is not a leftover.
    pub uid: String,
    /// The run that created it.
    pub run: String,
}
