//! Changes of servers in service: the driver with its fabric manager, and the RDMA stack. See also `killed.rs`.

use super::facts::{each, facts, list};
use super::{BY_HAND, Stack, apply, boots, converge, document, installed, loaded, stack_by_hand};
use crate::support::{Node, Project};
use serde_json::json;

pub(super) const HELD: &str = "cuda-drivers-560\nlibnvidia-nscq-560\nnvidia-fabricmanager-560";

fn holds(node: &Node) -> String {
    node.must("apt-mark showhold")
}

/// Checks every start of the fabric manager, with its version and the loaded driver's: it must never have been newer
/// than the driver.
pub(super) fn never_younger(node: &Node) {
    let starts = node.must("cat /srv/forge-hardware/fabric-manager-starts");
    assert!(!starts.is_empty());
    for start in starts.lines() {
        let (manager, driver) = start.split_once(' ').expect("two versions");
        assert!(manager <= driver, "fabric manager {manager} was started with driver {driver}:\n{starts}");
    }
}

#[test]
fn driver_upgrade_includes_fabric_manager_in_one_reboot() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    let (node, before) = (&nodes[0], boots(&nodes[0]));
    let project = Project::new(&nodes).inventory(&Stack { driver: "560.35.05", ..BY_HAND }.inventory(node));
    converge(&project);
    assert_eq!((boots(node) - before, holds(node).as_str()), (1, HELD));
    assert_eq!(loaded(node), ["560.35.05", "24.10-0.7.0", "560.35.05"]);
    never_younger(node);
    let facts = facts(&project);
    let versions = [&facts["driver"]["value"]["userspace"], &facts["fabricmanager"]["value"]["version"]];
    assert_eq!(versions, ["560.35.05"; 2]);
    let state = list(&facts, "gpu_state");
    assert_eq!(
        (each(state, "/fabric/state"), each(state, "/persistence")),
        (vec![json!("Completed")], vec![json!(true)])
    );
}

/// First the module does not compile, then the fabric manager of that version is not available.
#[test]
fn failed_driver_upgrade_keeps_holds_and_finishes_later() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    let (node, before) = (&nodes[0], boots(&nodes[0]));
    let project = Project::new(&nodes).inventory(&Stack { driver: "560.35.05", ..BY_HAND }.inventory(node));
    node.fault("build-fails", true);
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("the module does not compile for this kernel"), "{out}");
    assert_eq!((boots(node), holds(node).as_str()), (before, HELD), "{out}");
    node.fault("build-fails", false);

    let gone = "/srv/forge-hardware/repo/nvidia-fabricmanager-560_560.35.05-1_all.deb";
    node.must(&format!("mv {gone} {gone}.away"));
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    assert_eq!((boots(node), holds(node).as_str()), (before + 1, HELD), "{out}");
    assert_eq!(node.must("cat /sys/module/nvidia/version"), "560.35.05");
    assert!(node.exists("/var/lib/forge/window.json"), "it is back in service: {out}");
    node.must(&format!("mv {gone}.away {gone}"));

    converge(&project);
    assert_eq!((boots(node), holds(node).as_str()), (before + 1, HELD));
    assert_eq!(loaded(node), ["560.35.05", "24.10-0.7.0", "560.35.05"]);
    assert!(!node.exists("/var/lib/forge/window.json"));
    never_younger(node);
}

/// The stack was upgraded by hand: the driver's module for it has the symbols of the former stack.
#[test]
fn modules_built_for_the_old_rdma_stack_are_rebuilt() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    let (node, ofed) = (&nodes[0], "24.10-1.1.4.0");
    let age =
        "stat -c '%Z %n' $(modinfo -F filename ib_core) $(modinfo -F filename nvidia_peermem) | sort -n | tail -n 1";
    node.must(&format!("sleep 1; {}", stack_by_hand(ofed)));
    node.stop();
    node.start();
    assert!(node.must(age).ends_with("ib_core.ko"), "the stack must be newer than the driver's module");
    let project = Project::new(&nodes).inventory(&format!(
        "{}  - {{ recipe: nvidia-peermem, on: all, with: {{ gdr: peermem }} }}\n",
        Stack { ofed, ..BY_HAND }.inventory(node)
    ));
    let step = ["--step", "nvidia-peermem/built for the stack"];
    let out = project.forge(["apply", "inventory.yaml", "--yes"].into_iter().chain(step));
    assert_eq!(out.code, 0, "{out}");
    assert!(node.must(age).ends_with("nvidia_peermem.ko"), "{out}");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"].into_iter().chain(step));
    assert_eq!(plan.code, 0, "{plan}");
}

#[test]
fn doca_ofed_is_upgraded_by_its_repository_with_one_reboot() {
    let Some(nodes) = super::bare(1) else { return };
    let node = &nodes[0];
    let mut project = Project::new(&nodes);
    for (version, stack) in [("3.2.0-1", "25.10-1.7.1"), ("3.2.1-1", "25.10-1.7.1.1")] {
        let before = boots(node);
        project = project.inventory(&format!(
            "rollout: {{ reboot: allow }}
apply:
  - {{ recipe: doca-ofed, on: all, with: {{ version: {version} }} }}
  - {{ recipe: subnet-manager, on: all }}
  - {{ recipe: ib-ports, on: all, with: {{ ports: 4 }} }}
"
        ));
        converge(&project);
        assert_eq!((boots(node) - before, holds(node).as_str()), (1, "doca-ofed"));
        let ofed = facts(&project)["ofed"]["value"].clone();
        assert_eq!(
            (&ofed["version"], &ofed["doca"], &ofed["matches_disk"]),
            (&json!(stack), &json!(version), &json!(true))
        );
    }
    assert_eq!(document(&project, "report.json")["report"]["simulated"], json!([node.name]));
}
