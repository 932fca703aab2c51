//! The settings of an apply that workers carry out, and the part of it that needs no worker.

use super::shard_journal::is_event_of_run;
use super::worker_driver::WorkerDriver;
use super::worker_task::WorkerSettings;
use crate::config::Project;
use crate::engine::apply::{RunPart, apply_part};
use crate::engine::cancel::CancelSignal;
use crate::engine::event::{Event, EventSender};
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::report::HostReport;
use crate::engine::run_options::RunOptions;
use crate::engine::run_state::SharedRunState;
use crate::plan::{HostPlan, Plan, RolloutPlan};
use crate::state::ObjectStore;
use tokio::sync::mpsc;

/// An apply that workers carry out.
pub struct ShardedApply<'a> {
    /// The inventory.
    pub project: &'a Project,
    /// The options of the run. They have its name.
    pub options: &'a RunOptions,
    /// The settings of each worker.
    pub settings: &'a WorkerSettings,
    /// Starts the workers.
    pub driver: &'a dyn WorkerDriver,
    /// Where tasks, plans and reports are.
    pub store: &'a ObjectStore,
    /// How many workers run at once.
    pub workers: usize,
    /// How many hosts one worker gets at most.
    pub shard_size: usize,
    /// Whether the plan runs once on each host, as a saved plan does.
    pub once: bool,
    /// Where progress is reported.
    pub events: &'a EventSender,
    /// The user's requests to stop.
    pub cancel: &'a CancelSignal,
}

impl ShardedApply<'_> {
    pub(super) fn emit_event(&self, event: Event) {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(event);
    }

    /// Carries out the plan on hosts that need no worker. What they reached is recorded on `board`, if there is one.
    pub(super) async fn apply_here(
        &self,
        plan: &Plan,
        hosts: &[&HostPlan],
        observed: ObservedHosts,
        board: Option<&SharedRunState>,
    ) -> Vec<HostReport> {
        if hosts.is_empty() {
            return Vec::new();
        }
        let part = Plan {
            hosts: hosts.iter().map(|host| (*host).clone()).collect(),
            rollout: RolloutPlan::default(),
            ..plan.clone_header()
        };
        let hosts_change = plan.hosts.iter().any(|host| host.has_changes() && !host.host.is_cluster());
        let whole = RunPart { hosts_change, board };
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let work = async {
            let sender = sender;
            apply_part(self.project, &part, whole, observed, self.options, &sender, self.cancel).await
        };
        let forward = async {
            while let Some(event) = receiver.recv().await {
                if is_event_of_run(&event) {
                    self.emit_event(event);
                }
            }
        };
        let (report, ()) = tokio::join!(work, forward);
        report.hosts
    }
}
