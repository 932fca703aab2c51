//! The phase that a step reached on a host.

use serde::{Deserialize, Serialize};

/// The phase that a step reached on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReachedPhase {
    /// Failed, blocked, skipped: no phase was reached.
    Nothing,
    /// The declared state is written on the host.
    Configured,
    /// The declared state is in use.
    Effective,
}
