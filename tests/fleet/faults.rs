//! Failures on real hosts: full disks, held locks, broken packages, dropped connections, hanging probes.

use crate::support::{Fleet, Node, Output, Project};
use std::time::{Duration, Instant};

#[track_caller]
fn expect(out: &Output, code: i32) {
    assert_eq!(out.code, code, "{out}");
}

fn project(nodes: &[Node], steps: &str) -> Project {
    let recipe = format!("recipe: r\nsummary: Under test\nsteps:\n{steps}");
    Project::new(nodes).recipe("r", &recipe).inventory("apply:\n  - { recipe: r, on: all }\n")
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes"])
}

fn plan(project: &Project) -> Output {
    project.forge(["plan", "inventory.yaml", "--detailed-exitcode"])
}

const PACKAGE: &str = "  - name: package\n    package: { name: forge-tool }\n";

#[test]
fn full_disk_fails_only_that_host_and_keeps_the_old_file() {
    let Some(nodes) = Fleet::take(2) else { return };
    let body = "x".repeat(200_000);
    let project = project(&nodes, &format!("  - name: big\n    file: {{ path: /srv/big, content: \"{body}\" }}\n"));
    nodes[0].must("echo old > /srv/big; sync");
    nodes[0].sh("dd if=/dev/zero of=/fill bs=64k 2>/dev/null; dd if=/dev/zero of=/fill2 bs=512 2>/dev/null");
    let out = apply(&project);
    expect(&out, 3);
    assert!(out.stdout.contains("No space left on device"), "{out}");
    assert_eq!(nodes[0].must("cat /srv/big"), "old");
    assert_eq!(nodes[1].must("wc -c < /srv/big"), "200000");
    nodes[0].must("rm /fill /fill2");
    expect(&apply(&project), 0);
    assert_eq!(nodes[0].must("wc -c < /srv/big; ls -A /srv"), "200000\nbig\nforge-repo");
}

#[test]
fn apply_names_the_dpkg_lock_holder_and_waits() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = project(&nodes, PACKAGE);
    // `forge-slow` keeps dpkg busy for some seconds, like an administrator's apt.
    nodes[0].must("echo 6 > /etc/forge-slow-seconds; setsid sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -qqy forge-slow >/tmp/slow.log 2>&1' </dev/null >/dev/null 2>&1 & sleep 1.5");
    let began = Instant::now();
    let out = project.forge(["apply", "inventory.yaml", "--yes", "-v"]);
    expect(&out, 0);
    assert!(began.elapsed() > Duration::from_secs(2), "it did not wait");
    assert!(out.stderr.contains("apt-get") || out.stdout.contains("apt-get"), "the lock holder is not named: {out}");
    nodes[0].must("dpkg-query -W -f '${Status}' forge-tool | grep -q 'ok installed'");
    nodes[0].must("dpkg-query -W -f '${Status}' forge-slow | grep -q 'ok installed'");
}

/// Steps with `each` share one transaction of apt, which a package of one of them breaks.
#[test]
fn broken_package_fails_its_own_step_only() {
    let Some(nodes) = Fleet::take(1) else { return };
    let each =
        "  - name: tools\n    each: '[\"forge-tool\", \"forge-broken\"]'\n    package: { name: \"{{ item }}\" }\n";
    let project = project(&nodes, each);
    let out = apply(&project);
    expect(&out, 3);
    assert!(
        out.stdout.contains("failed r/tools[forge-broken]") || out.stderr.contains("failed r/tools[forge-broken]"),
        "{out}"
    );
    assert!(!format!("{out}").contains("failed r/tools[forge-tool]"), "{out}");
    nodes[0].must("dpkg-query -W -f '${Status}' forge-tool | grep -q 'ok installed'");
    nodes[0].must("dpkg-query -W -f '${Status}' forge-broken | grep -q half-configured");
    nodes[0].must("touch /etc/forge-broken-ok");
    expect(&apply(&project), 0);
    expect(&plan(&project), 0);
}

#[test]
fn a_half_configured_package_is_recognised_and_repaired() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = project(&nodes, "  - name: package\n    package: { name: forge-broken }\n");
    let out = apply(&project);
    expect(&out, 3);
    nodes[0].must("dpkg-query -W -f '${Status}' forge-broken | grep -q half-configured");
    let again = plan(&project);
    expect(&again, 2);
    assert!(again.stdout.contains("half-configured"), "{again}");
    nodes[0].must("touch /etc/forge-broken-ok");
    expect(&apply(&project), 0);
    expect(&plan(&project), 0);
}

#[test]
fn package_install_survives_a_dropped_connection() {
    let Some(nodes) = Fleet::take(1) else { return };
    let project = project(&nodes, "  - name: package\n    package: { name: forge-slow }\n");
    // The package's script waits for whoever writes the file, so that the cut falls into the installation on any machine.
    nodes[0].must("mkfifo /etc/forge-slow-seconds");
    let node = nodes[0].clone();
    let cut = std::thread::spawn(move || {
        node.until("pgrep -f '[p]ostinst configure'", 120);
        let login = "pgrep -f '[s]shd(-session)?: root'";
        let before = node.must(login);
        // Every connection to this host dies; the step continues.
        node.must("pkill -f '[s]shd(-session)?: root'");
        node.until(&format!("now=$({login}) && [ \"$now\" != '{before}' ]"), 120);
        node.must("echo 1 > /etc/forge-slow-seconds");
    });
    let out = project.forge(["apply", "inventory.yaml", "--yes", "-v"]);
    cut.join().expect("the cut is made");
    expect(&out, 0);
    nodes[0].must("dpkg-query -W -f '${Status}' forge-slow | grep -q 'ok installed'");
    expect(&plan(&project), 0);
}

