//! One host's part of a run, as a sequence of stages: connect and lock, groups of steps in order, the maintenance
//! window between them, the final proof, the report.

use super::acceptance::ReturnTests;
use super::cancel::StopLevel;
use super::created_cluster;
use super::dependency_gate::{DependencyGate, GateRefusal};
use super::event::{Event, StepResult};
use super::final_proof::FinalProof;
use super::group_cycle::GroupCycle;
use super::host_entry::{connect_host, lock_host, prepare_state_folder};
use super::host_report::{complete_report, empty_report, report_as_planned};
use super::host_session::{HostSession, describe_transport_error};
use super::host_start::await_host_start;
use super::host_work::HostWork;
use super::login_proof::prove_login;
use super::recipe_verification::{RecipeVerification, can_verdict_change};
use super::report::{HeldBackBy, HostReport, VerifyReport};
use super::run_context::ApplyContext;
use super::step_groups::{HostStepGroup, split_into_groups};
use super::step_records::has_adoptable_steps;
use super::untouched_host::{
    record_planned_phases, report_new_hold, report_not_started, report_on_hold, report_refused, report_stale,
    report_unchanged,
};
use super::window::{MaintenanceWindow, refresh_test_labels};
use crate::model::{HostOutcome, StepId, UntrustedText};
use crate::object::TEST_LABEL_PREFIX;
use crate::plan::{HostPlan, HostReachability, ObservedHost, StepStage};
use crate::transport::TransportError;
use std::collections::{BTreeSet, VecDeque};

/// Carries out a host's plan when it is its turn. `link` is the session it was observed over, if that is still open.
pub(super) async fn run_host(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    seen: ObservedHost,
    link: Option<Box<dyn HostSession>>,
) -> HostReport {
    let mut report = match &plan.reach {
        HostReachability::Unreachable(why) => {
            let mut report = empty_report(&plan.host, HostOutcome::Unreachable, why.why.clone());
            report.hint = why.hint.clone();
            report
        }
        HostReachability::Observed if seen.stale.is_some() => {
            close_session(link).await;
            report_stale(run, plan, &seen)
        }
        HostReachability::Observed if plan.refused.is_some() => {
            close_session(link).await;
            report_refused(run, plan)
        }
        HostReachability::Observed if let Some(hold) = &plan.hold => {
            close_session(link).await;
            report_on_hold(run, plan, hold)
        }
        HostReachability::Observed if !plan.has_changes() && !has_adoptable_steps(run, plan, &seen) => {
            match can_verdict_change(run, plan) {
                true => verify_after_hosts(run, plan, seen, link).await,
                false => {
                    close_session(link).await;
                    report_unchanged(run, plan)
                }
            }
        }
        HostReachability::Observed => match await_host_start(run, &plan.host).await {
            Ok(_permit) => work_on_host(run, plan, seen, link).await,
            Err(halt) => {
                close_session(link).await;
                report_not_started(run, plan, &halt)
            }
        },
    };
    report.took = run.times.time_worked(&plan.host);
    report.undeclared = plan.undeclared.clone();
    report.accepted = plan.accepted.clone();
    announce_finished(run, plan, report)
}

/// Publishes that a host is done. A host that this run does not change does not count against the failure budget,
/// whatever fails there, unless it is a canary.
fn announce_finished(run: &ApplyContext<'_>, plan: &HostPlan, mut report: HostReport) -> HostReport {
    if report.outcome == HostOutcome::Skipped && is_skipped_as_asked(run, plan, &report) {
        report.outcome = HostOutcome::Pending;
    }
    report.held_back_by = run.board.read_data(|data| data.find_held_back(&plan.host));
    let counts = (plan.has_changes() || run.canaries.contains(&plan.host)) && !report.host.is_cluster();
    run.board.finish_host(&report.host, if counts { report.outcome } else { HostOutcome::Ok });
    if let Some(worker) = &run.options.worker {
        worker.hand_over(&report, run.board.read_data(|data| data.is_out_of_service(&report.host)));
    }
    run.emit_event(Event::HostFinished {
        host: report.host.clone(),
        outcome: report.outcome,
        reason: report.reason.clone(),
    });
    report
}

/// Returns whether each skipped step needs one that is held back on the same host, so that nothing failed.
fn is_skipped_as_asked(run: &ApplyContext<'_>, plan: &HostPlan, report: &HostReport) -> bool {
    let name = |step: &StepId| format!("{}/{}", step.recipe, step.step);
    let of = |test: fn(&StepResult) -> bool| report.steps.iter().filter(move |step| test(&step.result));
    let mut held: BTreeSet<String> =
        of(|result| matches!(result, StepResult::Held { .. })).map(|s| name(&s.id)).collect();
    of(|result| matches!(result, StepResult::Skipped { .. })).all(|skipped| {
        let index = run.project.graph.find_step(&skipped.id.recipe, &skipped.id.step);
        let root = index.and_then(|index| run.board.read_data(|data| data.find_root(index, &plan.host).map(name)));
        let planned = || {
            let step = plan.steps.iter().find(|step| step.id == skipped.id)?;
            step.waits_for.as_ref().filter(|need| need.shortfall.is_none()).map(|need| need.step.clone())
        };
        let is_asked = root.or_else(planned).is_some_and(|root| held.contains(&root));
        if is_asked {
            held.insert(name(&skipped.id));
        }
        is_asked
    })
}

