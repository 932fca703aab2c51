//! One group's cycle: look, judge against the plan, act, look again, judge again.

use super::act::{self, Acted};
use super::board::Reached;
use super::event::{Event, Failure, StepResult};
use super::group::Group;
use super::host::HostRun;
use super::report::StepReport;
use crate::config::State;
use crate::graph::StepIndex;
use crate::model::{SecretStore, StepId, Untrusted, Verdict};
use crate::plan::{self, Ahead, Case, Ruling, Turn};
use crate::probe::Probe;
use crate::resource::Action;
use crate::transport::UnitName;
use secrecy::ExposeSecret;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A turn that is going to act.
struct Due {
    index: StepIndex,
    id: StepId,
    title: Untrusted,
    place: String,
    action: Action,
    changes: Vec<crate::resource::Change>,
    long: bool,
    limit: Duration,
    retries: u32,
    /// Whether its action's own stdout is exported.
    exports_stdout: bool,
}

impl HostRun<'_> {
    /// Carries out one group.
    pub(super) async fn cycle(&mut self, group: &Group) {
        if !self.worth_looking(group) {
            return self.stand(group);
        }
        if let Err(error) = self.look(group).await {
            self.lost = Some(error);
            return self.leave_out(group);
        }
        let due = self.judge_before(group);
        if due.is_empty() {
            return self.settle(group, &[]);
        }
        let began = Instant::now();
        let acted = self.act(&due).await;
        if self.lost.is_some() {
            return self.lose(group, &due, &acted);
        }
        if let Err(error) = self.look(group).await {
            self.lost = Some(error);
            return self.lose(group, &due, &acted);
        }
        // Steps of one script are not timed apart.
        self.judge_after(group, &due, &acted, began.elapsed());
    }

    /// A group whose steps all were as desired when the plan was made, and that nothing in this run may
    /// have touched since, is left to the final proof.
    fn worth_looking(&self, group: &Group) -> bool {
        let acts = self.planned_of(group).any(|s| s.acts() || s.envelope.is_some());
        let touched = self.changed.iter().any(|id| *id.recipe == *group.recipe) || self.needs_changed(group);
        acts || touched
    }

    fn needs_changed(&self, group: &Group) -> bool {
        let graph = &self.run.project.graph;
        group.steps.iter().flat_map(|index| graph.waits_for(*index)).any(|edge| {
            let id = graph.step(edge.from);
            self.changed.iter().any(|c| c.recipe == id.recipe && c.step == id.step)
        })
    }

    fn stand(&mut self, group: &Group) {
        let reports: Vec<StepReport> = self.planned_of(group).map(super::host::as_planned).collect();
        for index in &group.steps {
            let mut reached = Reached::Effective;
            for step in self.planned_of(group).filter(|s| self.is_of(*index, &s.id)) {
                reached = reached.min(reached_by(step.verdict));
            }
            self.reach(*index, reached);
        }
        reports.iter().for_each(|report| self.say_finished(report));
        self.steps.extend(reports);
    }

    fn is_of(&self, index: StepIndex, id: &StepId) -> bool {
        let step = self.run.project.graph.step(index);
        step.recipe == id.recipe && step.step == id.step
    }

    /// Observes what judges the group, in one round trip.
    async fn look(&mut self, group: &Group) -> Result<(), crate::transport::TransportError> {
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

    /// Judges every turn of the group once more; returns those that act, reports the others.
    fn judge_before(&mut self, group: &Group) -> Vec<Due> {
        let shared = self.run.board.shared();
        let mut reports = Vec::new();
        let mut due = Vec::new();
        {
            let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return due };
            let turns = case.turns();
            for turn in turns.iter().filter(|turn| group.steps.contains(&turn.index)) {
                let ruling = plan::judge(&case, turn, &turns, &Ahead::default());
                match self.decide(turn, &ruling) {
                    Decision::Act => due.push(self.due(&case, turn, &turns, ruling)),
                    Decision::Leave(result) => {
                        let mut report = report(&case, turn, result);
                        report.hint = ruling.judgement.hint.clone();
                        reports.push((turn.index, report));
                    }
                }
            }
        }
        // A turn that cannot run stops the rest of its recipe: steps are written in the order they build on.
        let stopped = reports.iter().find(|(_, r)| stops(&r.result)).map(|(_, r)| r.id.to_string());
        if let Some(name) = stopped {
            for turn in due.drain(..) {
                let result =
                    StepResult::Skipped { reason: format!("`{name}` of the same recipe did not get through").into() };
                reports.push((turn.index, step_report(&turn, result)));
            }
        }
        for (index, report) in reports {
            self.enter(index, report);
        }
        due
    }

    /// Compares what is seen now with what the plan relied on.
    fn decide(&self, turn: &Turn<'_>, ruling: &Ruling) -> Decision {
        let judgement = &ruling.judgement;
        let reason = judgement.reason.clone();
        match judgement.verdict {
            Verdict::Ok => Decision::Leave(StepResult::AlreadyOk { reason }),
            Verdict::NotApplicable => Decision::Leave(StepResult::NotApplicable { reason }),
            Verdict::Pending => Decision::Leave(StepResult::Pending { reason }),
            Verdict::Blocked(class) => Decision::Leave(StepResult::Blocked { class, reason }),
            Verdict::Unknown => Decision::Leave(StepResult::Unknown { reason }),
            Verdict::Change => self.within_plan(turn, ruling),
        }
    }

    fn within_plan(&self, turn: &Turn<'_>, ruling: &Ruling) -> Decision {
        let stale = |why: String| Decision::Leave(StepResult::Stale { reason: why.into() });
        let now = describe(&ruling.judgement.changes);
        let Some(planned) = self.planned.get(&turn.expanded.id) else {
            return stale(format!("the plan does not hold this step; it would change {now}"));
        };
        match &planned.envelope {
            Some(envelope) if ruling.judgement.disruption <= envelope.disruption.max(planned.disruption) => {
                Decision::Act
            }
            Some(envelope) => stale(format!(
                "the plan allows {} here, the change is {} now ({now})",
                envelope.disruption, ruling.judgement.disruption
            )),
            None if planned.acts() && planned.basis == ruling.basis => Decision::Act,
            None if planned.acts() => stale(format!("planned: {}; now: {now}", describe(&planned.changes))),
            None => stale(format!("was `{}` in the plan; now it would change {now}", planned.verdict.name())),
        }
    }

    fn due(&self, case: &Case<'_>, turn: &Turn<'_>, turns: &[Turn<'_>], ruling: Ruling) -> Due {
        let inputs = plan::inputs(case, turn, turns, &Ahead::default());
        let mut cx = plan::context(case, turn, &inputs, None);
        cx.run = &self.run.options.run;
        let action = match &turn.expanded.state {
            State::Resource(resource) => resource.act(&ruling.judgement, &cx),
            _ => Action::default(),
        };
        const LIMIT: Duration = Duration::from_secs(600);
        const LONG_LIMIT: Duration = Duration::from_secs(4 * 3600);
        let long = action.long || turn.step.long;
        let limit = turn.step.timeout_s.map(Duration::from_secs).or(self.run.options.timeout);
        Due {
            index: turn.index,
            id: turn.expanded.id.clone(),
            title: plan::title(turn),
            place: case.ground.project.sources.place(turn.step.span),
            action,
            changes: ruling.judgement.changes,
            long,
            limit: limit.unwrap_or(if long { LONG_LIMIT } else { LIMIT }),
            retries: turn.step.retries,
            exports_stdout: turn.step.exports.values().any(|e| e.stdout),
        }
    }

    async fn act(&mut self, due: &[Due]) -> Vec<Acted> {
        let shared = self.run.board.shared();
        for turn in due {
            self.run.say(Event::StepCommands {
                host: self.host().clone(),
                step: turn.id.clone(),
                script: commands(&turn.action, &shared.secrets),
            });
            self.run.say(Event::StepStarted {
                host: self.host().clone(),
                step: turn.id.clone(),
                title: turn.title.clone(),
                long: turn.long,
            });
        }
        if let Some(first) = due.first() {
            self.run.in_flight.enter(self.host(), &first.id);
        }
        // From here on the host may have changed, whatever comes back.
        self.changed.extend(due.iter().map(|turn| turn.id.clone()));
        let acted = match due {
            [only] if only.long => vec![self.act_long(only).await],
            short => self.act_group(short).await,
        };
        self.run.in_flight.leave(self.host());
        for (turn, acted) in due.iter().zip(&acted).filter(|(_, acted)| !acted.output.is_empty()) {
            let (host, step) = (self.host().clone(), turn.id.clone());
            self.run.say(Event::StepPrinted { host, step, output: acted.output.clone() });
        }
        acted
    }

    async fn act_group(&mut self, due: &[Due]) -> Vec<Acted> {
        let mut acted = self.act_once(due).await;
        for _ in 0..due.iter().map(|turn| turn.retries).max().unwrap_or(0) {
            if self.lost.is_some() || acted.iter().all(|a| a.status == Some(0)) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
            acted = self.act_once(due).await;
        }
        acted
    }

    async fn act_once(&mut self, due: &[Due]) -> Vec<Acted> {
        let shared = self.run.board.shared();
        let actions: Vec<Action> = due.iter().map(|turn| turn.action.clone()).collect();
        let limit: Duration = due.iter().map(|turn| turn.limit).sum();
        let mut body = std::mem::take(&mut self.records);
        let script = match body.is_empty() {
            true => act::group(&actions),
            // Records of steps that were proven before ride along.
            false => crate::state::write(&body).then(act::group(&actions)),
        };
        match self.link.act(script, limit, &shared.secrets).await {
            Ok(done) => {
                let mut acted = act::split(&done.finished.stdout, &done.token, due.len());
                acted.iter_mut().for_each(|a| a.output = shared.secrets.scrub(a.output.raw()).into());
                acted
            }
            Err(error) => {
                self.records.append(&mut body);
                self.lost = Some(error);
                vec![Acted { status: None, output: Untrusted::default() }; due.len()]
            }
        }
    }

    async fn act_long(&mut self, due: &Due) -> Acted {
        self.flush_records().await;
        let shared = self.run.board.shared();
        let unit = UnitName::new(&self.run.options.run, &due.id);
        let (host, step, events) = (self.host().clone(), due.id.clone(), self.run.events.clone());
        let secrets = shared.secrets.clone();
        let mut say = move |line: &str| {
            let line = secrets.scrub(line).into();
            let _ = events.send(Event::StepOutput { host: host.clone(), step: step.clone(), line });
        };
        match self.link.long(&unit, due.action.body.clone(), due.limit, &shared.secrets, &mut say).await {
            Ok(end) => Acted { status: Some(end.status), output: shared.secrets.scrub(end.tail.raw()).into() },
            Err(error) => {
                self.lost = Some(error);
                Acted { status: None, output: Untrusted::default() }
            }
        }
    }

    /// The link was lost while the group acted: what ended well is not known to hold, and is not claimed.
    fn lose(&mut self, group: &Group, due: &[Due], acted: &[Acted]) {
        let why = self.lost.as_ref().map(super::link::reason).unwrap_or_default();
        let list: Vec<(StepIndex, StepReport)> = due
            .iter()
            .zip(acted)
            .map(|(turn, acted)| {
                let failure = Failure { why: why.clone(), tail: act::tail(&acted.output), hint: None, log: None };
                (turn.index, step_report(turn, StepResult::Failed { failure }))
            })
            .collect();
        for (index, report) in list {
            self.enter(index, report);
        }
        for index in &group.steps {
            self.reach(*index, Reached::Nothing);
        }
    }

    /// Judges what was done: nothing is claimed that was not seen.
    fn judge_after(&mut self, group: &Group, due: &[Due], acted: &[Acted], took: Duration) {
        // Before the board lets others go on.
        self.publish(group, due, acted);
        let shared = self.run.board.shared();
        let mut ends = Vec::new();
        {
            let Some(case) = self.run.case(&shared, self.host(), &self.seen) else { return };
            let turns = case.turns();
            for (turn, acted) in due.iter().zip(acted) {
                let ruling = turns
                    .iter()
                    .find(|t| t.expanded.id == turn.id)
                    .map(|t| plan::judge(&case, t, &turns, &Ahead::default()));
                ends.push((turn.index, self.end_of(turn, acted, ruling)));
            }
        }
        let mut failed: Option<String> = None;
        for (index, mut report) in ends {
            report.took = took;
            if let (Some(name), StepResult::Failed { .. }) = (&failed, &report.result) {
                report.result = StepResult::Skipped { reason: format!("`{name}` of the same recipe failed").into() };
            }
            if stops(&report.result) && failed.is_none() {
                failed = Some(report.id.to_string());
            }
            self.enter(index, report);
        }
        self.settle(group, due);
    }

    fn end_of(&self, turn: &Due, acted: &Acted, ruling: Option<Ruling>) -> StepReport {
        let failure = |why: String| StepResult::Failed {
            failure: Failure {
                why: why.into(),
                tail: act::tail(&acted.output),
                hint: act::explain(&turn.action, &acted.output),
                log: turn.long.then(|| {
                    format!("/var/lib/forge/log/{}.log", UnitName::new(&self.run.options.run, &turn.id).as_str())
                }),
            },
        };
        let result = match (acted.status, ruling.map(|r| r.judgement)) {
            (Some(0), Some(judgement)) => match judgement.verdict {
                Verdict::Ok | Verdict::NotApplicable => StepResult::Changed,
                Verdict::Pending => StepResult::Pending { reason: judgement.reason },
                Verdict::Change => failure(format!("still differs after the change: {}", describe(&judgement.changes))),
                Verdict::Unknown => failure(format!("cannot be proven: {}", judgement.reason.raw())),
                Verdict::Blocked(_) => failure(format!("blocked after the change: {}", judgement.reason.raw())),
            },
            (Some(0), None) => failure("the step is gone from the plan".to_owned()),
            (Some(status), _) => failure(exit_text(status)),
            (None, _) => failure("did not run".to_owned()),
        };
        step_report(turn, result)
    }

    /// Enters a report: on the board, in the events, in the list.
    fn enter(&mut self, index: StepIndex, report: StepReport) {
        self.reach(index, reached_by_result(&report.result));
        self.say_finished(&report);
        self.steps.push(report);
    }

    /// Notes records of what was proven, and that steps without any turn here are through.
    fn settle(&mut self, group: &Group, due: &[Due]) {
        for index in &group.steps {
            self.reach(*index, Reached::Effective);
        }
        let proven: Vec<StepId> = due
            .iter()
            .map(|turn| turn.id.clone())
            .filter(|id| {
                self.steps
                    .iter()
                    .any(|r| r.id == *id && matches!(r.result, StepResult::Changed | StepResult::Pending { .. }))
            })
            .collect();
        self.note_records(&proven);
    }

    /// Publishes what the group's steps export.
    fn publish(&mut self, group: &Group, due: &[Due], acted: &[Acted]) {
        let stdout: Vec<(StepId, String)> = due
            .iter()
            .zip(acted)
            .filter(|(turn, acted)| turn.exports_stdout && acted.status == Some(0))
            .map(|(turn, acted)| (turn.id.clone(), acted.output.raw().trim().to_owned()))
            .collect();
        super::exports::publish(self, group, &stdout);
    }
}

