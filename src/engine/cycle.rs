//! The cycle of one group: observe, compare with the plan, act, observe again, evaluate again.

use super::act::{self, ExecutedAction};
use super::acting::DueStep;
use super::board::ReachedPhase;
use super::decide::{StepDecision, describe};
use super::event::{StepFailure, StepResult};
use super::glance::ObservationSession;
use super::group::HostStepGroup;
use super::host::HostRun;
use super::report::StepReport;
use crate::graph::StepIndex;
use crate::model::{DisruptionClass, StepId, StepVerdict, UntrustedText};
use crate::plan::{self, ChangeCertainty, HostContext, ObservedHost, StepAssessment, StepInstance, StepPredictions};
use crate::probe::Probe;
use crate::resource::Assessment;
use crate::transport::{TransportError, UnitName};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

impl HostRun<'_> {
    /// Runs the cycle of one group.
    pub(super) async fn cycle(&mut self, group: &HostStepGroup) {
        if !self.worth_looking(group) {
            return self.stand(group);
        }
        if let Err(error) = self.look(group).await {
            self.lost = Some(error);
            return self.leave_out(group);
        }
        let due = self.judge_before(group);
        if due.is_empty() {
            return self.settle(group, &[], &[]);
        }
        // The place among the hosts that restart a service is kept until the service was observed to run again.
        self.run.times.pause(self.host());
        let _places = self.run.restarts.enter(self.restarting(group)).await;
        self.run.times.resume(self.host());
        let began = Instant::now();
        let acted = self.act(&due).await;
        if self.lost.is_some() {
            return self.lose(group, &due, &acted);
        }
        if let Err(error) = self.look(group).await {
            self.lost = Some(error);
            return self.lose(group, &due, &acted);
        }
        // Steps of one script are not timed separately.
        self.judge_after(group, &due, &acted, began.elapsed());
    }

    /// Returns the steps of a group that restart a service. For a host out of service, restarts are not limited.
    fn restarting(&self, group: &HostStepGroup) -> BTreeSet<StepIndex> {
        if self.passage.open {
            return BTreeSet::new();
        }
        let restarts = |index: &&StepIndex| {
            let mut own = self.planned_of(group).filter(|step| self.is_of(**index, &step.id));
            own.any(|step| step.acts() && plan::class(step) >= DisruptionClass::D1)
        };
        group.steps.iter().filter(restarts).copied().collect()
    }

    /// Returns whether a group must be observed. If all its steps matched in the plan and no step of this run may have
    /// touched them since, the final proof covers it.
    fn worth_looking(&self, group: &HostStepGroup) -> bool {
        let acts = self.planned_of(group).any(|s| s.acts() || s.envelope.is_some());
        let touched = self.changed.iter().any(|id| *id.recipe == *group.recipe) || self.needs_changed(group);
        acts || touched
    }

    fn needs_changed(&self, group: &HostStepGroup) -> bool {
        let graph = self.graph();
        group.steps.iter().flat_map(|index| graph.waits_for(*index)).any(|edge| {
            let id = graph.step(edge.from);
            self.changed.iter().any(|c| c.recipe == id.recipe && c.step == id.step)
        })
    }

    fn stand(&mut self, group: &HostStepGroup) {
        let reports: Vec<StepReport> = self.planned_of(group).map(super::host::as_planned).collect();
        for index in &group.steps {
            let own = self.planned_of(group).filter(|step| self.is_of(*index, &step.id));
            let reached = own.map(super::host::reached_as_planned).min().unwrap_or(ReachedPhase::Effective);
            self.reach(*index, reached);
        }
        reports.iter().for_each(|report| self.say_finished(report));
        self.steps.extend(reports);
    }

    pub(super) fn is_of(&self, index: StepIndex, id: &StepId) -> bool {
        let step = self.run.project.graph.step(index);
        step.recipe == id.recipe && step.step == id.step
    }

    /// Observes the state that the group is evaluated by, in one round trip.
    async fn look(&mut self, group: &HostStepGroup) -> Result<(), TransportError> {
        let shared = self.run.board.shared();
        let probes: BTreeSet<Probe> = {
            let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return Ok(()) };
            let turns = case.turns();
            let own = turns.iter().filter(|turn| group.steps.contains(&turn.index));
            own.flat_map(|turn| plan::of_turn(&case, turn, &turns)).collect()
        };
        if probes.is_empty() {
            return Ok(());
        }
        let observation = self.link.observe(&probes, &shared.secrets).await?;
        self.seen.update(observation);
        Ok(())
    }

    /// Evaluates every turn of the group again. Returns those that act and reports the others. A step that cannot run
    /// also skips the steps below it, as they build on it.
    fn judge_before(&mut self, group: &HostStepGroup) -> Vec<DueStep> {
        let shared = self.run.board.shared();
        let (mut reports, mut due) = (Vec::new(), Vec::new());
        let mut stopped: Option<(StepIndex, StepId)> = None;
        let mut siblings = SiblingPredictions::default();
        // Several steps of a script may edit the same file: each is evaluated on the result of the previous ones.
        let mut edited: Option<ObservedHost> = None;
        if let Some(case) = self.run.case(&shared, self.host(), &self.seen) {
            let turns = case.turns();
            for turn in turns.iter().filter(|turn| group.steps.contains(&turn.index)) {
                let now = HostContext { seen: edited.as_ref().unwrap_or(&self.seen), ..case };
                let ruling = self.ruling(&now, turn, &turns, siblings.ahead(turn));
                let above = stopped.as_ref().filter(|(index, _)| *index != turn.index);
                let result = match (self.decide(&now, turn, &ruling), above) {
                    (StepDecision::Act, None) => {
                        match &ruling.judgement.edit {
                            Some(edit) => {
                                let seen = edited.get_or_insert_with(|| self.seen.clone());
                                seen.observation.insert(edit.probe.clone(), Ok(edit.becomes.clone()));
                            }
                            None => siblings.act(turn),
                        }
                        due.push(self.due(&case, turn, &turns, ruling));
                        continue;
                    }
                    (StepDecision::Act, Some((_, name))) => {
                        StepResult::Skipped { reason: format!("`{name}` of the same recipe did not succeed").into() }
                    }
                    (StepDecision::Leave(result), _) => result,
                };
                if stops(&result) && stopped.is_none() {
                    stopped = Some((turn.index, turn.expanded.id.clone()));
                }
                let observed = self.seen.observation.asked().map(|(_, ended)| ended);
                let (result, changes) = super::decide::complete_stale(result, &ruling.judgement, &self.steps, observed);
                reports.push(StepReport {
                    hint: ruling.judgement.hint.clone(),
                    changes,
                    ..report(&case, turn, result)
                });
            }
        }
        reports.into_iter().for_each(|report| self.enter(report));
        due
    }

    /// Evaluates a turn as the plan did: the rules of its recipe come first.
    fn ruling(
        &self,
        case: &HostContext<'_>,
        turn: &StepInstance<'_>,
        turns: &[StepInstance<'_>],
        ahead: &StepPredictions,
    ) -> StepAssessment {
        match plan::rule(case, turn.instance) {
            Some(judgement) => {
                StepAssessment { judgement, basis: String::new(), until: None, foresight: ChangeCertainty::Predicted }
            }
            None => plan::judge(case, turn, turns, ahead),
        }
    }

    /// Reports a group during which the connection was lost. Successful actions are not claimed, as they were not
    /// verified. A step that was running has an unknown outcome rather than failed.
    fn lose(&mut self, group: &HostStepGroup, due: &[DueStep], acted: &[ExecutedAction]) {
        let why = self.lost.as_ref().map(super::link::reason).unwrap_or_default();
        let unreachable = self.lost.as_ref().is_some_and(TransportError::is_unreachable);
        for (turn, acted) in due.iter().zip(acted) {
            let result = match unreachable {
                true => StepResult::Unknown { reason: format!("outcome unknown: {}", why.raw()).into() },
                false => StepResult::Failed {
                    failure: StepFailure {
                        why: why.clone(),
                        tail: act::tail(&acted.output),
                        hint: None,
                        log: None,
                        artifact: false,
                    },
                },
            };
            self.enter(step_report(turn, result));
        }
        for index in &group.steps {
            self.reach(*index, ReachedPhase::Nothing);
        }
    }

    /// Evaluates the results of actions. Only observed results are claimed.
    fn judge_after(&mut self, group: &HostStepGroup, due: &[DueStep], acted: &[ExecutedAction], took: Duration) {
        let mut failed: Option<String> = None;
        for mut report in self.ends(due, acted) {
            report.took = took;
            if let (Some(name), StepResult::Failed { .. }) = (&failed, &report.result) {
                report.result = StepResult::Skipped { reason: format!("`{name}` of the same recipe failed").into() };
            }
            if stops(&report.result) && failed.is_none() {
                failed = Some(report.id.to_string());
            }
            self.enter(report);
        }
        self.settle(group, due, acted);
    }

    fn ends(&self, due: &[DueStep], acted: &[ExecutedAction]) -> Vec<StepReport> {
        let shared = self.run.board.shared();
        let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return Vec::new() };
        let turns = case.turns();
        let judged = |due: &DueStep| {
            let turn = turns.iter().find(|turn| turn.expanded.id == due.id);
            turn.map(|turn| plan::judge(&case, turn, &turns, &StepPredictions::default()))
        };
        due.iter().zip(acted).map(|(turn, acted)| self.end_of(turn, acted, judged(turn))).collect()
    }

    fn end_of(&self, turn: &DueStep, acted: &ExecutedAction, ruling: Option<StepAssessment>) -> StepReport {
        // The output of a step that exports a secret is not shown on failure either.
        let tail = if turn.secret { UntrustedText::default() } else { act::tail(&acted.output) };
        if let Some(failure) = &acted.lacks {
            return step_report(turn, StepResult::Failed { failure: failure.clone() });
        }
        let failure = |why: String| StepResult::Failed {
            failure: StepFailure {
                artifact: acted.status == Some(LACKING) && turn.needs_artifact(),
                why: why.into(),
                tail: tail.clone(),
                hint: act::explain(&turn.action, &acted.output).or_else(|| self.cause(&turn.id, &acted.output)),
                log: (turn.long && turn.delivery.is_none()).then(|| {
                    format!("/var/lib/forge/log/{}.log", UnitName::new(&self.run.options.run, &turn.id).as_str())
                }),
            },
        };
        let judgement = ruling.map(|ruling| ruling.judgement);
        let hint = judgement.as_ref().and_then(|judgement| judgement.hint.clone());
        let result = match (acted.status, judgement) {
            (None, _) if !acted.began => Err("did not run".to_owned()),
            (Some(status), judgement) if status != 0 => Err(meant(turn, status, judgement.as_ref())),
            (_, None) => Err("the step is no longer in the plan".to_owned()),
            (_, Some(_)) if turn.exports_stdout && !whole(acted) => Err(NO_VALUE.to_owned()),
            (Some(_), Some(judgement)) => proven(judgement),
            // The exit status is unknown, so the observed state decides.
            (None, Some(judgement)) => proven(judgement).map_err(|why| format!("its end was not observed; {why}")),
        };
        let result = result.unwrap_or_else(failure);
        // Failures have a hint of their own.
        let hint = hint.filter(|_| matches!(result, StepResult::Pending { .. }));
        StepReport { hint, ..step_report(turn, result) }
    }

    /// Returns the hint that the step's recipe declares for a known failure text of its programs.
    fn cause(&self, id: &StepId, output: &UntrustedText) -> Option<UntrustedText> {
        let recipe = self.run.project.recipes.get(&*id.recipe)?;
        recipe.cause(output.raw()).map(UntrustedText::from)
    }

    /// Adds a report to the events and to the list. A step is published only when all its turns are done.
    fn enter(&mut self, report: StepReport) {
        self.say_finished(&report);
        self.steps.push(report);
    }

    /// Closes a group: queues records of proven steps, publishes exports, then the phases reached. A step without any
    /// turn on this host counts as done.
    fn settle(&mut self, group: &HostStepGroup, due: &[DueStep], acted: &[ExecutedAction]) {
        let own: Vec<(StepIndex, StepId, ReachedPhase)> = self.reports_of(group);
        let through: BTreeSet<StepId> = own
            .iter()
            .filter(|(_, _, reached)| *reached > ReachedPhase::Nothing)
            .map(|(_, id, _)| id.clone())
            .collect();
        let proven: Vec<StepId> = due.iter().map(|turn| turn.id.clone()).filter(|id| through.contains(id)).collect();
        self.note_records(&proven);
        let printed =
            |(turn, acted): (&DueStep, &ExecutedAction)| (turn.id.clone(), acted.output.raw().trim().to_owned());
        let values = due.iter().zip(acted).filter(|(turn, acted)| turn.exports_stdout && whole(acted));
        let stdout: Vec<_> = values.map(printed).collect();
        super::exports::publish(self, group, &through, &stdout);
        for index in &group.steps {
            let turns = own.iter().filter(|(own, _, _)| own == index);
            self.reach(*index, turns.map(|(_, _, reached)| *reached).min().unwrap_or(ReachedPhase::Effective));
        }
    }

    fn reports_of(&self, group: &HostStepGroup) -> Vec<(StepIndex, StepId, ReachedPhase)> {
        let own = |index: &StepIndex| {
            let index = *index;
            self.steps.iter().filter(move |report| self.is_of(index, &report.id)).map(move |r| (index, r))
        };
        let all = group.steps.iter().flat_map(own);
        all.map(|(index, report)| (index, report.id.clone(), reached_by(&report.result))).collect()
    }
}