async fn close_session(link: Option<Box<dyn HostSession>>) {
    if let Some(link) = link {
        link.close().await;
    }
}

/// Reports a cluster with nothing to do whose verification is evaluated after that of hosts, or may be retried for a
/// while.
async fn verify_after_hosts(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    seen: ObservedHost,
    link: Option<Box<dyn HostSession>>,
) -> HostReport {
    run.times.resume(&plan.host);
    let (session, seen) = match enter_host(run, plan, seen, link).await {
        Ok(entered) => entered,
        Err(report) => return *report,
    };
    record_planned_phases(run, plan);
    let mut host = HostRun::new(HostWork::new(run, plan, seen, session));
    host.work.results.add_silently(plan.steps.iter().map(report_as_planned));
    let recipes: BTreeSet<&str> = plan.steps.iter().map(|step| &*step.id.recipe).collect();
    for recipe in recipes {
        RecipeVerification::new(&mut host.work).publish_result(recipe).await;
    }
    host.finish().await
}

async fn work_on_host(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    seen: ObservedHost,
    link: Option<Box<dyn HostSession>>,
) -> HostReport {
    run.times.resume(&plan.host);
    let acts = plan.steps.iter().filter(|s| s.will_run()).count();
    run.emit_event(Event::HostStarted { host: plan.host.clone(), steps: acts });
    let (session, seen) = match enter_host(run, plan, seen, link).await {
        Ok(entered) => entered,
        Err(report) => return *report,
    };
    let session = match lock_host(run, plan, session).await {
        Ok(session) => session,
        Err(report) => return *report,
    };
    let mut host = HostRun::new(HostWork::new(run, plan, seen, session));
    if let Some(hold) = prepare_state_folder(&mut host.work).await {
        host.work.link.close().await;
        run.board.hold_back(&plan.host, HeldBackBy::Hold);
        return report_new_hold(plan, &hold);
    }
    host.run_all_groups().await;
    host.finish().await
}

/// Returns the session of a host with its observed state; a cluster that this run creates is observed once it exists.
async fn enter_host(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    seen: ObservedHost,
    link: Option<Box<dyn HostSession>>,
) -> Result<(Box<dyn HostSession>, ObservedHost), Box<HostReport>> {
    match &seen.missing {
        Some(missing) => created_cluster::open_created_cluster(run, plan, missing).await,
        None => Ok((connect_host(run, plan, link).await?, seen)),
    }
}

/// The run of a host that is connected.
struct HostRun<'r> {
    work: HostWork<'r>,
    window: MaintenanceWindow<'r>,
}

impl<'r> HostRun<'r> {
    fn new(work: HostWork<'r>) -> Self {
        let window = MaintenanceWindow::new(work.run, work.plan, &ReturnTests);
        Self { work, window }
    }

    /// Runs the groups in the order of the window's stages.
    async fn run_all_groups(&mut self) {
        if self.work.plan.window.as_ref().is_some_and(|window| window.left_open.is_some()) {
            self.work.run.board.resume_window(self.work.host());
        }
        let mut list = split_into_groups(self.work.run, self.work.plan, self.work.view.seen());
        list.sort_by_key(|group| self.work.planned.find_group_stage(group));
        let mut list: VecDeque<HostStepGroup> = list.into();
        while let Some(group) = list.pop_front() {
            let stage = self.work.planned.find_group_stage(&group);
            self.window.advance_to_stage(&mut self.work, stage).await;
            if self.work.link.is_lost() || self.work.run.cancel.level() > StopLevel::No {
                self.work.results.cancel_group(&group, &self.work.planned);
                continue;
            }
            if stage > StepStage::Before && self.window.is_shut() {
                self.window.refuse_group(&mut self.work, &group);
                continue;
            }
            let next = list.iter().take_while(|next| self.work.planned.find_group_stage(next) == stage);
            let next: Vec<&HostStepGroup> = next.collect();
            self.run_group(&group, &next).await;
            self.work.results.note_finished();
            self.work.run.in_flight.remove_host(self.work.host());
            if !list.iter().any(|later| later.recipe == group.recipe) {
                RecipeVerification::new(&mut self.work).publish_result(&group.recipe).await;
            }
            self.publish_trouble(&group.recipe);
        }
        self.window.advance_to_stage(&mut self.work, StepStage::After).await;
    }

