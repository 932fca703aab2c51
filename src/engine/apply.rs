//! Apply: carries out a plan on its hosts in parallel, within the window and the failure budget.

use super::cancel::{CancelSignal, StopLevel};
use super::changed_exports::{ReaderContext, UnchangedReaders};
use super::detach::report_detached_host;
use super::event::{Event, EventSender};
use super::facts_used::list_facts_used;
use super::host_run::run_host;
use super::host_session::HostSession;
use super::observed_hosts::ObservedHosts;
use super::report::{HostReport, REPORT_VERSION, RunReport};
use super::run_context::{ApplyContext, FinishedSteps, InFlightSteps};
use super::run_options::RunOptions;
use super::run_state::{CrossingSource, SharedRunState, SharedValues};
use super::step_limiter::StepLimiter;
use super::work_times::WorkTimes;
use crate::config::{Project, StepExpander};
use crate::graph::StepIndex;
use crate::model::{HostName, StepPhase};
use crate::plan::{CrossHostEdges, HostPlan, ObservedHost, Plan, StepTable};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::Semaphore;

/// A host of the plan, what was observed of it, and the session that is still open.
type HostTurn<'p> = (&'p HostPlan, ObservedHost, Option<Box<dyn HostSession>>);

/// Carries out `plan`, which was made from `observed`. Returns when every host is done, or soon after the user
/// detached.
pub async fn apply(
    project: &Project,
    plan: &Plan,
    observed: ObservedHosts,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> RunReport {
    let hosts_change = plan.hosts.iter().any(|host| host.has_changes() && !host.host.is_cluster());
    apply_part(project, plan, RunPart { hosts_change, board: None }, observed, options, events, cancel).await
}

/// What a part of a run takes from the whole run.
pub(super) struct RunPart<'a> {
    /// Whether any host changes in the whole run.
    pub hosts_change: bool,
    /// The board of the whole run; `None` if the part has one of its own.
    pub board: Option<&'a SharedRunState>,
}

