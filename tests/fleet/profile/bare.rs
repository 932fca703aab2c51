//! Servers that are skipped while another one converges from bare to verified.

use super::{BY_HAND, STACK, apply, bare, document, gsp, installed};
use crate::support::Project;
use serde_json::json;

#[test]
fn server_with_a_missing_gpu_is_blocked_and_others_finish() {
    let Some(nodes) = bare(2) else { return };
    nodes[0].fault("gpu-missing", true);
    let project = Project::new(&nodes).inventory(&STACK.inventory(&nodes[0]));
    let (out, boot) = (apply(&project), nodes[0].boot_id());
    assert_eq!(out.code, 3, "{out}");
    let report = document(&project, "report.json");
    let outcome = |at: usize| report["report"]["hosts"][at]["outcome"].clone();
    assert_eq!((outcome(0), outcome(1)), (json!("blocked"), json!("changed")), "{out}");
    assert!(
        out.stdout.contains("hardware: found 7, declared 8: fewer GPUs are on the PCI bus than the inventory declares"),
        "{out}"
    );
    assert!(!nodes[0].exists("/usr/bin/nvidia-smi") && nodes[1].exists("/usr/bin/nvidia-smi"));
    assert_eq!(nodes[0].boot_id(), boot);
}

#[test]
fn server_with_a_gpu_in_use_is_blocked_and_others_finish() {
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
