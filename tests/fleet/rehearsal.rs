//! Rehearsals on a real host over ssh: with systemd, sshd and its own repository. The host does not change.

use crate::distribution::{ClaimedDistribution, Distribution};
use crate::running_forge::RunningForge;
use crate::support::{Fleet, Node, Project};
use std::process::Stdio;

/// The demo's package restarts the real sshd, adds a user, and edits a file of another package.
const PLANTED: &str = r#"printf '%s\n' '#!/bin/sh' 'deb-systemd-invoke restart ssh.service' 'useradd --system planted' 'echo planted >>/etc/issue' >"$work/DEBIAN/postinst"
        chmod 755 "$work/DEBIAN/postinst"
        dpkg-deb --root"#;

/// A package of the host's own repository, and a service of it.
const DAEMON: &str = "
recipe: daemon
steps:
  - name: package
    package: { name: forge-demo, version: 1.1-1 }
  - name: service
    restart_on: [package]
    service: { name: forge-demo.service, enabled: true, state: running }
  - name: ssh
    service: { name: ssh.service, enabled: true, state: running }
";

/// Every file of the host with its digest, as the host itself sees it, without logs.
const DIGESTS: &str = "find /etc /usr /var /root /home /srv /opt -xdev -path /var/log -prune -o -path /var/lib/sudo -prune -o \
                       -type f -print0 | xargs -0 sha256sum | sort -k2 | sha256sum; getent passwd; getent group; findmnt -rno TARGET";

/// Returns the demo's recipe of a host, with the planted script and without its kernel settings: nodes share the kernel
/// of the machine.
fn planted_recipe() -> String {
    let host = include_str!("../../inventories/recipes/gpu-host.yaml");
    let (head, rest) = host.split_once("  - name: nouveau never loads\n").expect("the first kernel setting");
    let (_, steps) = rest.split_once("  # On hosts with apt, a local").expect("the end of the kernel settings");
    let (steps, _) = steps.split_once("  - name: the kernel has its huge pages\n").expect("the last verification");
    assert!(steps.contains("dpkg-deb --root"), "{steps}");
    format!("{head}  # On hosts with apt, a local{}", steps.replace("dpkg-deb --root", PLANTED))
}

fn demo(nodes: &[Node]) -> Project {
    Project::new(nodes)
        .inventory("apply:\n  - { recipe: base, on: all }\n  - { recipe: gpu-host, on: all }\n  - { recipe: daemon, on: all }\n")
        .recipe("base", include_str!("../../inventories/recipes/base.yaml"))
        .recipe("gpu-host", &planted_recipe())
        .recipe("daemon", DAEMON)
}

fn sshd(node: &Node) -> String {
    node.must("systemctl show -p MainPID,InvocationID,ExecMainStartTimestampMonotonic ssh.service")
}

fn no_view_is_left(node: &Node) {
    node.until("! pgrep -f '[f]orge-rehearsal' && ! grep -q '[f]orge-rehearsal' /proc/mounts", 15);
}

#[test]
fn planted_maintainer_script_is_found_and_the_host_is_unchanged() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = demo(&nodes);
    node.settled();
    let look = || (node.snapshot(), node.must(DIGESTS), sshd(node));
    let before = look();
    let said = project.forge(["rehearse", "inventory.yaml", "--on", &node.name]);
    no_view_is_left(node);
    let after = look();
    assert_eq!(after.2, before.2, "sshd was touched");
    assert_eq!(after.1, before.1);
    assert_eq!(after.0, before.0);
    assert_eq!(said.code, 0, "{said}");
    for step in
        ["gpu-host/agent", "gpu-host/agent service", "gpu-host/agent address", "daemon/package", "daemon/service"]
    {
        assert!(said.stdout.contains(&format!("  ok {step} (")), "{step}: {said}");
    }
    for found in [
        "unit     `ssh.service` restarted by postinst of package `gpu-agent` during `gpu-host/agent`\n",
        "user     `planted` created\n",
        "file     `/etc/issue` changed (of package `base-files`) during `gpu-host/agent`\n",
    ] {
        assert!(said.stdout.contains(found), "{found}: {said}");
    }
    assert!(!said.stdout.contains("in the view only"), "the view differs from the host: {said}");
    assert!(!said.stdout.contains("simulated in the view"), "systemd runs here: {said}");
}

/// A package whose script restarts the real sshd, adds a user, and edits a file.
const PLANTED_RPM: &str = r#"
mkdir -p /root/rpm
cat >/root/rpm/spec <<'END'
Name: planted
Version: 1.0
Release: 1
Summary: a stand-in
License: none
BuildArch: noarch
%description
A stand-in.
%post
systemctl restart ssh.service
useradd --system planted
echo planted >>/etc/issue
%files
END
rpmbuild -bb --quiet --define "_topdir /root/rpm" --define "_rpmdir /root" --define '_rpmfilename planted.rpm' /root/rpm/spec
rm -r /root/rpm
printf '[kubernetes]\nname=kubernetes\nbaseurl=file:///srv/world/kubernetes\nenabled=1\ngpgcheck=0\n' >/etc/yum.repos.d/world.repo
"#;

