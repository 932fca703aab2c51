//! The start of hosts: canaries first, and no further host once the failure budget is used up.

use super::cancel::StopLevel;
use super::event::Event;
use super::report::HeldBackBy;
use super::run_context::ApplyContext;
use crate::model::HostName;
use std::sync::atomic::Ordering;
use tokio::sync::SemaphorePermit;

/// Why a host does not start.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HostStartRefusal {
    Stopped,
    Budget(String),
    /// A canary waits for its window, so its change is not proven: the next run goes on.
    Held(String),
}

/// Waits for a host's turn and its place in the window. The window counts active hosts; one that waits for others gives
/// up its place (see `gate`).
///
/// # Errors
/// The host does not start.
pub(super) async fn await_host_start<'r>(
    run: &ApplyContext<'r>,
    host: &HostName,
) -> Result<SemaphorePermit<'r>, HostStartRefusal> {
    let came = async {
        // The cluster starts at once: its dependencies in both directions are reported step by step.
        if !run.canaries.contains(host) && !host.is_cluster() {
            run.board.wait_until(|standing| standing.may_start_after_canaries(run.canaries, host).then_some(())).await;
        }
        run.window.acquire().await.ok()
    };
    let permit = tokio::select! {
        biased;
        () = run.cancel.wait_for_level(StopLevel::Finish) => None,
        permit = came => permit,
    };
    let permit = permit.ok_or(HostStartRefusal::Stopped)?;
    let is_behind = !run.canaries.contains(host) && !host.is_cluster();
    if is_behind && let Some((canary, by)) = find_held_canary(run, host) {
        return Err(HostStartRefusal::Held(describe_held_canary(&canary, by)));
    }
    // A worker's run knows no canaries: its coordinator does.
    if let Some(why) = run.options.worker.as_ref().and_then(|worker| worker.start.find_hold(host)) {
        return Err(HostStartRefusal::Held(why));
    }
    match check_failure_budget(run, host) {
        Some(reason) => Err(HostStartRefusal::Budget(reason)),
        None => Ok(permit),
    }
}

/// Returns a canary other than `host` that is held back: its change is not proven, even if the hours begin while the run
/// goes on.
pub(super) fn find_held_canary(run: &ApplyContext<'_>, host: &HostName) -> Option<(HostName, HeldBackBy)> {
    let mut others = run.canaries.iter().filter(|canary| *canary != host);
    run.board.read_data(|data| others.find_map(|canary| Some((canary.clone(), data.find_held_back(canary)?))))
}

pub(super) fn describe_held_canary(canary: &HostName, by: HeldBackBy) -> String {
    match by {
        HeldBackBy::Hours => format!("the hours held back the window of canary `{canary}`"),
        HeldBackBy::Hold => format!("canary `{canary}` was put on hold"),
    }
}

/// Returns why `host` may not start, or go out of service. The hosts of other workers count too. A step that is blocked or
/// unknown on a canary holds back the other hosts, and on the canary itself only the steps that need it.
pub(super) fn check_failure_budget(run: &ApplyContext<'_>, host: &HostName) -> Option<String> {
    let (failed, canary) = run.board.read_data(|standing| {
        let is_held_by = |canary: &&HostName| *canary != host || standing.has_failed(canary);
        let mut others = run.canaries.iter().filter(is_held_by);
        (standing.count_failed(), others.find(|canary| standing.is_unsound(canary)).cloned())
    });
    let worker = run.options.worker.as_deref();
    if let Some(order) = worker.and_then(|worker| worker.start.refusal()) {
        run.spent.store(true, Ordering::Relaxed);
        return Some(order.to_owned());
    }
    let elsewhere = worker.map_or(0, |worker| worker.failed);
    let refusal = run.rollout.refuse_start(failed + elsewhere, canary.as_ref())?;
    if !run.spent.swap(true, Ordering::Relaxed) {
        run.emit_event(Event::BudgetSpent { failed: refusal.failed, allowed: refusal.allowed, canary: refusal.canary });
    }
    Some(refusal.reason)
}

/// Records that hosts are skipped because too many are out of service.
pub(super) fn stop_new_windows(run: &ApplyContext<'_>, why: &str) {
    tracing::debug!(why, "no more windows");
    run.spent.store(true, Ordering::Relaxed);
}
