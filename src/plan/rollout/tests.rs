//! Simulates whole rollouts without hosts: sizes × budgets × outcomes.

use super::waves::build_waves;
use super::{QuorumGroup, RolloutPlan, RolloutProgress, WindowDecision, WindowWaiters};
use crate::model::HostName;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of a host in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostFate {
    /// It returns to service.
    Sound,
    /// It goes out of service and stays there.
    Lost,
    /// Its devices are in use: the host is not changed.
    Busy,
}

fn name(at: usize) -> HostName {
    HostName::new(format!("n{at}"))
}

fn names(count: usize) -> Vec<HostName> {
    (0..count).map(name).collect()
}

fn rollout(hosts: usize, canaries: usize, most: usize, silent: usize, quorum: &[&[usize]]) -> RolloutPlan {
    let windows = names(hosts);
    let canaries: Vec<HostName> = names(canaries.min(hosts));
    let unavailable: Vec<HostName> = (0..silent).map(|at| HostName::new(format!("silent{at}"))).collect();
    let group = |(at, hosts): (usize, &&[usize])| QuorumGroup {
        group: format!("q{at}"),
        hosts: hosts.iter().map(|at| name(*at)).collect(),
    };
    let quorum: Vec<QuorumGroup> = quorum.iter().enumerate().map(group).collect();
    let room = most.saturating_sub(unavailable.len());
    RolloutPlan {
        waves: build_waves(&windows, &canaries.iter().cloned().collect(), room, &quorum),
        canaries,
        max_unavailable: most,
        unavailable,
        quorum,
        ..RolloutPlan::default()
    }
}

/// The result of a rollout: which hosts began in which order, how many were out of service at most, which never began
/// and why.
#[derive(Debug, Default)]
struct Played {
    began: Vec<HostName>,
    most: usize,
    never: BTreeMap<HostName, String>,
    /// Pairs of hosts whose windows were open at the same time.
    together: BTreeSet<(HostName, HostName)>,
    /// Whether a host began before all hosts of the earlier waves were done.
    overtook: bool,
}

/// Simulates a rollout: every host that may begin does, then one host with an open window (the `pick`th) leaves it.
fn play(plan: &RolloutPlan, fates: &dyn Fn(&HostName) -> HostFate, pick: usize) -> Played {
    let mut played = Played::default();
    let mut progress = RolloutProgress::default();
    let mut open: Vec<HostName> = plan.waves.iter().flatten().cloned().collect();
    for _ in 0..open.len() * 4 + 4 {
        let mut waiting = Vec::new();
        for host in std::mem::take(&mut open) {
            progress.count_finished_waves(plan);
            match turn(plan, &host, &progress) {
                WindowDecision::Go => begin(plan, host, fates, &mut progress, &mut played),
                WindowDecision::Wait => waiting.push(host),
                WindowDecision::Never(why) => {
                    progress.past.insert(host.clone());
                    played.never.insert(host, why);
                }
            }
            played.most = played.most.max(out(plan, &progress));
        }
        open = waiting;
        let Some(host) = progress.inside.iter().nth(pick % progress.inside.len().max(1)).cloned() else {
            if open.is_empty() {
                return played;
            }
            continue;
        };
        progress.inside.remove(&host);
        progress.past.insert(host.clone());
        if fates(&host) == HostFate::Lost {
            progress.down.insert(host);
        }
    }
    panic!("{open:?} wait forever: {plan:?} {progress:?}");
}

fn turn(plan: &RolloutPlan, host: &HostName, progress: &RolloutProgress) -> WindowDecision {
    plan.admit_host(host, plan.find_wave(host).unwrap(), progress, WindowWaiters::default)
}

fn begin(
    plan: &RolloutPlan,
    host: HostName,
    fates: &dyn Fn(&HostName) -> HostFate,
    progress: &mut RolloutProgress,
    played: &mut Played,
) {
    let own = plan.find_wave(&host).unwrap();
    played.overtook |= plan.waves[..own].iter().flatten().any(|other| !progress.past.contains(other));
    played.began.push(host.clone());
    if fates(&host) == HostFate::Busy {
        progress.past.insert(host);
        return;
    }
    played.together.extend(progress.inside.iter().map(|other| (other.clone(), host.clone())));
    progress.inside.insert(host);
}

fn out(plan: &RolloutPlan, progress: &RolloutProgress) -> usize {
    plan.unavailable.len() + progress.inside.len() + progress.down.len()
}

