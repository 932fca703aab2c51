//! `forge test --drain` against a real API: nodes are out of service while their hosts are measured, and back
//! afterwards, also after a stop, a failed measurement and a kill.

use super::drain::{Kubelet, inspect_node, join, pods_of, run};
use super::support::Cluster;
use crate::running_forge::RunningForge;
use crate::support::{Fleet, Node, Output, Project};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Writes when it began, and takes a while.
const PROBE: &str = "test: probe
scope: host
output: number
limit: 60s
parameters: { pause: 1 }
command: [sh, -c, 'date +%s%N >/run/began; sleep \"$1\"; date +%s%N >/run/ended; echo 7', probe, '{pause}']
";

fn project(api: &Cluster, nodes: &[Node], drain: &str) -> Project {
    let name = format!("test-drain-{}", nodes[0].name);
    Project::new(nodes).called(&name).inventory(&inventory(api, drain, 2)).file("tests/probe.yaml", PROBE)
}

fn inventory(api: &Cluster, drain: &str, max_unavailable: u32) -> String {
    format!(
        "rollout: {{ max_unavailable: {max_unavailable}, drain: {{ kubernetes: {{ group: all, {drain} }} }} }}\n\
         kubernetes: {{ kubeconfig: {}, context: test }}\n\
         tests:\n  quick:\n    - {{ test: probe, on: all, least: 1 }}\n  \
         high:\n    - {{ test: probe, on: all, least: 8 }}\n  \
         long:\n    - {{ test: probe, on: all, least: 1, with: {{ pause: 30 }} }}\n  \
         pairs:\n    - {{ test: ucx-bandwidth, on: all, least: 0.1, with: {{ transport: tcp, iterations: 3000 }} }}\n",
        api.kubeconfig.display()
    )
}

fn test(project: &Project, args: &[&str]) -> Output {
    project.forge(["test", "inventory.yaml", "--yes", "--format", "json"].iter().chain(args))
}

fn read_report(out: &Output) -> Value {
    serde_json::from_str::<Value>(&out.stdout).unwrap_or_else(|_| panic!("{out}"))["tests"].clone()
}

fn start(project: &Project, args: &[&str]) -> RunningForge {
    let mut command = project.command(["test", "inventory.yaml", "--yes"].iter().chain(args));
    RunningForge::start_heard(&mut command)
}

/// Waits until a node is measured.
///
/// # Panics
/// If forge ends before; with its output.
fn wait_for_probe(mut forge: RunningForge, node: &Node) -> RunningForge {
    let end = Instant::now() + Duration::from_secs(60);
    while !node.exists("/run/began") {
        assert!(!forge.has_ended(), "no measurement: {}", forge.finish());
        assert!(Instant::now() < end, "no measurement after 60 s\n{}", node.describe_state());
        std::thread::sleep(Duration::from_millis(50));
    }
    forge
}

fn is_marked(node: &Node) -> bool {
    node.exists("/var/lib/forge/window.json")
}

fn assert_in_service(api: &Cluster, node: &Node) {
    assert_eq!((inspect_node(api, node), is_marked(node)), ((false, false), false), "{}", node.name);
}

