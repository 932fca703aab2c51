//! One host's part of a run: lock, groups of steps in order, final proof.

use super::cancel::StopLevel;
use super::dependency_gate::GateRefusal;
use super::event::{Event, StepFailure, StepResult, VerifyResult};
use super::host_session::{
    HostLockAttempt, HostSession, LeftoverWork, SHORT_SCRIPT_LIMIT, host_side_error, summarize_stderr,
};
use super::host_start::{HostStartRefusal, await_host_start};
use super::read_only_session::ObservationSession;
use super::report::{HostReport, StepReport, VerifyReport};
use super::retry_verify::can_verdict_change;
use super::run_context::ApplyContext;
use super::run_state::ReachedPhase;
use super::step_groups::{HostStepGroup, split_into_groups};
use super::window::WindowState;
use crate::graph::{Graph, StepIndex};
use crate::model::{HostName, HostOutcome, StepId, StepVerdict, UntrustedText};
use crate::plan::{HostPlan, HostReachability, ObservedHost, StepPlan, StepStage};
use crate::state::StepRecord;
use crate::transport::{LockOwner, ProcessMark, TransportError, TransportErrorKind, UnitName};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The state of one host during a run.
pub(super) struct HostRun<'r> {
    pub run: &'r ApplyContext<'r>,
    pub plan: &'r HostPlan,
    pub planned: BTreeMap<StepId, &'r StepPlan>,
    pub seen: ObservedHost,
    pub link: HostSession,
    pub steps: Vec<StepReport>,
    /// Records of verified steps that are not written yet.
    pub records: Vec<(StepId, StepRecord)>,
    /// Steps that were changed in this run.
    pub changed: BTreeSet<StepId>,
    /// Why the host cannot continue, if it cannot.
    pub lost: Option<TransportError>,
    /// The host's progress through its window.
    pub passage: WindowState,
    /// Whether forge drained the host's Slurm node.
    pub drained: bool,
    /// Whether forge cordoned the host's Kubernetes node.
    pub cordoned: bool,
}

