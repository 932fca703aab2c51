//! A boot that does not bring the host back is taken back by the host itself. The witness is a login of the test's own,
//! and what the host's own programs print.

use crate::support::{Fleet, Node, Project};

/// A unit without which nothing later starts, also no sshd, and a setting that takes effect at boot.
const HANG: &str = r#"
recipe: early
summary: A unit that hangs the boot
steps:
  - name: unit
    unit:
      name: hang.service
      content: |
        [Unit]
        DefaultDependencies=no
        Before=sysinit.target ssh.service
        [Service]
        Type=oneshot
        TimeoutStartSec=infinity
        ExecStart=/bin/sleep infinity
        [Install]
        WantedBy=sysinit.target
  - name: enabled
    service: { name: hang.service, state: stopped, enabled: true }
  - name: setting
    file: { path: /etc/early.conf, content: "1\n" }
    effective: { by: [reboot], check: test -e /run/early.conf }
"#;

const INVENTORY: &str =
    "rollout: { reboot: allow, reboot_guard: 25s, reboot_timeout: 5m }\napply: [{ recipe: early, on: all }]\n";

/// The files, units and records that a boot depends on.
fn state(node: &Node) -> String {
    node.must(
        "find /etc/systemd/system /etc/early.conf /var/lib/forge/applied -type f -exec sha256sum {} + 2>/dev/null | sort
        find /etc/systemd/system -type l -printf '%p %l\n' | sort
        systemctl list-units --all --no-legend 'forge-*' 'hang*'; ls -A /var/lib/forge/guard 2>/dev/null || :",
    )
}

/// Puts the setting into effect at boot.
fn add_early_service(node: &Node) {
    node.write(
        "/etc/systemd/system/early.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'cp /etc/early.conf /run/early.conf || :'\n\
         [Install]\nWantedBy=multi-user.target\n",
    );
    node.must("systemctl enable --quiet early.service");
}

#[test]
fn unit_that_hangs_the_boot_is_taken_back() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkdir -p /var/lib/forge/applied");
    let project = Project::new(&nodes).recipe("early", HANG).inventory(INVENTORY);
    let planned = project.forge(["plan", "inventory.yaml"]);
    let line = "guard: 25s (a boot that has not brought the host back by then is taken back by the host itself)";
    assert!(planned.code == 0 && planned.stdout.contains(line), "{planned}");
    let (before, boot) = (state(node), node.boot_id());
    let applied = project.forge(["apply", "inventory.yaml", "--yes", "--json-into", "report.json"]);
    assert_eq!(applied.code, 3, "{applied}");
    let why = "the guard of the reboot (25s) restored the state before: systemd reports `initializing` and \
               waits for hang.service\n    hint: ";
    assert!(applied.stdout.contains(why), "{applied}");
    assert_eq!(state(node), before, "{applied}");
    assert!(!node.exists("/etc/early.conf"), "{applied}");
    assert_eq!(node.must("systemctl is-system-running || :"), "running");
    let text = fs_err::read_to_string(project.path("report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let reboots = &report["report"]["hosts"][0]["reboots"];
    let (from, to) = (reboots[0]["from"].as_str(), reboots[0]["to"].as_str());
    assert_eq!((from, to), (Some(&*boot), Some(&*node.boot_id())), "{reboots}");
    let again = project.forge(["plan", "inventory.yaml"]);
    assert!(again.stdout.contains("hang.service") && again.stdout.contains("early.conf"), "{again}");
}

/// A boot that brings the host back leaves nothing of its guard, and keeps the change.
#[test]
fn confirmed_boot_keeps_its_changes() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    add_early_service(node);
    let harmless = HANG.replace("ExecStart=/bin/sleep infinity", "ExecStart=/bin/true");
    let project = Project::new(&nodes).recipe("early", &harmless).inventory(INVENTORY);
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    let left = "systemctl list-units --all --no-legend 'forge-*'; ls -A /var/lib/forge/guard
        find /etc/systemd -name 'forge-boot-guard*'";
    assert_eq!(node.must(left), "", "{applied}");
    node.must("test -e /run/early.conf && test -e /etc/systemd/system/hang.service");
    std::thread::sleep(std::time::Duration::from_secs(26));
    node.must("test -e /etc/systemd/system/hang.service");
    project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]).must_exit(0);
}

/// A host that came back keeps its changes although forge was killed; the next run confirms the boot.
#[test]
fn killed_run_does_not_take_back_a_good_boot() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    add_early_service(node);
    let harmless = HANG.replace("ExecStart=/bin/sleep infinity", "ExecStart=/bin/true");
    let project = Project::new(&nodes).recipe("early", &harmless).inventory(INVENTORY);
    let boot = node.boot_id();
    let mut child = project.begin();
    node.until("ls /var/lib/forge/guard/*-boot/armed", 60);
    node.until_down(&boot, 60);
    child.kill();
    node.until("ls /var/lib/forge/guard/*-boot/confirmed", 90);
    node.must("test -e /etc/systemd/system/hang.service && test -e /etc/early.conf");
    let boot = node.boot_id();
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!((applied.code, node.boot_id()), (0, boot), "it does not reboot again: {applied}");
    assert_eq!(node.must("ls -A /var/lib/forge/guard"), "", "{applied}");
    assert_eq!(node.must("find /etc/systemd -name 'forge-boot-guard*'"), "", "{applied}");
    node.must("test -e /etc/systemd/system/hang.service && test -e /run/early.conf");
}

/// The session that confirms the boot ends halfway: the host is still in the boot that it came back with, and is asked
/// again.
#[test]
fn session_that_ends_during_the_confirmation_is_opened_again() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    add_early_service(node);
    let cut = r#"#!/bin/sh
case " $* " in
  *" stop forge-boot-guard.timer "*) [ -e /srv/cut ] || { : >/srv/cut && pkill -KILL -f '[s]shd(-session)?: root'; } ;;
esac
exec /usr/bin/systemctl "$@"
"#;
    node.write("/usr/local/sbin/systemctl", cut);
    node.must("chmod 755 /usr/local/sbin/systemctl");
    let harmless = HANG.replace("ExecStart=/bin/sleep infinity", "ExecStart=/bin/true");
    let inventory = INVENTORY.replace("reboot_timeout: 5m", "reboot_timeout: 2m");
    let project = Project::new(&nodes).recipe("early", &harmless).inventory(&inventory);
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    node.must("test -e /srv/cut && test -e /run/early.conf");
    let left = "ls -A /var/lib/forge/guard; find /etc/systemd -name 'forge-boot-guard*'";
    assert_eq!(node.must(left), "", "{applied}");
}
