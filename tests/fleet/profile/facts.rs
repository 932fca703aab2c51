//! The facts of simulated servers, and the facts that each fault changes.

use super::{BY_HAND, document, installed};
use crate::support::Project;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Facts about hardware and its software; other facts of a host change by themselves.
const FACTS: [&str; 20] = [
    "acs",
    "driver",
    "fabricmanager",
    "gdr",
    "gpu_state",
    "gpus",
    "hardware_errors",
    "holders",
    "nvlinks",
    "nvswitch",
    "ofed",
    "pci",
    "rdma",
    "rdma_counters",
    "rdma_netns",
    "roce",
    "services",
    "sm",
    "topology",
    "verbs",
];
/// Returns each fact of the only host: its value, or the reason why it is unknown.
pub(super) fn facts(project: &Project) -> BTreeMap<String, Value> {
    let out = project.forge(["facts", "inventory.yaml", "--json-into", "facts.json"]);
    assert_eq!(out.code, 0, "{out}");
    assert!(out.stdout.starts_with("simulated, no real hardware: "), "{out}");
    let document = document(project, "facts.json");
    let host = &document["facts"][0];
    assert_eq!(host["simulated"], true);
    let fact = |name: &str| (name.to_owned(), host["facts"][name].clone());
    FACTS.into_iter().map(fact).collect()
}

pub(super) fn list<'v>(facts: &'v BTreeMap<String, Value>, name: &str) -> &'v Vec<Value> {
    facts[name]["value"].as_array().unwrap_or_else(|| panic!("{name}: {}", facts[name]))
}

/// Returns the distinct values of a field over all entries of a list.
pub(super) fn each(list: &[Value], field: &str) -> Vec<Value> {
    let mut values: Vec<Value> =
        list.iter().map(|entry| entry.pointer(field).unwrap_or(&Value::Null).clone()).collect();
    values.dedup();
    values
}

/// A bare server shows its cards and no driver.
pub(super) fn of_a_bare_server(project: &Project) {
    let facts = facts(project);
    let gpus = list(&facts, "gpus");
    assert_eq!((gpus.len(), each(gpus, "/product")), (8, vec![json!("H100 SXM")]));
    assert_eq!(gpus[0]["gsp"]["unknown"], "no NVIDIA driver is loaded");
    assert_eq!(facts["nvswitch"]["value"]["count"], 4);
    assert_eq!(facts["nvswitch"]["value"]["required"], true);
    assert_eq!(facts["driver"]["value"]["loaded"], Value::Null);
    assert_eq!(facts["ofed"]["value"]["origin"], "inbox");
    assert_eq!((list(&facts, "gpu_state").len(), list(&facts, "rdma").len()), (0, 0));
    assert_eq!(facts["acs"]["value"]["redirecting"][0]["bdf"], "0000:15:01.0");
}

#[test]
fn facts_report_the_loaded_driver_and_rdma_stack() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    let facts = facts(&Project::new(&nodes));
    let driver = &facts["driver"]["value"];
    for field in ["loaded", "disk", "userspace", "packaged"] {
        assert_eq!(driver[field], "560.35.03", "{field}: {driver}");
    }
    assert_eq!(
        (&driver["flavor"], &driver["method"], &driver["gpus"]),
        (&json!("proprietary"), &json!("cuda-repo"), &json!(8))
    );
    assert_eq!(each(list(&facts, "gpus"), "/gsp_firmware"), [json!("560.35.03")]);
    let state = list(&facts, "gpu_state");
    assert_eq!((state.len(), each(state, "/model")), (8, vec![json!("NVIDIA H100 80GB HBM3")]));
    let fabric = json!({"state": "Completed", "status": "Success", "health": null, "conditions": []});
    assert_eq!(each(state, "/fabric"), [fabric]);
    assert_eq!(each(state, "/power/limit"), [json!(700.0)]);
    let links = list(&facts, "nvlinks");
    assert_eq!((links.len(), each(links, "/active"), each(links, "/missing")), (8, vec![json!(18)], vec![json!(0)]));
    assert_eq!((each(state, "/persistence"), each(state, "/ecc/current")), (vec![json!(true)], vec![json!(true)]));
    assert_eq!(facts["fabricmanager"]["value"]["version"], "560.35.03");
    let ports: Vec<Value> = list(&facts, "rdma").iter().map(|device| device["ports"][0].clone()).collect();
    let told = |port: &Value| json!([port["class"], port["state"], port["rate"], port["lanes"]]);
    let ib = json!(["infiniband", "ACTIVE", 400.0, "full"]);
    let eth = json!(["roce", "ACTIVE", 200.0, null]);
    assert_eq!(ports.iter().map(told).collect::<Vec<_>>(), [&ib, &ib, &eth, &eth, &ib, &ib].map(Value::clone));
    assert_eq!((list(&facts, "verbs").len(), list(&facts, "rdma_counters").len()), (6, 4));
    let ofed = &facts["ofed"]["value"];
    assert_eq!(
        (&ofed["version"], &ofed["origin"], &ofed["matches_disk"]),
        (&json!("24.10-0.7.0.0"), &json!("ofed"), &json!(true))
    );
    assert_eq!(facts["sm"]["value"]["state"], "master");
    assert_eq!(facts["rdma_netns"]["value"], "shared");
    assert_eq!((&facts["holders"]["value"], &facts["hardware_errors"]["value"]["events"]), (&json!([]), &json!([])));
}

/// A fault, and the facts that differ from those of the healthy server.
const CONSEQUENCES: [(&str, &[&str]); 8] = [
    ("gpu-off-bus", &["gpu_state", "gpus", "nvlinks"]),
    ("gpu-missing", &["driver", "gpu_state", "gpus", "nvlinks", "pci"]),
    ("port-init", &["rdma", "verbs"]),
    ("port-lanes", &["rdma"]),
    ("nvlink-down", &["nvlinks"]),
    ("gpu-hot", &["gpu_state"]),
    ("fabric-in-progress", &["gpu_state"]),
    ("xid", &["hardware_errors"]),
];

#[test]
fn each_fault_changes_only_its_own_facts() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    let project = Project::new(&nodes);
    let sound = facts(&project);
    for (fault, changed) in CONSEQUENCES {
        nodes[0].fault(fault, true);
        let broken = facts(&project);
        let differ: Vec<&str> = FACTS.into_iter().filter(|name| broken[*name] != sound[*name]).collect();
        assert_eq!(differ, changed, "{fault}");
        nodes[0].fault(fault, false);
    }
    assert_eq!(facts(&project), sound, "the facts after all faults are cleared");
}
