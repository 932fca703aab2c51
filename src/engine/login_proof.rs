//! A new login at the end of a host's run, after changes of accounts, groups and mounts: the connection of the run
//! stays open when such a change bars every later one.

use super::event::{StepFailure, StepResult};
use super::host_session::{HostSession, SHORT_SCRIPT_LIMIT, describe_transport_error};
use super::host_work::HostWork;
use super::session_connector::OpenSession;
use crate::model::{StepId, UntrustedText};
use crate::script::ShellFragment;
use std::time::Duration;

const ATTEMPTS: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_secs(2);

/// Fails the steps that can have barred logins if forge cannot log in to the host again, and does not record them.
pub(super) async fn prove_login(work: &mut HostWork<'_>) {
    let doubtful = std::mem::take(&mut work.doubtful_logins);
    let has_acted = |result: &StepResult| {
        matches!(
            result,
            StepResult::Changed | StepResult::Pending { .. } | StepResult::Unknown { .. } | StepResult::Failed { .. }
        )
    };
    let acted: Vec<StepId> = work
        .results
        .reports()
        .iter()
        .filter(|report| doubtful.contains(&report.id) && has_acted(&report.result))
        .map(|report| report.id.clone())
        .collect();
    if acted.is_empty() || work.link.is_lost() || !work.link.can_be_cut_off() {
        return;
    }
    let Err(why) = try_to_log_in(work).await else { return };
    let barred = format!("since this change forge cannot log in to the host again: {}", why.raw());
    work.results.revise_results(|report, _| {
        acted.contains(&report.id).then(|| StepResult::Failed { failure: add_barred_login(&report.result, &barred) })
    });
    work.records.drop_failed(&acted);
}

/// Returns the failure of a step with the barred login as its reason, after an earlier one.
fn add_barred_login(result: &StepResult, barred: &str) -> StepFailure {
    let hint = Some("repair the login on the console, then run `forge undo` or declare another change".into());
    match result {
        StepResult::Failed { failure } => {
            StepFailure { why: format!("{}; {barred}", failure.why.raw()).into(), hint, ..failure.clone() }
        }
        _ => StepFailure { why: barred.into(), tail: UntrustedText::default(), hint, log: None, artifact: false },
    }
}

/// Logs in over a connection of its own and runs a script as root.
async fn try_to_log_in(work: &HostWork<'_>) -> Result<(), UntrustedText> {
    let mut last = Ok(());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(ATTEMPT_PAUSE).await;
        }
        last = log_in_once(work).await;
        if last.is_ok() {
            break;
        }
    }
    last
}

async fn log_in_once(work: &HostWork<'_>) -> Result<(), UntrustedText> {
    let shared = work.run.board.shared_values();
    let request = work.run.session_request(work.host(), &shared.secrets).without_kept_connection();
    let session = <dyn HostSession>::open(request).await.map_err(|error| describe_transport_error(&error))?;
    let done = session.run_script(ShellFragment::new().code(":\n"), SHORT_SCRIPT_LIMIT, &shared.secrets).await;
    session.close().await;
    done.map(drop).map_err(|error| describe_transport_error(&error))
}