/// dnf's real solver and the real scripts of rpm packages.
#[test]
fn planted_script_of_an_rpm_is_found_and_the_host_is_unchanged() {
    let Some(nodes) = Fleet::take_on(Distribution::Debian12, 1) else { return };
    let node = &nodes[0];
    node.claim(ClaimedDistribution::Rocky9);
    node.must(PLANTED_RPM);
    let recipe = "
recipe: planted
steps:
  - name: script
    package_file: { path: /root/planted.rpm }
  - name: solver
    package: { name: kubeadm, version: 1.30.6-150500.1.1 }
  - name: none
    package: { name: no-such-package }
";
    let project = Project::new(&nodes).inventory("apply: [{ recipe: planted, on: all }]\n").recipe("planted", recipe);
    node.settled();
    // Every program that reads rpm's database renews the times of its lock files.
    let snapshot =
        || node.snapshot().lines().filter(|line| !line.contains("/rpmdb.sqlite-")).collect::<Vec<_>>().join("\n");
    let look = || (snapshot(), node.must(DIGESTS), sshd(node));
    let before = look();
    let said = project.forge(["rehearse", "inventory.yaml", "--on", &node.name]);
    no_view_is_left(node);
    assert_eq!(look(), before, "{said}");
    assert_eq!(said.code, 3, "{said}");
    assert!(!said.stdout.contains("`planted:noarch`"), "the step itself declares that: {said}");
    for found in [
        "  ok planted/script (",
        "  ok planted/solver (",
        "unit     `ssh.service` restarted by `/bin/sh /var/tmp/rpm-tmp.",
        "package  `kubelet:x86_64` installed: 1.30.6-150500.1.1\n",
        "user     `planted` created\n",
        "file     `/etc/issue` changed",
    ] {
        assert!(said.stdout.contains(found), "{found}: {said}");
    }
}

/// As a user who is not root: by sudo with and without a password, and not without sudo.
#[test]
fn rehearsal_becomes_root_by_sudo_or_is_refused() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let rehearse = |user: &str, sudo: &str| {
        let project = Project::connecting_as(user, &nodes)
            .recipe("daemon", DAEMON)
            .inventory("apply:\n  - { recipe: daemon, on: all }\n");
        let text = fs_err::read_to_string(project.path("inventory.yaml")).unwrap();
        let project = project.file("inventory.yaml", &text.replacen("connect: { ", &format!("connect: {{ {sudo}"), 1));
        let mut command = project.command(["rehearse", "inventory.yaml", "--on", &node.name]);
        crate::support::Output::of(command.env("FORGE_TEST_SUDO", crate::support::PASSWORD), b"")
    };
    for (user, sudo) in [("deploy", "sudo: true, "), ("admin", "sudo: { password: { env: FORGE_TEST_SUDO } }, ")] {
        let said = rehearse(user, sudo);
        assert!(said.code == 0 && said.stdout.contains("  ok daemon/package ("), "{user}: {said}");
        no_view_is_left(node);
    }
    let refused = rehearse("plain", "");
    let why =
        "cannot make a view of the host: root is required\n    hint: set `connect: { sudo: … }` or log in as root\n";
    assert!(refused.code == 3 && refused.stdout.contains(why), "{refused}");
    assert!(!node.exists("/etc/forge-demo.conf") && !node.exists("/var/lib/forge"), "a host was changed");
}

const SLOW: &str = "
recipe: slow
steps:
  - { name: slow, command: { creates: /srv/done, apply: sleep 765.4321 } }
";

#[test]
fn view_ends_after_forge_was_killed_or_the_link_was_lost() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("slow", SLOW).inventory("apply: [{ recipe: slow, on: all }]\n");
    node.settled();
    let before = node.snapshot();
    for fault in ["kill", "link"] {
        let mut command = project.command(["rehearse", "inventory.yaml", "--on", &node.name]);
        let mut forge = RunningForge::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        node.until("pgrep -f '[s]leep 765.4321' >/dev/null", 60);
        match fault {
            "kill" => forge.kill(),
            _ => node.link(false),
        }
        // Without a link, the host notices only that heartbeats are missing.
        node.until("! pgrep -f '[s]leep 765.4321' >/dev/null", if fault == "kill" { 20 } else { 120 });
        no_view_is_left(node);
        forge.kill();
        if fault == "link" {
            node.link(true);
        }
    }
    assert_eq!(node.snapshot(), before);
}
