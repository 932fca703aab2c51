//! Tests of the state that hosts share.

use super::*;

#[tokio::test]
async fn barrier_counts_hosts_that_finish_without_reaching_it() {
    let board = Arc::new(SharedRunState::new(SharedValues::default(), RolloutPlan::default()));
    let (a, b) = (HostName::new("a"), HostName::new("b"));
    let step = StepIndex(0);
    let waiter = tokio::spawn({
        let (board, hosts) = (board.clone(), [a.clone(), b.clone()]);
        async move { board.wait_until(|s| s.have_all_reached(step, &hosts, StepPhase::Effective)).await }
    });
    board.record_phase(step, &a, ReachedPhase::Effective);
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    board.finish_host(&b, HostOutcome::Failed);
    assert_eq!(waiter.await.unwrap(), vec![(a, true), (b, false)]);
}

#[test]
fn step_phase_is_the_lowest_of_its_instances() {
    let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
    let host = HostName::new("a");
    board.record_phase(StepIndex(1), &host, ReachedPhase::Effective);
    board.record_phase(StepIndex(1), &host, ReachedPhase::Nothing);
    board.record_phase(StepIndex(1), &host, ReachedPhase::Effective);
    assert_eq!(board.with_data(|s| s.reached_phase(StepIndex(1), &host)), Some(ReachedPhase::Nothing));
}

#[test]
fn verified_phase_is_undecided_until_verification_runs() {
    let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
    let (step, host) = (StepIndex(0), HostName::new("a"));
    let got_to = |phase| board.read_data(|s| s.has_reached(step, &host, phase));
    board.record_phase(step, &host, ReachedPhase::Effective);
    assert_eq!((got_to(StepPhase::Effective), got_to(StepPhase::Verified)), (Some(true), None));
    board.record_verification([step], &host, Some("`x` does not hold"));
    assert_eq!(got_to(StepPhase::Verified), Some(false));
    assert_eq!(
        board.read_data(|s| s.verification_failure(step, &host).map(str::to_owned)).as_deref(),
        Some("`x` does not hold")
    );
    board.record_verification([step], &host, None);
    assert_eq!(got_to(StepPhase::Verified), Some(true));
}

#[test]
fn canary_lets_only_its_awaited_hosts_start() {
    let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
    let [a, b, c, d] = ["a", "b", "c", "d"].map(HostName::new);
    let canaries = BTreeSet::from([a.clone()]);
    let may = || [&b, &c, &d].map(|host| board.read_data(|s| s.may_start_after_canaries(&canaries, host)));
    assert_eq!(may(), [false; 3]);
    board.set_waiting(&a, std::slice::from_ref(&b));
    assert_eq!(may(), [true, false, false]);
    board.set_waiting(&b, std::slice::from_ref(&c));
    assert_eq!(may(), [true, true, false], "also indirectly");
    board.finish_host(&b, HostOutcome::Ok);
    assert_eq!(may(), [false; 3]);
    board.finish_host(&a, HostOutcome::Changed);
    assert_eq!(may(), [true; 3]);
}

#[test]
fn blocked_hosts_spend_no_failure_budget_but_fail_as_canaries() {
    let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
    let outcomes = [HostOutcome::Failed, HostOutcome::Blocked, HostOutcome::Unreachable, HostOutcome::Changed];
    let hosts: Vec<HostName> = outcomes.iter().map(|o| HostName::new(format!("{o:?}"))).collect();
    hosts.iter().zip(outcomes).for_each(|(host, outcome)| board.finish_host(host, outcome));
    assert_eq!(board.read_data(RunStateData::count_failed), 1);
    board.mark_lost(&hosts[2], false);
    assert_eq!(board.read_data(RunStateData::count_failed), 1, "lost before its first change");
    board.mark_lost(&hosts[2], true);
    assert_eq!(board.read_data(RunStateData::count_failed), 2, "lost after it");
    assert_eq!(
        board.read_data(|s| hosts.iter().map(|h| s.is_unsound(h)).collect::<Vec<_>>()),
        [true, true, true, false]
    );
}
