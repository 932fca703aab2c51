//! The tour of a GPU node on a machine without GPUs: bare servers become verified nodes in waves, with a window and a
//! reboot each. This machine is compared before and after.

use super::host::{Lab, Who};
use super::machine::Machine;
use super::run_as;
use serde_json::Value;

const INVENTORY: &str = "inventories/h100-sandbox.yaml";

/// Returns the hosts of the tour. As a user it has one host: waves do not depend on the user.
fn hosts(lab: &Lab) -> Vec<&'static str> {
    match lab.who {
        Who::Root => vec!["gpu-01", "gpu-02", "gpu-03"],
        Who::User => vec!["gpu-01"],
    }
}

fn copy_inventory(lab: &Lab) {
    let text = std::fs::read_to_string(INVENTORY).unwrap();
    let text = if lab.who == Who::User { text.replace("gpu-[01:03]", "gpu-01") } else { text };
    lab.file(INVENTORY, &text);
}

/// Reads the state of a host without forge: from the driver, the kernel and files.
fn ask_host(lab: &Lab, host: &str) -> Vec<String> {
    let code = "cat /proc/sys/kernel/random/boot_id; cat /sys/module/nvidia/version || echo none; \
                grep -c iommu=pt /proc/cmdline; systemctl is-active nvidia-fabricmanager; \
                nvidia-smi -q | grep -c '^GPU '; cat /sys/module/mlx5_core/version; cat /proc/sys/fs/inotify/max_user_instances";
    lab.inside(INVENTORY, host, &format!("{{ {code}; }} 2>/dev/null")).lines().map(str::to_owned).collect()
}

/// Two tests, because the tour takes longer than any other test and can run as both users at the same time.
#[test]
fn bare_servers_become_gpu_nodes_of_root() {
    run_as(Who::Root, become_gpu_nodes);
}

#[test]
fn bare_server_becomes_a_gpu_node_of_a_user() {
    run_as(Who::User, become_gpu_nodes);
}

fn become_gpu_nodes(lab: &Lab) {
    let machine = Machine::look();
    copy_inventory(lab);
    let facts = lab.forge(&["facts", INVENTORY, "--on", "gpu-01", "--format", "json"]);
    assert_eq!(facts.matches("\"product\": \"H100 SXM\"").count(), 8, "{facts}");
    let plan = lab.forge(&["plan", INVENTORY]);
    assert!(plan.contains("simulated, no real hardware: gpu-"), "{plan}");
    for told in ["nvidia-driver/packages", "\n  wave 1: gpu-01 (canary)\n", "reboots for kernel-cmdline/arguments, "] {
        assert!(plan.contains(told), "{told}: {plan}");
    }
    let before: Vec<_> = hosts(lab).into_iter().map(|host| ask_host(lab, host)).collect();
    let apply = lab.forge(&["apply", INVENTORY, "--yes", "--json-into", "report.json"]);
    assert!(apply.starts_with("exit 0\n"), "{}", what_failed(&apply));
    for (host, before) in hosts(lab).into_iter().zip(before) {
        assert_eq!(before[1..4], ["none", "0", "inactive"], "{host}");
        let after = ask_host(lab, host);
        assert_ne!(after[0], before[0], "{host} did not reboot");
        assert_eq!(after[1..], ["580.105.08", "1", "active", "8", "24.10-0.7.0", "8192"], "{host}");
    }
    every_host_rebooted_once(lab);
    for verb in ["apply --yes", "verify", "drift"] {
        let arguments: Vec<&str> = verb.split(' ').chain([INVENTORY]).collect();
        let out = lab.forge(&arguments);
        assert!(out.starts_with("exit 0\n"), "{verb}: {}", what_failed(&out));
    }
    other_hardware_is_refused(lab);
    lab.forge(&["sandbox", "reset", "-i", INVENTORY]);
    lab.nothing_is_left();
    machine.is_unchanged();
}

/// Returns the report below the plan, which is long: a pipeline shows the beginning of a panic only.
fn what_failed(out: &str) -> &str {
    out.find("\nfailed\n").map_or(out, |at| &out[at..])
}

fn every_host_rebooted_once(lab: &Lab) {
    let report: Value = serde_json::from_str(&lab.shell("cat report.json")).unwrap();
    assert_eq!(report["report"]["simulated"].as_array().map(Vec::len), Some(hosts(lab).len()));
    for host in report["report"]["hosts"].as_array().unwrap() {
        assert_eq!(host["reboots"].as_array().map(Vec::len), Some(1), "{host}");
    }
}

fn other_hardware_is_refused(lab: &Lab) {
    let other = lab.shell(&format!("cat {INVENTORY}")).replace("h100x8-ndr", "a100x8");
    lab.file(INVENTORY, &other);
    let refused = lab.forge(&["facts", INVENTORY, "--on", "gpu-01"]);
    assert!(refused.contains("it runs with other hardware than the inventory declares"), "{refused}");
    assert!(refused.contains("hint: forge sandbox reset gpu-01"), "{refused}");
}
