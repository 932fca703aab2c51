//! Outliers among similar real hosts: reported with their value, even for facts that no recipe declares.

use crate::support::{Fleet, Project};
use serde_json::Value;

/// Returns `path: common value; outlier values on hosts` of every outlier.
fn told(document: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let hosts = |odd: &Value| {
        list(&odd["odd"]).iter().map(|one| format!("{} on {}", one["value"], one["hosts"])).collect::<String>()
    };
    list(&document["odd"])
        .iter()
        .map(|odd| format!("{}: {}; {}", odd["path"].as_str().unwrap(), odd["common"], hosts(odd)))
        .collect()
}

#[test]
fn outlier_host_is_named_for_undeclared_facts() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = Project::new(&nodes);
    let outliers = || {
        let out = project.forge(["facts", "inventory.yaml", "--outliers", "--format", "json"]);
        assert_eq!(out.code, 0, "{out}");
        let document: Value = serde_json::from_str(&out.stdout).unwrap();
        document["outliers"].clone()
    };
    let before = outliers();
    assert_eq!(told(&before), [""; 0], "hosts of one image must not differ");
    assert!(before["compared"].as_u64() > Some(200), "{}", before["compared"]);
    nodes[1].must("apt-get install -qqy forge-demo=1.0-1 >&2");
    let odd = format!("packages.installed.forge-demo: null; \"1.0-1\" on [\"{}\"]", nodes[1].name);
    assert!(told(&outliers()).contains(&odd), "{:?}", told(&outliers()));

    let snapshots: Vec<String> = nodes.iter().map(|node| node.snapshot()).collect();
    let drift = |mode: &'static str| project.forge(["drift", "inventory.yaml", mode]);
    let shown = drift("--outliers");
    let line = format!("packages.installed.forge-demo: none — 2 hosts; outlier: 1.0-1 — {}\n", nodes[1].name);
    assert!(shown.code == 0 && shown.stdout.contains(&line), "outliers must not count as drift: {shown}");
    assert_eq!(drift("--outliers=count").code, 2, "with `--outliers=count` they count as drift");
    // Read together with the other facts, in the same round trip.
    let trips = project.forge(["drift", "inventory.yaml", "--outliers", "-v"]);
    assert!(trips.stderr.contains("observed in 1 round trip") && !trips.stderr.contains("2 round trips"), "{trips}");
    assert_eq!(nodes.iter().map(|node| node.snapshot()).collect::<Vec<_>>(), snapshots, "something was written");
}
