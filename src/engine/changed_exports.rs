//! Hosts on which the run changes nothing, and that read exported values: another host's step may have changed one of
//! them. What they declare is compared once more at the end of the run, without another observation.

use super::event::StepResult;
use super::host_report::{complete_report, empty_report};
use super::report::HostReport;
use super::run_options::RunOptions;
use super::run_state::SharedValues;
use crate::config::{ExpansionState, Project, StepExpander};
use crate::graph::DependencyKind;
use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
use crate::plan::{self, ChosenHosts, HostContext, ObservedHost, Plan, PlanContext};
use std::collections::{BTreeMap, BTreeSet};

const REASON: &str = "a value that it reads has changed during the run";

/// What the hosts that only read exported values were planned from.
pub(super) struct UnchangedReaders {
    before: SharedValues,
    hosts: Vec<ObservedHost>,
}

/// What their steps are evaluated with, apart from the values.
#[derive(Clone, Copy)]
pub(super) struct ReaderContext<'a> {
    pub project: &'a Project,
    pub expander: &'a StepExpander<'a>,
    pub chosen: &'a ChosenHosts,
    pub options: &'a RunOptions,
}

impl UnchangedReaders {
    /// Keeps the observations of those hosts; none if the run changes no host.
    pub fn collect(
        project: &Project,
        plan: &Plan,
        seen: &BTreeMap<HostName, ObservedHost>,
        before: &SharedValues,
    ) -> Self {
        let graph = &project.graph;
        let readers: BTreeSet<&str> = graph
            .edges()
            .iter()
            .filter(|edge| edge.why == DependencyKind::Export)
            .map(|edge| &*graph.step_id(edge.to).recipe)
            .collect();
        let changes = !readers.is_empty() && plan.hosts.iter().any(|host| host.will_run());
        let reads = |host: &plan::HostPlan| host.steps.iter().any(|step| readers.contains(&*step.id.recipe));
        let own = plan.hosts.iter().filter(|host| changes && !host.will_run() && reads(host));
        Self { before: before.clone(), hosts: own.filter_map(|host| seen.get(&host.host)).cloned().collect() }
    }

    /// Marks steps as stale that matched in the plan and declare something else with the values of now.
    pub fn revise_reports(&self, run: &ReaderContext<'_>, now: &SharedValues, reports: &mut [HostReport]) {
        if self.before.exports() == now.exports() {
            return;
        }
        for seen in self.hosts.iter().filter(|seen| seen.is_observed()) {
            let changed = self.list_redeclared(run, seen, now);
            let Some(report) = reports.iter_mut().find(|report| report.host == seen.host) else { continue };
            revise_report(report, &changed);
        }
    }

    fn list_redeclared(&self, run: &ReaderContext<'_>, seen: &ObservedHost, now: &SharedValues) -> BTreeSet<StepId> {
        let (then, now) = (digest_steps(run, seen, &self.before), digest_steps(run, seen, now));
        let differs = |id: &StepId, digest: &String| now.get(id).is_some_and(|new| new != digest);
        then.into_iter().filter(|(id, digest)| differs(id, digest)).map(|(id, _)| id).collect()
    }
}

/// Returns the digests of what the steps of a host declare, of those whose values are all known.
fn digest_steps(run: &ReaderContext<'_>, seen: &ObservedHost, shared: &SharedValues) -> BTreeMap<StepId, String> {
    let ground = PlanContext {
        project: run.project,
        expander: run.expander,
        filter: &run.options.filter,
        exports: shared.exports(),
        chosen: run.chosen,
        secrets: &shared.secrets,
        policy: run.options.plan_policy(),
    };
    let Some(case) = HostContext::new(ground, &seen.host, seen) else { return BTreeMap::new() };
    let turns = case.expand_local_steps();
    let digests = turns.iter().filter_map(|turn| match &turn.expanded.state {
        ExpansionState::Resource(resource) => {
            Some((turn.expanded.id.clone(), plan::digest_json(&resource.desired_value())))
        }
        _ => None,
    });
    digests.collect()
}

fn revise_report(report: &mut HostReport, changed: &BTreeSet<StepId>) {
    let mut steps = std::mem::take(&mut report.steps);
    let matched = steps.iter_mut().filter(|step| matches!(step.result, StepResult::AlreadyOk { .. }));
    let mut is_revised = false;
    for step in matched.filter(|step| changed.contains(&step.id)) {
        step.result = StepResult::Stale { reason: REASON.into() };
        is_revised = true;
    }
    if !is_revised {
        report.steps = steps;
        return;
    }
    let verify = std::mem::take(&mut report.verify);
    let fresh = empty_report(&report.host, HostOutcome::Ok, UntrustedText::default());
    let revised = complete_report(fresh, steps, verify);
    (report.outcome, report.reason) = (revised.outcome, revised.reason);
    (report.steps, report.verify) = (revised.steps, revised.verify);
}
