//! Acting: runs the commands of a turn once, in a script with others or as a unit of its own.

use super::action_script::{self, ExecutedAction};
use super::event::Event;
use super::host_run::HostRun;
use super::host_session::HostScriptOutput;
use super::step_records::record_write_error;
use crate::config::ExpansionState;
use crate::model::{SecretStore, StepId, UntrustedText};
use crate::object::ClusterCall;
use crate::plan::{self, HostContext, StepAssessment, StepInstance, StepPredictions};
use crate::resource::apply_trace::leave_trace;
use crate::resource::{Action, ArtifactDelivery, Assessment, Resource};
use crate::transport::UnitName;
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;

/// A turn that is about to act.
pub(super) struct DueStep {
    pub id: StepId,
    pub title: UntrustedText,
    pub place: String,
    pub action: Action,
    /// The resource to change, if the step is expanded to one.
    pub resource: Option<Arc<dyn Resource>>,
    /// The content to send from the controller, instead of the action.
    pub delivery: Option<ArtifactDelivery>,
    pub changes: Vec<crate::resource::AttributeChange>,
    pub long: bool,
    pub limit: Duration,
    pub retries: u32,
    /// Whether the action's own stdout is exported, and whether that value is secret.
    pub exports_stdout: bool,
    pub secret: bool,
}

impl DueStep {
    pub fn needs_artifact(&self) -> bool {
        self.resource.as_ref().is_some_and(|resource| resource.artifact().is_some())
    }
}

