//! Executes calls of the cluster's API sequentially, until the first failure.

use super::action_script::ExecutedAction;
use super::cancel::StopLevel;
use super::due_step::DueStep;
use super::event::{Event, StepFailure};
use super::host_session::host_side_error;
use super::host_work::HostWork;
use crate::kube::KubeError;
use crate::model::UntrustedText;
use tokio::time::{Duration, Instant};

/// Executes the calls of one turn.
pub(super) async fn execute_api_calls(work: &mut HostWork<'_>, due: &DueStep) -> ExecutedAction {
    work.flush_records().await;
    if work.link.is_lost() {
        return ExecutedAction::default();
    }
    let shared = work.run.board.shared_values();
    let HostWork { link, undo, run, .. } = &mut *work;
    let Some(writer) = link.cluster_writer() else {
        link.mark_lost(host_side_error("the cluster lock is not held".to_owned()));
        return ExecutedAction::default();
    };
    let entry = match undo.keep_cluster_state(run, writer, due).await {
        Ok(entry) => entry,
        Err(error) => {
            let why = format!("the state before the change cannot be kept: {}", error.message);
            let error = KubeError { message: why, ..error };
            let failure = build_call_failure(&error, "", &|text| shared.secrets.scrub_secrets(text));
            return ExecutedAction { lacks: Some(failure), ..ExecutedAction::default() };
        }
    };
    let done = execute_calls(work, due).await;
    let HostWork { link, undo, .. } = &mut *work;
    if let (Some(entry), Some(writer)) = (entry, link.cluster_writer()) {
        undo.note_created_objects(writer, entry, &writer.take_applied_uids()).await;
    }
    done
}

async fn execute_calls(work: &HostWork<'_>, due: &DueStep) -> ExecutedAction {
    let Some(writer) = work.link.cluster_writer() else { return ExecutedAction::default() };
    let shared = work.run.board.shared_values();
    let end = Instant::now() + due.limit;
    let mut printed = Vec::new();
    let (host, step, events, secrets) =
        (work.host().clone(), due.id.clone(), work.run.events.clone(), shared.secrets.clone());
    let say = move |line: &str| {
        let line = secrets.scrub_secrets(line).into();
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = events.send(Event::StepOutput { host: host.clone(), step: step.clone(), line });
    };
    let cancel = work.run.cancel.clone();
    let stopped = move || cancel.level() > StopLevel::No;
    for call in due.action.calls() {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let announce = |error: &KubeError, attempt| {
            let (host, step) = (work.host().clone(), due.id.clone());
            let why = shared.secrets.scrub_secrets(&error.message).into();
            work.run.emit_event(Event::Retrying { host, step, why, attempt });
        };
        let try_call = || writer.execute_call(call, left, &shared.secrets, &say, &stopped);
        match call_with_retries(try_call, due.retries, announce).await {
            Ok(said) => printed.push(said),
            Err(error) => {
                let failure = build_call_failure(&error, &shared.secrets.scrub_secrets(&printed.join("\n")), &|text| {
                    shared.secrets.scrub_secrets(text)
                });
                return ExecutedAction { lacks: Some(failure), began: true, ..ExecutedAction::default() };
            }
        }
    }
    let output = shared.secrets.scrub_secrets(&printed.join("\n")).into();
    ExecutedAction { status: Some(0), began: true, output, ..ExecutedAction::default() }
}

async fn call_with_retries<F: Future<Output = Result<String, KubeError>>>(
    call: impl Fn() -> F,
    retries: u32,
    announce: impl Fn(&KubeError, u32),
) -> Result<String, KubeError> {
    let mut done = call().await;
    for attempt in (2..).take(retries as usize) {
        let Err(error) = &done else { break };
        announce(error, attempt);
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
