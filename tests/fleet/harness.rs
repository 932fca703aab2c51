//! Tests of the harness itself: fresh nodes, reboots with a new boot ID, and snapshots that detect every write.

use crate::distribution::{ClaimedDistribution, Distribution};
use crate::support::{Fleet, Output, Project};
use std::time::{Duration, Instant};

#[test]
fn taken_node_is_running_and_reset_discards_its_files() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    assert_eq!(node.must("systemctl is-system-running"), "running");
    let bytes = b"\0binary and no newline";
    node.write("/root/left-behind", bytes);
    assert_eq!(node.read("/root/left-behind"), bytes);
    node.sh("echo out; echo err >&2; exit 3").must_exit(3);
    node.reset();
    assert!(!node.exists("/root/left-behind"));
}

#[test]
fn reset_changes_the_release_of_a_node() {
    for (distribution, versions) in [
        (Distribution::Debian11, "11 systemd 247 apt 2.2 OpenSSH_8.4p1"),
        (Distribution::Debian12, "12 systemd 252 apt 2.6 OpenSSH_9.2p1"),
        (Distribution::Debian13, "13 systemd 257 apt 3.0 OpenSSH_10.0p2"),
    ] {
        let Some(nodes) = Fleet::take_on(distribution, 1) else { return };
        let seen = nodes[0].must(
            "echo $(cut -d. -f1 /etc/debian_version) $(systemctl --version | sed -n '1s/ (.*//p') \
             $(apt-get --version | sed -n 's/^\\(apt [0-9]*[.][0-9]*\\).*/\\1/p') $(ssh -V 2>&1 | cut -d' ' -f1)",
        );
        assert_eq!(seen, versions);
        assert_eq!(nodes[0].must("systemctl is-system-running"), "running");
    }
}

#[test]
fn node_claims_another_distribution_and_gets_its_programs() {
    for (distribution, os, programs) in [
        (ClaimedDistribution::Ubuntu2204, "ubuntu 22.04 jammy", "netplan apt-get update-initramfs"),
        (ClaimedDistribution::Ubuntu2404, "ubuntu 24.04 noble", "netplan apt-get update-initramfs"),
        (ClaimedDistribution::Rocky9, "rocky 9.7", "dnf rpm dracut lsinitrd"),
    ] {
        let Some(nodes) = Fleet::take_on(Distribution::Debian12, 1) else { return };
        let node = &nodes[0];
        node.claim(distribution);
        assert_eq!(node.must(". /etc/os-release; echo $ID $VERSION_ID $VERSION_CODENAME"), os);
        node.must(&format!("for program in {programs}; do command -v $program >/dev/null || exit 1; done"));
        let project = Project::new(&nodes);
        let facts = project.forge(["facts", "inventory.yaml", "--format", "json"]);
        let facts: serde_json::Value = serde_json::from_str(&facts.stdout).expect("a document");
        let facts = &facts["facts"][0]["facts"];
        let manager = if distribution == ClaimedDistribution::Rocky9 { "dnf" } else { "apt" };
        assert_eq!(facts["os"]["value"]["id"], os.split(' ').next().unwrap_or_default());
        assert_eq!(facts["packages"]["value"]["manager"], manager);
    }
}

#[test]
fn a_reboot_gives_a_new_boot_id_and_keeps_the_disk() {
    let Some(nodes) = Fleet::take(1) else { return };
    let before = nodes[0].boot_id();
    nodes[0].write("/root/kept", "");
    nodes[0].must("systemctl reboot");
    wait_until(
        || nodes[0].sh("systemctl is-system-running; cat /proc/sys/kernel/random/boot_id"),
        |out| out.starts_with("running\n") && !out.contains(&before),
    );
    assert!(nodes[0].exists("/root/kept"));
}

/// A shutdown stops all processes for a moment: the program that `exec` runs must not stop its parent outside with it.
#[test]
fn program_that_is_stopped_does_not_delay_a_reboot() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let before = node.boot_id();
    std::thread::scope(|scope| {
        let program = scope.spawn(|| node.sh("exec sleep 301"));
        node.until("pkill -STOP -f '^[s]leep 301'", 30);
        node.must("systemctl reboot");
        node.until_down(&before, 60);
        assert!(!program.join().expect("the program ends with its node").ok());
    });
    wait_until(|| node.sh("systemctl is-system-running"), |out| out.starts_with("running\n"));
}

#[test]
fn stopped_node_is_unreachable_until_it_is_started() {
    let Some(nodes) = Fleet::take(2) else { return };
    nodes[0].stop();
    assert!(!nodes[0].sh("true").ok());
    assert!(nodes[1].sh("true").ok());
    nodes[0].start();
    assert!(nodes[0].sh("true").ok());
}

#[test]
fn snapshot_ignores_reads_and_detects_transient_files() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let before = node.snapshot();
    node.must("dpkg-query -W; systemctl show ssh; sha256sum /etc/passwd; apt-cache policy");
    assert_eq!(before, node.snapshot());
    for directory in ["/etc", "/tmp", "/run/lock", "/var/lib"] {
        node.must(&format!("touch {directory}/x && rm {directory}/x"));
        assert_ne!(before, node.snapshot(), "{directory}");
    }
}

#[test]
fn upgrade_keeps_old_mtimes_and_does_not_restart_the_service() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("apt-get -qq install -y forge-demo=1.0-1 && systemctl start forge-demo");
    node.must("until [ -e /run/forge-demo/loaded ]; do sleep 0.1; done; apt-get -qq install -y forge-demo=1.1-1");
    assert_eq!(node.must("cat /run/forge-demo/loaded"), "version=1.0-1 greeting=hello");
    assert_eq!(node.must("/usr/sbin/forge-demo --version; date -r /usr/sbin/forge-demo +%Y"), "1.1-1\n2001");
}

#[test]
fn forge_runs_in_its_own_project_directory() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = Project::new(&nodes).recipe("demo", "recipe: demo\n");
    assert!(project.path("inventory.yaml").exists() && project.path("recipes/demo.yaml").exists());
    let out = project.forge(["--version"]);
    assert_ne!(out.code, 124, "{out}");
}

fn wait_until(mut run: impl FnMut() -> Output, done: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done(&run().stdout) {
        assert!(Instant::now() < end, "not done within 30 s");
        std::thread::sleep(Duration::from_millis(100));
    }
}
