//! The cycle of one group: observe, compare with the plan, act, observe again, evaluate again.

use super::action_script::{self, ExecutedAction};
use super::armed_guard::GuardRestoration;
use super::cancel::StopLevel;
use super::decide::{StepDecision, complete_stale_result, decide_action, describe_changes};
use super::due_step::{DueStep, build_due_step};
use super::event::{StepFailure, StepResult};
use super::exports::publish_exports;
use super::guard::settle_guard;
use super::host_link::LinkLost;
use super::host_report::{planned_phase, report_as_planned};
use super::host_session::describe_transport_error;
use super::host_work::HostWork;
use super::own_effects::{OwnEffects, RecordedRun};
use super::reached_phase::ReachedPhase;
use super::report::StepReport;
use super::run_actions::StepActions;
use super::run_state::SharedValues;
use super::step_groups::HostStepGroup;
use super::window::MaintenanceWindow;
use crate::graph::StepIndex;
use crate::model::{DisruptionClass, StepId, StepVerdict, UntrustedText};
use crate::plan::{self, ChangeCertainty, HostContext, ObservedHost, StepAssessment, StepInstance, StepPredictions};
use crate::probe::Probe;
use crate::resource::{Assessment, kind_traits};
use crate::transport::{TransportError, UnitName};
use futures_util::FutureExt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// The cycle of one group of steps.
pub(super) struct GroupCycle<'h, 'r> {
    work: &'h mut HostWork<'r>,
    window: &'h MaintenanceWindow<'r>,
    group: &'h HostStepGroup,
    /// The groups that follow without anything between them that may act, except these groups themselves.
    next: &'h [&'h HostStepGroup],
    /// The guard that took changes of the group back.
    restored: Option<GuardRestoration>,
}

