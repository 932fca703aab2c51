//! The window of a host, as a plan shows it.

use crate::model::{StepId, UntrustedText};
use crate::plan::ObservedNode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The changes that take a host out of service, with the stops, reboots and drains that they need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostWindow {
    /// The steps that make it necessary, and those that are tied to them by a version.
    pub steps: Vec<StepId>,
    /// Units that are stopped while it is open. The steps that declare them running start them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<WindowStop>,
    /// Kernel modules that are unloaded while it is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unloads: Vec<WindowStop>,
    /// In order. A host does not reboot more often than this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reboots: Vec<PlannedReboot>,
    /// Whether the host is a Slurm node that is drained first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slurm: bool,
    /// The Kubernetes node that is drained first, if the host is declared to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<ObservedNode>,
    /// The resources that the node must offer before it is uncordoned: `nvidia.com/gpu 8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returns: Vec<String>,
    /// The acceptance tests that the host has to pass before it is brought back into service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub return_tests: Vec<String>,
    /// The run that left it open, if any: such a window is closed in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_open: Option<UntrustedText>,
}

/// A unit or module that must not run while a recipe changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct WindowStop {
    /// A unit with its type, or a module.
    pub name: String,
    /// The recipe that changes meanwhile.
    pub during: String,
}

/// One reboot, shared by all steps that wait for one at that point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PlannedReboot {
    /// The steps that take effect by it.
    pub steps: Vec<StepId>,
    /// Whether nothing else can make them effective before. If false, the host reboots only if they are not effective
    /// by then.
    pub certain: bool,
    /// Seconds after the boot at which the host takes it back unless it brought the host back; absent if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_s: Option<u64>,
}

impl HostWindow {
    /// Returns the recipes that change or take effect while it is open.
    pub fn list_recipes(&self) -> BTreeSet<&str> {
        let awaited = self.reboots.iter().flat_map(|reboot| &reboot.steps);
        self.steps.iter().chain(awaited).map(|id| &*id.recipe).collect()
    }

    /// Returns whether the host reboots in any case.
    pub fn has_certain_reboot(&self) -> bool {
        self.reboots.iter().any(|reboot| reboot.certain)
    }

    /// Returns whether a step waits for one of its reboots.
    pub fn has_reboot_for(&self, id: &StepId) -> bool {
        self.reboots.iter().any(|reboot| reboot.steps.contains(id))
    }
}

/// When a step runs. In chronological order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStage {
    /// In parallel with other hosts: the host stays in service, or has no window.
    #[default]
    Before,
    /// While the window is open, after this number of reboots.
    Inside(u32),
    /// After the window is closed: the step waits for other hosts, which may wait for this one.
    After,
}

impl StepStage {
    /// Reports whether the step needs no open window.
    pub fn is_before(&self) -> bool {
        *self == Self::Before
    }
}