impl HostRun<'_> {
    /// Returns the actions of a turn.
    pub(super) fn build_due_step(
        &self,
        case: &HostContext<'_>,
        turn: &StepInstance<'_>,
        turns: &[StepInstance<'_>],
        ruling: StepAssessment,
    ) -> DueStep {
        let inputs = plan::collect_restart_inputs(case, turn, turns, &StepPredictions::default());
        let mut cx = plan::build_resource_context(case, turn, &inputs, None);
        cx.run = &self.run.options.run;
        let (action, own, delivery) = match &turn.expanded.state {
            ExpansionState::Resource(resource) => {
                let delivery = self.choose_delivery(resource.as_ref(), &ruling.judgement);
                let mut action = resource.render_action(&ruling.judgement, &cx);
                let trace = plan::find_trace_path(turn, resource.as_ref());
                if let (Some(trace), Action::Script(script)) =
                    (trace.filter(|_| plan::is_restart_input(turn, turns)), &mut action)
                {
                    script.body = leave_trace(&trace, std::mem::take(&mut script.body));
                }
                (action, resource.time_limit_s(), delivery)
            }
            _ => Default::default(),
        };
        let long = action.script().is_some_and(|script| script.long) || turn.step.long || delivery.is_some();
        DueStep {
            id: turn.expanded.id.clone(),
            title: plan::step_title(turn),
            place: case.ground.project.sources.format_location(turn.step.span),
            resource: match &turn.expanded.state {
                ExpansionState::Resource(resource) => Some(resource.clone()),
                _ => None,
            },
            action,
            delivery,
            changes: ruling.judgement.changes,
            long,
            limit: choose_time_limit(turn.step.timeout_s, own, self.run.options.timeout, long),
            retries: turn.step.retries,
            exports_stdout: turn.step.exports.values().any(|e| e.stdout),
            secret: turn.step.exports.values().any(|e| e.stdout && e.secret),
        }
    }

    /// Returns the content to send from the controller. An artifact that the host fetches itself is included only when
    /// offline.
    fn choose_delivery(&self, resource: &dyn Resource, judgement: &Assessment) -> Option<ArtifactDelivery> {
        let by_host = resource.artifact().is_some_and(|artifact| artifact.by_host);
        resource.artifact_delivery(judgement).filter(|_| !by_host || self.run.options.depot.is_offline())
    }

    /// Runs the actions of turns in one script or, if long, as a unit of its own.
    pub(super) async fn execute_steps(&mut self, due: &[DueStep]) -> Vec<ExecutedAction> {
        let shared = self.run.board.shared_values();
        for turn in due {
            self.run.emit_event(Event::StepCommands {
                host: self.host().clone(),
                step: turn.id.clone(),
                script: format_commands(turn, &shared.secrets),
            });
            self.run.emit_event(Event::StepStarted {
                host: self.host().clone(),
                step: turn.id.clone(),
                title: turn.title.clone(),
                long: turn.long,
            });
        }
        self.run.in_flight.set_steps(self.host(), due.iter().map(|turn| turn.id.clone()));
        // From here on the host may have changed, whatever the result is.
        self.changed.extend(due.iter().map(|turn| turn.id.clone()));
        let acted = match due {
            all if all.iter().any(|due| due.delivery.is_some() || !due.action.calls().is_empty()) => {
                self.execute_one_by_one(all).await
            }
            [only] if only.long => vec![self.execute_long_step(only).await],
            short => self.execute_script_with_retries(short).await,
        };
        // Output that becomes a secret is not shown: it is not registered for redaction yet.
        for (turn, acted) in due.iter().zip(&acted).filter(|(turn, acted)| !acted.output.is_empty() && !turn.secret) {
            let (host, step) = (self.host().clone(), turn.id.clone());
            self.run.emit_event(Event::StepPrinted { host, step, output: action_script::format_printed_output(acted) });
        }
        acted
    }

    /// Runs actions one after the other until the first failure.
    async fn execute_one_by_one(&mut self, due: &[DueStep]) -> Vec<ExecutedAction> {
        let mut all = empty_outcomes(due);
        for (due, acted) in due.iter().zip(&mut all) {
            *acted = match &due.delivery {
                Some(delivery) => self.execute_delivery(due, delivery).await,
                None if !due.action.calls().is_empty() => self.execute_api_calls(due).await,
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
        let mut acted = self.execute_script(due).await;
        for _ in 0..due.iter().map(|turn| turn.retries).max().unwrap_or(0) {
            if self.lost.is_some() || acted.iter().all(|a| a.status == Some(0)) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
            acted = self.execute_script(due).await;
        }
        acted
    }

    async fn execute_script(&mut self, due: &[DueStep]) -> Vec<ExecutedAction> {
        let shared = self.run.board.shared_values();
        let scripts = due.iter().filter_map(|turn| Some((turn.action.script()?, turn.exports_stdout)));
        let limit: Duration = due.iter().map(|turn| turn.limit).sum();
        let riding = !self.records.is_empty();
        let script = match riding {
            false => action_script::build_group_script(scripts.clone()),
            // The script also writes the records of steps that were proven before.
            true => crate::state::build_records_script(&self.records)
                .append_fragment(action_script::build_group_script(scripts.clone())),
        };
        match self.link.run_acting_script(script, limit, &shared.secrets).await {
            // The records are written before the first action: if that did not begin, they may be missing.
            Ok(done) if riding && done.finished.status != 0 && !has_script_begun(&done) => {
                self.lost = Some(record_write_error(&done.finished.stderr));
                empty_outcomes(due)
            }
            Ok(done) => {
                self.records.clear();
                let mut acted = action_script::split_group_output(
                    &done.finished.stdout,
                    done.finished.dropped,
                    &done.token,
                    due.len(),
                );
                acted.iter_mut().for_each(|a| a.output = shared.secrets.scrub_secrets(a.output.raw()).into());
                acted
            }
            Err(error) => {
                self.lost = Some(error);
                empty_outcomes(due)
            }
        }
    }

    async fn execute_long_step(&mut self, due: &DueStep) -> ExecutedAction {
        self.flush_records().await;
        if self.lost.is_some() {
            return ExecutedAction::default();
        }
        let shared = self.run.board.shared_values();
        let unit = UnitName::new(&self.run.options.run, &due.id);
        let (host, step, events) = (self.host().clone(), due.id.clone(), self.run.events.clone());
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
        match self.link.run_long_step(&unit, body, due.limit, &shared.secrets, &mut say).await {
            Ok(end) => {
                let output = shared.secrets.scrub_secrets(end.tail.raw()).into();
                ExecutedAction { status: Some(end.status), began: true, output, ..ExecutedAction::default() }
            }
            Err(error) => {
                self.lost = Some(error);
                ExecutedAction::default()
            }
        }
    }
}

/// Returns the time limit of an action: the step's `timeout`, else the action's own limit with a grace period in which
/// it ends itself with a better message, else the command line's.
fn choose_time_limit(step: Option<u64>, own: Option<u64>, asked: Option<Duration>, long: bool) -> Duration {
    const LIMIT: Duration = Duration::from_secs(600);
    const LONG_LIMIT: Duration = Duration::from_secs(4 * 3600);
    const GRACE_S: u64 = 30;
    let named = step.or(own.map(|own| own.saturating_add(GRACE_S))).map(Duration::from_secs);
    named.or(asked).unwrap_or(if long { LONG_LIMIT } else { LIMIT })
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

fn empty_outcomes(due: &[DueStep]) -> Vec<ExecutedAction> {
    vec![ExecutedAction::default(); due.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_timeout_applies_to_steps_without_a_timeout() {
        let asked = Some(Duration::from_secs(5));
        let seconds = |step, own, asked, long| choose_time_limit(step, own, asked, long).as_secs();
        assert_eq!((seconds(None, None, asked, false), seconds(None, None, asked, true)), (5, 5));
        assert_eq!((seconds(Some(9), Some(7), asked, false), seconds(None, Some(900), asked, false)), (9, 930));
        assert_eq!((seconds(None, None, None, false), seconds(None, None, None, true)), (600, 14400));
    }
}
