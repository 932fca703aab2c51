//! Measures the time, memory and allocations of planning:
//!
//! ```text
//! cargo test --release --test scenarios -- --ignored --nocapture plans_of_many_hosts
//! ```
//!
//! `FORGE_HOSTS` sets the number of hosts. The numbers are kept in `docs/benchmarks.md`.

#![allow(clippy::print_stdout, reason = "a measurement is printed")]

use super::many::{Kind, STEPS, case, observed, project};
use super::{Look, plan_of};
use camino::Utf8Path;
use forge::config::Project;
use forge::plan::Plan;
use serde_json::json;
use std::time::Instant;

const RECIPES: usize = 8;

/// Maximum processor time per host for a release build, summed over all cores. Microseconds. Ten thousand hosts in 2 s
/// on two cores are 400; on a busy machine it may take twice that.
const MOST_US: u64 = 800;

/// Maximum memory for ten thousand hosts, including their observations. MiB.
const MOST_MIB: u64 = 400;

/// A project with the observations of its hosts.
struct Made {
    project: Project,
    look: Look,
}

impl Made {
    fn new(hosts: usize, recipes: usize, kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = project(Utf8Path::from_path(folder.path()).unwrap(), hosts, recipes, kind);
        let look = observed(&project, recipes, kind);
        Self { project, look }
    }

    fn plan(&self) -> Plan {
        plan_of(&self.project, &case(json!({})), &self.look)
    }
}

/// Returns an amount of memory from `/proc/self/status`. MiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Resets the peak of resident memory.
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Returns the processor time of all threads of this process so far. Milliseconds.
fn busy() -> u64 {
    const TICK_MS: u64 = 10;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    (ticks(11) + ticks(12)) * TICK_MS
}

/// Plans once and prints time and memory.
fn measure(hosts: usize, kind: Kind) {
    let made = Made::new(hosts, RECIPES, kind);
    forget_peak();
    let (seen, began, before) = (memory("VmRSS"), Instant::now(), busy());
    let plan = made.plan();
    let (wall, cpu, peak) = (began.elapsed().as_millis(), busy() - before, memory("VmHWM"));
    let counts = plan.count_steps();
    let (steps, name) = (RECIPES * STEPS, format!("{kind:?}").to_lowercase());
    println!(
        "{name:8} {hosts:>6} {steps:>6} {wall:>8} {cpu:>7} {seen:>9} {peak:>9} {:>8} {:>8} {:>8} {:>8}",
        counts.ok, counts.change, counts.unknown, counts.waiting,
    );
    assert_eq!(counts.ok + counts.change + counts.unknown, hosts * steps);
    let most = hosts as u64 * MOST_US / 1000;
    assert!(cfg!(debug_assertions) || cpu <= most, "{cpu} ms of processor time, {most} are allowed");
    assert!(hosts > 10_000 || peak <= MOST_MIB, "{peak} MiB, {MOST_MIB} are allowed");
}

/// Runs each case in its own process: memory that the allocator keeps after one case would count for the next.
fn in_its_own_process(hosts: usize, kind: Kind) {
    let own = std::env::current_exe().unwrap();
    let mut measured = std::process::Command::new(own);
    measured.args(["--ignored", "--nocapture", "--exact", "speed::measure_plans_of_many_hosts"]);
    let output =
        measured.env("FORGE_HOSTS", hosts.to_string()).env("FORGE_CASE", format!("{kind:?}")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines()
        .filter(|line| line.starts_with(&format!("{kind:?}").to_lowercase()))
        .for_each(|line| println!("{line}"));
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "a measurement; prints time and memory"]
fn measure_plans_of_many_hosts() {
    const KINDS: [Kind; 5] = [Kind::Same, Kind::Mixed, Kind::Bare, Kind::Barrier, Kind::Lossy];
    let hosts = std::env::var("FORGE_HOSTS").ok().map_or(10_000, |hosts| hosts.parse().unwrap());
    if let Ok(case) = std::env::var("FORGE_CASE") {
        let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == case).unwrap();
        return measure(hosts, kind);
    }
    println!("case      hosts  steps  wall ms  cpu ms  seen MiB  peak MiB       ok   change  unknown  waiting");
    in_its_own_process(hosts / 10, Kind::Same);
    KINDS.into_iter().for_each(|kind| in_its_own_process(hosts, kind));
}

/// Returns the number of allocations of a plan. They are most of its work, and unlike time they do not depend on the
/// load of the machine.
fn allocations(hosts: usize, kind: Kind) -> u64 {
    let made = Made::new(hosts, RECIPES, kind);
    allocation_counter::measure(|| drop(made.plan())).count_total
}

/// Returns the allocations of one more host, per step. So few hosts are planned on one thread, the one that is
/// measured.
fn allocations_per_step(kind: Kind) -> f64 {
    let (few, more) = (allocations(8, kind), allocations(24, kind));
    (more - few) as f64 / (16 * RECIPES * STEPS) as f64
}

/// The limits are close to the real values, because a distant limit detects nothing. If planning gets cheaper, lower
/// them. A change costs more than a step in its desired state: it holds its typed difference, the texts rendered from
/// it, how it is undone and guarded, and the names of the accounts that it needs.
#[test]
fn allocations_per_step_stay_within_limits() {
    let most = [(Kind::Same, 66), (Kind::Bare, 93), (Kind::Barrier, 97)];
    let found = most.map(|(kind, most)| (kind, most, allocations_per_step(kind)));
    let near = |(_, most, found): &(Kind, i32, f64)| (f64::from(*most) * 0.8..=f64::from(*most)).contains(found);
    assert!(
        found.iter().all(near),
        "(case, limit, found): {found:?}; found must be at most the limit, and at least 80 % of it"
    );
}

/// Returns the processor time of a plan. Milliseconds.
fn cost(made: &Made) -> u64 {
    let before = busy();
    drop(made.plan());
    busy() - before
}

/// Five times as many hosts cost five times as much; with work per pair of hosts it would be 25 times. Other tests and
/// the load of the machine may disturb the measurement: the best of several attempts counts.
#[test]
fn planning_cost_is_linear_in_hosts() {
    let (few, many) = (Made::new(100, 2, Kind::Lossy), Made::new(500, 2, Kind::Lossy));
    let mut best = (u64::MAX, u64::MAX);
    for _ in 0..5 {
        best = (best.0.min(cost(&few)), best.1.min(cost(&many)));
        // The clock ticks every 10 ms.
        if best.1 <= 9 * (best.0 + 10) {
            return;
        }
    }
    panic!("100 hosts take {} ms, 500 take {} ms", best.0, best.1);
}
