//! A host's maintenance window: waits for its turn, takes the host out of service, reboots it, and brings it back.
//!
//! Architecture Invariants: a window does not open while other users' work holds the host's devices, and a host does
//! not reboot more often than its plan declares. The next run detects the leftovers of a killed run: stopped services
//! by their state, an open window by its mark.

mod close;
mod device_holders;
mod kubernetes_drain;
mod node_readiness;
mod open;
mod reboot;
mod refused_steps;
mod slurm;
mod slurm_drain;
mod window_scripts;
mod window_turn;

pub(super) use window_scripts::BOOT_ID_PATH;
#[cfg(test)]
pub(super) use window_scripts::REBOOT_COMMAND;

use super::cancel::StopLevel;
use super::event::{CompletedReboot, DrainedNode};
use super::host_run::HostRun;
use super::host_session::{HostScriptOutput, SHORT_SCRIPT_LIMIT, summarize_stderr};
use super::step_groups::HostStepGroup;
use crate::graph::StepIndex;
use crate::model::UntrustedText;
use crate::plan::{HostWindow, StepStage};
use crate::script::ShellFragment;
use std::time::Duration;

/// Why a window's changes are not made.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum WindowRefusal {
    /// Policy: outside the permitted hours.
    Held(String),
    /// The budget: the host does not get its turn in this run.
    Never(String),
    /// This run may not reboot the host.
    Refused(String),
    /// Another user's work holds the host's devices.
    Busy(String),
    /// Use of the host's devices could not be determined.
    Unknown(String),
    /// The host could not be taken out of service, or could not be rebooted.
    Failed(String),
    /// The host is not brought back into service.
    Open(String),
    /// The run was stopped, or the connection to the host was lost.
    Stopped,
}

/// The progress of a host through its window.
#[derive(Debug, Default)]
pub(super) struct WindowState {
    pub stage: StepStage,
    pub shut: Option<WindowRefusal>,
    /// Whether the host was taken out of service and not brought back.
    pub open: bool,
    /// Units that this run stopped.
    pub stopped: Vec<String>,
    pub reboots: Vec<CompletedReboot>,
    /// This run's changes to the host's Kubernetes node.
    pub node: Option<DrainedNode>,
}

impl WindowState {
    /// Returns why the host is not back in service, although everything declared is in place.
    pub fn describe_failed_return(&self) -> Option<UntrustedText> {
        match &self.shut {
            Some(WindowRefusal::Failed(why) | WindowRefusal::Unknown(why)) if self.stage > StepStage::Before => {
                Some(format!("not brought back into service: {why}").into())
            }
            _ => None,
        }
    }
}

impl HostRun<'_> {
    /// Returns the stage in which a group runs.
    pub(super) fn find_group_stage(&self, group: &HostStepGroup) -> StepStage {
        self.list_planned_steps(group).map(|step| step.stage).max().unwrap_or_default()
    }

    /// Advances the host to a stage: takes it out of service, reboots it, brings it back, as the plan declares. If that
    /// stops, [`WindowRefusal`](super::WindowRefusal) contains the reason.
    pub(super) async fn advance_to_stage(&mut self, stage: StepStage) {
        let Some(window) = self.plan.window.as_ref() else { return };
        while self.passage.stage < stage && self.passage.shut.is_none() {
            if self.lost.is_some() || self.run.cancel.level() > StopLevel::No {
                return;
            }
            let (next, passed) = match self.passage.stage {
                StepStage::Before if is_close_only(window) => (StepStage::Inside(0), Ok(())),
                StepStage::Before => (StepStage::Inside(0), self.open_window(window).await),
                StepStage::Inside(round) if (round as usize) < window.reboots.len() => {
                    (StepStage::Inside(round + 1), self.reboot_if_pending(window, round as usize).await)
                }
                StepStage::Inside(_) | StepStage::After => (StepStage::After, self.close_window(window).await),
            };
            match passed {
                Ok(()) => self.passage.stage = next,
                Err(shut) => self.refuse_window(shut),
            }
        }
    }

    /// Returns whether a later reboot of this run makes a step effective.
    pub(super) fn awaits_reboot(&self, index: StepIndex) -> bool {
        let done = match self.passage.stage {
            _ if self.passage.shut.is_some() => return false,
            StepStage::Before => 0,
            StepStage::Inside(round) => round as usize,
            StepStage::After => return false,
        };
        let id = self.run.project.graph.step_id(index);
        let later = self.plan.window.iter().flat_map(|window| window.reboots.iter().skip(done));
        later.flat_map(|reboot| &reboot.steps).any(|step| step.recipe == id.recipe && step.step == id.step)
    }

    /// Runs one of forge's own short scripts under the lock.
    async fn run_own_script(&mut self, body: ShellFragment, limit: Duration) -> Result<String, WindowRefusal> {
        let shared = self.run.board.shared_values();
        match self.link.run_acting_script(body, limit, &shared.secrets).await {
            Ok(HostScriptOutput { finished, .. }) if finished.status == 0 => {
                Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
            }
            Ok(HostScriptOutput { finished, .. }) => Err(WindowRefusal::Failed(summarize_stderr(&finished.stderr))),
            Err(error) => {
                self.lost = Some(error);
                Err(WindowRefusal::Stopped)
            }
        }
    }
}

/// Returns whether the only thing to do is to close a window that was left open.
fn is_close_only(window: &HostWindow) -> bool {
    window.steps.is_empty() && window.reboots.is_empty()
}

/// Timeout of a script that stops units: as long as systemd waits for the slowest of several.
const STOP_UNITS_LIMIT: Duration = Duration::from_secs(SHORT_SCRIPT_LIMIT.as_secs() * 10);
