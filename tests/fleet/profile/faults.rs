//! What breaks while forge works on a server, or has broken before: it is told as what it is, and the others finish.

use super::facts::{facts, list};
use super::{BY_HAND, STACK, apply, document, installed, told};
use crate::support::Project;
use serde_json::json;
use std::time::{Duration, Instant};

const HANGS: &str = "`nvidia-smi` timed out after 30 s";

/// Each question ends by its own limit, and everything else of the host is told.
#[test]
fn an_nvidia_smi_that_hangs_is_unknown_in_time_and_the_rest_is_told() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    nodes[0].fault("smi-hangs", true);
    let began = Instant::now();
    let facts = facts(&Project::new(&nodes));
    assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
    assert_eq!(
        (&facts["gpu_state"]["unknown"]["why"], &facts["topology"]["unknown"]["why"]),
        (&json!(HANGS), &json!(HANGS))
    );
    assert_eq!((&facts["driver"]["value"]["loaded"], list(&facts, "rdma").len()), (&json!("560.35.03"), 6));
}

#[test]
fn a_server_whose_nvidia_smi_hangs_is_unknown_while_the_other_finishes() {
    let Some(nodes) = installed(2, BY_HAND) else { return };
    nodes[0].fault("smi-hangs", true);
    let project = Project::new(&nodes).inventory(
        "apply:
  - { recipe: nvidia-driver, on: all, with: { version: 560.35.03, flavor: proprietary } }
  - { recipe: nvidia-persistenced, on: all }
",
    );
    let out = apply(&project);
    assert_eq!(out.code, 9, "{out}");
    assert!(out.stdout.contains(HANGS), "{out}");
    let report = document(&project, "report.json");
    let verified = |at: usize| report["report"]["hosts"][at]["verify"].to_string();
    assert!(verified(0).contains(HANGS) && !verified(1).contains("unknown"), "{out}");
    assert_eq!(report["report"]["hosts"][1]["outcome"], "changed", "{out}");
}

/// Seven of eight came back: the host has failed, and stays out of service.
#[test]
fn a_gpu_that_is_lost_at_the_reboot_keeps_the_server_out_of_service() {
    let Some(nodes) = installed(1, BY_HAND) else { return };
    let node = &nodes[0];
    node.fault("gpu-lost-at-reboot", true);
    let project = Project::new(&nodes).inventory(&STACK.inventory(node));
    let out = apply(&project);
    assert_eq!((out.code, told(&project)["outcome"].clone()), (3, json!("failed")), "{out}");
    assert_eq!(told(&project)["reboots"].as_array().map(Vec::len), Some(1));
    assert!(node.exists("/var/lib/forge/window.json"), "{out}");
    assert!(!out.stderr.contains("is back in service"), "{out}");
    let why = "`base-assert`: verification `every GPU that the inventory counts is on the bus`: does not hold: facts.gpus | length == params.gpus";
    assert!(out.stderr.contains(why), "{out}");

    node.fault("gpu-missing", false);
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert!(!node.exists("/var/lib/forge/window.json"), "mended, and back in service: {out}");
}
