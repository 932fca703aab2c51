//! GPU servers whose hardware is simulated (`tests/fleet/profiles`): what their facts say, what each fault changes, and
//! the way from a bare one to a verified one.

use crate::support::{Fleet, Node, Nodes, Output, Project};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PROFILE: &str = "h100x8-ndr";
/// What hardware and its software tell; the rest of a host moves by itself.
const FACTS: [&str; 18] = [
    "acs",
    "driver",
    "fabricmanager",
    "gdr",
    "gpu_state",
    "gpus",
    "holders",
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
/// As somebody installs it by hand: no record of forge is on the host.
const INSTALL: &str = "apt-get -qq install cuda-drivers-560=560.35.03-1 nvidia-fabricmanager-560=560.35.03-1 >/dev/null
    mkdir /root/ofed && tar -xzf /srv/forge-hardware/mlnx-ofed.tgz -C /root/ofed --strip-components=1 && /root/ofed/mlnxofedinstall
    systemctl -q enable nvidia-fabricmanager nvidia-persistenced";

fn bare(count: usize) -> Option<Nodes> {
    let nodes = Fleet::take(count)?;
    nodes.iter().for_each(|node| node.profile(PROFILE));
    Some(nodes)
}

fn installed(count: usize) -> Option<Nodes> {
    let nodes = bare(count)?;
    for node in nodes.iter() {
        node.must(INSTALL);
        node.stop();
        node.start();
    }
    Some(nodes)
}

fn document(project: &Project, path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(project.path(path)).expect("a document")).expect("JSON")
}

/// Each fact of the only host: its value, or why it has none.
fn facts(project: &Project) -> BTreeMap<String, Value> {
    let out = project.forge(["facts", "inventory.yaml", "--json-into", "facts.json"]);
    assert_eq!(out.code, 0, "{out}");
    assert!(out.stdout.starts_with("simulated, no real hardware: "), "{out}");
    let document = document(project, "facts.json");
    let host = &document["facts"][0];
    assert_eq!(host["simulated"], true);
    let fact = |name: &str| (name.to_owned(), host["facts"][name].clone());
    FACTS.into_iter().map(fact).collect()
}

fn list<'v>(facts: &'v BTreeMap<String, Value>, name: &str) -> &'v Vec<Value> {
    facts[name]["value"].as_array().unwrap_or_else(|| panic!("{name}: {}", facts[name]))
}

/// The distinct values of a field of every entry of a list.
fn each(list: &[Value], field: &str) -> Vec<Value> {
    let mut values: Vec<Value> =
        list.iter().map(|entry| entry.pointer(field).unwrap_or(&Value::Null).clone()).collect();
    values.dedup();
    values
}

