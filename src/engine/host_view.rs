//! The state of one host as its run has observed it so far.

use super::event::StepResult;
use super::report::StepReport;
use super::run_context::ApplyContext;
use super::run_state::SharedValues;
use crate::config::ExpansionState;
use crate::graph::StepIndex;
use crate::model::{HostName, SecretStore, StepId, StepVerdict, UntrustedText};
use crate::plan::{self, HostContext, ObservedHost, StepInstance, StepPredictions};
use crate::probe::{Observation, Probe};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The observed state of a host. Every evaluation of its steps reads from here.
pub(super) struct HostView<'r> {
    run: &'r ApplyContext<'r>,
    host: &'r HostName,
    seen: ObservedHost,
}

/// The evaluation of one step on the observed state.
pub(super) struct StepFinding {
    pub index: StepIndex,
    pub id: StepId,
    pub verdict: StepVerdict,
    pub reason: UntrustedText,
}

impl<'r> HostView<'r> {
    pub fn new(run: &'r ApplyContext<'r>, host: &'r HostName, seen: ObservedHost) -> Self {
        Self { run, host, seen }
    }

    pub fn seen(&self) -> &ObservedHost {
        &self.seen
    }

    /// Returns the context in which the host's steps are evaluated.
    pub fn context<'s>(&'s self, shared: &'s SharedValues) -> Option<HostContext<'s>> {
        self.run.host_context(shared, self.host, &self.seen)
    }

    /// Adds later answers; they replace earlier ones.
    pub fn merge_observation(&mut self, observation: Observation) {
        self.seen.merge_observation(observation);
    }

    /// Sets the host's key for digests.
    pub fn set_digest_key(&mut self, key: String) {
        self.seen.key = Some(key);
    }

    /// Returns the boot id that was observed last.
    pub fn boot_id(&self) -> Option<String> {
        self.seen.facts.boot_id().map(str::to_owned)
    }

    /// Returns the probes that `steps` of this host are evaluated by.
    pub fn list_step_probes(
        &self,
        shared: &SharedValues,
        is_wanted: impl Fn(&StepInstance<'_>) -> bool,
    ) -> BTreeSet<Probe> {
        let Some(case) = self.context(shared) else { return BTreeSet::new() };
        let turns = case.expand_local_steps();
        let own = turns.iter().filter(|turn| is_wanted(turn));
        own.flat_map(|turn| plan::list_step_probes(&case, turn, &turns)).collect()
    }

    /// Returns the digests of what the steps of this host declare, with the facts and exported values that are known now;
    /// empty texts for steps without a resource.
    pub fn digest_declarations(&self) -> BTreeMap<StepId, String> {
        let shared = self.run.board.shared_values();
        let Some(case) = self.context(&shared) else { return BTreeMap::new() };
        let turns = case.expand_local_steps();
        let digest = |turn: &StepInstance<'_>| match &turn.expanded.state {
            ExpansionState::Resource(resource) => plan::digest_json(&resource.desired_value()),
            _ => String::new(),
        };
        turns.iter().map(|turn| (turn.expanded.id.clone(), digest(turn))).collect()
    }

    /// Builds the report of a step that did not run; `None` if the host has no such step.
    pub fn build_report(&self, id: &StepId, result: StepResult) -> Option<StepReport> {
        let shared = self.run.board.shared_values();
        let case = self.context(&shared)?;
        let turns = case.expand_local_steps();
        let turn = turns.iter().find(|turn| turn.expanded.id == *id)?;
        let title = match &turn.expanded.state {
            ExpansionState::Resource(resource) => SecretStore::mask_placeholders(&resource.title()),
            _ => String::new(),
        };
        let place = case.ground.project.format_step_place(turn.step.span);
        let (changes, took) = (Vec::new(), Duration::ZERO);
        Some(StepReport { id: id.clone(), title: title.into(), result, hint: None, check: None, changes, took, place })
    }

    /// Evaluates steps of this host.
    pub fn assess_steps(&self, is_wanted: impl Fn(&StepId) -> bool) -> Vec<StepFinding> {
        let shared = self.run.board.shared_values();
        let Some(case) = self.context(&shared) else { return Vec::new() };
        let turns = case.expand_local_steps();
        let own = turns.iter().filter(|turn| is_wanted(&turn.expanded.id));
        own.map(|turn| {
            let judgement = plan::assess_step(&case, turn, &turns, &StepPredictions::default()).judgement;
            let (verdict, reason) = (judgement.verdict, judgement.reason);
            StepFinding { index: turn.index, id: turn.expanded.id.clone(), verdict, reason }
        })
        .collect()
    }
}
