//! Verbs that check many hosts and change none: `exec` and `doctor`, with hosts that are unreachable or not ready.

use crate::support::{Fleet, Node, Output, Project};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[track_caller]
fn expect(out: &Output, code: i32) {
    assert_eq!(out.code, code, "{out}");
}

#[track_caller]
fn says(out: &Output, text: &str) {
    assert!(out.stdout.contains(text), "no `{text}` in {out}");
}

fn exec(project: &Project, args: &[&str]) -> Output {
    project.forge(["exec", "-i", "inventory.yaml", "--yes"].iter().chain(args))
}

fn names(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(|node| node.name.as_str()).collect()
}

/// Returns the names as forge folds them: as a range if they are consecutive.
fn folded(nodes: &[Node]) -> String {
    let parts = |at: usize| nodes[at].name.rsplit_once('-').expect("a node has a number");
    let ((stem, first), (_, last)) = (parts(0), parts(1));
    let number = |text: &str| text.parse::<u32>().expect("a number");
    match number(last) == number(first) + 1 {
        true => format!("{stem}-[{first}:{last}]"),
        false => format!("{},{}", nodes[0].name, nodes[1].name),
    }
}

#[test]
fn exec_groups_equal_output_and_skips_unreachable_hosts() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = Project::new(&nodes);
    nodes[0].must("touch /srv/special");
    nodes[2].stop();
    let before = [nodes[0].snapshot(), nodes[1].snapshot()];
    let out = exec(&project, &["--", "cut", "-d.", "-f1", "/etc/debian_version"]);
    expect(&out, 4);
    let release = nodes[0].must("cut -d. -f1 /etc/debian_version");
    says(&out, &format!("{}: {release}\n", folded(&nodes)));
    says(&out, &format!("{}: unreachable: ", nodes[2].name));
    says(&out, "\nnot all done: 3 hosts: 2 ok, 1 unreachable (");
    let out = exec(&project, &["--", "echo here; ls /srv/special /srv/none 2>/dev/null | wc -l; test -e /srv/special"]);
    expect(&out, 3);
    says(&out, &format!("{}: exit status 1\n    here\n    0\n", nodes[1].name));
    says(&out, &format!("{}:\n    here\n    1\n", nodes[0].name));
    assert_eq!([nodes[0].snapshot(), nodes[1].snapshot()], before, "exec itself wrote something");
    nodes[2].start();
}

#[test]
fn exec_on_many_hosts_requires_yes_without_a_terminal() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = Project::new(&nodes);
    let out = project.forge(["exec", "-i", "inventory.yaml", "--", "touch", "/srv/ran"]);
    expect(&out, 64);
    assert!(out.stderr.ends_with(
        "error: exec on more than one host (2 hosts) requires confirmation, but there is no terminal\n  \
         hint: pass `--yes` to skip the confirmation, or select one host\n"
    ));
    assert!(!nodes[0].exists("/srv/ran") && !nodes[1].exists("/srv/ran"));
    expect(&project.forge(["exec", names(&nodes)[1], "-i", "inventory.yaml", "--", "touch", "/srv/ran"]), 0);
    assert!(!nodes[0].exists("/srv/ran") && nodes[1].exists("/srv/ran"));
}

#[test]
fn exec_timeout_kills_the_command_and_its_children() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = Project::new(&nodes);
    let began = Instant::now();
    let out = exec(&project, &["--timeout", "2s", "--", "echo begun; sleep 4321 & sleep 4321"]);
    expect(&out, 3);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    says(&out, "failed: timed out after 2 s and was stopped\n    hint: set a longer `--timeout`\n    begun\n");
    assert_ne!(nodes[0].sh("pgrep -f 'sleep [4]321'").code, 0, "it still runs on the host");
    // The command's own status 124 is not mistaken for a timeout, and the command runs exactly as typed.
    expect(&exec(&project, &["--", "exit 124"]), 3);
    says(&exec(&project, &["--", "printf", "%s|", "a b", "$HOME", "*", "'"]), ": a b|$HOME|*|'|\n");
}

#[test]
fn exec_works_on_a_full_disk_and_as_the_configured_user() {
    let Some(nodes) = Fleet::take(1) else { return };
    nodes[0]
        .must("dd if=/dev/zero of=/srv/full bs=1M 2>/dev/null; dd if=/dev/zero of=/tmp/full bs=1M 2>/dev/null; true");
    let out = exec(&Project::new(&nodes), &["--", "df --output=avail -m / | tail -1"]);
    expect(&out, 0);
    says(&out, ": ");
    nodes[0].must("rm -f /srv/full /tmp/full");
    says(&exec(&Project::connecting_as("plain", &nodes), &["--", "id -un; pwd"]), "    plain\n    /home/plain\n");
}