/// Carries out a host's plan when it is its turn. `link` is the session it was observed over, if that is still open.
pub(super) async fn run_host(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    seen: ObservedHost,
    link: Option<HostSession>,
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
        HostReachability::Observed
            if !plan.has_changes() && !super::step_records::has_adoptable_steps(run, plan, &seen) =>
        {
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
    announce_finished(run, plan, report)
}

/// Publishes that a host is done. A host that this run does not change does not count against the failure budget,
/// whatever fails there.
fn announce_finished(run: &ApplyContext<'_>, plan: &HostPlan, report: HostReport) -> HostReport {
    let counts = plan.has_changes() && !report.host.is_cluster();
    run.board.finish_host(&report.host, if counts { report.outcome } else { HostOutcome::Ok });
    run.emit_event(Event::HostFinished {
        host: report.host.clone(),
        outcome: report.outcome,
        reason: report.reason.clone(),
    });
    report
}

async fn close_session(link: Option<HostSession>) {
    if let Some(link) = link {
        link.close().await;
    }
}

/// Reports a host that did not get its turn. A host without changes keeps its observed result.
fn report_not_started(run: &ApplyContext<'_>, plan: &HostPlan, halt: &HostStartRefusal) -> HostReport {
    let reason = match halt {
        _ if !plan.has_changes() => return report_unchanged(run, plan),
        HostStartRefusal::Stopped => "the run was stopped before this host started",
        HostStartRefusal::Budget(reason) => reason,
    };
    let mut report = empty_report(&plan.host, HostOutcome::Cancelled, reason.into());
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    report
}

/// Reports a host on which forge may change nothing: no action is tried there, not even taking the lock.
fn report_refused(run: &ApplyContext<'_>, plan: &HostPlan) -> HostReport {
    let Some(refused) = plan.refused.as_ref().filter(|_| plan.has_changes()) else {
        return report_unchanged(run, plan);
    };
    let mut report = empty_report(&plan.host, HostOutcome::Blocked, refused.why.clone());
    report.hint = Some(refused.hint.clone());
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    for step in report.steps.iter_mut().filter(|step| step.result == StepResult::Cancelled) {
        step.result = StepResult::Skipped { reason: refused.why.clone() };
    }
    report
}

/// Reports a host whose state differs from the saved plan's: no action is tried there.
fn report_stale(run: &ApplyContext<'_>, plan: &HostPlan, seen: &ObservedHost) -> HostReport {
    let Some(stale) = &seen.stale else { return report_unchanged(run, plan) };
    let mut report = empty_report(&plan.host, HostOutcome::Stale, stale.why.clone());
    report.hint = Some(stale.hint.clone());
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    for step in &mut report.steps {
        let moved = stale.steps.iter().find(|(id, _)| *id == step.id);
        step.result = match moved {
            Some((_, why)) => StepResult::Stale { reason: why.clone() },
            None if step.result == StepResult::Cancelled => {
                StepResult::Skipped { reason: "the plan is stale on this host".into() }
            }
            None => continue,
        };
    }
    report
}

pub(super) fn empty_report(host: &HostName, outcome: HostOutcome, reason: UntrustedText) -> HostReport {
    HostReport {
        host: host.clone(),
        outcome,
        reason,
        hint: None,
        steps: Vec::new(),
        verify: Vec::new(),
        reboots: Vec::new(),
        node: None,
        undeclared: Vec::new(),
        took: Default::default(),
    }
}

/// Reports a host with nothing to do: the plan's observation is its proof.
fn report_unchanged(run: &ApplyContext<'_>, plan: &HostPlan) -> HostReport {
    let steps: Vec<StepReport> = plan.steps.iter().map(report_as_planned).collect();
    record_planned_phases(run, plan);
    record_planned_verifications(run, plan);
    let verify = plan.verify.iter().map(super::final_proof::report_planned_verification).collect::<Vec<_>>();
    complete_report(
        empty_report(&plan.host, HostOutcome::Ok, super::verify::describe_empty_host(run.project, &plan.host)),
        steps,
        verify,
    )
}

fn record_planned_phases(run: &ApplyContext<'_>, plan: &HostPlan) {
    for step in &plan.steps {
        if let Some(index) = run.project.graph.find_step(&step.id.recipe, &step.id.step) {
            run.board.record_phase(index, &plan.host, planned_phase(step));
        }
    }
}

/// Reports a cluster with nothing to do whose verification is evaluated after that of hosts, or may be retried for a
/// while.
async fn verify_after_hosts(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    seen: ObservedHost,
    link: Option<HostSession>,
) -> HostReport {
    run.times.resume(&plan.host);
    let link = match ensure_session(run, plan, link).await {
        Ok(link) => link,
        Err(error) => return report_unreachable(&plan.host, &error),
    };
    record_planned_phases(run, plan);
    let mut host = HostRun::new(run, plan, seen, link);
    host.steps = plan.steps.iter().map(report_as_planned).collect();
    let recipes: BTreeSet<&str> = plan.steps.iter().map(|step| &*step.id.recipe).collect();
    for recipe in recipes {
        host.publish_verification(recipe).await;
    }
    host.finish_host().await
}

async fn ensure_session(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    link: Option<HostSession>,
) -> Result<HostSession, TransportError> {
    match link {
        Some(link) => Ok(link),
        None => HostSession::open(run.project, run.options, &plan.host, &run.board.shared_values().secrets).await,
    }
}

/// Publishes the verification results of the plan's observation to the steps that wait for them.
fn record_planned_verifications(run: &ApplyContext<'_>, plan: &HostPlan) {
    let recipes: BTreeSet<&str> = plan.steps.iter().map(|step| &*step.id.recipe).collect();
    for recipe in recipes.into_iter().filter(|recipe| run.proofs.contains(*recipe)) {
        let open = plan.verify.iter().find(|v| v.recipe == recipe && !v.verdict.is_settled());
        let why = open.map(|verify| format!("verification `{}`: {}", verify.name, verify.reason.raw()));
        run.board.record_verification(run.list_recipe_steps(recipe), &plan.host, why.as_deref());
    }
}

/// Returns the report of a step that was not run.
pub(super) fn report_as_planned(step: &StepPlan) -> StepReport {
    let reason = step.reason.clone();
    let result = match (&step.waits_for, step.verdict) {
        (Some(other), _) => StepResult::Skipped { reason: describe_dependency(other).into() },
        (None, StepVerdict::Change) if step.held.is_some() => {
            StepResult::Held { reason: step.held.as_deref().unwrap_or_default().into() }
        }
        (None, StepVerdict::Ok) => StepResult::AlreadyOk { reason },
        (None, StepVerdict::Change) => StepResult::Cancelled,
        (None, StepVerdict::Pending) => StepResult::Pending { reason },
        (None, StepVerdict::Blocked(class)) => StepResult::Blocked { class, reason },
        (None, StepVerdict::Unknown) => StepResult::Unknown { reason },
        (None, StepVerdict::NotApplicable) => StepResult::NotApplicable { reason },
    };
    StepReport {
        id: step.id.clone(),
        title: step.title.clone(),
        result,
        hint: step.hint.clone(),
        changes: Vec::new(),
        took: Default::default(),
        place: step.place.to_string(),
    }
}

/// Returns `needs `first/try` on 3 hosts, got 2` for the plan's `first/try (on 3 hosts, got 2)`.
fn describe_dependency(other: &str) -> String {
    match other.strip_suffix(')').and_then(|rest| rest.split_once(" (")) {
        Some((step, why)) if why.starts_with("on ") => format!("needs `{step}` {why}"),
        Some((step, why)) => format!("needs `{step}`: {why}"),
        None => format!("needs `{other}`"),
    }
}

pub(super) fn planned_phase(step: &StepPlan) -> ReachedPhase {
    match step.waits_for {
        Some(_) => ReachedPhase::Nothing,
        None => phase_from_verdict(step.verdict),
    }
}

pub(super) fn phase_from_verdict(verdict: StepVerdict) -> ReachedPhase {
    match verdict {
        StepVerdict::Ok | StepVerdict::NotApplicable => ReachedPhase::Effective,
        StepVerdict::Pending => ReachedPhase::Configured,
        StepVerdict::Change | StepVerdict::Blocked(_) | StepVerdict::Unknown => ReachedPhase::Nothing,
    }
}

async fn work_on_host(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    seen: ObservedHost,
    link: Option<HostSession>,
) -> HostReport {
    run.times.resume(&plan.host);
    let acts = plan.steps.iter().filter(|s| s.will_run()).count();
    run.emit_event(Event::HostStarted { host: plan.host.clone(), steps: acts });
    let link = match ensure_session(run, plan, link).await {
        Ok(link) => link,
        Err(error) => return report_unreachable(&plan.host, &error),
    };
    let link = match take_lock(run, plan, link).await {
        Ok(link) => link,
        Err(report) => return *report,
    };
    let mut host = HostRun::new(run, plan, seen, link);
    host.prepare_state_folder().await;
    host.run_all_groups().await;
    host.finish_host().await
}

fn report_unreachable(host: &HostName, error: &TransportError) -> HostReport {
    let mut report = empty_report(host, HostOutcome::Unreachable, super::host_session::describe_transport_error(error));
    report.hint = error.hint.as_deref().map(UntrustedText::from);
    report
}

/// Takes the writer lock, after any job of an earlier run has finished.
async fn take_lock(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    mut link: HostSession,
) -> Result<HostSession, Box<HostReport>> {
    const PAUSE: Duration = Duration::from_secs(1);
    let host = &plan.host;
    let owner = build_lock_owner(run);
    let mut told = None;
    let refused = loop {
        match link.take_lock(&owner).await {
            Ok(HostLockAttempt::Ours) => {
                for object in link.cluster_writer().map(crate::kube::ClusterWriter::moved_records).unwrap_or_default() {
                    run.emit_event(Event::RecordsMoved { host: host.clone(), object: object.as_str().into() });
                }
                return Ok(link);
            }
            Ok(HostLockAttempt::Held(owner)) => {
                break report_locked(host, &owner);
            }
            Ok(HostLockAttempt::Busy(busy)) => {
                if told.as_ref() != Some(&busy) {
                    let (step, what) = describe_leftover_work(plan, &busy);
                    run.emit_event(Event::Reattached { host: host.clone(), step, what: what.into() });
                }
                told = Some(busy);
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = run.cancel.wait_for_level(StopLevel::Finish) => {
                        let reason = "the run was stopped while a job of an earlier run was still active here";
                        break empty_report(host, HostOutcome::Cancelled, reason.into());
                    }
                }
            }
            Err(error) => break report_lock_error(host, &error),
        }
    };
    link.close().await;
    Err(Box::new(refused))
}