#[test]
fn drained_nodes_return_after_their_measurement() {
    let Some(nodes) = Fleet::take(3) else { return };
    let Some(api) = Cluster::require() else { return };
    join(api, &nodes, "test-drain");
    run(api, &nodes, "test-drain");
    let project = project(api, &nodes, "timeout: 60s");

    // Without the option, nodes stay in service.
    let out = test(&project, &[]);
    assert_eq!((out.code, pods_of(api, &nodes[0])), (0, 1), "{out}");
    nodes.iter().for_each(|node| assert_in_service(api, node));

    // Two of three nodes at a time; the cordon of a person stays.
    api.kubectl_with(&["cordon", &nodes[2].name], "");
    let kubelet = Kubelet::of(api, &nodes);
    let out = test(&project, &["--drain"]);
    let most = kubelet.end();
    assert_eq!((out.code, most), (0, 3), "the node that a person cordoned, and two more: {out}");
    let began = |node: &Node| node.must("cat /run/began").trim().parse::<u64>().expect("nanoseconds");
    let ended = |node: &Node| node.must("cat /run/ended").trim().parse::<u64>().expect("nanoseconds");
    assert!(began(&nodes[2]) > ended(&nodes[0]).max(ended(&nodes[1])), "the third one waits for the first two");
    let report = read_report(&out);
    let rows = report["tests"][0]["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &report["not_returned"]), (3, &Value::Null), "{report:#}");
    nodes[..2].iter().for_each(|node| assert_in_service(api, node));
    assert_eq!((inspect_node(api, &nodes[2]), is_marked(&nodes[2])), ((true, false), false));
    assert_eq!(nodes.iter().map(|node| pods_of(api, node)).sum::<usize>(), 0, "the pods were evicted");
    api.kubectl_with(&["uncordon", &nodes[2].name], "");

    // A failed measurement gives the nodes back, too.
    let out = test(&project, &["--drain", "--set", "high"]);
    assert_eq!(out.code, 5, "{out}");
    nodes.iter().for_each(|node| assert_in_service(api, node));

    // Ctrl-C: the program ends, and the nodes return.
    nodes[0].must("rm -f /run/began");
    let forge = wait_for_probe(start(&project, &["--drain", "--set", "long"]), &nodes[0]);
    assert_eq!((inspect_node(api, &nodes[0]), is_marked(&nodes[0])), ((true, true), true), "while it is measured");
    assert!(!inspect_node(api, &nodes[2]).0, "it waits for its turn");
    forge.interrupt();
    let ended = forge.finish();
    assert_eq!(ended.code, 130, "{ended}");
    nodes.iter().for_each(|node| assert_in_service(api, node));

    // Pairs need two nodes out of service.
    let project = project.inventory(&inventory(api, "timeout: 60s", 1));
    let out = test(&project, &["--drain", "--set", "pairs"]);
    let why = "test `ucx-bandwidth` needs two nodes out of service, and `max_unavailable` is 1";
    assert!(out.code == 64 && out.stderr.contains(why), "{out}");
}

#[test]
fn killed_test_is_followed_by_a_run_that_gives_nodes_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let Some(api) = Cluster::require() else { return };
    let node = &nodes[0];
    join(api, &nodes, "test-killed");
    let project = project(api, &nodes, "timeout: 3s");
    let kill_while_measuring = || {
        node.must("rm -f /run/began");
        let mut forge = wait_for_probe(start(&project, &["--drain", "--set", "long"]), node);
        forge.kill();
        assert_eq!((inspect_node(api, node), is_marked(node)), ((true, true), true));
        node.must("systemctl stop 'forge-test-*'");
    };
    kill_while_measuring();
    // The next run of tests does not need the option.
    let out = test(&project, &[]);
    assert_eq!(out.code, 0, "{out}");
    assert_in_service(api, node);

    kill_while_measuring();
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("left open by run "), "{plan}");
    let out = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    assert_in_service(api, node);

    // A pod that its budget protects stays: the host is not tested, and its node is in service.
    run(api, &nodes, "test-killed");
    let budget = json!({
        "apiVersion": api.evictions(), "kind": "PodDisruptionBudget",
        "metadata": { "name": "all-ranks", "namespace": "test-killed" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "train" } } },
    });
    api.kubectl_with(&["create", "-f", "-"], &budget.to_string());
    api.wait(|| {
        let path = "jsonpath={.items[0].status.observedGeneration}";
        api.kubectl(&["-n", "test-killed", "get", "poddisruptionbudgets", "-o", path]) == "1"
    });
    node.must("rm -f /run/began");
    let out = test(&project, &["--drain"]);
    let report = read_report(&out);
    let reason = report["skipped"][0]["reason"].as_str().expect("a reason");
    assert!(out.code == 9 && reason.contains("disruption budget test-killed/all-ranks allows 0"), "{out}");
    assert!(!node.exists("/run/began") && pods_of(api, node) == 1, "{out}");
    assert_in_service(api, node);

    // A window in which a run changed the host is left to `forge apply`.
    api.kubectl(&["-n", "test-killed", "delete", "poddisruptionbudget", "all-ranks"]);
    node.write("/var/lib/forge/window.json", r#"{"version":1,"run":"r7"}"#);
    let report = read_report(&test(&project, &["--drain"]));
    let why = "a run left its window open while it changed the host: run `forge apply`";
    assert_eq!(report["skipped"][0]["reason"], why);
    assert!(is_marked(node) && pods_of(api, node) == 1);
    node.must("rm /var/lib/forge/window.json");
}

