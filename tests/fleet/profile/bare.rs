//! From a bare server to a verified one, and the servers that are left alone.

use super::facts::{each, facts, list};
use super::{BY_HAND, STACK, apply, archive, bare, digest, document, gsp, installed, settled};
use crate::support::Project;
use serde_json::json;

#[test]
fn a_bare_server_is_verified_after_one_apply_with_one_reboot() {
    let Some(nodes) = bare(1) else { return };
    let project = Project::new(&nodes).inventory(&STACK.inventory(&nodes[0]));
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
    settled(&project);
    crate::proof::mark_profile(&STACK.inventory(&nodes[0]));
}

#[test]
fn a_server_with_seven_gpus_is_blocked_as_hardware_while_the_other_finishes() {
    let Some(nodes) = bare(2) else { return };
    nodes[0].fault("gpu-missing", true);
    let project = Project::new(&nodes).inventory(&STACK.inventory(&nodes[0]));
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
    let Some(nodes) = installed(2, BY_HAND) else { return };
    nodes[0].fault("foreign-holder", true);
    let project = Project::new(&nodes).inventory(&STACK.inventory(&nodes[0]));
    let boot = nodes[0].boot_id();
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("unit train.service, holds /dev/nvidia0"), "{out}");
    let report = document(&project, "report.json");
    assert_eq!(report["report"]["hosts"][0]["outcome"], "blocked", "{out}");
    assert_eq!((nodes[0].boot_id(), nodes[0].must("systemctl is-active train")), (boot, "active".to_owned()));
    assert_eq!(gsp(&nodes[1]), "N/A");
}

/// What needs modules cannot be applied where the kernel takes none; the plan needs no kernel.
#[test]
fn the_shipped_stack_is_planned_on_the_bare_server() {
    let Some(nodes) = bare(1) else { return };
    let project = Project::new(&nodes).inventory(&format!(
        "apply:
  - recipe: h100-node
    on: all
    with: {{ driver: 560.35.03, flavor: proprietary, gsp: \"off\", gdr: peermem, ofed: 24.10-0.7.0.0, ib_ports: 4, eth_hcas: 2, ofed_archive: {{ path: {}, sha256: {} }} }}
",
        archive(STACK.ofed),
        digest(&nodes[0], STACK.ofed)
    ));
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.starts_with("simulated, no real hardware: "), "{plan}");
    for step in
        ["mlnx-ofed/installed", "nvidia-driver/packages", "nvidia-fabricmanager/package", "nvidia-gsp/module option"]
    {
        assert!(plan.stdout.contains(step), "{step}: {plan}");
    }
}
