//! Differences between other boards and the one with eight H100: what must exist, what must not, what is rejected.

use super::facts::{each, facts, list};
use super::{boots, converge, settled, with_hardware};
use crate::support::Project;
use serde_json::json;

/// Returns an inventory with the driver and its daemons, the same for every board.
fn driver(rest: &str) -> String {
    format!(
        "rollout: {{ reboot: allow }}
apply:
  - {{ recipe: nouveau, on: all }}
  - {{ recipe: nvidia-driver, on: all, with: {{ {rest} }} }}
  - {{ recipe: nvidia-fabricmanager, on: all }}
  - {{ recipe: nvidia-persistenced, on: all }}
"
    )
}

const H560: &str = "version: 560.35.03, flavor: proprietary";

/// A fabric manager installed by hand can only fail there, and is removed.
#[test]
fn fabric_manager_is_removed_from_boards_without_nvswitch() {
    let Some(nodes) = with_hardware("h100-pcie", 1) else { return };
    let node = &nodes[0];
    node.must(
        "apt-get -qq install nvidia-fabricmanager-560=560.35.03-1 >/dev/null; systemctl -q enable nvidia-fabricmanager",
    );
    let project = Project::new(&nodes).inventory(&driver(H560));
    converge(&project);
    let facts = facts(&project);
    let gpus = list(&facts, "gpus");
    assert_eq!((gpus.len(), each(gpus, "/product")), (4, vec![json!("H100 PCIe")]));
    assert_eq!(
        (&facts["nvswitch"]["value"]["required"], &facts["fabricmanager"]["value"]["version"]),
        (&json!(false), &json!(null))
    );
    assert_eq!(each(list(&facts, "gpu_state"), "/fabric"), [json!(null)]);
    assert!(!node.exists("/usr/bin/nv-fabricmanager"));
}

/// The `Fabric` block of an A100 is `N/A` although its fabric manager works.
#[test]
fn a100_switches_are_managed_without_gpu_fabric_state() {
    let Some(nodes) = with_hardware("a100x8", 1) else { return };
    let project = Project::new(&nodes).inventory(&driver(H560));
    converge(&project);
    let facts = facts(&project);
    assert_eq!(
        (&facts["nvswitch"]["value"]["count"], &facts["nvswitch"]["value"]["required"]),
        (&json!(6), &json!(true))
    );
    assert_eq!(each(list(&facts, "gpu_state"), "/fabric"), [json!(null)]);
    assert_eq!(
        nodes[0].must("cat /run/nvidia-fabricmanager/version; systemctl is-active nvidia-fabricmanager"),
        "560.35.03\nactive"
    );
    let topology = &facts["topology"]["value"];
    assert_eq!((&topology["links"]["GPU0"]["GPU7"], &topology["nics"]["NIC9"]), (&json!("NV12"), &json!("mlx5_9")));
}

/// Runs on a bare server of that generation.
pub(super) fn blackwell_is_refused(project: &Project) {
    let plan = |version: &str, flavor: &str| {
        let text = driver(&format!("version: {version}, flavor: {flavor}"));
        project.rewrite(&text);
        project.forge(["plan", "inventory.yaml"]).stdout
    };
    let why = "a GPU of this host has no proprietary modules (GH200, Blackwell), so no GPU of the host can use them: declare `flavor: open`";
    let said = plan("570.158.01", "proprietary");
    assert!(said.contains(why), "{said}");
    let said = plan("560.35.03", "open");
    assert!(said.contains("Blackwell needs 570 or later"), "{said}");
}

/// A compute tray has no switch to manage: it is part of an NVLink domain of several nodes. The driver creates the
/// channel when it is loaded.
#[test]
fn compute_tray_runs_imex_instead_of_a_fabric_manager() {
    let Some(nodes) = with_hardware("gb200x4", 1) else { return };
    let node = &nodes[0];
    let inventory = driver("version: 580.105.08, flavor: open") + "  - { recipe: nvidia-imex, on: all }\n";
    let project = Project::new(&nodes).inventory(&inventory);
    let before = boots(node);
    converge(&project);
    assert_eq!((boots(node) - before, node.must("cat /etc/nvidia-imex/nodes_config.cfg")), (1, node.address.clone()));
    let facts = facts(&project);
    let told = [&facts["nvswitch"]["value"]["imex"], &facts["nvswitch"]["value"]["required"]];
    assert_eq!(told, [&json!(true), &json!(false)]);
    assert!(!node.exists("/usr/bin/nv-fabricmanager"));

    node.must("echo 192.0.2.1 >>/etc/nvidia-imex/nodes_config.cfg; systemctl -q disable --now nvidia-imex");
    let out = project.forge(["drift", "inventory.yaml", "--plan-out", "repair.json"]);
    assert_eq!(out.code, 2, "{out}");
    assert!(out.stdout.contains("nvidia-imex/nodes") && out.stdout.contains("nvidia-imex/service"), "{out}");
    let out = project.forge(["apply", "repair.json", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    settled(&project);
    crate::proof::mark_profile(&inventory);
}
