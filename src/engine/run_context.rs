//! The state that all hosts of a run share: the project, the plan's context, the board, the window, the events.

use super::cancel::CancelSignal;
use super::cluster_nodes::LazyClusterApi;
use super::event::Event;
use super::recording::Recording;
use super::report::StepReport;
use super::restart_limiter::RestartLimiter;
use super::run_state::{SharedRunState, SharedValues};
use super::work_times::WorkTimes;
use crate::config::{Project, StepExpander, StepFilter};
use crate::graph::StepIndex;
use crate::model::{HostName, StepId};
use crate::plan::{ChosenHosts, CrossHostEdges, HostContext, ObservedHost, PlanContext, PlanPolicy, RolloutPlan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// The sender of events.
pub type EventSender = UnboundedSender<Event>;

/// The user's options for a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The number of hosts worked on in parallel.
    pub parallel: usize,
    /// The default for checks and steps without a timeout of their own.
    pub timeout: Option<Duration>,
    /// Whether recipes' checks run in a read-only sandbox.
    pub confined: bool,
    pub filter: StepFilter,
    pub policy: PlanPolicy,
    /// The user's reason for evicting processes that hold a host's devices, if the user allows it.
    pub evict_busy: Option<String>,
    /// The run's name: time and random text, `20261121T093015-4f2a`.
    pub run: String,
    /// The boot id of the machine that forge runs on, if it has one. That machine is never rebooted.
    pub boot_id: Option<String>,
    /// `user@controller`, for records and locks.
    pub controller: String,
    pub user: String,
    /// Returns the current time, for records and the lock's owner.
    pub clock: fn() -> jiff::Timestamp,
    /// The folder for control sockets: see [`crate::transport::control_dir`].
    pub control_dir: camino::Utf8PathBuf,
    /// Environment variables passed to ssh in addition to the defaults: see [`crate::transport::SSH_VARIABLES`].
    pub ssh_variables: Arc<[String]>,
    /// The folder in which the cluster's sandboxes are registered: see [`crate::transport::list_sandboxes`].
    pub sandboxes: camino::Utf8PathBuf,
    pub replay: ReplayOptions,
    /// The store that artifacts are taken from.
    pub depot: Arc<crate::artifact::ArtifactFetcher>,
}

/// Whether hosts are probed, and whether their raw answers are stored.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Stores raw answers and probes all facts.
    pub record: bool,
    /// Stores raw answers and probes only the facts that are needed.
    pub keep: bool,
    /// Answers are read from here; no session is opened.
    pub observed: Option<Arc<Recording>>,
}

/// One run.
pub struct ApplyContext<'a> {
    pub project: &'a Project,
    pub expander: &'a StepExpander<'a>,
    pub chosen: &'a ChosenHosts,
    /// Edges between the hosts of this run.
    pub spans: CrossHostEdges<'a>,
    /// Hosts that receive all their changes before any other host.
    pub canaries: &'a BTreeSet<HostName>,
    pub rollout: &'a RolloutPlan,
    pub restarts: &'a RestartLimiter,
    /// Recipes whose verification other recipes wait for.
    pub proofs: &'a BTreeSet<String>,
    /// Whether the failure budget prevented a host from starting.
    pub spent: &'a AtomicBool,
    pub options: &'a RunOptions,
    pub plan: &'a str,
    pub board: &'a SharedRunState,
    /// The API of the cluster whose nodes are the hosts.
    pub api: &'a LazyClusterApi,
    /// Whether any host changes in this run.
    pub hosts_change: bool,
    pub cancel: &'a CancelSignal,
    pub events: &'a EventSender,
    pub window: &'a tokio::sync::Semaphore,
    pub in_flight: &'a InFlightSteps,
    pub ledger: &'a FinishedSteps,
    pub times: &'a WorkTimes,
    /// Names of the facts that are probed.
    pub facts: &'a BTreeSet<String>,
}

impl<'a> ApplyContext<'a> {
    pub fn emit_event(&self, event: Event) {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(event);
    }

    /// Returns all steps of a recipe.
    pub fn list_recipe_steps(&self, recipe: &str) -> Vec<StepIndex> {
        let graph = &self.project.graph;
        let own = self.project.recipes.get(recipe).into_iter().flat_map(|r| r.steps.iter());
        own.filter_map(|step| graph.find_step(recipe, &step.name)).collect()
    }

    /// Returns the context for evaluation, with the current shared values.
    pub fn plan_context<'s>(&'s self, shared: &'s SharedValues) -> PlanContext<'s> {
        PlanContext {
            project: self.project,
            expander: self.expander,
            filter: &self.options.filter,
            exports: &shared.exports,
            chosen: self.chosen,
            secrets: &shared.secrets,
            policy: self.options.policy,
        }
    }

    /// Returns the evaluation context of one host.
    pub fn host_context<'s>(
        &'s self,
        shared: &'s SharedValues,
        host: &'s HostName,
        seen: &'s ObservedHost,
    ) -> Option<HostContext<'s>> {
        HostContext::new(self.plan_context(shared), host, seen)
    }
}

/// The steps running on each host, for the list of steps in flight when the user stops.
#[derive(Debug, Default)]
pub struct InFlightSteps(Mutex<BTreeMap<HostName, Vec<StepId>>>);

impl InFlightSteps {
    pub fn set_steps(&self, host: &HostName, steps: impl Iterator<Item = StepId>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host.clone(), steps.collect());
    }

    pub fn remove_host(&self, host: &HostName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
    }

    pub fn list_host_steps(&self, host: &HostName) -> Vec<StepId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned().unwrap_or_default()
    }

    pub fn list_all_steps(&self) -> Vec<(HostName, StepId)> {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().flat_map(|(host, steps)| steps.iter().map(|step| (host.clone(), step.clone()))).collect()
    }
}

/// The completed steps of each host, for the report of a run that the user detaches from.
#[derive(Debug, Default)]
pub struct FinishedSteps(Mutex<BTreeMap<HostName, Vec<StepReport>>>);

impl FinishedSteps {
    pub fn append_reports(&self, host: &HostName, reports: &[StepReport]) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.entry(host.clone()).or_default().extend_from_slice(reports);
    }

    pub fn list_host_reports(&self, host: &HostName) -> Vec<StepReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned().unwrap_or_default()
    }
}
