//! Acceptance tests on real hosts: `ucx_perftest` over the fleet's links, through the code that runs perftest.

use crate::support::{Fleet, Node, Project};
use serde_json::Value;
use std::time::Duration;

/// 6.5 MB in each direction of each pair: three seconds at 20 Mbit/s, far less without a limit.
const TESTS: &str = "tests:
  quick:
    - test: ucx-bandwidth
      on: all
      with: { transport: tcp, size: 65536, iterations: 100 }
      least: 0.1
      # The links of the fleet are as fast as the processors are free: up to thirty times faster on an idle machine.
      baseline: 0.99
  hang:
    - { test: hang, on: all, least: 1 }
";

/// A server that waits for a client, which never connects.
const HANG: &str = "test: hang
scope: pair
output: number
limit: 8s
parameters: { port: 13400 }
server: [ucx_perftest, -p, '{port}']
client: [sleep, 61]
";

fn run_tests(project: &Project, code: i32) -> Value {
    let out = project.forge(["test", "inventory.yaml", "--yes", "--format", "json"]);
    assert_eq!(out.code, code, "{out}");
    serde_json::from_str::<Value>(&out.stdout).expect("a document")["tests"].clone()
}

fn rows_with<'v>(tests: &'v Value, result: &str) -> Vec<&'v Value> {
    let rows = tests["tests"][0]["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["verdict"]["result"] == result).collect()
}

fn left_behind(node: &Node) -> String {
    node.sh("systemctl list-units --all --plain --no-legend 'forge-test-*'; pgrep -x ucx_perftest; pgrep -fx 'sleep 61'; ls /run/forge-test-* 2>/dev/null")
        .stdout
}

#[test]
fn slow_host_is_named_and_nothing_is_left_behind() {
    let Some(nodes) = Fleet::take(3) else { return };
    for node in nodes.iter() {
        node.write("/etc/apt/sources.list.d/trade.list", "deb [trusted=yes] file:/srv/forge-repo/trade ./\n");
        node.must("apt-get -qq update && apt-get -qq install -y --no-install-recommends ucx-utils >&2");
    }
    let project = Project::new(&nodes).inventory(TESTS).file("tests/hang.yaml", HANG);
    let plan = project.forge(["test", "inventory.yaml", "--dry-run"]);
    assert!(plan.ok() && plan.stdout.contains("3 pairs in 3 rounds, both directions, each adapter"), "{plan}");

    let healthy = run_tests(&project, 0);
    assert_eq!(rows_with(&healthy, "pass").len(), 6, "three pairs in both directions: {healthy:#}");
    assert_eq!((&healthy["against"], healthy["tests"][0]["faults"].as_array().map(Vec::len)), (&Value::Null, Some(0)));
    let outputs = &healthy["tests"][0]["rows"][0]["outputs"];
    assert!(outputs[0].as_str().is_some_and(|text| text.contains("Waiting for connection")), "the server: {outputs}");
    assert!(outputs[1].as_str().is_some_and(|text| text.contains("bandwidth (MB/s)")), "the client: {outputs}");

    // The second run compares with the first, and one host is slow.
    let slow = &nodes[1];
    slow.must("tc qdisc add dev host0 root tbf rate 20mbit burst 32kbit latency 400ms");
    let shaped = run_tests(&project, 5);
    assert_eq!(shaped["against"], healthy["run"], "{shaped:#}");
    let faults = shaped["tests"][0]["faults"].as_array().expect("faults");
    assert_eq!(faults.len(), 1, "{shaped:#}");
    assert_eq!(faults[0]["host"], slow.name.as_str(), "{faults:#?}");
    assert_eq!(faults[0]["part"], format!("host `{}`, its adapter or its cable", slow.name));
    slow.must("tc qdisc del dev host0 root");
    assert!(nodes.iter().all(|node| left_behind(node).is_empty()), "{}", left_behind(slow));

    // forge is killed while both programs of a pair run: they end by their own limit.
    let mut forge =
        project.command(["test", "inventory.yaml", "--set", "hang", "--yes", "--unverified"]).spawn().expect("forge");
    nodes[1].until("pgrep -fx 'sleep 61' >/dev/null || pgrep -x ucx_perftest >/dev/null", 30);
    forge.kill().expect("forge is killed");
    let _ = forge.wait();
    for node in nodes.iter() {
        node.until("[ -z \"$(systemctl list-units --all --plain --no-legend 'forge-test-*')\" ]", 30);
        assert_eq!(node.sh("pgrep -x ucx_perftest; pgrep -fx 'sleep 61'").stdout, "");
    }
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(rows_with(&run_tests(&project, 0), "pass").len(), 6, "the hosts are free again");
}
