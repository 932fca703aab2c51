//! In which portions a plan goes out: canaries, waves, budgets.
//!
//! Architecture Invariant: who may take a host out of service when is decided here, by a pure function of the plan and
//! of how far the run is. The engine asks it and waits; it decides nothing by itself.

mod build;
#[cfg(test)]
mod tests;
mod turn;
mod waves;

pub(super) use build::rollout;
pub use turn::{Progress, Turn, Waited};

use crate::model::HostName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// In which portions a plan goes out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollout {
    /// Hosts that receive all their changes before any other is written to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<HostName>,
    /// Hosts that are taken out of service, in portions that follow each other; canaries first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Vec<HostName>>,
    /// How many hosts may be out of service at once.
    pub max_unavailable: usize,
    /// How many hosts may restart one service at once; any number without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarting: Option<usize>,
    /// How many hosts may fail before no other begins; any number without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failed: Option<usize>,
    /// Hosts that do not answer, or whose window was left open and cannot be closed: they use up `max_unavailable` from
    /// the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<HostName>,
    /// Sets of hosts of which no two may be out of service at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quorum: Vec<Quorum>,
    /// When windows may open, by the clock of the machine that forge runs on: `22:00-05:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<String>,
}

/// A group of which no two hosts may be out of service at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quorum {
    pub group: String,
    pub hosts: BTreeSet<HostName>,
}

impl Rollout {
    /// Returns which wave takes a host out of service, from 0.
    pub fn wave_of(&self, host: &HostName) -> Option<usize> {
        self.waves.iter().position(|wave| wave.contains(host))
    }
}