/// The exit status by which a host's script reports a missing artifact: the same as forge's exit code.
const LACKING: i32 = 69;

const NO_VALUE: &str = "ran, but its output is too long to be exported";

/// Returns whether the whole output of an action was kept.
fn whole(acted: &ExecutedAction) -> bool {
    acted.status == Some(0) && !acted.cut
}

/// Returns the result of an action from the state observed after it.
///
/// # Errors
/// The state does not match: the reason, as a lowercase fragment.
fn proven(judgement: Assessment) -> Result<StepResult, String> {
    match judgement.verdict {
        StepVerdict::Ok | StepVerdict::NotApplicable => Ok(StepResult::Changed),
        StepVerdict::Pending => Ok(StepResult::Pending { reason: judgement.reason }),
        StepVerdict::Change => Err(format!("still differs after the change: {}", describe(&judgement.changes))),
        StepVerdict::Unknown => Err(format!("could not be verified: {}", judgement.reason.raw())),
        StepVerdict::Blocked(_) => Err(format!("blocked after the change: {}", judgement.reason.raw())),
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
    fn ahead(&mut self, turn: &StepInstance<'_>) -> &StepPredictions {
        if self.step != Some(turn.index) {
            *self = Self { step: Some(turn.index), ahead: StepPredictions::default() };
        }
        &self.ahead
    }

    /// Adds a turn's effects. The effects of a command are unknown until it has run.
    fn act(&mut self, turn: &StepInstance<'_>) {
        if super::group::is_judged_alone(turn.step) {
            self.ahead.predicted.after = Some(turn.expanded.id.to_string());
            self.ahead.predicted.will_exist.extend(plan::provided(turn));
        }
    }
}

fn report(case: &HostContext<'_>, turn: &StepInstance<'_>, result: StepResult) -> StepReport {
    StepReport {
        id: turn.expanded.id.clone(),
        title: plan::title(turn),
        result,
        hint: None,
        changes: Vec::new(),
        took: Duration::ZERO,
        place: case.ground.project.sources.place(turn.step.span),
    }
}

fn step_report(turn: &DueStep, result: StepResult) -> StepReport {
    StepReport {
        id: turn.id.clone(),
        title: turn.title.clone(),
        result,
        hint: None,
        changes: turn.changes.clone(),
        took: Duration::ZERO,
        place: turn.place.clone(),
    }
}

fn reached_by(result: &StepResult) -> ReachedPhase {
    match result {
        StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. } => {
            ReachedPhase::Effective
        }
        StepResult::Pending { .. } => ReachedPhase::Configured,
        _ => ReachedPhase::Nothing,
    }
}

fn stops(result: &StepResult) -> bool {
    reached_by(result) == ReachedPhase::Nothing
}

/// Returns `exit status 171: not for this hardware` if the step declares its meaning, with the state after a failed
/// installer.
fn meant(turn: &DueStep, status: i32, after: Option<&Assessment>) -> String {
    let meaning = turn.resource.as_ref().and_then(|resource| resource.meaning(status));
    let text = match meaning {
        Some(meaning) if turn.needs_artifact() => meaning.to_owned(),
        Some(meaning) => format!("exit status {status}: {meaning}"),
        None => exit_text(status),
    };
    let installs = turn.resource.as_ref().is_some_and(|resource| resource.kind() == "installer");
    match after.filter(|_| installs) {
        Some(after) => format!("{text}; afterwards {}", after.reason.raw()),
        None => text,
    }
}

fn exit_text(status: i32) -> String {
    match status {
        124 => "timed out".to_owned(),
        126 => "exit status 126: a command could not be executed".to_owned(),
        127 => "exit status 127: a command was not found".to_owned(),
        _ if status > 128 && status < 160 => format!("killed by signal {}", status - 128),
        _ => format!("exit status {status}"),
    }
}
