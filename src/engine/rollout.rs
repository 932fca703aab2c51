//! Who begins when: canaries first, and nobody new once the failure budget is spent.

use super::cancel::Stop;
use super::event::Event;
use super::host::{carry_out, not_begun};
use super::link::Link;
use super::report::HostReport;
use super::run::Run;
use crate::config::Rollout;
use crate::model::HostName;
use crate::plan::{HostPlan, HostSeen, Plan};
use std::collections::BTreeSet;

/// Returns the hosts that receive all their changes first: the first changing ones, in plan order. Empty
/// when no canary is declared.
pub(super) fn canaries(rollout: &Rollout, plan: &Plan) -> BTreeSet<HostName> {
    let Some(share) = rollout.canary else { return BTreeSet::new() };
    let changing: Vec<&HostPlan> = plan.hosts.iter().filter(|h| h.changes()).collect();
    changing.iter().take(share.of(changing.len())).map(|h| h.host.clone()).collect()
}

/// Carries out one host when its turn has come. The flag tells that the budget kept it from beginning.
pub(super) async fn in_turn(
    run: &Run<'_>,
    canaries: &BTreeSet<HostName>,
    plan: &HostPlan,
    seen: HostSeen,
    link: Option<Link>,
) -> (HostReport, bool) {
    // A host without changes writes nothing: it need not wait, and others may wait for what it knows.
    if !plan.changes() || canaries.contains(&plan.host) {
        return (carry_out(run, plan, seen, link).await, false);
    }
    tokio::select! {
        () = run.board.until(|standing| standing.gate_open(canaries).then_some(())) => {}
        () = run.cancel.reached(Stop::Finish) => {}
    }
    let allowed = budget(run, canaries);
    if run.board.failed() > allowed {
        run.say(Event::BudgetSpent { failed: run.board.failed(), allowed });
        let reason = format!("not begun: {} hosts failed, {allowed} are allowed", run.board.failed());
        return (not_begun(run, plan, link, &reason).await, true);
    }
    (carry_out(run, plan, seen, link).await, false)
}

/// Returns how many hosts may fail before no new one begins. A failed canary spends the whole budget.
fn budget(run: &Run<'_>, canaries: &BTreeSet<HostName>) -> usize {
    let canary_failed = run.board.now(|standing| canaries.iter().any(|host| standing.has_failed(host)));
    match run.project.rollout.max_failed {
        _ if canary_failed => 0,
        Some(share) => share.of(run.members.len()),
        None => usize::MAX,
    }
}