    /// Publishes that a step or the verification of a recipe did not succeed, before the host waits for others: as a canary
    /// it holds them back from then on, and it counts as failed. A host without changes counts only if it is a canary.
    fn publish_trouble(&self, recipe: &str) {
        let (run, host) = (self.work.run, self.work.host());
        if host.is_cluster() || !(self.work.plan.has_changes() || run.canaries.contains(host)) {
            return;
        }
        let steps = run.list_recipe_steps(recipe);
        let is_refuted =
            run.board.read_data(|data| steps.iter().any(|step| data.verification_failure(*step, host).is_some()));
        let results = || self.work.results.reports().iter().map(|report| &report.result);
        let has_failed = is_refuted || results().any(|result| matches!(result, StepResult::Failed { .. }));
        let is_open = |result: &StepResult| {
            matches!(result, StepResult::Blocked { .. } | StepResult::Unknown { .. } | StepResult::Stale { .. })
        };
        if has_failed || results().any(is_open) {
            run.board.note_trouble(host, has_failed);
        }
    }

    /// Runs a group once everything it waits for is decided.
    async fn run_group(&mut self, group: &HostStepGroup, next: &[&HostStepGroup]) {
        let gate = DependencyGate::new(self.work.run, self.work.host());
        match gate.await_dependencies(group).await {
            Ok(()) => {
                if gate.depends_on_others(group) {
                    self.work.forget_ahead();
                }
                GroupCycle::new(&mut self.work, &self.window, group, next).run().await;
            }
            Err(GateRefusal::Lacks { reason, root }) => {
                self.work.results.skip_group(group, &self.work.planned, &reason, root.as_ref());
            }
            Err(GateRefusal::Stopped) => self.work.results.cancel_group(group, &self.work.planned),
        }
    }

    /// Proves the whole host, writes the remaining records, and releases the lock.
    async fn finish(mut self) -> HostReport {
        prove_login(&mut self.work).await;
        self.work.flush_records().await;
        let verify = match self.work.link.is_lost() {
            false => FinalProof::new(&mut self.work).run().await,
            true => Vec::new(),
        };
        self.work.flush_records().await;
        let mislabeled = match self.can_end_test_results() {
            true => refresh_test_labels(&mut self.work).await.err(),
            false => None,
        };
        self.report(verify, mislabeled).await
    }

    /// Returns whether results of acceptance tests may have ended with this run. A node that is out of service has no label.
    fn can_end_test_results(&self) -> bool {
        let changed = self.work.plan.window.is_some() || !self.work.results.changed().is_empty();
        changed && !self.window.is_open() && !self.work.link.is_lost()
    }

    /// `mislabeled` says why a label of the host's node may be wrong.
    async fn report(mut self, verify: Vec<VerifyReport>, mislabeled: Option<UntrustedText>) -> HostReport {
        let mut report = empty_report(self.work.host(), HostOutcome::Ok, UntrustedText::default());
        let loss = self.work.link.loss();
        if let Some(error) = loss {
            report.hint = error.hint.as_deref().map(UntrustedText::from);
            report.reason = describe_transport_error(error);
            self.work.run.board.mark_lost(self.work.host(), !self.work.results.changed().is_empty());
        }
        let unreachable = loss.map(TransportError::is_unreachable);
        self.window.complete_report(&mut report);
        if self.window.is_open() && report.hint.is_none() {
            report.hint = Some(WINDOW_OPEN_HINT.into());
        }
        let mut report = complete_report(report, self.work.results.into_reports(), verify);
        match unreachable {
            Some(true) => {
                report.outcome = HostOutcome::Unreachable;
                report.hint.get_or_insert_with(|| RUN_AGAIN_HINT.into());
            }
            Some(false) => report.outcome = HostOutcome::Failed,
            None => {}
        }
        self.work.link.close().await;
        let mislabeled = mislabeled.map(|why| {
            let why = format!("the labels `{TEST_LABEL_PREFIX}…` of its node may be wrong: {}", why.raw());
            (why.into(), LABEL_HINT)
        });
        let failed =
            self.window.describe_failed_return(report.outcome).map(|why| (why, WINDOW_OPEN_HINT)).or(mislabeled);
        match failed {
            Some((why, hint))
                if matches!(report.outcome, HostOutcome::Ok | HostOutcome::Changed | HostOutcome::Pending) =>
            {
                HostReport { outcome: HostOutcome::Failed, reason: why, hint: Some(hint.into()), ..report }
            }
            _ => report,
        }
    }
}

const RUN_AGAIN_HINT: &str =
    "retry when the host is reachable: the next run detects completed steps and waits for running ones";
const LABEL_HINT: &str = "run `forge test` to set them";
const WINDOW_OPEN_HINT: &str =
    "its window is open and it is out of service; the next successful apply closes the window";