fn report_locked(host: &HostName, owner: &UntrustedText) -> HostReport {
    let what = if host.is_cluster() { "the cluster" } else { "this host" };
    let reason = format!("{what} is locked by another run: {}", LockOwner::describe_owner(owner).raw());
    let mut report = empty_report(host, HostOutcome::Locked, reason.into());
    report.hint =
        Some("run again when it has finished; the lock of a dead controller expires within two minutes".into());
    report
}

/// Reports that the lock could not be taken because of an error.
fn report_lock_error(host: &HostName, error: &TransportError) -> HostReport {
    let mut report = report_unreachable(host, error);
    if matches!(error.kind, TransportErrorKind::NotRoot | TransportErrorKind::LockForeign) {
        report.outcome = HostOutcome::Blocked;
    }
    report
}

/// Returns the active job of an earlier run: its step, if that is part of the plan, and its display name.
fn describe_leftover_work(plan: &HostPlan, busy: &LeftoverWork) -> (Option<StepId>, String) {
    let unit = match busy {
        LeftoverWork::Script(owner) => {
            return (None, format!("a script of {}", LockOwner::describe_owner(owner).raw()));
        }
        LeftoverWork::Unit(unit) => unit.raw(),
    };
    let name = UnitName::parse(unit);
    let found = plan.steps.iter().find_map(|step| Some((&step.id, name.as_ref()?.run_name_for(&step.id)?)));
    match found {
        Some((step, run)) => (Some(step.clone()), format!("`{step}` of run {run}")),
        None => (None, format!("`{unit}`")),
    }
}