#[test]
fn a_bare_server_shows_its_cards_and_no_driver() {
    let Some(nodes) = bare(1) else { return };
    let facts = facts(&Project::new(&nodes));
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
fn an_installed_server_tells_what_is_loaded() {
    let Some(nodes) = installed(1) else { return };
    let facts = facts(&Project::new(&nodes));
    let driver = &facts["driver"]["value"];
    for field in ["loaded", "disk", "userspace", "packaged"] {
        assert_eq!(driver[field], "560.35.03", "{field}: {driver}");
    }
    assert_eq!(
        (&driver["flavor"], &driver["method"], &driver["gpus"]),
        (&json!("proprietary"), &json!("package"), &json!(8))
    );
    assert_eq!(each(list(&facts, "gpus"), "/gsp_firmware"), [json!("560.35.03")]);
    let state = list(&facts, "gpu_state");
    assert_eq!((state.len(), each(state, "/model")), (8, vec![json!("NVIDIA H100 80GB HBM3")]));
    assert_eq!(each(state, "/fabric"), [json!({"state": "Completed", "status": "Success"})]);
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
    assert_eq!(facts["holders"]["value"], json!([]));
}

/// A fault, and the facts that differ from those of the sound server.
const CONSEQUENCES: [(&str, &[&str]); 5] = [
    ("gpu-off-bus", &["gpu_state", "gpus"]),
    ("gpu-missing", &["driver", "gpu_state", "gpus", "pci"]),
    ("port-init", &["rdma", "verbs"]),
    ("port-lanes", &["rdma"]),
    ("fabric-in-progress", &["gpu_state"]),
];

#[test]
fn each_fault_changes_its_own_facts_alone() {
    let Some(nodes) = installed(1) else { return };
    let project = Project::new(&nodes);
    let sound = facts(&project);
    for (fault, changed) in CONSEQUENCES {
        nodes[0].fault(fault, true);
        let broken = facts(&project);
        let differ: Vec<&str> = FACTS.into_iter().filter(|name| broken[*name] != sound[*name]).collect();
        assert_eq!(differ, changed, "{fault}");
        nodes[0].fault(fault, false);
    }
    assert_eq!(facts(&project), sound, "mended");
}

/// What of the stack `h100-node` a kernel without modules can be brought to.
fn stack(node: &Node, driver: &str) -> String {
    let digest = node.must("sha256sum /srv/forge-hardware/mlnx-ofed.tgz | cut -d' ' -f1");
    format!(
        "rollout: {{ reboot: allow, max_unavailable: 2 }}
apply:
  - {{ recipe: base-assert, on: all, with: {{ gpus: 8, product: H100 SXM, nvswitches: 4, ib_hcas: 4, eth_hcas: 2 }} }}
  - {{ recipe: nouveau, on: all }}
  - {{ recipe: nvidia-gsp, on: all, with: {{ gsp: \"off\" }} }}
  - recipe: mlnx-ofed
    on: all
    with: {{ version: 24.10-0.7.0.0, archive: {{ path: /srv/forge-hardware/mlnx-ofed.tgz, sha256: {digest} }} }}
  - {{ recipe: subnet-manager, on: all }}
  - {{ recipe: ib-ports, on: all, with: {{ ports: 4 }} }}
  - {{ recipe: nvidia-driver, on: all, with: {{ version: {driver}, flavor: proprietary }} }}
  - {{ recipe: nvidia-fabricmanager, on: all }}
  - {{ recipe: nvidia-persistenced, on: all }}
"
    )
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes", "--json-into", "report.json"])
}

#[test]
fn a_bare_server_is_verified_after_one_apply_with_one_reboot() {
    let Some(nodes) = bare(1) else { return };
    let project = Project::new(&nodes).inventory(&stack(&nodes[0], "560.35.03"));
    let before = nodes[0].boot_id();
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert!(out.stdout.contains("simulated, no real hardware: "), "{out}");
    let report = document(&project, "report.json");
    assert_eq!(report["report"]["simulated"], json!([nodes[0].name]));
    let reboots = &report["report"]["hosts"][0]["reboots"];
    assert_eq!(reboots.as_array().map(Vec::len), Some(1), "{reboots}");
    assert_eq!((&reboots[0]["from"], &reboots[0]["to"]), (&json!(before), &json!(nodes[0].boot_id())));
    let facts = facts(&project);
    assert_eq!(each(list(&facts, "gpus"), "/gsp"), [json!("off")], "the option was there before the first load");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "nothing to do: {plan}");
    crate::proof::mark_profile(&stack(&nodes[0], "560.35.03"));
    upgrade(project, &nodes[0]);
}

/// The next patch of the driver: the fabric manager follows, and both are held again.
fn upgrade(project: Project, node: &Node) {
    let project = project.inventory(&stack(node, "560.35.05"));
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    let reboots = document(&project, "report.json")["report"]["hosts"][0]["reboots"].clone();
    assert_eq!(reboots.as_array().map(Vec::len), Some(1), "{reboots}");
    let facts = facts(&project);
    let versions = [&facts["driver"]["value"]["loaded"], &facts["fabricmanager"]["value"]["version"]];
    assert_eq!(versions, ["560.35.05"; 2]);
    assert_eq!(each(list(&facts, "gpu_state"), "/fabric/state"), [json!("Completed")]);
    assert_eq!(node.must("apt-mark showhold"), "cuda-drivers-560\nnvidia-fabricmanager-560");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "nothing to do: {plan}");
}

#[test]
fn a_server_with_seven_gpus_is_blocked_as_hardware_while_the_other_finishes() {
    let Some(nodes) = bare(2) else { return };
    nodes[0].fault("gpu-missing", true);
    let project = Project::new(&nodes).inventory(&stack(&nodes[0], "560.35.03"));
    let (out, boot) = (apply(&project), nodes[0].boot_id());
    assert_eq!(out.code, 3, "{out}");
    let report = document(&project, "report.json");
    let outcome = |at: usize| report["report"]["hosts"][at]["outcome"].clone();
    assert_eq!((outcome(0), outcome(1)), (json!("blocked"), json!("changed")), "{out}");
    assert!(out.stdout.contains("hardware: fewer GPUs are on the PCI bus than the inventory counts"), "{out}");
    assert!(!nodes[0].exists("/usr/bin/nvidia-smi") && nodes[1].exists("/usr/bin/nvidia-smi"));
    assert_eq!(nodes[0].boot_id(), boot);
}

#[test]
fn a_server_whose_gpu_somebody_uses_is_left_alone_while_the_other_finishes() {
    let Some(nodes) = installed(2) else { return };
    nodes[0].fault("foreign-holder", true);
    let project = Project::new(&nodes).inventory(&stack(&nodes[0], "560.35.03"));
    let boot = nodes[0].boot_id();
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("unit train.service, holds /dev/nvidia0"), "{out}");
    let report = document(&project, "report.json");
    assert_eq!(report["report"]["hosts"][0]["outcome"], "blocked", "{out}");
    assert_eq!((nodes[0].boot_id(), nodes[0].must("systemctl is-active train")), (boot, "active".to_owned()));
    assert_eq!(
        nodes[1].must("grep -h Firmware /proc/driver/nvidia/gpus/*/information | sort -u | tr -d '\\t '"),
        "GPUFirmware:N/A"
    );
}

/// What needs modules cannot be applied where the kernel takes none; the plan needs no kernel.
#[test]
fn the_shipped_stack_is_planned_on_the_bare_server() {
    let Some(nodes) = bare(1) else { return };
    let digest = nodes[0].must("sha256sum /srv/forge-hardware/mlnx-ofed.tgz | cut -d' ' -f1");
    let project = Project::new(&nodes).inventory(&format!(
        "apply:
  - recipe: h100-node
    on: all
    with: {{ driver: 560.35.03, flavor: proprietary, gsp: \"off\", gdr: peermem, ofed: 24.10-0.7.0.0, ib_ports: 4, eth_hcas: 2, ofed_archive: {{ path: /srv/forge-hardware/mlnx-ofed.tgz, sha256: {digest} }} }}
"
    ));
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.starts_with("simulated, no real hardware: "), "{plan}");
    for step in
        ["mlnx-ofed/installed", "nvidia-driver/packages", "nvidia-fabricmanager/package", "nvidia-gsp/module option"]
    {
        assert!(plan.stdout.contains(step), "{step}: {plan}");
    }
}
