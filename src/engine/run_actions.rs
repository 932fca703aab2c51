//! Acting: runs the commands of a turn once, in a script with others or as a unit of its own.

use super::action_script::{self, ExecutedAction};
use super::api_calls::execute_api_calls;
use super::armed_guard::ArmedGuard;
use super::due_step::DueStep;
use super::event::Event;
use super::grouped_action::GroupedAction;
use super::host_link::LinkLost;
use super::host_session::{HostScriptOutput, host_side_error};
use super::host_work::HostWork;
use super::send_artifact::execute_delivery;
use super::step_records::record_write_error;
use crate::model::{SecretStore, UntrustedText};
use crate::object::ClusterCall;
use crate::resource::Action;
use crate::script::{ScriptLimit, ShellFragment};
use crate::state::UndoScripts;
use crate::transport::UnitName;
use secrecy::ExposeSecret;
use std::time::{Duration, Instant};

/// The actions of one group: runs each of them once and reports how it ended.
pub(super) struct StepActions<'h, 'r> {
    work: &'h mut HostWork<'r>,
}

impl<'h, 'r> StepActions<'h, 'r> {
    pub fn new(work: &'h mut HostWork<'r>) -> Self {
        Self { work }
    }

    /// Runs the actions of turns in one script or, if long, as a unit of its own.
    pub async fn execute_steps(&mut self, due: &[DueStep]) -> Vec<ExecutedAction> {
        let (run, host) = (self.work.run, self.work.host());
        let shared = run.board.shared_values();
        for turn in due {
            run.emit_event(Event::StepCommands {
                host: host.clone(),
                step: turn.id.clone(),
                script: format_commands(turn, &shared.secrets),
            });
            run.emit_event(Event::StepStarted {
                host: host.clone(),
                step: turn.id.clone(),
                title: turn.title.clone(),
                long: turn.long,
            });
        }
        run.in_flight.set_steps(host, due.iter().map(|turn| turn.id.clone()));
        // From here on the host may have changed, whatever the result is.
        self.work.results.mark_changed(due.iter().map(|turn| turn.id.clone()));
        let acted = match due {
            all if all.iter().any(|due| due.delivery.is_some() || !due.action.calls().is_empty()) => {
                self.execute_one_by_one(all).await
            }
            [only] if only.long => vec![self.execute_long_step(only).await],
            short => self.execute_script_with_retries(short).await,
        };
        // Output that becomes a secret is not shown: it is not registered for redaction yet.
        for (turn, acted) in due.iter().zip(&acted).filter(|(turn, acted)| !acted.output.is_empty() && !turn.secret) {
            let (host, step) = (host.clone(), turn.id.clone());
            run.emit_event(Event::StepPrinted { host, step, output: action_script::format_printed_output(acted) });
        }
        acted
    }

    /// Runs actions one after the other until the first failure.
    async fn execute_one_by_one(&mut self, due: &[DueStep]) -> Vec<ExecutedAction> {
        let mut all = empty_outcomes(due);
        for (due, acted) in due.iter().zip(&mut all) {
            *acted = match &due.delivery {
                Some(delivery) => execute_delivery(self.work, due, delivery).await,
                None if !due.action.calls().is_empty() => execute_api_calls(self.work, due).await,
                None if due.long => self.execute_long_step(due).await,
                None => self.execute_script_with_retries(std::slice::from_ref(due)).await.pop().unwrap_or_default(),
            };
            if acted.status != Some(0) {
                break;
            }
        }
        all
    }

    async fn execute_script_with_retries(&mut self, due: &[DueStep]) -> Vec<ExecutedAction> {
        // A retry keeps what the first attempt found.
        let undo = self.work.undo.build_scripts(self.work.run, due);
        let (run, host, number) = (self.work.run, self.work.host(), self.work.undo.next_number());
        self.work.guard = ArmedGuard::new(run, host, due, number).filter(|_| self.work.link.can_be_cut_off());
        let undo = match &self.work.guard {
            Some(guard) => guard.arm_in(undo),
            None => undo,
        };
        let mut acted = self.execute_script(due, &undo).await;
        for attempt in (2..).take(due.iter().map(|turn| turn.retries).max().unwrap_or(0) as usize) {
            let failed = due.iter().zip(&acted).find(|(_, acted)| acted.status != Some(0));
            let Some((turn, failed)) = failed.filter(|_| !self.work.link.is_lost()) else { break };
            self.announce_retry(turn, failed, attempt);
            tokio::time::sleep(Duration::from_secs(2)).await;
            acted = self.execute_script(due, &undo).await;
        }
        acted
    }

    fn announce_retry(&self, turn: &DueStep, failed: &ExecutedAction, attempt: u32) {
        let why = failed.status.map_or_else(|| "the action did not end".to_owned(), action_script::format_exit_status);
        let (host, step) = (self.work.host().clone(), turn.id.clone());
        self.work.run.emit_event(Event::Retrying { host, step, why: why.into(), attempt });
    }