/// Like [`apply`], for the part of a run that concerns the hosts of `plan`.
pub(super) async fn apply_part(
    project: &Project,
    plan: &Plan,
    RunPart { hosts_change, board }: RunPart<'_>,
    observed: ObservedHosts,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> RunReport {
    let began = Instant::now();
    let ObservedHosts { seen, chosen, published, secrets, mut links, api, missing, .. } = observed;
    let mut seen: BTreeMap<HostName, ObservedHost> = seen.into_iter().map(|s| (s.host.clone(), s)).collect();
    let shared = SharedValues::new(published, secrets);
    let readers = UnchangedReaders::collect(project, plan, &seen, &shared);
    let hosts: Vec<HostTurn<'_>> =
        plan.hosts.iter().filter_map(|host| Some((host, seen.remove(&host.host)?, links.remove(&host.host)))).collect();
    let expander = StepExpander::new(project);
    let facts = list_facts_used(project);
    // No step waits for a host that is not part of this run.
    let members: BTreeSet<HostName> = hosts.iter().map(|(plan, _, _)| plan.host.clone()).collect();
    let steps = StepTable::new(project);
    let own = SharedRunState::new(shared, plan.rollout.clone());
    let own = match &options.worker {
        Some(worker) => own.with_worker(worker.clone(), list_crossing_sources(project, &steps)),
        None => own,
    };
    let board = board.unwrap_or(&own);
    let run = ApplyContext {
        project,
        expander: &expander,
        chosen: &chosen,
        spans: CrossHostEdges { project, filter: &options.filter, chosen: &chosen, members: &members, steps: &steps },
        canaries: &plan.rollout.canaries.iter().cloned().collect(),
        rollout: &plan.rollout,
        restarts: &StepLimiter::default(),
        turns: &StepLimiter::default(),
        proofs: &find_awaited_recipes(project),
        spent: &AtomicBool::new(false),
        options,
        plan: &plan.id,
        board,
        api: &api,
        missing: missing.as_ref(),
        hosts_change,
        cancel,
        events,
        window: &Semaphore::new(options.parallel.max(1)),
        in_flight: &InFlightSteps::default(),
        ledger: &FinishedSteps::default(),
        times: &WorkTimes::default(),
        facts: &facts,
    };
    run.emit_event(Event::ApplyStarted {
        run: options.run.clone(),
        hosts: plan.hosts.iter().filter(|h| h.will_run() && !h.host.is_cluster()).count(),
        steps: plan.hosts.iter().filter(|h| h.will_run()).flat_map(|h| &h.steps).filter(|s| s.will_run()).count(),
    });
    if let Some(wait) = build_canary_wait(plan) {
        run.emit_event(wait);
    }
    members.iter().for_each(|host| board.tell_observed_exports(host));
    let mut going: FuturesUnordered<_> =
        hosts.into_iter().map(|(host, seen, link)| run_host(&run, host, seen, link)).collect();
    let mut done = tokio::select! {
        done = collect_host_reports(&run, &mut going) => done,
        () = board.follow_updates() => Vec::new(),
    };
    drop(going);
    let context = ReaderContext { project, expander: &expander, chosen: &chosen, options };
    readers.revise_reports(&context, &board.shared_values(), &mut done);
    let report = RunReport {
        version: REPORT_VERSION,
        run: options.run.clone(),
        verb: options.verb_name().to_owned(),
        cluster: project.cluster.clone(),
        plan: Some(plan.id.clone()),
        simulated: plan.simulated.clone(),
        hosts: order_host_reports(&run, plan, done),
        budget_spent: run.spent.load(Ordering::Relaxed),
        interrupted: cancel.level() > StopLevel::No,
        evict_busy: options.evict_busy.clone(),
        took: began.elapsed(),
    };
    api.close().await;
    report
}

/// Returns the event that names the hosts that start only after the canaries, if there are any.
pub(super) fn build_canary_wait(plan: &Plan) -> Option<Event> {
    let canaries = &plan.rollout.canaries;
    let waits = |host: &&HostPlan| host.will_run() && !canaries.contains(&host.host) && !host.host.is_cluster();
    let hosts: Vec<HostName> = plan.hosts.iter().filter(waits).map(|host| host.host.clone()).collect();
    (!canaries.is_empty() && !hosts.is_empty()).then(|| Event::AwaitingCanaries { hosts, canaries: canaries.clone() })
}

/// Returns the steps that other hosts may wait for.
fn list_crossing_sources(project: &Project, steps: &StepTable) -> BTreeMap<StepIndex, CrossingSource> {
    let crossing = project.graph.edges().iter().filter(|edge| steps.crosses_hosts(edge));
    let describe = |index| {
        let exports = steps.find_step(index).map(|step| step.exports.keys().cloned().collect());
        CrossingSource { id: project.graph.step_id(index).clone(), exports: exports.unwrap_or_default() }
    };
    crossing.map(|edge| (edge.from, describe(edge.from))).collect()
}

/// Returns the recipes whose verification is awaited by a step of another recipe.
fn find_awaited_recipes(project: &Project) -> BTreeSet<String> {
    let graph = &project.graph;
    let wanted = graph.edges().iter().filter(|edge| edge.phase == StepPhase::Verified);
    let others = wanted.filter(|edge| graph.step_id(edge.from).recipe != graph.step_id(edge.to).recipe);
    others.map(|edge| graph.step_id(edge.from).recipe.to_string()).collect()
}

/// Collects host reports until all are in, or the user detaches.
async fn collect_host_reports<F>(run: &ApplyContext<'_>, going: &mut FuturesUnordered<F>) -> Vec<HostReport>
where
    F: Future<Output = HostReport>,
{
    let mut done = Vec::new();
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            () = run.cancel.wait_for_level(StopLevel::Detach) => {
                run.emit_event(Event::Detached { in_flight: run.in_flight.list_all_steps() });
                return done;
            }
            () = run.cancel.wait_for_level(StopLevel::Finish), if !told => {
                told = true;
                run.emit_event(Event::Stopping { in_flight: run.in_flight.list_all_steps() });
            }
            next = going.next() => match next {
                Some(report) => done.push(report),
                None => return done,
            },
        }
    }
}

/// Returns a report for every host of the plan, in its order, including hosts whose work was left running.
fn order_host_reports(run: &ApplyContext<'_>, plan: &Plan, done: Vec<HostReport>) -> Vec<HostReport> {
    let mut done: BTreeMap<HostName, HostReport> = done.into_iter().map(|r| (r.host.clone(), r)).collect();
    let ordered = plan.hosts.iter();
    let mut reports: Vec<HostReport> =
        ordered.map(|host| done.remove(&host.host).unwrap_or_else(|| report_detached_host(run, host))).collect();
    if let Some(undo) = &run.options.undo {
        undo.report_left_changes(&mut reports);
    }
    reports
}
