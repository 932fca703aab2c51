//! The declared fabric on real hosts: traffic control slows the links of a leaf, and `forge test` names it.

use crate::support::{Fleet, Node, Project};
use serde_json::Value;
use std::collections::BTreeSet;

/// 3.3 MB in each direction of each pair: 0.7 s at the 40 Mbit/s of the hosts' links, seven seconds at 4 Mbit/s. The floor
/// allows 1.6 s, also if other tests take both cores for a second.
const TEST: &str = "test: ucx-bandwidth, on: all, least: 0.016, at_once: 1, baseline: 0.99";
const WITH: &str = "with: { transport: tcp, size: 65536, iterations: 50 }";

/// Limits what leaves a host. A link without a limit sends the messages in less time than a test may take.
const FAST: &str = "tc qdisc replace dev host0 root tbf rate 40mbit burst 256kbit latency 400ms";

fn inventory(nodes: &[Node]) -> String {
    let name = |at: usize| nodes[at].name.as_str();
    let entry = |schedule: &str| format!("    - {{ {TEST}, {WITH}, schedule: {schedule} }}\n");
    format!(
        "fabric:\n  leaves:\n    leaf-a: {{ hosts: \"{},{}\" }}\n    leaf-b: {{ hosts: \"{},{}\" }}\n    \
         leaf-c: {{ hosts: {} }}\ntests:\n  quick:\n{}  near:\n{}  far:\n{}",
        name(0),
        name(1),
        name(2),
        name(3),
        name(4),
        entry("ring"),
        entry("leaf"),
        entry("across")
    )
}

fn run_set(project: &Project, set: &str, code: i32) -> Value {
    let out = project.forge(["test", "inventory.yaml", "--set", set, "--yes", "--format", "json"]);
    assert_eq!(out.code, code, "{out}");
    serde_json::from_str::<Value>(&out.stdout).expect("a document")["tests"]["tests"][0].clone()
}

/// Returns the measured pairs by the numbers of the nodes, in both directions.
fn list_pairs(test: &Value, nodes: &[Node]) -> BTreeSet<Vec<usize>> {
    let number = |host: &Value| nodes.iter().position(|node| *host == *node.name).expect("a node");
    let rows = test["rows"].as_array().expect("rows").iter().filter(|row| row["verdict"]["result"] == "pass");
    rows.map(|row| row["hosts"].as_array().expect("hosts").iter().map(number).collect()).collect()
}

fn both_ways(pairs: &[[usize; 2]]) -> BTreeSet<Vec<usize>> {
    pairs.iter().flat_map(|[one, other]| [vec![*one, *other], vec![*other, *one]]).collect()
}

#[test]
fn slow_leaf_and_slow_uplinks_are_named() {
    let Some(nodes) = Fleet::take(5) else { return };
    for node in nodes.iter() {
        node.write("/etc/apt/sources.list.d/trade.list", "deb [trusted=yes] file:/srv/forge-repo/trade ./\n");
        node.must("apt-get -qq update && apt-get -qq install -y --no-install-recommends ucx-utils >&2");
        node.must(FAST);
    }
    let project = Project::new(&nodes).inventory(&inventory(&nodes));
    let plan = project.forge(["test", "inventory.yaml", "--set", "far", "--dry-run"]);
    assert!(plan.ok() && plan.stdout.contains("6 pairs in 6 rounds, both directions"), "{plan}");

    // Pairs follow the leaves. A host that is alone in its leaf is "not measured".
    let near = run_set(&project, "near", 9);
    assert_eq!(list_pairs(&near, &nodes), both_ways(&[[0, 1], [2, 3]]), "{near:#}");
    let rows = near["rows"].as_array().expect("rows");
    let alone = rows.iter().find(|row| row["verdict"]["result"] == "not_measured").expect("the host alone");
    assert_eq!(alone["hosts"], serde_json::json!([nodes[4].name]));
    assert_eq!(alone["verdict"]["reason"], "no other host of its leaf is tested");
    let far = run_set(&project, "far", 0);
    let expected = [[0, 2], [1, 3], [0, 4], [1, 4], [2, 4], [3, 4]];
    assert_eq!(list_pairs(&far, &nodes), both_ways(&expected), "{far:#}");

    // Everything that passes leaf-b is slow.
    let of_leaf = &nodes[2..4];
    for node in of_leaf {
        node.must("tc qdisc replace dev host0 root tbf rate 4mbit burst 32kbit latency 400ms");
    }
    let slow = run_set(&project, "quick", 5);
    let faults = slow["faults"].as_array().expect("faults");
    assert_eq!(faults.len(), 1, "{slow:#}");
    assert_eq!((&faults[0]["part"], &faults[0]["host"]), (&Value::from("leaf `leaf-b`"), &Value::Null), "{faults:#?}");
    assert!(faults[0]["evidence"].as_array().is_some_and(|runs| runs.len() >= 2), "{faults:#?}");

    // Within leaf-b all is fast; only what leaves it is slow.
    let others = [0, 1, 4].map(|at| {
        let address = &nodes[at].address;
        format!("tc filter add dev host0 parent 1: protocol ip prio 1 u32 match ip dst {address}/32 flowid 1:3")
    });
    for node in of_leaf {
        node.must("tc qdisc del dev host0 root && tc qdisc add dev host0 root handle 1: htb default 2");
        node.must("tc class add dev host0 parent 1: classid 1:2 htb rate 40mbit burst 32k cburst 32k");
        node.must("tc class add dev host0 parent 1: classid 1:3 htb rate 4mbit burst 32k cburst 32k");
        node.must(&others.join("\n"));
    }
    let slow = run_set(&project, "quick", 5);
    let faults = slow["faults"].as_array().expect("faults");
    let part = "the cables between leaf `leaf-b` and the other switches";
    assert_eq!((faults.len(), &faults[0]["part"]), (1, &Value::from(part)), "{slow:#}");
    nodes.iter().for_each(|node| drop(node.must(&format!("tc qdisc del dev host0 root; {FAST}"))));
    assert_eq!(run_set(&project, "quick", 0)["faults"], serde_json::json!([]));
    nodes.iter().for_each(|node| drop(node.sh("tc qdisc del dev host0 root")));
}
