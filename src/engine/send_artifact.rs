//! Delivers an artifact: fetches it to the cache, then sends it over the session, resuming a partial earlier transfer.

use super::action_script::{self, ExecutedAction};
use super::due_step::DueStep;
use super::event::{Event, StepFailure};
use super::grouped_action::GroupedAction;
use super::host_link::LinkLost;
use super::host_session::{host_side_error, summarize_stderr};
use super::host_work::HostWork;
use super::transfer_throttle::TransferThrottle;
use crate::artifact::{FetchError, VerifiedFile};
use crate::resource::{ActionScript, ArtifactDelivery};
use crate::script::ShellFragment;
use crate::transport::FilePayload;
use std::time::Duration;

/// Timeout for reading the whole partial file of an earlier transfer.
const PARTIAL_FILE_LIMIT: Duration = Duration::from_secs(600);

/// Why a delivery failed.
enum ArtifactDeliveryError {
    Artifact(FetchError),
    Link(LinkLost),
    /// The host rejected the artifact before the transfer: its status and message.
    Host(i32, String),
}

impl From<LinkLost> for ArtifactDeliveryError {
    fn from(lost: LinkLost) -> Self {
        Self::Link(lost)
    }
}

/// Sends a step's artifact and installs it.
pub(super) async fn execute_delivery(
    work: &mut HostWork<'_>,
    due: &DueStep,
    delivery: &ArtifactDelivery,
) -> ExecutedAction {
    match send_artifact(work, due, delivery).await {
        Ok(acted) => acted,
        Err(ArtifactDeliveryError::Artifact(error)) => {
            ExecutedAction { lacks: Some(build_artifact_failure(&error)), ..ExecutedAction::default() }
        }
        Err(ArtifactDeliveryError::Host(status, output)) => {
            let output = work.run.board.shared_values().secrets.scrub_secrets(&output).into();
            ExecutedAction { status: Some(status), began: true, output, ..ExecutedAction::default() }
        }
        Err(ArtifactDeliveryError::Link(LinkLost)) => ExecutedAction::default(),
    }
}

async fn send_artifact(
    work: &mut HostWork<'_>,
    due: &DueStep,
    delivery: &ArtifactDelivery,
) -> Result<ExecutedAction, ArtifactDeliveryError> {
    let shared = work.run.board.shared_values();
    let depot = &work.run.options.depot;
    let name = delivery.artifact.source.name();
    let told = super::fetch::build_transfer_reporter(&name, work.run.events);
    let held = depot
        .get_artifact(&delivery.artifact, &shared.secrets, &told)
        .await
        .map_err(ArtifactDeliveryError::Artifact)?;
    let from = count_matching_bytes(work, &held, delivery).await?;
    let (host, step, events) = (work.host().clone(), due.id.clone(), work.run.events.clone());
    let (total, mut pace) = (held.bytes, TransferThrottle::default());
    let sent = Box::new(move |done: u64| {
        if pace.is_due() || done == total {
            let _ = events.send(Event::Sending { host: host.clone(), step: step.clone(), done, total });
        }
    });
    let payload = FilePayload::open(&held.path, from, sent).await;
    let payload = payload
        .map_err(|error| work.link.mark_lost(host_side_error(format!("`{name}` can no longer be read: {error}"))))?;
    let action =
        ActionScript { body: with_size_variables(from, total, delivery.body.clone()), ..ActionScript::default() };
    let undo = work.undo.build_scripts(work.run, std::slice::from_ref(due));
    let script = action_script::build_group_script(
        &[GroupedAction { paths: &due.paths, ..GroupedAction::alone(&action) }],
        &undo,
    );
    let done = work.link.send_file(script, due.limit, payload, &shared.secrets).await?;
    let mut acted = action_script::split_group_output(&done.finished.stdout, done.finished.dropped, &done.token, 1);
    acted.iter_mut().for_each(|a| a.output = shared.secrets.scrub_secrets(a.output.raw()).into());
    if acted.iter().any(|a| a.status.is_some_and(|status| status != 0)) {
        depot.recheck_cached(&delivery.artifact).await;
    }
    Ok(acted.pop().unwrap_or_default())
}

/// Returns the number of leading bytes that the host already has and that match the local file.
async fn count_matching_bytes(
    work: &mut HostWork<'_>,
    held: &VerifiedFile,
    delivery: &ArtifactDelivery,
) -> Result<u64, ArtifactDeliveryError> {
    let shared = work.run.board.shared_values();
    let done = work.link.run_acting_script(delivery.part.clone(), PARTIAL_FILE_LIMIT, &shared.secrets).await?;
    let finished = done.finished;
    if finished.status != 0 {
        return Err(ArtifactDeliveryError::Host(finished.status, summarize_stderr(&finished.stderr)));
    }
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let Some((bytes, digest)) = parse_partial_file(&text).filter(|(bytes, _)| (1..=held.bytes).contains(bytes)) else {
        return Ok(0);
    };
    let held = held.clone();
    let same = tokio::task::spawn_blocking(move || held.digest_first_bytes(bytes)).await;
    let same = same.is_ok_and(|found| found.is_ok_and(|found| found.as_str() == digest));
    Ok(if same { bytes } else { 0 })
}

/// Parses `BYTES DIGEST`.
fn parse_partial_file(text: &str) -> Option<(u64, String)> {
    let (bytes, digest) = text.trim().split_once(' ')?;
    Some((bytes.parse().ok()?, digest.to_owned()))
}

/// Passes the file's offset and size to the script.
fn with_size_variables(from: u64, total: u64, body: ShellFragment) -> ShellFragment {
    let known = ShellFragment::new().code("set --").number(from).number(total);
    known.code("\nFORGE_OFFSET=$1 FORGE_SIZE=$2\n").append_fragment(body)
}

fn build_artifact_failure(error: &FetchError) -> StepFailure {
    StepFailure {
        why: error.message.as_str().into(),
        tail: Default::default(),
        hint: error.hint.as_deref().map(Into::into),
        log: None,
        artifact: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_file_status_is_parsed() {
        assert_eq!(parse_partial_file("12 abc\n"), Some((12, "abc".to_owned())));
        assert_eq!(
            (parse_partial_file("0 -\n").map(|p| p.0), parse_partial_file("x"), parse_partial_file("")),
            (Some(0), None, None)
        );
    }
}
