//! Who begins when: canaries first, and nobody new once the failure budget is spent.

use super::cancel::Stop;
use super::event::Event;
use super::run::Run;
use crate::config::Rollout;
use crate::model::{HostName, Verdict};
use crate::plan::{HostPlan, Plan};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use tokio::sync::SemaphorePermit;

/// Returns the hosts that receive all their changes first: the first changing ones, in plan order, before those that
/// cannot get through anyway. Empty when no canary is declared.
pub(super) fn canaries(rollout: &Rollout, plan: &Plan) -> BTreeSet<HostName> {
    let Some(share) = rollout.canary else { return BTreeSet::new() };
    let mut changing: Vec<&HostPlan> = plan.hosts.iter().filter(|h| h.changes()).collect();
    changing.sort_by_key(|host| !gets_through(host));
    changing.iter().take(share.of(plan.hosts.len())).map(|h| h.host.clone()).collect()
}

fn gets_through(host: &HostPlan) -> bool {
    let hindered = |verdict| matches!(verdict, Verdict::Blocked(_) | Verdict::Unknown);
    host.refused.is_none() && !host.steps.iter().any(|step| step.waits_for.is_some() || hindered(step.verdict))
}

/// Why a host does not begin.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Halt {
    Stopped,
    Budget(String),
}

/// Waits for a host's turn and its place in the window. The window counts hosts at work; one that waits for others
/// gives its place away (see `gate`).
///
/// # Errors
/// The host does not begin.
pub(super) async fn turn<'r>(run: &Run<'r>, host: &HostName) -> Result<SemaphorePermit<'r>, Halt> {
    let came = async {
        if !run.canaries.contains(host) {
            run.board.until(|standing| standing.may_follow(run.canaries, host).then_some(())).await;
        }
        run.window.acquire().await.ok()
    };
    let permit = tokio::select! {
        biased;
        () = run.cancel.reached(Stop::Finish) => None,
        permit = came => permit,
    };
    let permit = permit.ok_or(Halt::Stopped)?;
    match spent(run) {
        Some(reason) => Err(Halt::Budget(reason)),
        None => Ok(permit),
    }
}

/// Returns why no new host may begin. A canary that did not get through spends the whole budget.
fn spent(run: &Run<'_>) -> Option<String> {
    let (failed, canary) = run
        .board
        .now(|standing| (standing.failed(), run.canaries.iter().find(|canary| standing.is_unsound(canary)).cloned()));
    let allowed = match run.project.rollout.max_failed {
        _ if canary.is_some() => 0,
        Some(share) => share.of(run.spans.members.len()),
        None => return None,
    };
    if canary.is_none() && failed <= allowed {
        return None;
    }
    if !run.spent.swap(true, Ordering::Relaxed) {
        run.say(Event::BudgetSpent { failed: failed.max(1), allowed });
    }
    Some(match canary {
        Some(canary) => format!("not begun: canary `{canary}` did not get through"),
        None => format!("not begun: {failed} hosts failed, {allowed} are allowed"),
    })
}
