//! Carries out one plan with workers, and merges the reports of their hosts with those of the others.

use super::coordination::WorkerCoordination;
use super::shard_report::report_without_results;
use super::sharded_apply::ShardedApply;
use crate::config::StepExpander;
use crate::engine::apply::build_canary_wait;
use crate::engine::cancel::StopLevel;
use crate::engine::changed_exports::{ReaderContext, UnchangedReaders};
use crate::engine::event::Event;
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::report::{HostReport, REPORT_VERSION, RunReport};
use crate::engine::run_state::SharedValues;
use crate::engine::step_records::lacks_records;
use crate::model::{HostName, HostOutcome};
use crate::plan::{HostContext, HostPlan, ObservedHost, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Carries out `plan`, which was made from `observed`, and returns the merged report. The locks of the store are held by
/// the caller.
pub async fn apply_in_shards(run: &ShardedApply<'_>, plan: &Plan, observed: ObservedHosts) -> RunReport {
    let began = Instant::now();
    let acting = list_acting_hosts(run, plan, &observed);
    run.emit_event(Event::ApplyStarted {
        run: run.options.run.clone(),
        hosts: plan.hosts.iter().filter(|host| host.will_run() && !host.host.is_cluster()).count(),
        steps: plan.hosts.iter().filter(|h| h.will_run()).flat_map(|h| &h.steps).filter(|s| s.will_run()).count(),
    });
    if let Some(wait) = build_canary_wait(plan) {
        run.emit_event(wait);
    }
    let (cluster, idle): (Vec<_>, Vec<_>) =
        plan.hosts.iter().filter(|host| !acting.contains(&host.host)).partition(|host| host.host.is_cluster());
    let shared = SharedValues::new(observed.published.clone(), observed.secrets.clone());
    let mut observed = SplitObservation::new(observed);
    let readers = UnchangedReaders::collect(run.project, plan, &observed.seen, &shared);
    let acting: Vec<HostName> =
        plan.hosts.iter().map(|host| &host.host).filter(|host| acting.contains(*host)).cloned().collect();
    let mut coordination = WorkerCoordination::new(run, plan, &acting, &observed.rest);
    let board = Some(coordination.run_state());
    // Other hosts may wait for their steps.
    for report in run.apply_here(plan, &idle, observed.take_hosts(&idle), board).await {
        coordination.finish_host(report, false);
    }
    coordination.carry_out().await;
    // The cluster's verification is about the hosts as they are now.
    for report in run.apply_here(plan, &cluster, observed.take_hosts(&cluster), None).await {
        coordination.finish_host(report, false);
    }
    let now = coordination.run_state().shared_values();
    let mut reports = std::mem::take(&mut coordination.reports);
    let missing = |host: &HostPlan| {
        report_without_results(host, HostOutcome::Cancelled, "forge exited before this host was done")
    };
    let mut reports: Vec<HostReport> =
        plan.hosts.iter().map(|host| reports.remove(&host.host).unwrap_or_else(|| missing(host))).collect();
    let expander = StepExpander::new(run.project);
    let (project, chosen) = (run.project, &observed.rest.chosen);
    let context = ReaderContext { project, expander: &expander, chosen, options: run.options };
    readers.revise_reports(&context, &now, &mut reports);
    RunReport {
        version: REPORT_VERSION,
        run: run.options.run.clone(),
        verb: run.options.verb_name().to_owned(),
        cluster: run.project.cluster.clone(),
        plan: Some(plan.id.clone()),
        simulated: plan.simulated.clone(),
        hosts: reports,
        budget_spent: coordination.budget_spent,
        interrupted: run.cancel.level() > StopLevel::No,
        evict_busy: run.options.evict_busy.clone(),
        took: began.elapsed(),
    }
}

/// Returns the hosts that workers act on. For all others the observation is the result.
fn list_acting_hosts(run: &ShardedApply<'_>, plan: &Plan, observed: &ObservedHosts) -> BTreeSet<HostName> {
    let expander = StepExpander::new(run.project);
    let ground = observed.plan_context(run.project, &expander, run.options);
    let seen: BTreeMap<&HostName, &ObservedHost> = observed.seen.iter().map(|seen| (&seen.host, seen)).collect();
    let acts = |host: &&HostPlan| {
        let Some(seen) = seen.get(&host.host).filter(|seen| seen.is_observed() && seen.stale.is_none()) else {
            return false;
        };
        let open = !host.host.is_cluster() && host.refused.is_none() && host.hold.is_none();
        let lacks =
            || HostContext::new(ground, &host.host, seen).is_some_and(|case| lacks_records(run.options, &case, host));
        open && (host.has_changes() || lacks())
    };
    plan.hosts.iter().filter(acts).map(|host| host.host.clone()).collect()
}

/// An observation from which the hosts are taken in parts.
struct SplitObservation {
    seen: BTreeMap<HostName, ObservedHost>,
    rest: ObservedHosts,
}

impl SplitObservation {
    fn new(mut observed: ObservedHosts) -> Self {
        let seen = std::mem::take(&mut observed.seen);
        Self { seen: seen.into_iter().map(|seen| (seen.host.clone(), seen)).collect(), rest: observed }
    }

    fn take_hosts(&mut self, hosts: &[&HostPlan]) -> ObservedHosts {
        ObservedHosts {
            seen: hosts.iter().filter_map(|host| self.seen.remove(&host.host)).collect(),
            chosen: self.rest.chosen.clone(),
            published: self.rest.published.clone(),
            exports: self.rest.exports.clone(),
            secrets: self.rest.secrets.clone(),
            took: self.rest.took,
            took_by: BTreeMap::new(),
            missing: self.rest.missing.clone(),
            api: Default::default(),
            recorded: None,
            links: BTreeMap::new(),
        }
    }
}
