//! `forge resume`: a run whose controller was killed and that did not reach a host is finished, also from another machine.

use crate::support::{Fleet, JournalWatch, Node, Output, Project};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

/// Every change adds a line to a file that forge does not know: the witness of how often it was made.
const RECIPE: &str = "
recipe: count
summary: Two changes that leave a trace
steps:
  - name: first
    command: { check: test -e /srv/first, apply: 'echo first >> /srv/witness; touch /srv/first' }
  - name: second
    command: { check: test -e /srv/second, apply: 'touch /srv/begun; test -e /srv/quick || { until test -e /srv/go; do sleep 0.2; done; sleep 3; }; echo second >> /srv/witness; touch /srv/second' }
";
const APPLY: &str = "apply:\n  - { recipe: count, on: all }\n";

/// Builds a project that needs three seconds to give up on a silent host.
fn build_project(nodes: &[Node]) -> Project {
    let project = Project::new(nodes).recipe("count", RECIPE).inventory(APPLY);
    let text = fs_err::read_to_string(project.path("inventory.yaml")).expect("the inventory");
    project.file("inventory.yaml", &text.replacen("connect: {", "connect: { timeout: 3s,", 1))
}

fn expect_converged(nodes: &[Node], project: &Project) {
    for node in nodes {
        assert_eq!(node.must("cat /srv/witness"), "first\nsecond", "{}: not each change once", node.name);
    }
    let after = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(after.code, 0, "{after}");
}

/// Kills an apply in the middle: the first host is done, the second and third work, the last one is unreachable.
fn kill_apply(nodes: &[Node], project: &Project) {
    for node in nodes {
        node.must("mkdir -p /srv");
    }
    nodes[0].must("touch /srv/quick");
    nodes[3].link(false);
    let watch = JournalWatch::new(project.path("state"));
    let mut child = project.begin();
    nodes[0].until_exists("/srv/second");
    nodes[1].until_exists("/srv/begun");
    nodes[2].until_exists("/srv/begun");
    watch.until(&["host_finished", &nodes[0].name]);
    child.kill();
    nodes[3].link(true);
    // The scripts that run go on for a moment after the kill.
    for node in nodes {
        node.must("touch /srv/go");
    }
}