/// Returns the commands of an action as people may read them: placeholders stand for secrets.
fn commands(action: &Action, secrets: &SecretStore) -> Untrusted {
    match action.body.render(&SecretStore::default()) {
        Ok(text) => secrets.scrub(text.expose_secret()).into(),
        Err(error) => error.to_string().into(),
    }
}

enum Decision {
    Act,
    Leave(StepResult),
}

fn report(case: &Case<'_>, turn: &Turn<'_>, result: StepResult) -> StepReport {
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

fn step_report(turn: &Due, result: StepResult) -> StepReport {
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

fn reached_by(verdict: Verdict) -> Reached {
    match verdict {
        Verdict::Ok | Verdict::NotApplicable => Reached::Effective,
        Verdict::Pending => Reached::Configured,
        Verdict::Change | Verdict::Blocked(_) | Verdict::Unknown => Reached::Nothing,
    }
}

fn reached_by_result(result: &StepResult) -> Reached {
    match result {
        StepResult::Changed | StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. } => Reached::Effective,
        StepResult::Pending { .. } => Reached::Configured,
        _ => Reached::Nothing,
    }
}

fn stops(result: &StepResult) -> bool {
    reached_by_result(result) == Reached::Nothing
}

/// Returns the attributes of changes in a line: `content, mode "0600" → "0644"`.
fn describe(changes: &[crate::resource::Change]) -> String {
    let one = |change: &crate::resource::Change| match (&change.from, &change.to) {
        (Some(from), Some(to)) if change.diff.is_none() => {
            format!("{} {:?} → {:?}", change.attribute, from.raw(), to.raw())
        }
        (None, Some(to)) if change.diff.is_none() => format!("{} → {:?}", change.attribute, to.raw()),
        _ => change.attribute.clone(),
    };
    match changes {
        [] => "nothing it could name".to_owned(),
        some => some.iter().map(one).collect::<Vec<_>>().join(", "),
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