impl<'h, 'r> GroupCycle<'h, 'r> {
    pub fn new(
        work: &'h mut HostWork<'r>,
        window: &'h MaintenanceWindow<'r>,
        group: &'h HostStepGroup,
        next: &'h [&'h HostStepGroup],
    ) -> Self {
        Self { work, window, group, next, restored: None }
    }

    /// Runs the cycle.
    pub async fn run(mut self) {
        if !self.needs_observation(self.group) {
            return self.report_group_as_planned();
        }
        let (limited, restarting) = (self.list_limited_steps(), self.list_restarting_steps());
        if !limited.is_empty() {
            // Other hosts may have acted since.
            self.work.forget_ahead();
        }
        // The place among the hosts that restart a service is kept until the service was observed to run again.
        let Some(_places) = self.await_places(limited, restarting).await else {
            return self.work.results.cancel_group(self.group, &self.work.planned);
        };
        if self.observe_group().await.is_err() {
            return self.work.results.cancel_group(self.group, &self.work.planned);
        }
        let due = self.assess_before_acting();
        if due.is_empty() {
            return self.complete_group(&[], &[]);
        }
        let began = Instant::now();
        self.work.forget_ahead();
        let mut acted = StepActions::new(self.work).execute_steps(&due).await;
        self.settle_guard(&mut acted).await;
        if self.work.link.is_lost() || self.observe_result().await.is_err() {
            return self.report_lost_group(&due, &acted, began.elapsed());
        }
        // Steps of one script are not timed separately.
        self.assess_after_acting(&due, &acted, began.elapsed());
    }

    /// Confirms the change over a new session if it is guarded.
    async fn settle_guard(&mut self, acted: &mut [ExecutedAction]) {
        let Some(armed) = self.work.guard.take() else { return };
        self.restored = settle_guard(self.work, armed, acted).await;
        let Some(restored) = &self.restored else { return };
        self.work.results.revise_results(|report, _| {
            restored.find_earlier_failure(&report.id).map(|failure| StepResult::Failed { failure })
        });
    }

    /// Waits until fewer hosts than permitted run those steps of the group that declare `at_once`, and those that
    /// restart a service: before the group is observed, so that its state at its turn decides.
    /// Returns the places, or `None` if the run is stopped meanwhile.
    async fn await_places(
        &mut self,
        limited: BTreeMap<StepIndex, usize>,
        restarting: BTreeMap<StepIndex, usize>,
    ) -> Option<Vec<OwnedSemaphorePermit>> {
        let (run, host) = (self.work.run, self.work.host());
        if limited.is_empty() && restarting.is_empty() {
            return Some(Vec::new());
        }
        let acquired = async {
            let mut places = run.turns.acquire_permits(limited).await;
            places.extend(run.restarts.acquire_permits(restarting).await);
            places
        };
        let mut acquired = std::pin::pin!(acquired);
        if let Some(places) = acquired.as_mut().now_or_never() {
            return Some(places);
        }
        // The wait may take long.
        self.work.forget_ahead();
        run.times.pause(host);
        let places = tokio::select! {
            biased;
            () = run.cancel.wait_for_level(StopLevel::Finish) => None,
            places = acquired => Some(places),
        };
        run.times.resume(host);
        places
    }

    fn list_limited_steps(&self) -> BTreeMap<StepIndex, usize> {
        let limit = |index: &StepIndex| Some((*index, self.work.run.spans.steps.find_step(*index)?.at_once?));
        let may_act = |(index, _): &(StepIndex, usize)| {
            let mut own = self.work.planned.list_step(self.group, *index);
            own.any(|step| step.will_run() || step.envelope.is_some())
        };
        self.group.steps.iter().filter_map(limit).filter(may_act).collect()
    }

    /// Returns the steps of a group that restart a service, with the number of hosts that may do so at once. For a host
    /// out of service, restarts are not limited.
    fn list_restarting_steps(&self) -> BTreeMap<StepIndex, usize> {
        let Some(most) = self.work.run.rollout.max_restarting.filter(|_| !self.window.is_open()) else {
            return BTreeMap::new();
        };
        let restarts = |index: &&StepIndex| {
            let mut own = self.work.planned.list_step(self.group, **index);
            own.any(|step| step.will_run() && plan::step_disruption(step) >= DisruptionClass::D1)
        };
        self.group.steps.iter().filter(restarts).map(|index| (*index, most)).collect()
    }

    /// Returns whether a group must be observed. If all its steps matched in the plan and no step of this run may have
    /// touched them since, the final proof covers it.
    fn needs_observation(&self, group: &HostStepGroup) -> bool {
        let acts = self.work.planned.list_group(group).any(|s| s.will_run() || s.envelope.is_some());
        let touched = self.work.results.changed().iter().any(|id| *id.recipe == *group.recipe);
        acts || touched || self.has_changed_dependency(group)
    }

    fn has_changed_dependency(&self, group: &HostStepGroup) -> bool {
        let graph = self.work.graph();
        group.steps.iter().flat_map(|index| graph.incoming_edges(*index)).any(|edge| {
            let id = graph.step_id(edge.from);
            self.work.results.changed().iter().any(|c| c.recipe == id.recipe && c.step == id.step)
        })
    }

    fn report_group_as_planned(&mut self) {
        for index in &self.group.steps {
            let own = self.work.planned.list_step(self.group, *index);
            self.publish_phase(*index, own.map(planned_phase).min().unwrap_or(ReachedPhase::Effective));
        }
        for step in self.work.planned.list_group(self.group) {
            self.work.results.add_report(report_as_planned(step));
        }
    }

    /// Publishes the phase that a step reached. The phase of a step that needs a reboot to be effective is published
    /// after the reboot.
    fn publish_phase(&self, index: StepIndex, reached: ReachedPhase) {
        if reached != ReachedPhase::Configured || !self.window.awaits_reboot(index) {
            self.work.results.publish_phase(index, reached);
        }
    }

    /// Observes the state that the group is evaluated by, in one round trip; in none if it was observed ahead.
    async fn observe_group(&mut self) -> Result<(), LinkLost> {
        let shared = self.work.run.board.shared_values();
        let probes = self.list_probes(self.group, &shared);
        if probes.is_empty() || self.work.is_observed(&probes) {
            return Ok(());
        }
        self.work.observe(&probes, &shared.secrets).await
    }

    /// Observes the group after its actions, and the next groups ahead of their own: up to the first that acts, as the
    /// others change nothing.
    async fn observe_result(&mut self) -> Result<(), LinkLost> {
        let shared = self.work.run.board.shared_values();
        let probes = self.list_probes(self.group, &shared);
        let next: BTreeSet<Probe> = self.list_groups_ahead().flat_map(|next| self.list_probes(next, &shared)).collect();
        if probes.is_empty() && next.is_empty() {
            return Ok(());
        }
        self.work.observe_ahead(&probes, &next, &shared.secrets).await
    }

    /// Returns the next groups that will be observed, up to the first that acts.
    fn list_groups_ahead(&self) -> impl Iterator<Item = &HostStepGroup> {
        let acts = |group: &HostStepGroup| self.work.planned.list_group(group).any(|step| step.will_run());
        let until = self.next.iter().position(|next| acts(next)).map_or(0, |first| first + 1);
        self.next[..until].iter().copied().filter(|next| self.needs_observation(next))
    }

    fn list_probes(&self, group: &HostStepGroup, shared: &SharedValues) -> BTreeSet<Probe> {
        self.work.view.list_step_probes(shared, |turn| group.steps.contains(&turn.index))
    }

    /// Evaluates every turn of the group again. Returns those that act and reports the others. A step that cannot run
    /// also skips the steps below it, as they build on it.
    fn assess_before_acting(&mut self) -> Vec<DueStep> {
        let work = &*self.work;
        let shared = work.run.board.shared_values();
        let (mut reports, mut due) = (Vec::new(), Vec::new());
        let mut stopped: Option<(StepIndex, StepId)> = None;
        let mut siblings = SiblingPredictions::default();
        // Several steps of a script may edit the same file: each is evaluated on the result of the previous ones.
        let mut edited: Option<ObservedHost> = None;
        if let Some(case) = work.view.context(&shared) {
            let turns = case.expand_local_steps();
            let recorded = RecordedRun {
                run: &work.run.options.run,
                plan: work.run.plan,
                resumes: work.run.options.worker.is_some() || work.began_busy,
            };
            let own = OwnEffects::collect(&case, &turns, work.results.reports(), &recorded);
            for turn in turns.iter().filter(|turn| self.group.steps.contains(&turn.index)) {
                let now = HostContext { seen: edited.as_ref().unwrap_or(work.view.seen()), ..case };
                let ruling = assess_instance(&now, turn, &turns, siblings.predictions_for(turn));
                let above = stopped.as_ref().filter(|(index, _)| *index != turn.index);
                let result = match (decide_action(&work.planned, &now, turn, &ruling, &own), above) {
                    (StepDecision::Act, None) => {
                        match ruling.judgement.reading_after() {
                            Some((probe, reading)) => {
                                let seen = edited.get_or_insert_with(|| work.view.seen().clone());
                                seen.observation.insert(probe, Ok(reading));
                            }
                            None => siblings.predict_action(turn),
                        }
                        due.push(build_due_step(work.run.options, &case, turn, &turns, ruling));
                        continue;
                    }
                    (StepDecision::Act, Some((_, name))) => {
                        StepResult::Skipped { reason: format!("`{name}` of the same recipe did not succeed").into() }
                    }
                    (StepDecision::Leave(result), _) => result,
                };
                if stops_group(&result) && stopped.is_none() {
                    stopped = Some((turn.index, turn.expanded.id.clone()));
                }
                let observed = work.view.seen().observation.time_range().map(|(_, ended)| ended);
                let (result, changes) =
                    complete_stale_result(result, &ruling.judgement, work.results.reports(), observed);
                reports.push(StepReport {
                    hint: ruling.judgement.hint.clone(),
                    check: plan::find_step_check(&case, turn, &ruling).filter(|_| is_pending(&result)),
                    changes,
                    ..report_instance(&case, turn, result)
                });
            }
        }
        reports.into_iter().for_each(|report| self.work.results.add_report(report));
        due
    }

    /// Reports a group during which the connection was lost. Successful actions are not claimed, as they were not
    /// verified. A step that was running has an unknown outcome rather than failed.
    fn report_lost_group(&mut self, due: &[DueStep], acted: &[ExecutedAction], took: Duration) {
        let loss = self.work.link.loss();
        let why = loss.map(describe_transport_error).unwrap_or_default();
        let unreachable = loss.is_some_and(TransportError::is_unreachable);
        for (turn, acted) in due.iter().zip(acted) {
            let result = match unreachable {
                true => StepResult::Unknown { reason: format!("outcome unknown: {}", why.raw()).into() },
                false => StepResult::Failed {
                    failure: StepFailure {
                        why: why.clone(),
                        tail: action_script::tail_output(&acted.output),
                        hint: None,
                        log: None,
                        artifact: false,
                    },
                },
            };
            self.work.results.add_report(StepReport { took, ..report_due_step(turn, result) });
        }
        self.work.results.publish_nothing(self.group);
    }

    /// Evaluates the results of actions. Only observed results are claimed. After a failure, a step whose action never began
    /// is skipped; the failure of one that acted stays visible.
    fn assess_after_acting(&mut self, due: &[DueStep], acted: &[ExecutedAction], took: Duration) {
        let mut failed: Option<String> = None;
        for (mut report, acted) in self.build_step_reports(due, acted).into_iter().zip(acted) {
            report.took = took;
            if let (Some(name), StepResult::Failed { .. }, false) = (&failed, &report.result, acted.began) {
                report.result = StepResult::Skipped { reason: format!("`{name}` of the same recipe failed").into() };
            }
            if stops_group(&report.result) && failed.is_none() {
                failed = Some(report.id.to_string());
            }
            self.work.results.add_report(report);
        }
        self.complete_group(due, acted);
    }

    fn build_step_reports(&self, due: &[DueStep], acted: &[ExecutedAction]) -> Vec<StepReport> {
        let shared = self.work.run.board.shared_values();
        let Some(case) = self.work.view.context(&shared) else { return Vec::new() };
        let turns = case.expand_local_steps();
        let build = |(due, acted): (&DueStep, &ExecutedAction)| {
            let turn = turns.iter().find(|turn| turn.expanded.id == due.id);
            let ruling = turn.map(|turn| plan::assess_step(&case, turn, &turns, &StepPredictions::default()));
            let check = turn.zip(ruling.as_ref()).and_then(|(turn, ruling)| plan::find_step_check(&case, turn, ruling));
            let report = self.build_step_report(due, acted, ruling);
            StepReport { check: check.filter(|_| is_pending(&report.result)), ..report }
        };
        due.iter().zip(acted).map(build).collect()
    }

    fn build_step_report(&self, turn: &DueStep, acted: &ExecutedAction, ruling: Option<StepAssessment>) -> StepReport {
        if let Some(failure) = self.restored.as_ref().and_then(|restored| restored.find_failure(&turn.id)) {
            return report_due_step(turn, StepResult::Failed { failure: failure.clone() });
        }
        // The output of a step that exports a secret is not shown on failure either.
        let tail = if turn.secret { UntrustedText::default() } else { action_script::tail_output(&acted.output) };
        if let Some(failure) = &acted.lacks {
            let hint = self.find_call_failure_hint(&turn.id, failure);
            return report_due_step(turn, StepResult::Failed { failure: StepFailure { hint, ..failure.clone() } });
        }
        let failure = |why: String| StepResult::Failed {
            failure: StepFailure {
                artifact: acted.status == Some(ARTIFACT_MISSING_STATUS) && turn.needs_artifact(),
                why: why.into(),
                tail: tail.clone(),
                hint: action_script::find_known_hint(&turn.action, &acted.output)
                    .or_else(|| self.find_failure_hint(&turn.id, &acted.output)),
                log: (turn.long && turn.delivery.is_none()).then(|| {
                    format!("/var/lib/forge/log/{}.log", UnitName::new(&self.work.run.options.run, &turn.id).as_str())
                }),
            },
        };
        let judgement = ruling.map(|ruling| ruling.judgement);
        let hint = judgement.as_ref().and_then(|judgement| judgement.hint.clone());
        let result = match (acted.status, judgement) {
            (None, _) if !acted.began => Err("did not run".to_owned()),
            _ if acted.stopped_after.is_some() => Err(describe_stop(acted.stopped_after.unwrap_or_default())),
            (Some(status), judgement) if status != 0 => Err(describe_exit(turn, status, judgement.as_ref())),
            (_, None) => Err("the step is no longer in the plan".to_owned()),
            (_, Some(_)) if turn.exports_stdout && !has_whole_output(acted) => Err(CUT_VALUE_REASON.to_owned()),
            (Some(_), Some(judgement)) => result_after_change(turn, judgement, true),
            // The exit status is unknown, so the observed state decides.
            (None, Some(judgement)) => {
                result_after_change(turn, judgement, false).map_err(|why| format!("its end was not observed; {why}"))
            }
        };
        let result = result.unwrap_or_else(failure);
        // Failures have a hint of their own.
        let hint = hint.filter(|_| matches!(result, StepResult::Pending { .. }));
        StepReport { hint, ..report_due_step(turn, result) }
    }

    /// Returns the hint that the step's recipe declares for a known failure text of its programs.
    fn find_failure_hint(&self, id: &StepId, output: &UntrustedText) -> Option<UntrustedText> {
        let recipe = self.work.run.project.recipes.get(&*id.recipe)?;
        recipe.find_failure_cause(output.raw()).map(UntrustedText::from)
    }

    /// Returns the hint for a failed call: the cause that the recipe declares, then the call's own hint.
    fn find_call_failure_hint(&self, id: &StepId, failure: &StepFailure) -> Option<UntrustedText> {
        let texts = [&failure.why, &failure.tail];
        let cause = texts.into_iter().find_map(|text| self.find_failure_hint(id, text));
        match (cause, &failure.hint) {
            (Some(cause), Some(hint)) => Some(format!("{}; {}", cause.raw(), hint.raw()).into()),
            (cause, hint) => cause.or_else(|| hint.clone()),
        }
    }

    /// Closes a group: queues records of proven steps, publishes exports, then the phases reached. A step without any
    /// turn on this host counts as done.
    fn complete_group(&mut self, due: &[DueStep], acted: &[ExecutedAction]) {
        let own: Vec<(StepIndex, StepId, ReachedPhase)> = self.list_reached_phases();
        let through: BTreeSet<StepId> = own
            .iter()
            .filter(|(_, _, reached)| *reached > ReachedPhase::Nothing)
            .map(|(_, id, _)| id.clone())
            .collect();
        let proven: Vec<StepId> = due.iter().map(|turn| turn.id.clone()).filter(|id| through.contains(id)).collect();
        self.work.records.queue_proven(&self.work.view, &proven);
        let doubtful = due.iter().filter(|turn| turn.may_bar_login).map(|turn| turn.id.clone());
        self.work.doubtful_logins.extend(doubtful);
        let printed =
            |(turn, acted): (&DueStep, &ExecutedAction)| (turn.id.clone(), acted.output.raw().trim().to_owned());
        let values = due.iter().zip(acted).filter(|(turn, acted)| turn.exports_stdout && has_whole_output(acted));
        let stdout: Vec<_> = values.map(printed).collect();
        publish_exports(self.work.run, &self.work.view, self.group, &through, &stdout);
        // What follows a step that did not succeed builds on it, also if it matches: the steps after it wait in vain.
        let mut root: Option<&StepId> = None;
        for index in &self.group.steps {
            let turns = || own.iter().filter(|(own, _, _)| own == index);
            let reached = turns().map(|(_, _, reached)| *reached).min().unwrap_or(ReachedPhase::Effective);
            match root.filter(|_| reached > ReachedPhase::Nothing) {
                Some(root) => {
                    self.publish_phase(*index, ReachedPhase::Nothing);
                    self.work.run.board.record_behind(*index, self.work.host(), root);
                }
                None => self.publish_phase(*index, reached),
            }
            let stopped = turns().find(|(_, _, reached)| *reached == ReachedPhase::Nothing).map(|(_, id, _)| id);
            root = root.or(stopped);
        }
    }

    fn list_reached_phases(&self) -> Vec<(StepIndex, StepId, ReachedPhase)> {
        let work = &*self.work;
        let own = |index: &StepIndex| {
            let index = *index;
            let reports = work.results.reports().iter();
            reports.filter(move |report| work.planned.is_same_step(index, &report.id)).map(move |r| (index, r))
        };
        let all = self.group.steps.iter().flat_map(own);
        all.map(|(index, report)| (index, report.id.clone(), phase_from_result(&report.result))).collect()
    }
}