#[test]
fn killed_run_is_resumed_on_its_unfinished_hosts() {
    let Some(nodes) = Fleet::take(4) else { return };
    let project = build_project(&nodes);
    kill_apply(&nodes, &project);
    let shown = project.forge(["show", "last"]);
    let in_flight: Vec<&str> =
        shown.stdout.lines().filter(|line| line.contains("count/second since 20")).map(str::trim).collect();
    let working = |line: &&&str| nodes[1..3].iter().any(|node| line.starts_with(&node.name));
    assert_eq!((in_flight.len(), in_flight.iter().filter(working).count()), (2, 2), "{shown}");
    let planned = project.forge(["resume", "--dry-run"]);
    assert_eq!(planned.code, 0, "{planned}");
    let resumed: Output = project.forge(["resume", "--yes"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    assert!(resumed.stderr.contains("3 of 4 hosts unfinished"), "{resumed}");
    assert!(!resumed.stdout.contains(&nodes[0].name), "the finished host is planned again: {resumed}");
    expect_converged(&nodes, &project);
    let again = project.forge(["resume", "--yes"]);
    assert!(again.code == 0 && again.stderr.contains("nothing to resume"), "{again}");
}

#[test]
fn killed_run_is_resumed_from_another_machine() {
    let Some(nodes) = Fleet::take(4) else { return };
    kill_apply(&nodes, &build_project(&nodes));
    // Another folder is another machine: it has no history.
    let other = build_project(&nodes);
    let resumed = other.forge(["resume", "--yes"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    assert!(resumed.stderr.contains("no such run in its history"), "{resumed}");
    expect_converged(&nodes, &other);
}

#[test]
fn resume_uses_the_saved_plan_of_the_run_while_it_holds() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = build_project(&nodes);
    let text = fs_err::read_to_string(project.path("inventory.yaml")).expect("the inventory");
    let project = project.file("inventory.yaml", &format!("{text}rollout: {{ canary: 1 }}\n"));
    for node in nodes.iter() {
        node.must("mkdir -p /srv; touch /srv/quick");
    }
    project.forge(["plan", "inventory.yaml", "-o", "plan.json"]).must_exit(0);
    nodes[1].link(false);
    let applied = project.forge(["apply", "plan.json", "--yes"]);
    assert_eq!(applied.code, 4, "{applied}");
    // The canary is finished: it is not needed any more.
    nodes[0].link(false);
    nodes[1].link(true);
    let resumed = project.forge(["resume", "--yes"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    assert!(!resumed.stderr.contains("making a new plan"), "{resumed}");
    assert!(!resumed.stdout.contains(&nodes[0].name), "the finished host is in the plan: {resumed}");
    let named = project.forge(["resume", "--yes", "--on", &nodes[0].name]);
    nodes[0].link(true);
    assert!(named.code == 0 && named.stderr.contains("nothing to resume"), "{named}");
    expect_converged(&nodes, &project);
}

#[test]
fn resume_makes_a_new_plan_if_the_saved_one_does_not_hold() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = build_project(&nodes);
    for node in nodes.iter() {
        node.must("mkdir -p /srv; touch /srv/quick");
    }
    project.forge(["plan", "inventory.yaml", "-o", "plan.json"]).must_exit(0);
    nodes[1].link(false);
    project.forge(["apply", "plan.json", "--yes"]).must_exit(4);
    nodes[1].link(true);
    let project = project.recipe("count", &RECIPE.replace("echo first ", "echo other "));
    let resumed = project.forge(["resume", "--yes"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    assert!(resumed.stderr.contains("making a new plan"), "{resumed}");
    assert_eq!(nodes[0].must("cat /srv/witness"), "first\nsecond");
    assert_eq!(nodes[1].must("cat /srv/witness"), "other\nsecond");
}

/// Runs `forge runs --watch`, and lets the step on the node end once that has shown its first line.
fn watch_run(project: &Project, node: &Node) -> Output {
    let mut command = project.command(["runs", "inventory.yaml", "--watch"]);
    let mut watcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("forge starts");
    let mut told = BufReader::new(watcher.stderr.take().expect("its messages"));
    let mut stderr = String::new();
    told.read_line(&mut stderr).expect("a line");
    node.must("touch /srv/go");
    told.read_to_string(&mut stderr).expect("text");
    let out = watcher.wait_with_output().expect("it ends");
    Output { stdout: String::from_utf8_lossy(&out.stdout).into_owned(), stderr, code: out.status.code().unwrap_or(-1) }
}

/// What `runs --watch` prints is compared with what the hosts do.
#[test]
fn run_in_progress_is_watched_until_it_ends() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = build_project(&nodes);
    nodes[0].must("mkdir -p /srv");
    let mut child = project.begin();
    nodes[0].until_exists("/srv/begun");
    let refused = project.forge(["resume", "--yes"]);
    assert!(refused.code == 64 && refused.stderr.contains("still in progress"), "{refused}");
    let watched = watch_run(&project, &nodes[0]);
    assert!(nodes[0].exists("/srv/second"), "it ended before the run: {watched}");
    assert!(child.wait().success());
    assert_eq!(watched.code, 0, "{watched}");
    assert!(watched.stderr.contains(&format!("{} changed count/second", nodes[0].name)), "{watched}");
    assert!(watched.stdout.contains("exit code 0") || watched.stdout.contains("applied:"), "{watched}");
    let idle = project.forge(["runs", "inventory.yaml", "--watch"]);
    assert!(idle.code == 0 && idle.stderr.contains("no run is in progress"), "{idle}");
}
