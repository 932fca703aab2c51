//! The start of work on a host: connects, takes the writer lock, and prepares the host for records.

use super::cancel::StopLevel;
use super::event::Event;
use super::host_report::{empty_report, report_unreachable};
use super::host_session::{
    HostLockAttempt, HostSession, LeftoverWork, SHORT_SCRIPT_LIMIT, host_side_error, summarize_stderr,
};
use super::host_work::HostWork;
use super::report::HostReport;
use super::run_context::ApplyContext;
use super::session_connector::OpenSession;
use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
use crate::plan::{HostHold, HostPlan};
use crate::probe::HoldMark;
use crate::transport::{LockOwner, TransportError, TransportErrorKind, UnitName};
use std::time::Duration;

/// Returns the session over which the host was observed, or a new one.
///
/// # Errors
/// The host is not reached: its report.
pub(super) async fn connect_host(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    link: Option<Box<dyn HostSession>>,
) -> Result<Box<dyn HostSession>, Box<HostReport>> {
    if let Some(link) = link {
        return Ok(link);
    }
    let shared = run.board.shared_values();
    let opened = <dyn HostSession>::open(run.session_request(&plan.host, &shared.secrets)).await;
    opened.map_err(|error| Box::new(report_unreachable(&plan.host, &error)))
}

/// Takes the writer lock, after any job of an earlier run has finished.
pub(super) async fn lock_host(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    mut link: Box<dyn HostSession>,
) -> Result<Box<dyn HostSession>, Box<HostReport>> {
    const PAUSE: Duration = Duration::from_secs(1);
    // The session of a worker that was killed ends soon after it.
    let mut patience: u32 = if run.options.worker.is_some() { 60 } else { 0 };
    let host = &plan.host;
    let owner = run.options.build_lock_owner(run.options.verb_name(), run.project);
    let mut told = None;
    let refused = loop {
        match link.take_lock(&owner).await {
            Ok(HostLockAttempt::Ours) => {
                for object in link.cluster_writer().map(crate::kube::ClusterWriter::moved_records).unwrap_or_default() {
                    run.emit_event(Event::RecordsMoved { host: host.clone(), object: object.as_str().into() });
                }
                return Ok(link);
            }
            Ok(HostLockAttempt::Held(owner)) if patience > 0 && owner.raw().contains(&run.options.run) => {
                patience -= 1;
                tokio::time::sleep(PAUSE).await;
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

/// Creates forge's folders and key on the host. Returns the hold of the host, if it was put on hold since it was
/// observed: then nothing may be changed.
pub(super) async fn prepare_state_folder(work: &mut HostWork<'_>) -> Option<HostHold> {
    if let Some(writer) = work.link.cluster_writer() {
        match writer.ensure_digest_key().await {
            Ok(key) => work.view.set_digest_key(key),
            Err(error) => {
                let why = format!("the cluster could not be prepared: {}", error.message);
                work.link.mark_lost(host_side_error(why));
            }
        }
        return None;
    }
    let shared = work.run.board.shared_values();
    let script = crate::state::build_prepare_script();
    let done = work.link.run_acting_script(script, SHORT_SCRIPT_LIMIT, &shared.secrets).await.ok()?;
    match done.finished {
        done if done.status == 0 => {
            let (key, mark) = parse_prepared(&String::from_utf8_lossy(&done.stdout));
            work.view.set_digest_key(key);
            mark.as_ref().and_then(HostHold::from_mark)
        }
        done => {
            let printed = summarize_stderr(&done.stderr);
            let hint = find_preparation_hint(&printed);
            let error = host_side_error(format!("`/var/lib/forge` could not be prepared: {printed}"));
            work.link.mark_lost(TransportError { hint, ..error });
            None
        }
    }
}

/// Returns what to do about a state folder that the host's file system does not take.
fn find_preparation_hint(printed: &str) -> Option<String> {
    const HINTS: [(&str, &str); 2] = [
        ("Read-only file system", "the file system is mounted read-only; check the kernel log for I/O errors"),
        ("No space left on device", "free up space on the host"),
    ];
    HINTS.iter().find(|(text, _)| printed.contains(text)).map(|(_, hint)| (*hint).to_owned())
}

/// Splits what `build_prepare_script` prints: the key, and below it the host's clock and the mark of a hold.
fn parse_prepared(printed: &str) -> (String, Option<HoldMark>) {
    let (key, held) = printed.split_once('\n').unwrap_or((printed, ""));
    let mark = held.split_once('\n').map(|(now, text)| HoldMark { text: text.into(), now: now.parse().ok() });
    (key.trim().to_owned(), mark)
}

fn report_locked(host: &HostName, owner: &UntrustedText) -> HostReport {
    let what = if host.is_cluster() { "the cluster" } else { "this host" };
    let reason = format!("{what} is locked by another run: {}", LockOwner::describe_owner(owner).raw());
    let mut report = empty_report(host, HostOutcome::Locked, reason.into());
    report.hint =
        Some("run again when it has finished; the lock of a dead controller expires within two minutes".into());
    report
}

/// Reports that the lock could not be taken because of an error. A target that answers and refuses it is reachable.
fn report_lock_error(host: &HostName, error: &TransportError) -> HostReport {
    let mut report = report_unreachable(host, error);
    if matches!(
        error.kind,
        TransportErrorKind::NotRoot | TransportErrorKind::LockForeign | TransportErrorKind::ApiDenied
    ) {
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
    if let Some((run, _)) = unit.strip_prefix("forge-guard-").and_then(|guard| guard.rsplit_once('-')) {
        return (None, format!("the guard of run {run}, which restores the state before its change"));
    }
    let name = UnitName::parse(unit);
    let found = plan.steps.iter().find_map(|step| Some((&step.id, name.as_ref()?.run_name_for(&step.id)?)));
    match found {
        Some((step, run)) => (Some(step.clone()), format!("`{step}` of run {run}")),
        None => (None, format!("`{unit}`")),
    }
}