    async fn execute_script(&mut self, due: &[DueStep], undo: &UndoScripts) -> Vec<ExecutedAction> {
        let shared = self.work.run.board.shared_values();
        let names: Vec<String> = due.iter().map(|due| due.id.to_string()).collect();
        let noted = |name| self.work.run.options.rehearsal.then_some(name);
        let scripts: Vec<GroupedAction<'_>> =
            due.iter().zip(&names).filter_map(|(due, name)| group_action(due, noted(name.as_str()))).collect();
        let limit = ScriptLimit {
            time: due.iter().map(|turn| turn.limit).sum(),
            // What a guard restores is not interrupted on the way.
            stops: self.work.guard.is_none() && due.iter().all(|turn| turn.stops_at_limit),
        };
        let began = Instant::now();
        let riding = !self.work.records.is_empty();
        // The script also writes the records of steps that were proven before.
        let (records, undo) = match riding {
            false => (ShellFragment::new(), undo.clone()),
            true => self.work.records.build_script_with(undo),
        };
        let script = records.append_fragment(action_script::build_group_script(&scripts, &undo));
        match self.send_script(script, limit, &shared.secrets).await {
            // The records are written before the first action: if that did not begin, they may be missing.
            Ok(done) if riding && done.finished.status != 0 && !has_script_begun(&done) => {
                self.work.guard = None;
                self.work.link.mark_lost(record_write_error(&done.finished.stderr));
                empty_outcomes(due)
            }
            Ok(done) => {
                // A script that was ended may have left them: to write them again does no harm.
                if done.finished.status == 0 {
                    self.work.records.mark_written();
                }
                let mut acted = action_script::split_group_output(
                    &done.finished.stdout,
                    done.finished.dropped,
                    &done.token,
                    due.len(),
                );
                if was_stopped(limit, done.finished.status, began.elapsed())
                    && let Some(stopped) = acted.iter_mut().find(|acted| acted.began && acted.status.is_none())
                {
                    stopped.stopped_after = Some(limit.time);
                }
                acted.iter_mut().for_each(|a| a.output = shared.secrets.scrub_secrets(a.output.raw()).into());
                acted
            }
            Err(LinkLost) => empty_outcomes(due),
        }
    }

    /// Sends a script. The answer of a guarded one may never come.
    async fn send_script(
        &mut self,
        script: ShellFragment,
        limit: ScriptLimit,
        secrets: &SecretStore,
    ) -> Result<HostScriptOutput, LinkLost> {
        let HostWork { link, guard, .. } = &mut *self.work;
        let Some(guard) = guard else { return link.run_acting_script(script, limit, secrets).await };
        guard.note_sent();
        let settled = tokio::select! {
            biased;
            answer = link.run_acting_script(script, limit, secrets) => Some(answer),
            () = guard.await_settled() => None,
        };
        settled.unwrap_or_else(|| Err(link.mark_lost(host_side_error("no answer since the change".to_owned()))))
    }

    async fn execute_long_step(&mut self, due: &DueStep) -> ExecutedAction {
        self.work.flush_records().await;
        if self.work.link.is_lost() {
            return ExecutedAction::default();
        }
        let run = self.work.run;
        let shared = run.board.shared_values();
        let unit = UnitName::new(&run.options.run, &due.id);
        let (host, step, events) = (self.work.host().clone(), due.id.clone(), run.events.clone());
        let secrets = shared.secrets.clone();
        let secret = due.secret;
        let mut say = move |line: &str| {
            if secret {
                return;
            }
            let line = secrets.scrub_secrets(line).into();
            let _ = events.send(Event::StepOutput { host: host.clone(), step: step.clone(), line });
        };
        let body = due.action.script().map(|script| script.body.clone()).unwrap_or_default();
        let undo = self.work.undo.build_scripts(run, std::slice::from_ref(due));
        let note =
            if run.options.rehearsal { action_script::note_step(&due.id.to_string()) } else { ShellFragment::new() };
        let body = note
            .append_fragment(undo.before)
            .append_fragment(body)
            .append_fragment(action_script::set_contexts(&due.paths));
        let body = body.append_fragment(undo.after).code("exit \"$forge_rc\"\n");
        match self.work.link.run_long_step(&unit, body, due.limit, &shared.secrets, &mut say).await {
            Ok(end) => {
                let output = shared.secrets.scrub_secrets(end.tail.raw()).into();
                ExecutedAction { status: Some(end.status), began: true, output, ..ExecutedAction::default() }
            }
            Err(LinkLost) => ExecutedAction::default(),
        }
    }
}

/// Whether the host ended a script because of its limit: 124 and 137 are the statuses of `timeout` then.
fn was_stopped(limit: ScriptLimit, status: i32, took: Duration) -> bool {
    limit.stops && matches!(status, 124 | 137) && took >= limit.time
}

/// Returns an action's commands for display: placeholders replace secrets.
fn format_commands(turn: &DueStep, secrets: &SecretStore) -> UntrustedText {
    let script = match &turn.action {
        Action::Script(script) => script,
        Action::Calls(calls) => {
            let told: Vec<String> = calls.iter().map(ClusterCall::describe_call).collect();
            return secrets.scrub_secrets(&told.join("\n")).into();
        }
    };
    match script.body.render(&SecretStore::default()) {
        Ok(text) => secrets.scrub_secrets(text.expose_secret()).into(),
        Err(error) => error.to_string().into(),
    }
}

fn has_script_begun(done: &HostScriptOutput) -> bool {
    action_script::has_group_begun(&done.finished.stdout, done.finished.dropped, &done.token)
}

fn group_action<'a>(due: &'a DueStep, noted_step: Option<&'a str>) -> Option<GroupedAction<'a>> {
    Some(GroupedAction {
        script: due.action.script()?,
        batch: due.batch.as_ref(),
        exports_stdout: due.exports_stdout,
        paths: &due.paths,
        noted_step,
    })
}

fn empty_outcomes(due: &[DueStep]) -> Vec<ExecutedAction> {
    vec![ExecutedAction::default(); due.len()]
}