pub(super) fn build_lock_owner(run: &ApplyContext<'_>) -> LockOwner {
    LockOwner {
        run: run.options.run.clone(),
        user: run.options.user.clone(),
        controller: run.options.controller.clone(),
        pid: std::process::id(),
        process: ProcessMark::current_process(),
        since: (run.options.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        what: format!("forge apply {}", run.project.inventory),
    }
}

impl<'r> HostRun<'r> {
    /// Builds the initial state, before any step.
    fn new(run: &'r ApplyContext<'r>, plan: &'r HostPlan, seen: ObservedHost, link: HostSession) -> Self {
        Self {
            run,
            plan,
            planned: plan.steps.iter().map(|step| (step.id.clone(), step)).collect(),
            seen,
            link,
            steps: Vec::new(),
            records: Vec::new(),
            changed: BTreeSet::new(),
            lost: None,
            passage: WindowState::default(),
            drained: false,
            cordoned: false,
        }
    }
}

impl HostRun<'_> {
    pub fn host(&self) -> &HostName {
        &self.plan.host
    }

    /// Returns the graph of steps in this host's order.
    pub fn graph(&self) -> &Graph {
        self.run.project.graph_for_host(self.host())
    }

    /// Creates forge's folders and key on the host.
    async fn prepare_state_folder(&mut self) {
        if let Some(writer) = self.link.cluster_writer() {
            match writer.ensure_digest_key().await {
                Ok(key) => self.seen.key = Some(key),
                Err(error) => {
                    self.lost = Some(host_side_error(format!("the cluster could not be prepared: {}", error.message)))
                }
            }
            return;
        }
        let shared = self.run.board.shared_values();
        let done = self
            .link
            .run_acting_script(crate::state::build_prepare_script(), SHORT_SCRIPT_LIMIT, &shared.secrets)
            .await;
        match done.map(|done| done.finished) {
            Ok(done) if done.status == 0 => {
                self.seen.key = Some(String::from_utf8_lossy(&done.stdout).trim().to_owned());
            }
            Ok(done) => {
                self.lost = Some(host_side_error(format!(
                    "`/var/lib/forge` could not be prepared: {}",
                    summarize_stderr(&done.stderr)
                )));
            }
            Err(error) => self.lost = Some(error),
        }
    }

    async fn run_all_groups(&mut self) {
        let mut list = split_into_groups(self.run, self.plan, &self.seen);
        list.sort_by_key(|group| self.find_group_stage(group));
        let mut list: VecDeque<HostStepGroup> = list.into();
        let mut noted = 0;
        while let Some(group) = list.pop_front() {
            let stage = self.find_group_stage(&group);
            self.advance_to_stage(stage).await;
            if self.lost.is_some() || self.run.cancel.level() > StopLevel::No {
                self.cancel_group(&group);
                continue;
            }
            if let Some(shut) = self.passage.shut.clone().filter(|_| stage > StepStage::Before) {
                self.refuse_group(&group, &shut);
                continue;
            }
            match self.await_dependencies(&group).await {
                Ok(()) => self.run_group(&group).await,
                Err(GateRefusal::Lacks(reason)) => self.skip_group(&group, &reason),
                Err(GateRefusal::Stopped) => self.cancel_group(&group),
            }
            self.run.ledger.append_reports(self.host(), &self.steps[noted..]);
            self.run.in_flight.remove_host(self.host());
            noted = self.steps.len();
            if !list.iter().any(|later| later.recipe == group.recipe) {
                self.publish_verification(&group.recipe).await;
            }
        }
        self.advance_to_stage(StepStage::After).await;
    }

    /// Completes steps that did not get their turn: those that would have changed are cancelled, the others keep the
    /// planned result.
    pub fn cancel_group(&mut self, group: &HostStepGroup) {
        for index in &group.steps {
            self.publish_phase(*index, ReachedPhase::Nothing);
        }
        let reports: Vec<StepReport> = self.list_planned_steps(group).map(report_as_planned).collect();
        self.steps.extend(reports);
    }

    /// Skips steps because a dependency is missing.
    fn skip_group(&mut self, group: &HostStepGroup, reason: &str) {
        let mut reports: Vec<StepReport> = self.list_planned_steps(group).map(report_as_planned).collect();
        for report in &mut reports {
            if !matches!(report.result, StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. }) {
                report.result = StepResult::Skipped { reason: reason.into() };
            }
            self.emit_step_finished(report);
        }
        for index in &group.steps {
            self.publish_phase(*index, ReachedPhase::Nothing);
        }
        self.steps.extend(reports);
    }

    pub fn list_planned_steps<'s>(&'s self, group: &'s HostStepGroup) -> impl Iterator<Item = &'s StepPlan> + 's {
        self.plan.steps.iter().filter(|step| {
            group.steps.iter().any(|index| {
                let id = self.run.project.graph.step_id(*index);
                id.recipe == step.id.recipe && id.step == step.id.step
            })
        })
    }

    pub fn emit_step_finished(&self, report: &StepReport) {
        if matches!(report.result, StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. })
            && self.changed.is_empty()
        {
            return;
        }
        self.run.emit_event(Event::StepFinished {
            host: self.host().clone(),
            step: report.id.clone(),
            title: report.title.clone(),
            result: report.result.clone(),
            changes: report.changes.clone(),
            took: report.took,
        });
    }

    /// Publishes the phase that a step reached on this host. Exports of a step that reached none are published as
    /// missing. The phase of a step that needs a reboot to be effective is published after the reboot.
    pub fn publish_phase(&self, index: StepIndex, reached: ReachedPhase) {
        if reached == ReachedPhase::Configured && self.awaits_reboot(index) {
            return;
        }
        if let Some(step) =
            self.run.spans.steps.find_step(index).filter(|s| reached == ReachedPhase::Nothing && !s.exports.is_empty())
        {
            let recipe = &self.run.project.graph.step_id(index).recipe;
            self.run.board.update_shared_values(|shared| shared.published.abandon_step(recipe, step, self.host()));
        }
        self.run.board.record_phase(index, self.host(), reached);
    }

    /// Proves the whole host, writes the remaining records, and releases the lock.
    async fn finish_host(mut self) -> HostReport {
        self.flush_records().await;
        let verify = match self.lost {
            None => self.run_final_proof().await,
            Some(_) => Vec::new(),
        };
        self.flush_records().await;
        let mut report = empty_report(self.host(), HostOutcome::Ok, UntrustedText::default());
        if let Some(error) = &self.lost {
            report.hint = error.hint.as_deref().map(UntrustedText::from);
            report.reason = super::host_session::describe_transport_error(error);
        }
        let lost = self.lost.as_ref().map(TransportError::is_unreachable);
        report.reboots = std::mem::take(&mut self.passage.reboots);
        report.node = self.passage.node.take();
        if self.passage.open && report.hint.is_none() {
            report.hint = Some(WINDOW_OPEN_HINT.into());
        }
        if self.lost.is_some() {
            self.run.board.mark_lost(self.host(), !self.changed.is_empty());
        }
        let mut report = complete_report(report, self.steps, verify);
        match lost {
            Some(true) => {
                report.outcome = HostOutcome::Unreachable;
                report.hint.get_or_insert_with(|| RUN_AGAIN_HINT.into());
            }
            Some(false) => report.outcome = HostOutcome::Failed,
            None => {}
        }
        self.link.close().await;
        match self.passage.describe_failed_return() {
            Some(why) if matches!(report.outcome, HostOutcome::Ok | HostOutcome::Changed) => {
                HostReport { outcome: HostOutcome::Failed, reason: why, hint: Some(WINDOW_OPEN_HINT.into()), ..report }
            }
            _ => report,
        }
    }
}

