//! A host's maintenance window: waits for its turn, takes the host out of service, reboots it, and brings it back.
//!
//! Architecture Invariants: a window does not open while other users' work holds the host's devices, and a host does
//! not reboot more often than its plan declares. The next run detects the leftovers of a killed run: stopped services
//! by their state, an open window by its mark.

mod bar;
mod busy;
mod close;
mod kubernetes;
mod node;
mod open;
mod reboot;
mod returns;
mod script;
mod slurm;
mod turn;

pub(super) use script::BOOT_ID;
#[cfg(test)]
pub(super) use script::REBOOT;

use super::cancel::Stop;
use super::event::{DrainedNode, Rebooted};
use super::group::Group;
use super::host::HostRun;
use super::link::{Done, SHORT, said};
use crate::graph::StepIndex;
use crate::model::Untrusted;
use crate::plan::{Stage, Window};
use crate::script::Fragment;
use std::time::Duration;

/// Why a window's changes are not made.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shut {
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
pub(super) struct Passage {
    pub stage: Stage,
    pub shut: Option<Shut>,
    /// Whether the host was taken out of service and not brought back.
    pub open: bool,
    /// Units that this run stopped.
    pub stopped: Vec<String>,
    pub reboots: Vec<Rebooted>,
    /// This run's changes to the host's Kubernetes node.
    pub node: Option<DrainedNode>,
}

impl Passage {
    /// Returns why the host is not back in service, although everything declared is in place.
    pub fn not_brought_back(&self) -> Option<Untrusted> {
        match &self.shut {
            Some(Shut::Failed(why) | Shut::Unknown(why)) if self.stage > Stage::Before => {
                Some(format!("not brought back into service: {why}").into())
            }
            _ => None,
        }
    }
}

impl HostRun<'_> {
    /// Returns the stage in which a group runs.
    pub(super) fn stage_of(&self, group: &Group) -> Stage {
        self.planned_of(group).map(|step| step.stage).max().unwrap_or_default()
    }

    /// Advances the host to a stage: takes it out of service, reboots it, brings it back, as the plan declares. If that
    /// stops, [`Passage::shut`] contains the reason.
    pub(super) async fn go_to(&mut self, stage: Stage) {
        let Some(window) = self.plan.window.as_ref() else { return };
        while self.passage.stage < stage && self.passage.shut.is_none() {
            if self.lost.is_some() || self.run.cancel.level() > Stop::No {
                return;
            }
            let (next, passed) = match self.passage.stage {
                Stage::Before if is_idle(window) => (Stage::Inside(0), Ok(())),
                Stage::Before => (Stage::Inside(0), self.open_window(window).await),
                Stage::Inside(round) if (round as usize) < window.reboots.len() => {
                    (Stage::Inside(round + 1), self.reboot_for(window, round as usize).await)
                }
                Stage::Inside(_) | Stage::After => (Stage::After, self.close_window(window).await),
            };
            match passed {
                Ok(()) => self.passage.stage = next,
                Err(shut) => self.shut(shut),
            }
        }
    }

    /// Returns whether a later reboot of this run makes a step effective.
    pub(super) fn awaits_reboot(&self, index: StepIndex) -> bool {
        let done = match self.passage.stage {
            _ if self.passage.shut.is_some() => return false,
            Stage::Before => 0,
            Stage::Inside(round) => round as usize,
            Stage::After => return false,
        };
        let id = self.run.project.graph.step(index);
        let later = self.plan.window.iter().flat_map(|window| window.reboots.iter().skip(done));
        later.flat_map(|reboot| &reboot.steps).any(|step| step.recipe == id.recipe && step.step == id.step)
    }

    /// Runs one of forge's own short scripts under the lock.
    async fn own_script(&mut self, body: Fragment, limit: Duration) -> Result<String, Shut> {
        let shared = self.run.board.shared();
        match self.link.act(body, limit, &shared.secrets).await {
            Ok(Done { finished, .. }) if finished.status == 0 => {
                Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
            }
            Ok(Done { finished, .. }) => Err(Shut::Failed(said(&finished.stderr))),
            Err(error) => {
                self.lost = Some(error);
                Err(Shut::Stopped)
            }
        }
    }
}

/// Returns whether the only thing to do is to close a window that was left open.
fn is_idle(window: &Window) -> bool {
    window.steps.is_empty() && window.reboots.is_empty()
}

/// Timeout of a script that stops units: as long as systemd waits for the slowest of several.
const STOPPING: Duration = Duration::from_secs(SHORT.as_secs() * 10);
