//! `plan` on twenty hosts stays close to the floor: the time of `ssh HOST true` to all of them in the same minute.

use crate::support::{Fleet, Node, Project, limited};
use std::process::Stdio;
use std::time::{Duration, Instant};

const NODES: usize = 20;
/// Other stages of the tests use the same processors: the fastest of a few runs may not be free of them.
const RUNS: usize = 10;
const MOST_RATIO: f64 = 2.0;

pub fn floor(fleet: &Fleet, names: &[String]) -> Duration {
    let began = Instant::now();
    let children: Vec<_> = names
        .iter()
        .map(|name| {
            limited("ssh")
                .arg("-F")
                .arg(&fleet.ssh_config)
                .args(["-o", "BatchMode=yes", name, "true"])
                .stdin(Stdio::null())
                .spawn()
                .expect("ssh starts")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("ssh ends").success());
    }
    began.elapsed()
}

/// Restores the default key exchange of Debian's sshd: it is most of the cost of a connection to a real host.
pub fn restore_key_exchange(nodes: &[Node]) {
    nodes.iter().for_each(|node| _ = node.must("rm /etc/ssh/sshd_config.d/quick.conf && systemctl reload ssh"));
}

#[test]
fn plan_of_20_hosts_takes_at_most_twice_the_ssh_floor() {
    let size = std::env::var("FORGE_FLEET_SIZE").ok().and_then(|s| s.parse::<usize>().ok()).unwrap_or(NODES);
    if size < NODES {
        eprintln!("skipped: the fleet has {size} nodes, {NODES} are needed; set FORGE_FLEET_SIZE={NODES}");
        return;
    }
    let Some(nodes) = Fleet::take(NODES) else { return };
    let Some(fleet) = Fleet::require() else { return };
    let recipe = include_str!("recipes/twenty.yaml");
    let project = Project::new(&nodes).recipe("twenty", recipe).inventory("apply:\n  - { recipe: twenty, on: all }\n");
    let first = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(first.code, 0, "{first}");
    restore_key_exchange(&nodes);
    nodes.iter().for_each(Node::settled);
    let names: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
    // Load only adds to both times: the fastest runs are compared.
    let (mut floor_time, mut plan_time) = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        floor_time = floor_time.min(floor(fleet, &names));
        let began = Instant::now();
        let out = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        plan_time = plan_time.min(began.elapsed());
        assert_eq!(out.code, 0, "{out}");
    }
    let ratio = plan_time.as_secs_f64() / floor_time.as_secs_f64();
    println!("floor {floor_time:.2?}, plan {plan_time:.2?}, ratio {ratio:.2}");
    assert!(ratio <= MOST_RATIO, "plan {plan_time:.2?} is {ratio:.2} × the floor {floor_time:.2?}");
}

/// Counts the processes that are started on a host: what a login costs, a plan with nothing to do, a first apply.
#[test]
fn host_starts_few_processes() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = include_str!("recipes/twenty.yaml");
    let project = Project::new(&nodes).recipe("twenty", recipe).inventory("apply:\n  - { recipe: twenty, on: all }\n");
    node.settled();
    // The last number that the kernel gave to a process of the node; reading it takes processes itself.
    let last = || node.must("cut -d' ' -f5 /proc/loadavg").parse::<u64>().expect("a number");
    let reading = (0..5).map(|_| last()).collect::<Vec<_>>().windows(2).map(|two| two[1] - two[0]).min().unwrap_or(0);
    let count = |act: &dyn Fn()| {
        let before = last();
        act();
        (last() - before).saturating_sub(reading)
    };
    let first = count(&|| assert_eq!(project.forge(["apply", "inventory.yaml", "--yes"]).code, 0));
    let fewest = |act: &dyn Fn()| (0..5).map(|_| count(act)).min().unwrap_or(0);
    let plan = fewest(&|| assert_eq!(project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]).code, 0));
    let Some(fleet) = Fleet::require() else { return };
    let login = fewest(&|| _ = floor(fleet, std::slice::from_ref(&node.name)));
    println!("processes on a host: login {login}, plan {plan}, first apply {first}");
    // Measured: 30 and 297. Whoever starts fewer lowers the limits.
    assert!(plan <= 32, "a plan starts {plan} processes on a host");
    assert!(first <= 305, "a first apply starts {first} processes on a host");
}