const RUN_AGAIN_HINT: &str =
    "retry when the host is reachable: the next run detects completed steps and waits for running ones";
const WINDOW_OPEN_HINT: &str =
    "its window is open and it is out of service; the next successful apply closes the window";

fn complete_report(mut report: HostReport, steps: Vec<StepReport>, verify: Vec<VerifyReport>) -> HostReport {
    report.outcome = HostReport::compute_outcome(&steps, &verify);
    if report.reason.is_empty() {
        report.reason = find_failure_reason(&steps, &verify);
    }
    report.steps = steps;
    report.verify = verify;
    report
}

/// Returns the first failure, in one line.
fn find_failure_reason(steps: &[StepReport], verify: &[VerifyReport]) -> UntrustedText {
    let of_step = |step: &StepReport| match &step.result {
        StepResult::Failed { failure: StepFailure { why, .. } } => Some(format!("`{}` failed: {}", step.id, why.raw())),
        StepResult::Blocked { class, reason } => {
            Some(format!("`{}` is blocked ({}): {}", step.id, class.name(), reason.raw()))
        }
        StepResult::Stale { reason } => Some(format!("`{}` is stale: {}", step.id, reason.raw())),
        StepResult::Unknown { reason } => Some(format!("`{}` is unknown: {}", step.id, reason.raw())),
        _ => None,
    };
    let of_verify = |verify: &VerifyReport| match &verify.result {
        VerifyResult::Failed { reason } => {
            Some(format!("verification `{}` of `{}` failed: {}", verify.name, verify.recipe, reason.raw()))
        }
        _ => None,
    };
    let found = steps.iter().find_map(of_step).or_else(|| verify.iter().find_map(of_verify));
    found.or_else(|| describe_stop(steps)).unwrap_or_default().into()
}

/// Returns the position of a host when the user stopped the run.
fn describe_stop(steps: &[StepReport]) -> Option<String> {
    let mut cancelled = steps.iter().filter(|step| step.result == StepResult::Cancelled);
    let first = cancelled.next()?;
    Some(match cancelled.count() {
        0 => format!("the run was stopped before `{}`", first.id),
        1 => format!("the run was stopped before `{}` and 1 more step", first.id),
        more => format!("the run was stopped before `{}` and {more} more steps", first.id),
    })
}
