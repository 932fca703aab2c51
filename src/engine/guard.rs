//! Settles the guard of a change, and continues over the new session if the change ended the earlier one.

use super::action_script::ExecutedAction;
use super::armed_guard::{ArmedGuard, GuardRestoration};
use super::host_session::{HostLockAttempt, HostSession, host_side_error};
use super::host_work::HostWork;
use crate::transport::TransportError;
use std::time::{Duration, Instant};

/// Interval between attempts to take the lock again.
const RELOCK_PAUSE: Duration = Duration::from_secs(1);
/// How long the host may keep the lock of a connection that was cut: the lease of the lock, and a margin.
const RELOCK_LIMIT: Duration = Duration::from_secs(120);

/// Waits until the change is confirmed over a new session, or the host restored the state before: returns the
/// restoration. If the host does not come back, its connection is lost.
pub(super) async fn settle_guard<'r>(
    work: &mut HostWork<'r>,
    armed: ArmedGuard<'r>,
    acted: &mut [ExecutedAction],
) -> Option<GuardRestoration> {
    match armed.settle().await {
        Ok(settled) => {
            if work.link.is_lost() {
                // The script ran, but its end was not observed: the state decides.
                acted.iter_mut().for_each(|acted| acted.began = true);
            }
            continue_over(work, settled.session).await;
            settled.restored
        }
        Err(error) => {
            work.link.mark_lost(error);
            None
        }
    }
}

/// Continues over the new session if the earlier one is lost; the lock moves to it.
async fn continue_over(work: &mut HostWork<'_>, session: Box<dyn HostSession>) {
    if !work.link.is_lost() {
        return session.close().await;
    }
    work.link.clear_loss();
    let old = work.link.replace_session(session);
    let _ = tokio::time::timeout(Duration::from_secs(5), old.close()).await;
    if let Err(error) = retake_lock(work).await {
        work.link.mark_lost(error);
    }
}

/// Takes the lock again. The host releases that of the cut connection when its lease ends.
async fn retake_lock(work: &mut HostWork<'_>) -> Result<(), TransportError> {
    let owner = work.run.options.build_lock_owner(work.run.options.verb_name(), work.run.project);
    let began = Instant::now();
    loop {
        let held = match work.link.take_lock(&owner).await? {
            HostLockAttempt::Ours => return Ok(()),
            HostLockAttempt::Held(other) => format!("another run holds the lock: {}", other.raw()),
            HostLockAttempt::Busy(_) => "a job of this run is still active".to_owned(),
        };
        if began.elapsed() >= RELOCK_LIMIT {
            return Err(host_side_error(format!("after the change, {held}")));
        }
        tokio::time::sleep(RELOCK_PAUSE).await;
    }
}
