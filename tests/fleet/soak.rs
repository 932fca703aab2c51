//! Repeated drift runs on unchanged hosts: no findings, nothing written, close to the floor.
//!
//! The short form is 5 runs over 3 hosts. The long form runs over all hosts of the fleet:
//! `FORGE_SOAK=100 FORGE_FLEET_SIZE=20 cargo test --test fleet soak:: -- --nocapture`.

use crate::speed::{floor, restore_key_exchange};
use crate::support::{Fleet, Node, Project};
use std::time::{Duration, Instant};

/// Files that a login itself writes; `tests/fleet/snapshot` skips them.
const LOGIN: &str = "/var/lib/sudo, /var/log/lastlog, /var/log/wtmp, /var/log/btmp";

fn variable(name: &str, other: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn repeated_drift_runs_find_and_write_nothing() {
    let (runs, size) = (variable("FORGE_SOAK", 5), variable("FORGE_FLEET_SIZE", 20));
    let hosts = if runs > 5 { size } else { size.min(3) };
    let Some(nodes) = Fleet::take(hosts) else { return };
    let Some(fleet) = Fleet::require() else { return };
    let recipe = include_str!("recipes/twenty.yaml");
    let project = Project::new(&nodes).recipe("twenty", recipe).inventory("apply:\n  - { recipe: twenty, on: all }\n");
    let applied = project.forge(["apply", "inventory.yaml", "--yes", "--quiet"]);
    assert_eq!(applied.code, 0, "{applied}");
    restore_key_exchange(&nodes);
    nodes.iter().for_each(Node::settled);
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let before: Vec<String> = nodes.iter().map(|node| node.snapshot()).collect();
    let (mut floors, mut times) = (Vec::new(), Vec::new());
    for run in 1..=runs {
        floors.push(floor(fleet, &names));
        let began = Instant::now();
        let out = project.forge(["drift", "inventory.yaml"]);
        times.push(began.elapsed());
        assert_eq!(out.code, 0, "run {run}: {out}");
        assert_eq!(out.stdout.lines().count(), 1, "run {run}: {out}");
    }
    for (node, before) in nodes.iter().zip(before) {
        assert_eq!(node.snapshot(), before, "{}: something was written", node.name);
    }
    let (floor, time) = (median(floors), median(times));
    let ratio = time.as_secs_f64() / floor.as_secs_f64();
    println!("{runs} runs over {hosts} hosts: no drift; nothing written except by logins ({LOGIN})");
    println!("floor {floor:.2?}, drift {time:.2?}, ratio {ratio:.2}");
    let listed = project.forge(["drift", "inventory.yaml", "--history"]);
    assert!(listed.stdout.contains(&format!("history: {runs} runs ({runs} without drift)")), "{listed}");
}
