//! The source of changes on a real host: real users over real SSH, real sudo, apt, dpkg, unattended-upgrades and
//! systemd. Each change made without forge is reported with its user and time.

use crate::support::{Fleet, Node, Output, PASSWORD, Project, limited};
use serde_json::Value;

const RECIPE: &str = "
recipe: kinds
steps:
  - name: driver
    package: { name: forge-gpu-driver, version: '1.0' }
  - name: fm
    package: { name: forge-gpu-fm, version: '1.0' }
  - name: demo
    package: { name: forge-demo, version: 1.1-1 }
  - name: kernel
    package: { name: linux-image-9.9.0-fleet, version: '1.0' }
  - name: page
    file: { path: /srv/page, content: \"hello\\n\", mode: '0640' }
  - name: notice
    file: { path: /srv/notice, content: \"as it is\\n\" }
  - name: forwarding
    sysctl: { key: net.ipv4.ip_forward, value: 1 }
  - name: unit
    unit: { name: lamp.service, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n\" }
  - name: lamp
    service: { name: lamp, state: running }
  - name: bob
    user: { name: bob, shell: /bin/sh }
";

/// Makes the journal persistent over a reboot, as on Debian, and creates a kernel package of two versions and an
/// unattended upgrade of one package.
const PREPARE: &str = r#"
rm /etc/systemd/journald.conf.d/fleet.conf
systemctl restart systemd-journald
journalctl --flush
echo 'deb [trusted=yes] file:/srv/forge-repo/trade ./' >/etc/apt/sources.list.d/trade.list
echo 'deb [trusted=yes] file:/srv/kernels ./' >/etc/apt/sources.list.d/kernels.list
mkdir /srv/kernels
cd /srv/kernels
for v in 1.0 1.1; do
mkdir -p "k$v/DEBIAN" "k$v/boot"
echo "kernel $v" >"k$v/boot/vmlinuz-9.9.0-fleet"
printf 'Package: linux-image-9.9.0-fleet\nVersion: %s\nArchitecture: all\nMaintainer: fleet <f@localhost>\nDescription: a kernel\n' "$v" >"k$v/DEBIAN/control"
dpkg-deb --root-owner-group --build "k$v" "linux-image_$v.deb" >/dev/null
done
apt-ftparchive packages . >Packages
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends unattended-upgrades >/dev/null 2>&1
cat >/etc/apt/apt.conf.d/60fleet <<'END'
Unattended-Upgrade::Origins-Pattern { "origin=forge"; };
Unattended-Upgrade::Package-Blacklist { "forge-gpu"; };
END
"#;

/// A slow editor, run through `sudo -e`.
const EDITOR: &str = "printf '#!/bin/sh\\nsleep 2; echo edited >>\"$1\"\\n' >ed; chmod +x ed; \
                      (echo 'correct horse') | EDITOR=./ed sudo -S -p '' -e /srv/page";

/// A user's action on the node, and its expected report: step, user, program, part of the command, source.
struct Deed {
    who: &'static str,
    what: &'static str,
    told: [&'static str; 5],
}

const APT: &str = "/var/log/apt/history.log";

const DEEDS: [Deed; 9] = [
    Deed {
        who: "deploy",
        what: "sudo apt-get install -qqy forge-gpu-driver=1.1 >/dev/null 2>&1",
        told: ["driver", "deploy", "sudo", "apt-get install -qqy forge-gpu-driver=1.1", APT],
    },
    Deed {
        who: "root",
        what: "systemd-run --quiet --wait /usr/bin/unattended-upgrade",
        told: ["demo", "root", "unattended-upgrades", "/usr/bin/unattended-upgrade", APT],
    },
    Deed {
        who: "admin",
        what: "echo 'correct horse' | sudo -S -p '' dpkg -i /srv/forge-repo/forge-gpu-fm_1.1_all.deb >/dev/null",
        told: ["fm", "admin", "sudo", "dpkg -i /srv/forge-repo/forge-gpu-fm_1.1_all.deb", "/var/log/dpkg.log, journal"],
    },
    Deed { who: "admin", what: EDITOR, told: ["page", "admin", "sudo", "/srv/page", "journal"] },
    Deed {
        who: "deploy",
        what: "cd /srv && sudo sh -c \"echo it\\'s changed >notice\"",
        told: ["notice", "deploy", "sudo", ">notice", "journal"],
    },
    Deed {
        who: "deploy",
        what: "sudo systemctl stop lamp",
        told: ["lamp", "deploy", "sudo", "systemctl stop lamp", "journal"],
    },
    Deed {
        who: "admin",
        what: "echo 'correct horse' | sudo -S -p '' sysctl -qw net.ipv4.ip_forward=0",
        told: ["forwarding", "admin", "sudo", "sysctl -qw net.ipv4.ip_forward=0", "journal"],
    },
    Deed {
        who: "root",
        what: "sleep 2; usermod -s /bin/bash bob; sleep 2",
        told: ["bob", "root", "usermod", "change user 'bob' shell from '/bin/sh' to '/bin/bash'", "journal"],
    },
    Deed {
        who: "deploy",
        what: "sudo apt-get install -qqy linux-image-9.9.0-fleet >/dev/null 2>&1",
        told: ["kernel", "deploy", "sudo", "apt-get install -qqy linux-image-9.9.0-fleet", APT],
    },
];

/// Forges journal entries of sudo in another user's name, with a program that is named sudo.
const FORGERY: &str = "cp /usr/bin/logger sudo; logger -t sudo 'root : PWD=/ ; USER=root ; COMMAND=/usr/bin/tee /srv/notice'; \
    ./sudo -t sudo 'root : PWD=/ ; USER=root ; COMMAND=/usr/sbin/sysctl -qw net.ipv4.ip_forward=0'";

/// Runs a script as a user, over SSH.
fn ssh(node: &Node, user: &str, script: &str) -> Output {
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let mut command = limited("ssh");
    command.arg("-F").arg(&fleet.ssh_config).args(["-l", user, &node.name, script]);
    Output::of(&mut command, b"")
}

fn drift(project: &Project) -> (Output, Value) {
    let out = project.forge(["drift", "inventory.yaml", "--format", "json", "--plan-out", "repair.json"]);
    let value = serde_json::from_str(&out.stdout).unwrap_or_default();
    (out, value)
}

/// Returns the reported change source of a step.
fn culprit(document: &Value, step: &str) -> Value {
    let findings = document["drift"]["findings"].as_array().cloned().unwrap_or_default();
    let found = findings.into_iter().find(|finding| finding["step"] == step);
    found.unwrap_or_else(|| panic!("no finding for {step}: {document:#}"))["culprit"].clone()
}

fn seconds(node: &Node) -> String {
    node.must("date -u +%Y-%m-%dT%H:%M:%SZ")
}

/// Returns the files written on the node, without the journal: it is persistent here, so a login writes to it.
fn written(node: &Node) -> String {
    let all = node.snapshot();
    all.lines().filter(|line| !line.contains("./var/log/journal")).collect::<Vec<_>>().join("\n")
}

/// Returns the number of logins.
fn sessions(node: &Node) -> usize {
    node.must("journalctl -q -t sshd -t sshd-session -g 'Accepted publickey' | wc -l").parse().expect("a number")
}

/// Asserts that the reported change source is right and its time is between two moments.
fn assert_is(culprit: &Value, told: &[&str], between: (&str, &str)) {
    let text = |key: &str| culprit[key].as_str().unwrap_or("-").to_owned();
    let [user, program, command, source] = told else { panic!("four expected values") };
    assert_eq!(text("sure"), "named", "{culprit}");
    assert_eq!((&*text("user"), &*text("program"), &*text("source")), (*user, *program, *source), "{culprit}");
    assert!(text("command").contains(command), "{culprit}");
    let time = text("time");
    assert!(between.0 <= &*time && &*time <= between.1, "{culprit} is not between {between:?}");
}

#[test]
fn each_change_without_forge_is_attributed_to_user_and_time() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    assert_eq!(PASSWORD, "correct horse", "the deeds contain it");
    node.must(PREPARE);
    let project = Project::new(&nodes).recipe("kinds", RECIPE).inventory("apply:\n  - { recipe: kinds, on: all }\n");
    let applied = project.forge(["apply", "inventory.yaml", "--yes", "--quiet"]);
    assert_eq!(applied.code, 0, "{applied}");
    let before = sessions(node);
    assert_eq!(drift(&project).0.code, 0, "{}", drift(&project).0);
    assert_eq!(sessions(node), before + 1, "a host without drift must not be probed twice");
    node.must("sleep 1");
    let mut times = Vec::new();
    for deed in &DEEDS {
        let began = seconds(node);
        let done = if deed.who == "root" { node.sh(deed.what) } else { ssh(node, deed.who, deed.what) };
        assert!(done.ok(), "{}: {done}", deed.what);
        times.push((began, seconds(node)));
    }
    let forged = ssh(node, "plain", FORGERY);
    assert!(forged.ok(), "{forged}");
    let before = written(node);
    let (out, document) = drift(&project);
    assert_eq!(out.code, 2, "{out}");
    assert_eq!(written(node), before, "finding the source wrote something");
    for (deed, (began, ended)) in DEEDS.iter().zip(&times) {
        let [step, told @ ..] = &deed.told;
        assert_is(&culprit(&document, step), told, (began, ended));
    }
    let text = project.forge(["drift", "inventory.yaml"]).stdout;
    let line = "    by: deploy (sudo), apt-get install -qqy forge-gpu-driver=1.1, 20";
    assert!(text.contains(line) && text.contains(" UTC, found in /var/log/apt/history.log\n"), "{text}");
    reboots(node, &project);
    unreadable(node, &project);
}

/// A running service that is not enabled is stopped after a reboot: the user who rebooted is the source.
fn reboots(node: &Node, project: &Project) {
    let repaired = project.forge(["apply", "repair.json", "--yes", "--quiet"]);
    assert_eq!(repaired.code, 0, "{repaired}");
    assert_eq!(drift(project).0.code, 0, "{}", drift(project).0);
    node.must("sleep 1");
    let (boot, began) = (node.boot_id(), seconds(node));
    // The connection ends when the host goes down.
    ssh(node, "deploy", "sudo systemctl reboot; sleep 5");
    node.until(&format!("systemctl is-active -q ssh && ! grep -q {boot} /proc/sys/kernel/random/boot_id"), 60);
    let (out, document) = drift(project);
    assert_eq!(out.code, 2, "{out}");
    let told = ["deploy", "sudo", "systemctl reboot", "journal"];
    assert_is(&culprit(&document, "lamp"), &told, (&began, &seconds(node)));
}

/// If the logs are missing, the source is unknown, with the reason. A user's own journal, which reaches further back
/// than the system's, is no substitute.
fn unreadable(node: &Node, project: &Project) {
    project.forge(["apply", "repair.json", "--yes", "--quiet"]).must_exit(0);
    let changed =
        ssh(node, "deploy", "sudo apt-get install -qqy forge-gpu-driver=1.1 >/dev/null 2>&1; sudo systemctl stop lamp");
    assert!(changed.ok(), "{changed}");
    node.must("rm /var/log/apt/history.log /var/log/dpkg.log; journalctl -q --rotate");
    node.must("find /var/log/journal /run/log/journal -name 'system@*' -delete 2>/dev/null || :");
    let (out, document) = drift(project);
    assert_eq!(out.code, 2, "{out}");
    for step in ["driver", "lamp"] {
        let culprit = culprit(&document, step);
        assert_eq!(culprit["sure"], "unknown", "{culprit}");
        assert!(culprit.get("user").is_none() && culprit.get("why").is_some(), "{culprit}");
    }
}
