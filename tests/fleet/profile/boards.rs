//! What tells other boards from the one with eight H100: what must be there, what must not, what is refused.

use super::facts::{each, facts, list};
use super::{apply, boots, converge, with_hardware};
use crate::support::Project;
use serde_json::json;

/// The driver with its daemons, as declared for boards of every kind.
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

/// Somebody installed one all the same: it can only fail, and goes.
#[test]
fn cards_without_switches_have_no_fabric_manager() {
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

/// The block of an A100 says `N/A` while its fabric manager does all that it is for.
#[test]
fn switches_before_hopper_are_managed_though_no_gpu_tells_of_a_fabric() {
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

#[test]
fn blackwell_is_refused_proprietary_modules_with_the_reason() {
    let Some(nodes) = with_hardware("b200x8", 1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).inventory(&driver("version: 570.158.01, flavor: proprietary"));
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    let why = "a GPU of this host has no proprietary modules (GH200, Blackwell), and then no GPU of the host gets them: declare `flavor: open`";
    assert!(out.stdout.contains(why), "{out}");
    assert_eq!((boots(node), node.exists("/usr/bin/nvidia-smi")), (1, false), "{out}");

    let project = project.inventory(&driver("version: 560.35.03, flavor: open"));
    let out = project.forge(["plan", "inventory.yaml"]);
    assert!(out.stdout.contains("Blackwell needs 570 or later"), "{out}");

    let project = project.inventory(&driver("version: 570.158.01, flavor: open"));
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(!plan.stdout.contains("blocked by rule"), "{plan}");
    // Held back where the kernel takes no modules, since the switches are managed through one.
    for step in ["package nvidia-open-570  nvidia-driver/packages", "nvidia-fabricmanager/nvlink 5 tools"] {
        assert!(plan.stdout.contains(step), "{step}: {plan}");
    }
}

/// They are on the bus as adapters, and manage switches.
#[test]
fn functions_that_manage_switches_are_no_adapters() {
    let Some(nodes) = with_hardware("b200x8", 1) else { return };
    nodes[0].must("apt-get -qq install doca-ofed=3.2.0-1 >/dev/null");
    nodes[0].stop();
    nodes[0].start();
    let project = Project::new(&nodes).inventory(
        "apply:
  - { recipe: base-assert, on: all, with: { gpus: 8, product: B200, nvswitches: 0, ib_hcas: 4, eth_hcas: 0 } }
  - { recipe: doca-ofed, on: all, with: { version: 3.2.0-1 } }
  - { recipe: subnet-manager, on: all }
  - { recipe: ib-ports, on: all, with: { ports: 4 } }
",
    );
    converge(&project);
    let facts = facts(&project);
    let nvswitch = &facts["nvswitch"]["value"];
    assert_eq!((&nvswitch["count"], &nvswitch["required"]), (&json!(0), &json!(true)));
    assert_eq!(nvswitch["bridges"].as_array().map(Vec::len), Some(4));
    let bridges: Vec<bool> = list(&facts, "rdma").iter().map(|device| device["bridge"] == true).collect();
    assert_eq!(bridges.iter().filter(|bridge| **bridge).count(), 4, "of {}", bridges.len());
}
