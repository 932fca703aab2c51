//! Executes calls of the cluster's API sequentially, until the first failure.

use super::action_script::ExecutedAction;
use super::cancel::StopLevel;
use super::event::{Event, StepFailure};
use super::host_run::HostRun;
use super::host_session::host_side_error;
use super::run_actions::DueStep;
use crate::kube::KubeError;
use crate::model::UntrustedText;
use tokio::time::{Duration, Instant};

impl HostRun<'_> {
    /// Executes the calls of one turn.
    pub(super) async fn execute_api_calls(&mut self, due: &DueStep) -> ExecutedAction {
        self.flush_records().await;
        let Some(writer) = self.link.cluster_writer().filter(|_| self.lost.is_none()) else {
            self.lost.get_or_insert_with(|| host_side_error("the cluster lock is not held".to_owned()));
            return ExecutedAction::default();
        };
        let shared = self.run.board.shared_values();
        let end = Instant::now() + due.limit;
        let mut printed = Vec::new();
        let (host, step, events, secrets) =
            (self.host().clone(), due.id.clone(), self.run.events.clone(), shared.secrets.clone());
        let say = move |line: &str| {
            let line = secrets.scrub_secrets(line).into();
            // Sending fails only when the receiver is gone, shortly before the process ends.
            let _ = events.send(Event::StepOutput { host: host.clone(), step: step.clone(), line });
        };
        let cancel = self.run.cancel.clone();
        let stopped = move || cancel.level() > StopLevel::No;
        for call in due.action.calls() {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
            match call_with_retries(|| writer.execute_call(call, left, &shared.secrets, &say, &stopped), due.retries)
                .await
            {
                Ok(said) => printed.push(said),
                Err(error) => {
                    let failure =
                        build_call_failure(&error, &shared.secrets.scrub_secrets(&printed.join("\n")), &|text| {
                            shared.secrets.scrub_secrets(text)
                        });
                    return ExecutedAction { lacks: Some(failure), began: true, ..ExecutedAction::default() };
                }
            }
        }
        let output = shared.secrets.scrub_secrets(&printed.join("\n")).into();
        ExecutedAction { status: Some(0), began: true, output, ..ExecutedAction::default() }
    }
}

async fn call_with_retries<F: Future<Output = Result<String, KubeError>>>(
    call: impl Fn() -> F,
    retries: u32,
) -> Result<String, KubeError> {
    let mut done = call().await;
    for _ in 0..retries {
        if done.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        done = call().await;
    }
    done
}

fn build_call_failure(error: &KubeError, printed: &str, scrub: &dyn Fn(&str) -> String) -> StepFailure {
    // The server's message comes last, where readers look first.
    let tail =
        error.said.as_ref().map_or_else(|| printed.to_owned(), |said| format!("{printed}\n{said}").trim().to_owned());
    StepFailure {
        why: scrub(&error.message).into(),
        tail: UntrustedText::from(scrub(&tail)),
        hint: error.hint.as_deref().map(Into::into),
        log: None,
        artifact: false,
    }
}
