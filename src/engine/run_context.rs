//! The state that all hosts of a run share: the project, the plan's context, the board, the window, the events.

use super::cancel::CancelSignal;
use super::cluster_nodes::LazyClusterApi;
use super::event::{Event, EventSender};
use super::reached_phase::ReachedPhase;
use super::report::StepReport;
use super::run_options::{RunOptions, SessionRequest};
use super::run_state::{SharedRunState, SharedValues};
use super::step_limiter::StepLimiter;
use super::work_times::WorkTimes;
use crate::config::{Project, StepExpander};
use crate::graph::StepIndex;
use crate::model::{HostName, SecretStore, StepId, StepPhase};
use crate::object::ClusterAbsence;
use crate::plan::{
    ChosenHosts, ClusterMaker, CrossHostEdges, HostContext, MissingCluster, ObservedHost, PlanContext, RolloutPlan,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

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
    /// The places for hosts that restart a service.
    pub restarts: &'a StepLimiter,
    /// The places for hosts in steps that declare `at_once`.
    pub turns: &'a StepLimiter,
    /// Recipes whose verification other recipes wait for.
    pub proofs: &'a BTreeSet<String>,
    /// Whether the failure budget prevented a host from starting.
    pub spent: &'a AtomicBool,
    pub options: &'a RunOptions,
    pub plan: &'a str,
    pub board: &'a SharedRunState,
    /// The API of the cluster whose nodes are the hosts.
    pub api: &'a LazyClusterApi,
    /// The cluster, if it did not exist when the run began and the run creates it.
    pub missing: Option<&'a MissingCluster>,
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
    /// Publishes the phase that a step reached on a host. Exports of a step that reached none are published as missing.
    pub fn publish_phase(&self, index: StepIndex, host: &HostName, reached: ReachedPhase) {
        let step = self.spans.steps.find_step(index).filter(|step| !step.exports.is_empty());
        if let Some(step) = step.filter(|_| reached == ReachedPhase::Nothing) {
            let recipe = &self.project.graph.step_id(index).recipe;
            self.board.update_exports(host, |shared| shared.published.abandon_step(recipe, step, host));
        }
        self.board.record_phase(index, host, reached);
    }

    pub fn emit_event(&self, event: Event) {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(event);
    }

    /// Returns the request of a session on one of the run's hosts.
    pub(super) fn session_request<'s>(&'s self, host: &'s HostName, secrets: &'s SecretStore) -> SessionRequest<'s> {
        SessionRequest { project: self.project, options: self.options, host, secrets, logs_in: false }
    }

    /// Returns whether the cluster does not exist yet: its kubeconfig did not exist when the run began, and no step that creates
    /// it has completed since. While such a step runs, the API may answer or not; no host can have joined.
    pub(super) fn has_no_cluster_yet(&self) -> bool {
        let Some(missing) = self.missing.filter(|missing| missing.absence == ClusterAbsence::NoKubeconfig) else {
            return false;
        };
        let graph = &self.project.graph;
        let is_done = |maker: &ClusterMaker| {
            let index = graph.find_step(&maker.step.recipe, &maker.step.step);
            index.is_some_and(|index| {
                self.board.read_data(|board| board.has_reached(index, &maker.host, StepPhase::Effective)) == Some(true)
            })
        };
        !missing.makers.iter().any(is_done)
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
            exports: shared.exports(),
            chosen: self.chosen,
            secrets: &shared.secrets,
            policy: self.options.plan_policy(),
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