/// One row: hosts, canaries, budget, unreachable hosts; the lost hosts and the busy hosts; then the sizes of the waves,
/// the number of hosts that begin, and the number that never do.
type RolloutRow = (usize, usize, usize, usize, &'static [usize], &'static [usize], &'static [usize], usize, usize);

const TABLE: &[RolloutRow] = &[
    // No hosts.
    (0, 0, 1, 0, &[], &[], &[], 0, 0),
    // One host.
    (1, 0, 1, 0, &[], &[], &[1], 1, 0),
    (1, 1, 1, 0, &[0], &[], &[1], 1, 0),
    // The budget is larger than the cluster.
    (3, 0, 9, 0, &[], &[], &[3], 3, 0),
    (3, 1, 9, 0, &[], &[], &[1, 2], 3, 0),
    // One at a time.
    (4, 0, 1, 0, &[], &[], &[1, 1, 1, 1], 4, 0),
    (4, 0, 1, 0, &[0], &[], &[1, 1, 1, 1], 1, 3),
    (4, 0, 1, 0, &[2], &[], &[1, 1, 1, 1], 3, 1),
    (4, 0, 1, 0, &[], &[0, 1, 2, 3], &[1, 1, 1, 1], 4, 0),
    // In pairs.
    (5, 0, 2, 0, &[], &[], &[2, 2, 1], 5, 0),
    (5, 1, 2, 0, &[], &[], &[1, 2, 2], 5, 0),
    (5, 0, 2, 0, &[0], &[], &[2, 2, 1], 5, 0),
    (5, 0, 2, 0, &[0, 1], &[], &[2, 2, 1], 2, 3),
    (5, 0, 2, 0, &[0, 3], &[], &[2, 2, 1], 4, 1),
    (5, 0, 2, 0, &[4], &[], &[2, 2, 1], 5, 0),
    // More canaries than may be out of service.
    (5, 3, 2, 0, &[], &[], &[2, 1, 2], 5, 0),
    // Unreachable hosts use up the budget.
    (4, 0, 2, 1, &[], &[], &[1, 1, 1, 1], 4, 0),
    (4, 0, 2, 1, &[1], &[], &[1, 1, 1, 1], 2, 2),
    (4, 0, 2, 2, &[], &[], &[1, 1, 1, 1], 0, 4),
    (4, 1, 2, 3, &[], &[], &[1, 1, 1, 1], 0, 4),
    // No host may be out of service.
    (2, 0, 0, 0, &[], &[], &[1, 1], 0, 2),
];

#[test]
fn rollout_table_gives_wave_sizes_and_started_hosts() {
    for (hosts, canaries, most, silent, lost, busy, sizes, begin, never) in TABLE {
        let plan = rollout(*hosts, *canaries, *most, *silent, &[]);
        let fate = |host: &HostName| match host.as_str()[1..].parse().unwrap() {
            at if lost.contains(&at) => HostFate::Lost,
            at if busy.contains(&at) => HostFate::Busy,
            _ => HostFate::Sound,
        };
        let row = format!(
            "{hosts} hosts, {canaries} canaries, {most} at once, {silent} silent, {lost:?} lost, {busy:?} busy"
        );
        assert_eq!(plan.waves.iter().map(Vec::len).collect::<Vec<_>>(), *sizes, "{row}");
        let played = play(&plan, &fate, 0);
        assert_eq!((played.began.len(), played.never.len()), (*begin, *never), "{row}: {played:?}");
        assert!(played.most <= (*most).max(*silent) && !played.overtook, "{row}: {played:?}");
    }
}

#[test]
fn host_that_never_starts_gets_a_reason() {
    let plan = rollout(3, 0, 1, 0, &[]);
    let played = play(&plan, &|host| if host.as_str() == "n0" { HostFate::Lost } else { HostFate::Sound }, 0);
    let why = "`max_unavailable` (1) is used up by n0";
    assert_eq!(played.never.values().map(String::as_str).collect::<Vec<_>>(), [why, why]);
    let plan = rollout(3, 0, 2, 0, &[&[0, 2]]);
    let played = play(&plan, &|host| if host.as_str() == "n0" { HostFate::Lost } else { HostFate::Sound }, 0);
    assert_eq!(played.never[&name(2)], "`n0` of the quorum `q0` is out of service");
    assert!(played.began.contains(&name(1)));
}

#[test]
fn quorum_hosts_are_spread_over_waves() {
    let plan = rollout(6, 0, 3, 0, &[&[0, 1, 2]]);
    let shown: Vec<Vec<&str>> = plan.waves.iter().map(|wave| wave.iter().map(HostName::as_str).collect()).collect();
    assert_eq!(shown, [vec!["n0", "n3", "n4"], vec!["n1", "n5"], vec!["n2"]]);
}

/// A host that an earlier run left out of service counts against the budget of all others, but may be brought back.
#[test]
fn host_already_out_of_service_may_start() {
    let mut plan = rollout(3, 0, 1, 0, &[]);
    plan.unavailable = vec![name(0)];
    let progress = RolloutProgress::default();
    assert_eq!(turn(&plan, &name(0), &progress), WindowDecision::Go);
    let why = "`max_unavailable` (1) is used up by n0";
    assert_eq!(turn(&plan, &name(1), &progress), WindowDecision::Never(why.to_owned()));
    let mut plan = rollout(3, 0, 2, 0, &[&[0, 1]]);
    plan.unavailable = vec![name(0)];
    let why = "`n0` of the quorum `q0` is out of service";
    assert_eq!(turn(&plan, &name(1), &progress), WindowDecision::Never(why.to_owned()));
}

/// A host that is busy for hours does not delay the others, and follows once it is free.
#[test]
fn busy_host_does_not_delay_others() {
    let plan = rollout(3, 0, 1, 0, &[]);
    let mut progress = RolloutProgress::default();
    progress.busy.insert(name(0));
    progress.count_finished_waves(&plan);
    assert_eq!([1, 2].map(|at| turn(&plan, &name(at), &progress)), [WindowDecision::Go, WindowDecision::Wait]);
    progress.busy.remove(&name(0));
    progress.past.extend([name(1), name(2)]);
    progress.count_finished_waves(&plan);
    assert_eq!(turn(&plan, &name(0), &progress), WindowDecision::Go);
}

/// A host that a host with an open window waits for skips the queue. If the budget has no room for it, no host waits
/// forever.
#[test]
fn awaited_host_skips_the_queue_or_is_refused() {
    let plan = rollout(3, 0, 2, 0, &[]);
    assert_eq!(plan.waves.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    let mut progress = RolloutProgress { inside: BTreeSet::from([name(0)]), ..RolloutProgress::default() };
    let last = |progress: &RolloutProgress, wanted, stuck| {
        plan.admit_host(&name(2), 1, progress, || WindowWaiters { wanted, stuck })
    };
    assert_eq!((last(&progress, false, true), last(&progress, true, true)), (WindowDecision::Wait, WindowDecision::Go));
    progress.inside.insert(name(1));
    let why = "hosts inside their windows wait for this one, but `max_unavailable` (2) leaves no room for it";
    assert_eq!(last(&progress, true, true), WindowDecision::Never(why.to_owned()));
    assert_eq!(last(&progress, true, false), WindowDecision::Wait, "a host inside its window still makes progress");
}

proptest! {
    /// Whatever the outcomes of the hosts: never more than the budget at once, canaries first, every host once, no two
    /// of a quorum together, and no host waits forever.
    #[test]
    fn rollout_respects_budget_canaries_and_quorum(
        hosts in 0usize..24,
        canaries in 0usize..4,
        most in 0usize..9,
        silent in 0usize..3,
        quorum in proptest::collection::vec(0usize..24, 0..6),
        fates in proptest::collection::vec(0u8..6, 24),
        pick in 0usize..7,
    ) {
        let plan = rollout(hosts, canaries, most, silent, &[&quorum]);
        let fate = |host: &HostName| match fates[host.as_str()[1..].parse::<usize>().unwrap()] {
            0 => HostFate::Lost,
            1 => HostFate::Busy,
            _ => HostFate::Sound,
        };
        let room = most.saturating_sub(silent).max(1);
        prop_assert!(plan.waves.iter().all(|wave| !wave.is_empty() && wave.len() <= room));
        let mut all: Vec<&HostName> = plan.waves.iter().flatten().collect();
        prop_assert_eq!(all.len(), hosts);
        all.sort();
        all.dedup();
        prop_assert_eq!(all.len(), hosts, "every host once");

        let played = play(&plan, &fate, pick);
        prop_assert_eq!(played.began.len() + played.never.len(), hosts);
        prop_assert!(played.most <= most.max(silent), "{} out of service", played.most);
        prop_assert!(!played.overtook);
        let group = &plan.quorum[0].hosts;
        prop_assert!(played.together.iter().all(|(a, b)| !(group.contains(a) && group.contains(b))));
        let first = played.began.iter().take_while(|host| plan.canaries.contains(host)).count();
        let canaries_begun = played.began.iter().filter(|host| plan.canaries.contains(host)).count();
        prop_assert_eq!(first, canaries_begun, "canaries first");
    }
}
