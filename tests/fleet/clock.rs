//! Hosts whose clock was eight hours ahead when they booted, and was set right later: what changed since has an earlier
//! time than the start of every service.

use crate::support::{Fleet, Node, Nodes, Project};
use std::process::Command;

/// Keeps a copy of what it read when it started.
const UNIT: &str = "[Service]\nExecStart=/bin/sh -c 'cp /etc/served.conf /run/served; exec sleep infinity'\n\
                    [Install]\nWantedBy=multi-user.target\n";

const RECIPE: &str = "recipe: served
steps:
  - name: config
    file: { path: /etc/served.conf, content: \"second\\n\" }
  - name: service
    restart_on: [config]
    service: { name: served, enabled: true }
  - name: boot
    restart_on: [config]
    reboot: {}
";

/// Returns a host that has booted with its clock ahead, with a service that a user installed.
fn boot_ahead() -> Option<Nodes> {
    let nodes = Fleet::take(1)?;
    let node = &nodes[0];
    let dir = tempfile::tempdir().expect("a folder");
    let library = dir.path().join("ahead.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/clock/ahead.c");
    let built = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("a C compiler").success());
    node.write("/usr/lib/ahead.so", fs_err::read(&library).expect("the library"));
    node.write("/etc/systemd/system/served.service", UNIT);
    node.write("/etc/served.conf", "first\n");
    node.must("systemctl -q enable served && echo /usr/lib/ahead.so >/etc/ld.so.preload");
    node.stop();
    node.start();
    let ahead = node
        .must("echo $(($(date -d \"$(systemctl show -p ActiveEnterTimestamp --value served)\" +%s) - $(date +%s)))");
    assert!(ahead.parse::<i64>().is_ok_and(|seconds| (28_000..=28_800).contains(&seconds)), "{ahead}");
    Some(nodes)
}

fn is_served(node: &Node) -> bool {
    node.sh("cmp -s /etc/served.conf /run/served").ok()
}

/// A user wrote the declared content and restarted nothing: neither the service nor the boot has read it.
#[test]
fn change_after_a_boot_with_the_clock_ahead_restarts_and_reboots() {
    let Some(nodes) = boot_ahead() else { return };
    let node = &nodes[0];
    node.write("/etc/served.conf", "second\n");
    assert!(!is_served(node));
    let project = Project::new(&nodes).recipe("served", RECIPE);
    let project = project.inventory("rollout: { reboot: allow }\napply:\n  - { recipe: served, on: all }\n");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 2, "{plan}");
    assert!(plan.stdout.contains("`/etc/served.conf` changed after it started"), "{plan}");
    assert!(plan.stdout.contains("needs a reboot: `/etc/served.conf` changed after the boot"), "{plan}");
    node.must("rm /etc/ld.so.preload");
    let before = node.boot_id();
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert!(is_served(node) && node.boot_id() != before, "{applied}");
    let again = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(again.code, 0, "{again}");
}