/// Evaluates a turn as the plan did: the rules of its recipe come first.
fn assess_instance(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    turns: &[StepInstance<'_>],
    ahead: &StepPredictions,
) -> StepAssessment {
    match plan::assess_rules(case, turn.instance) {
        Some(judgement) => {
            StepAssessment { judgement, basis: String::new(), until: None, foresight: ChangeCertainty::Predicted }
        }
        None => plan::assess_step(case, turn, turns, ahead),
    }
}

/// The exit status by which a host's script reports a missing artifact: the same as forge's exit code.
const ARTIFACT_MISSING_STATUS: i32 = 69;

const CUT_VALUE_REASON: &str = "ran, but its output is too long to be exported";

/// Returns whether the whole output of an action was kept.
fn has_whole_output(acted: &ExecutedAction) -> bool {
    acted.status == Some(0) && !acted.cut
}

/// Returns the result of an action from the state observed after it. `succeeded` if its exit status, 0, is known.
///
/// # Errors
/// The state does not match: the reason, as a lowercase fragment.
fn result_after_change(turn: &DueStep, judgement: Assessment, succeeded: bool) -> Result<StepResult, String> {
    match judgement.verdict {
        StepVerdict::Ok | StepVerdict::NotApplicable => Ok(StepResult::Changed),
        StepVerdict::Pending => Ok(StepResult::Pending { reason: judgement.reason }),
        StepVerdict::Change => Err(describe_remaining_change(turn, &judgement, succeeded)),
        StepVerdict::Unknown => Err(format!("could not be verified: {}", judgement.reason.raw())),
        StepVerdict::Blocked(_) => Err(format!("blocked after the change: {}", judgement.reason.raw())),
    }
}

/// Describes what still differs. The change of a declared script is the script itself, so its check says what differs.
fn describe_remaining_change(turn: &DueStep, after: &Assessment, succeeded: bool) -> String {
    let is_script = turn.resource.as_ref().is_some_and(|resource| kind_traits(resource.kind()).change_field.is_some());
    match (is_script, succeeded) {
        (true, true) => format!("the command succeeded, but the step still differs: {}", after.reason.raw()),
        (true, false) => format!("still differs after the change: {}", after.reason.raw()),
        (false, _) => format!("still differs after the change: {}", describe_changes(&after.changes)),
    }
}

/// The predicted effects of a step's acting turns on later steps in the same script, such as a folder and its
/// subfolder. Whether the predictions came true is evaluated afterwards.
#[derive(Default)]
struct SiblingPredictions {
    step: Option<StepIndex>,
    ahead: StepPredictions,
}

impl SiblingPredictions {
    fn predictions_for(&mut self, turn: &StepInstance<'_>) -> &StepPredictions {
        if self.step != Some(turn.index) {
            *self = Self { step: Some(turn.index), ahead: StepPredictions::default() };
        }
        &self.ahead
    }

    /// Adds a turn's effects. The effects of a command are unknown until it has run.
    fn predict_action(&mut self, turn: &StepInstance<'_>) {
        if super::step_groups::is_fully_described(turn.step) {
            self.ahead.predicted.after = Some(turn.expanded.id.to_string());
            self.ahead.predicted.will_exist.extend(plan::list_provisions(turn));
        }
    }
}

fn is_pending(result: &StepResult) -> bool {
    matches!(result, StepResult::Pending { .. })
}

fn report_instance(case: &HostContext<'_>, turn: &StepInstance<'_>, result: StepResult) -> StepReport {
    StepReport {
        id: turn.expanded.id.clone(),
        title: plan::step_title(turn),
        result,
        hint: None,
        check: None,
        changes: Vec::new(),
        took: Duration::ZERO,
        place: case.ground.project.format_step_place(turn.step.span),
    }
}

fn report_due_step(turn: &DueStep, result: StepResult) -> StepReport {
    StepReport {
        id: turn.id.clone(),
        title: turn.title.clone(),
        result,
        hint: None,
        check: None,
        changes: turn.changes.clone(),
        took: Duration::ZERO,
        place: turn.place.clone(),
    }
}

/// Returns the phase that a step reached by its result.
pub(super) fn phase_from_result(result: &StepResult) -> ReachedPhase {
    match result {
        StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. } => {
            ReachedPhase::Effective
        }
        StepResult::Pending { .. } => ReachedPhase::Configured,
        _ => ReachedPhase::Nothing,
    }
}

fn stops_group(result: &StepResult) -> bool {
    phase_from_result(result) == ReachedPhase::Nothing
}

/// Returns `exit status 171: not for this hardware` if the step declares its meaning, with the state after a failed
/// installer.
fn describe_stop(limit: Duration) -> String {
    format!(
        "stopped: it ran longer than its limit of {} s (`timeout` of the step, or `--timeout`)",
        limit.as_secs_f64()
    )
}

fn describe_exit(turn: &DueStep, status: i32, after: Option<&Assessment>) -> String {
    let meaning = turn.resource.as_ref().and_then(|resource| resource.explain_exit_status(status));
    let text = match meaning {
        Some(meaning) if turn.needs_artifact() => meaning.to_owned(),
        Some(meaning) => format!("exit status {status}: {meaning}"),
        None => action_script::format_exit_status(status),
    };
    let half_done = turn.resource.as_ref().is_some_and(|resource| kind_traits(resource.kind()).fails_halfway);
    match after.filter(|_| half_done) {
        Some(after) => format!("{text}; afterwards {}", after.reason.raw()),
        None => text,
    }
}
