//! The rollout of a plan: canaries, waves, budgets.
//!
//! Architecture Invariant: this module alone decides which host may be taken out of service when, by a pure function of
//! the plan and the progress of the run. The engine queries it and waits; it makes no such decision itself.

mod admission;
mod build;
mod start;
#[cfg(test)]
mod tests;
mod waves;

pub use admission::{RolloutProgress, WindowDecision, WindowWaiters};
pub(super) use build::build_rollout;
pub use start::StartRefusal;

use crate::model::HostName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The order and the limits in which a plan is applied to hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolloutPlan {
    /// Hosts that receive all their changes before any other host is changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<HostName>,
    /// Hosts that are taken out of service, in consecutive waves; canaries first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Vec<HostName>>,
    /// How many hosts may be out of service at once.
    pub max_unavailable: usize,
    /// How many hosts may restart one service at once; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarting: Option<usize>,
    /// How many hosts may fail before no further host starts; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failed: Option<usize>,
    /// Hosts that are unreachable, or whose window was left open and cannot be closed: they count against
    /// `max_unavailable` from the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<HostName>,
    /// Groups of hosts. No two hosts of a group may be out of service at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quorum: Vec<QuorumGroup>,
    /// Hosts of these groups that are not selected: whether they are in service is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unselected: Vec<HostName>,
    /// Hours in which windows may open, by the clock of the machine that forge runs on: `22:00-05:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<String>,
    /// Present if `hours` did not include the time at which the plan was made: apply opens no window then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedHours>,
}

/// A time outside of the hours in which windows may open, by the clock of the machine that forge runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClosedHours {
    /// The time: `03:47`.
    pub at: String,
    /// When windows open next: `22:00`.
    pub opens: String,
}

/// A group. No two of its hosts may be out of service at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuorumGroup {
    /// The name of the group in the inventory.
    pub group: String,
    /// The members of the group.
    pub hosts: BTreeSet<HostName>,
}

impl RolloutPlan {
    /// Returns the number of the wave that takes a host out of service, from 0.
    pub fn find_wave(&self, host: &HostName) -> Option<usize> {
        self.waves.iter().position(|wave| wave.contains(host))
    }
}