/// Takes a host out of service, and notes meanwhile whether its node has the label, which the test reads from the API.
const CHANGE: &str = "recipe: change
summary: A change that takes the host out of service
params:
  version: { type: int, default: 1 }
steps:
  - name: slow
    disruption: D2
    command: { check: 'test \"$(cat /etc/change 2>/dev/null)\" = {{ params.version }}', apply: 'touch /run/changing; while [ -e /run/changing ]; do sleep 0.1; done; echo {{ params.version }} >/etc/change' }
";

/// `test_labels`: the label says that the host has passed the set, and what changes the host removes it.
#[test]
fn node_has_a_label_while_its_host_holds_the_tests() {
    let Some(nodes) = Fleet::take(1) else { return };
    let Some(api) = Cluster::require() else { return };
    let node = &nodes[0];
    join(api, &nodes, "test-labels");
    let declare = |version: u32, least: u32| {
        format!(
            "rollout: {{ max_unavailable: 1, drain: {{ kubernetes: {{ group: all, test_labels: [quick] }} }} }}\n\
             kubernetes: {{ kubeconfig: {}, context: test }}\n\
             tests:\n  quick:\n    - {{ test: probe, on: all, least: {least} }}\n\
             apply:\n  - {{ recipe: change, on: all, with: {{ version: {version} }} }}\n",
            api.kubeconfig.display()
        )
    };
    let project = Project::new(&nodes).called(&format!("test-labels-{}", node.name));
    let project = project.file("tests/probe.yaml", PROBE).recipe("change", CHANGE).inventory(&declare(1, 1));
    let label = || {
        let path = r"jsonpath={.metadata.labels.forge/test-quick}";
        api.kubectl(&["get", "node", &node.name, "-o", path])
    };
    let apply = || {
        let mut forge = project.begin();
        node.until_exists("/run/changing");
        let during = label();
        node.must("rm /run/changing");
        assert!(forge.wait().success());
        during
    };
    apply();
    assert_eq!(label(), "", "it was never tested");
    let out = test(&project, &[]);
    assert_eq!((out.code, label().as_str()), (0, "passed"), "{out}");

    // A change removes the label while it goes on; nothing moved that the result rests on.
    project.rewrite(&declare(2, 1));
    assert_eq!((apply().as_str(), label().as_str()), ("", "passed"));
    // With another limit, the earlier result proves nothing.
    project.rewrite(&declare(3, 2));
    assert_eq!((apply().as_str(), label().as_str()), ("", ""));

    let out = test(&project, &["--drain"]);
    assert_eq!((out.code, label().as_str()), (0, "passed"), "{out}");
    // A failed test removes it.
    project.rewrite(&declare(3, 8));
    let out = test(&project, &[]);
    assert_eq!((out.code, label().as_str()), (5, ""), "{out}");

    // A set that the inventory does not declare is an error.
    project.rewrite(&declare(3, 8).replace("[quick]", "[quik]"));
    let out = project.forge(["validate", "inventory.yaml"]);
    assert!(out.code != 0 && out.to_string().contains("set `quik` not found in `tests`"), "{out}");
}
