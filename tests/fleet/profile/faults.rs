//! Faults before or during a run: they are reported correctly, and the other hosts finish.

use super::{BY_HAND, STACK, apply, document, installed, told};
use crate::support::Project;
use serde_json::json;
use std::time::{Duration, Instant};

const HANGS: &str = "`nvidia-smi` timed out after 30 s";

/// Each probe ends at its own timeout, and so does forge.
#[test]
fn hanging_nvidia_smi_is_unknown_and_other_servers_finish() {
    let Some(nodes) = installed(2, BY_HAND) else { return };
    nodes[0].fault("smi-hangs", true);
    let project = Project::new(&nodes).inventory(
        "apply:
  - { recipe: nvidia-driver, on: all, with: { version: 560.35.03, flavor: proprietary } }
  - { recipe: nvidia-fabricmanager, on: all }
  - { recipe: nvidia-persistenced, on: all }
",
    );
    let began = Instant::now();
    // The fabric manager's step would wait for `nvidia-smi` for minutes.
    let skipping = ["--skip", "nvidia-fabricmanager"];
    let out =
        project.forge(["apply", "inventory.yaml", "--yes", "--json-into", "report.json"].into_iter().chain(skipping));
    assert!(began.elapsed() < Duration::from_secs(150), "{:?}: {out}", began.elapsed());
    assert_eq!(out.code, 9, "{out}");
    assert!(out.stdout.contains(HANGS), "{out}");
    let report = document(&project, "report.json");
    let verified = |at: usize| report["report"]["hosts"][at]["verify"].to_string();
    assert!(verified(0).contains(HANGS) && !verified(1).contains("unknown"), "{out}");
    assert_eq!(report["report"]["hosts"][1]["outcome"], "changed", "{out}");
}

/// Seven of eight GPUs come back: the host fails and stays out of service.
#[test]
fn server_that_loses_a_gpu_at_reboot_stays_out_of_service() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    let node = &nodes[0];
    node.fault("gpu-lost-at-reboot", true);
    let project = Project::new(&nodes).inventory(&STACK.inventory(node));
    let out = apply(&project);
    assert_eq!((out.code, told(&project)["outcome"].clone()), (3, json!("failed")), "{out}");
    assert_eq!(told(&project)["reboots"].as_array().map(Vec::len), Some(1));
    assert!(node.exists("/var/lib/forge/window.json"), "{out}");
    assert!(!out.stderr.contains("is back in service"), "{out}");
    let why = "`base-assert`: verification `every GPU that the inventory counts is on the bus`: expectation failed: facts.gpus | length == params.gpus";
    assert!(out.stderr.contains(why), "{out}");

    node.fault("gpu-missing", false);
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert!(!node.exists("/var/lib/forge/window.json"), "repaired, but not back in service: {out}");

    for fault in ["xid", "nvlink-down", "gpu-hot"] {
        node.fault(fault, true);
    }
    let drift = project.forge(["drift", "inventory.yaml"]);
    assert_eq!(drift.code, 2, "{drift}");
    for said in [
        "gpu 0000:df:00.0",
        "the kernel's log has Xid 79 (fell off the bus)",
        "drain the host and power-cycle it",
        "17 of 18 NVLinks are active",
        "its clocks are lowered by heat (`hw_thermal_slowdown`)",
    ] {
        assert!(drift.stdout.contains(said), "no `{said}`: {drift}");
    }
}