#[test]
fn step_outcome_is_unknown_if_the_connection_drops() {
    let Some(nodes) = Fleet::take(2) else { return };
    let steps = "  - name: slow\n    command: { check: test -e /srv/done, apply: \"touch /srv/begun; sleep 4; touch /srv/done\" }\n  - name: after\n    file: { path: /srv/after, content: x }\n";
    let project = project(&nodes, steps);
    let node = nodes[0].clone();
    let cut = std::thread::spawn(move || {
        node.until("test -e /srv/begun", 30);
        // The local end dies, and the host does not notice: the process that holds the lock there keeps it.
        node.must("pkill -STOP -f '[s]shd(-session)?: root'");
        let master = format!("ssh -M .* -- {}$", node.address);
        assert!(std::process::Command::new("pkill").args(["-KILL", "-f", &master]).status().unwrap().success());
    });
    let out = apply(&project);
    cut.join().expect("the cut is made");
    expect(&out, 4);
    assert!(out.stdout.contains("outcome unknown"), "{out}");
    assert!(!nodes[0].exists("/srv/after"), "a step ran after the lost one: {out}");
    assert!(nodes[1].exists("/srv/after"), "the other host did not finish: {out}");
    assert_eq!(nodes[0].sh("flock -n /run/lock/forge true").code, 1, "the host still holds the lock of the ended run");
    let began = Instant::now();
    expect(&apply(&project), 0);
    assert!(began.elapsed() < Duration::from_secs(30), "it waited for the ended run: {:?}", began.elapsed());
    assert!(nodes[0].exists("/srv/after"));
}

#[test]
fn hanging_probe_is_unknown_and_does_not_stop_other_hosts() {
    let Some(nodes) = Fleet::take(2) else { return };
    let steps = "  - name: hangs\n    command: { check_timeout: 2s, check: \"test ! -e /srv/hang || sleep 1000\", apply: \"true\" }\n  - name: text\n    file: { path: /etc/motd, content: x }\n";
    let project = project(&nodes, steps);
    nodes[0].must("touch /srv/hang");
    let out = plan(&project);
    assert!(out.stdout.contains("timed out"), "{out}");
    expect(&out, 9);
    let out = apply(&project);
    expect(&out, 9);
    assert_eq!(nodes[1].must("cat /etc/motd"), "x");
    assert_eq!(nodes[0].sh("pgrep -f '[s]leep 1000'").code, 1, "the probe still runs");
}

#[test]
fn failed_command_shows_its_output_and_other_hosts_finish() {
    let Some(nodes) = Fleet::take(3) else { return };
    let steps = "  - name: picky\n    command: { check: test -e /srv/ok, apply: \"test ! -e /srv/bad || { echo this host is bad >&2; exit 7; }; touch /srv/ok\" }\n";
    let project = project(&nodes, steps);
    nodes[1].must("touch /srv/bad");
    let out = apply(&project);
    expect(&out, 3);
    assert!(out.stdout.contains("this host is bad") && out.stdout.contains("exit status 7"), "{out}");
    assert!(nodes[0].exists("/srv/ok") && nodes[2].exists("/srv/ok"));
}

#[test]
fn file_rejected_by_its_validator_is_not_installed() {
    let Some(nodes) = Fleet::take(1) else { return };
    let steps = "  - name: sudoers\n    file: { path: /etc/sudoers.d/forge-test, content: \"this is no sudoers line\\n\", mode: \"0440\", validate: \"visudo -cf $FORGE_FILE\" }\n";
    let out = apply(&project(&nodes, steps));
    expect(&out, 3);
    assert!(!nodes[0].exists("/etc/sudoers.d/forge-test"));
    assert_eq!(nodes[0].must("ls -A /etc/sudoers.d | grep -c forge || true"), "0", "a temporary file is left");
}

#[test]
fn hostile_values_are_written_verbatim_and_displayed_safely() {
    let Some(nodes) = Fleet::take(1) else { return };
    let hostile = "'\"`$(touch /srv/pwned)\\n; rm -rf / #\u{202e}\u{1b}[31mred\t* ? [a] {b} ~ !x %s %n";
    let yaml = serde_json::to_string(hostile).expect("JSON is YAML");
    let project =
        project(&nodes, &format!("  - name: odd\n    file: {{ path: \"/srv/a 'b' $(c)\", content: {yaml} }}\n"));
    let shown = plan(&project);
    expect(&shown, 2);
    assert!(!shown.stdout.contains('\u{1b}') && !shown.stdout.contains('\u{202e}'), "{shown}");
    expect(&apply(&project), 0);
    assert_eq!(nodes[0].read("/srv/a 'b' $(c)"), hostile.as_bytes());
    assert!(!nodes[0].exists("/srv/pwned"));
    expect(&plan(&project), 0);
}