/// Runs a command and sends `count` interrupts once it runs on the host.
fn interrupted(project: &Project, node: &Node, count: usize) -> Output {
    let command = ["exec", "-i", "inventory.yaml", "--", "touch /srv/runs; sleep 6; echo ended"];
    let mut child = project.command(command);
    let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("forge runs");
    node.until_exists("/srv/runs");
    let pid = rustix::process::Pid::from_child(&child);
    for _ in 0..count {
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("forge still runs");
        std::thread::sleep(Duration::from_millis(500));
    }
    let out = child.wait_with_output().expect("forge ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { stdout: text(&out.stdout), stderr: text(&out.stderr), code: out.status.code().unwrap_or(-1) }
}

#[test]
fn exec_finishes_on_one_interrupt_and_detaches_on_two() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = Project::new(&nodes);
    let out = interrupted(&project, &nodes[0], 1);
    expect(&out, 130);
    says(&out, ": ended\n");
    let stopping = "stopping after the running commands; interrupt again to leave them running\n";
    assert!(out.stderr.contains(stopping), "{out}");
    nodes[0].must("rm /srv/runs");
    let began = Instant::now();
    let out = interrupted(&project, &nodes[0], 2);
    expect(&out, 130);
    says(&out, "cancelled: forge exited before the command finished; it may still be running");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

fn doctor(project: &Project) -> Output {
    project.forge(["doctor", "inventory.yaml"])
}

#[test]
fn doctor_finds_hosts_ready_and_writes_nothing() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = Project::new(&nodes);
    let before = nodes[0].snapshot();
    let out = doctor(&project);
    expect(&out, 0);
    says(&out, "\ndoctor: 3 hosts: 3 ready (");
    assert_eq!(nodes[0].snapshot(), before, "doctor wrote something");
    nodes[1].stop();
    let out = doctor(&project);
    expect(&out, 4);
    says(&out, &format!("      on {}\n", nodes[1].name));
    says(&out, "      hint: check that the host is up, its `address` and firewalls");
    says(&out, "doctor: 3 hosts: 2 ready, 1 unreachable (");
    nodes[1].start();
}

#[test]
fn doctor_reports_problems_with_hints() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = Project::new(&nodes);
    let node = &nodes[0];
    node.must("mv /usr/bin/flock /usr/bin/flock.away");
    node.must("setpriv --reuid=plain --clear-groups touch /run/lock/forge");
    node.must("apt-get -qq install -y forge-broken >/dev/null 2>&1 || true");
    node.write(
        "/usr/local/sbin/date",
        "#!/bin/sh\n[ \"$1\" = +%s ] && exec /bin/date -d '+2 hours' +%s\nexec /bin/date \"$@\"\n",
    );
    node.must("chmod +x /usr/local/sbin/date");
    node.must("dd if=/dev/zero of=/srv/full bs=1M 2>/dev/null || true");
    let out = doctor(&project);
    expect(&out, 3);
    for told in [
        "  x tools: missing: `flock`\n      hint: install the packages that contain them: coreutils, util-linux",
        "  x lock: `/run/lock/forge` is not a root-owned file: regular empty file by plain\n      hint: if no forge run is active there",
        "  x packages: not fully installed: `forge-broken` (",
        "  x clock: about 2 h ahead of this machine\n      hint: run a time service",
        "  x room: no space in `/`",
        "\ndoctor: 2 hosts: 1 ready, 1 not ready (",
    ] {
        says(&out, told);
    }
    says(&out, &format!("\nready: {}\n", nodes[1].name));
    node.must("rm -f /srv/full");
}

#[test]
fn doctor_reports_missing_root_and_the_lock_holder() {
    let Some(nodes) = Fleet::take(1) else { return };
    let out = doctor(&Project::connecting_as("plain", &nodes));
    expect(&out, 3);
    says(
        &out,
        "  x root: runs as `plain`, but root is required\n      hint: set `connect: { sudo: … }` or log in as root\n",
    );
    let project = Project::new(&nodes).recipe("slow", "recipe: slow\nsteps:\n  - { name: s, command: { check: test -e /srv/done, apply: 'touch /srv/runs; sleep 20; touch /srv/done' } }\n");
    let project = project.inventory("apply: [{ recipe: slow, on: all }]\n");
    let mut apply = project.begin();
    nodes[0].until_exists("/srv/runs");
    let out = doctor(&project);
    expect(&out, 0);
    says(&out, "  ! lock: locked: run: ");
    says(&out, "forge apply");
    apply.wait();
    expect(&project.forge(["verify", "inventory.yaml"]), 0);
}

#[test]
fn doctor_reports_an_unknown_host_key() {
    let Some(nodes) = Fleet::take(1) else { return };
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let inventory = format!(
        "cluster: c\nconnect: {{ user: root, identity: {}, known_hosts: {} }}\nhosts: {{ {}: {{ address: {} }} }}\n",
        fleet.key.display(),
        "/dev/null",
        nodes[0].name,
        nodes[0].address
    );
    let out = doctor(&Project::new(&nodes).file("inventory.yaml", &inventory));
    expect(&out, 4);
    says(&out, &format!("  x unreachable: unknown host key of `{}`", nodes[0].address));
    says(&out, "      hint: verify its fingerprint and add it with `ssh-keyscan ");
}
