//! Windows and reboots on real hosts: proven by the boot ID, shared between steps, blocked by processes that use a
//! device, finished after a kill.

use crate::distribution::Distribution;
use crate::support::{Fleet, Node, Output, Project};

/// Simulates settings that a kernel reads at boot: files of /etc/early.d are effective once they are in /run/early.
const BOOT_UNIT: &str = "[Unit]\nDescription=Applies the configuration at boot\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
    ExecStart=/bin/sh -c 'mkdir -p /run/early; cp /etc/early.d/* /run/early/ || :'\n[Install]\nWantedBy=multi-user.target\n";
const FM_UNIT: &str = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

const EARLY: &str = "recipe: early
summary: Two settings that take effect at boot
steps:
  - name: folder
    directory: { path: /etc/early.d }
  - name: first
    file: { path: /etc/early.d/first, content: \"1\\n\" }
    effective: { by: [reboot], check: test -e /run/early/first && cmp -s /etc/early.d/first /run/early/first }
  - name: second
    file: { path: /etc/early.d/second, content: \"2\\n\" }
    effective: { by: [reboot], check: test -e /run/early/second && cmp -s /etc/early.d/second /run/early/second }
";

const DRIVER: &str = "recipe: driver
summary: A change that takes the host out of service
params:
  version: { type: version, default: 1.0-1 }
needs: [early]
steps:
  - name: file
    disruption: D2
    file: { path: /etc/driver, content: \"{{ params.version }}\\n\" }
  - name: slow
    disruption: D2
    command: { check: 'test \"$(cat /etc/slow 2>/dev/null)\" = {{ params.version }}', apply: 'sleep 3; echo {{ params.version }} >/etc/slow' }
";

const FM: &str = "recipe: fm
summary: A service that must not run while the driver changes
needs: [driver]
during: { driver: { stopped: [fm] } }
steps:
  - name: config
    file: { path: /etc/fm.conf, content: \"{{ recipes['driver'].version }}\\n\" }
  - name: service
    service: { name: fm, enabled: true }
";

fn prepare(nodes: &[Node], rollout: &str) -> Project {
    for node in nodes {
        node.write("/etc/systemd/system/early.service", BOOT_UNIT);
        node.write("/etc/systemd/system/fm.service", FM_UNIT);
        node.must("systemctl daemon-reload && systemctl enable --quiet early fm && systemctl start fm");
    }
    let project = Project::new(nodes).recipe("early", EARLY).recipe("driver", DRIVER).recipe("fm", FM);
    project.inventory(&inventory(rollout, "1.0-1"))
}

fn inventory(rollout: &str, version: &str) -> String {
    format!(
        "rollout: {{ {rollout} }}\napply:\n  - {{ recipe: early, on: all }}\n  - {{ recipe: driver, on: all, with: {{ version: {version} }} }}\n  - {{ recipe: fm, on: all }}\n"
    )
}

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes", "--json-into", "report.json"])
}

fn report(project: &Project) -> serde_json::Value {
    let text = fs_err::read_to_string(project.path("report.json")).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

fn as_declared(project: &Project) {
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 0, "{plan}");
}

fn host<'r>(report: &'r serde_json::Value, node: &Node) -> &'r serde_json::Value {
    let hosts = report["report"]["hosts"].as_array().expect("hosts");
    hosts.iter().find(|host| host["host"] == *node.name).expect("the node")
}

#[test]
fn steps_that_need_a_reboot_share_one_verified_reboot() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = prepare(&nodes, "canary: 1, reboot: allow");
    let before: Vec<String> = nodes.iter().map(Node::boot_id).collect();
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("reboots for early/first and early/second"), "{plan}");
    assert!(plan.stdout.contains(&format!("wave 1: {} (canary)", nodes[0].name)), "{plan}");
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    let report = report(&project);
    for (node, before) in nodes.iter().zip(&before) {
        let reboots = host(&report, node)["reboots"].as_array().expect("reboots").clone();
        assert_eq!(reboots.len(), 1, "{reboots:?}");
        assert_eq!((reboots[0]["from"].as_str(), reboots[0]["to"].as_str()), (Some(&**before), Some(&*node.boot_id())));
        assert_eq!(node.must("systemctl is-active fm; cat /etc/driver /etc/fm.conf"), "active\n1.0-1\n1.0-1");
        assert!(!node.exists("/var/lib/forge/window.json"));
    }
    // The canary had finished before forge wrote to the other host.
    let (first, second) = ("stat -c %Y /etc/slow", "stat -c %Y /etc/early.d");
    let at = |node: &Node, script: &str| node.must(script).parse::<u64>().expect("seconds");
    assert!(at(&nodes[0], first) <= at(&nodes[1], second));
    as_declared(&project);
    let again = apply(&project);
    assert_eq!((again.code, nodes[0].boot_id()), (0, report_to(&report, &nodes[0])), "{again}");
}

fn report_to(report: &serde_json::Value, node: &Node) -> String {
    host(report, node)["reboots"][0]["to"].as_str().expect("a boot id").to_owned()
}

#[test]
fn host_with_a_busy_device_is_blocked_and_others_finish() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = prepare(&nodes, "max_unavailable: 2, reboot: allow");
    let busy = &nodes[0];
    busy.must("mknod /dev/nvidia0 c 1 3 && systemd-run --quiet --unit=train sh -c 'exec sleep 900 </dev/nvidia0'");
    let (before, invocation) = (busy.boot_id(), busy.must("systemctl show -P InvocationID fm"));
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    assert!(
        out.stdout.contains("busy: pid ") && out.stdout.contains("unit train.service, holds /dev/nvidia0"),
        "{out}"
    );
    assert_eq!((busy.boot_id(), busy.must("systemctl show -P InvocationID fm")), (before, invocation));
    assert_eq!(busy.must("systemctl is-active train"), "active");
    assert!(!busy.exists("/etc/driver") && !busy.exists("/var/lib/forge/window.json"));
    assert_eq!(nodes[1].must("cat /etc/driver; systemctl is-active fm"), "1.0-1\nactive");
    let report = report(&project);
    assert_eq!(host(&report, busy)["outcome"], "blocked");
    // The operator evicts the processes, with a reason.
    let out =
        project.forge(["apply", "inventory.yaml", "--yes", "--evict-busy", "announced", "--json-into", "report.json"]);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(self::report(&project)["report"]["evict_busy"], "announced");
    as_declared(&project);
}

#[test]
fn next_run_closes_a_window_left_open_by_a_kill() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = prepare(&nodes, "reboot: allow");
    apply(&project).must_exit(0);
    let project = project.inventory(&inventory("reboot: allow", "1.1-1"));
    let mut child = project.begin();
    node.until("grep -qx 1.1-1 /etc/driver", 30);
    child.kill();
    assert_eq!(node.sh("systemctl is-active fm").stdout, "inactive\n", "the window is open");
    assert!(node.exists("/var/lib/forge/window.json"));
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("left open by run "), "{plan}");
    let boot = node.boot_id();
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(node.must("systemctl is-active fm; cat /etc/fm.conf /etc/slow"), "active\n1.1-1\n1.1-1");
    assert!(!node.exists("/var/lib/forge/window.json"));
    assert_eq!(node.boot_id(), boot, "rebooted although no step needs it");
    as_declared(&project);
}

#[test]
fn next_run_finishes_after_a_kill_during_the_reboot() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = prepare(&nodes, "reboot: allow");
    let before = node.boot_id();
    let mut child = project.begin();
    node.until_down(&before, 120);
    child.kill();
    node.until("test \"$(systemctl is-system-running)\" = running", 120);
    let after = node.boot_id();
    assert_ne!(before, after);
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(node.boot_id(), after, "one reboot was enough");
    assert_eq!(node.must("systemctl is-active fm; cat /etc/driver"), "active\n1.0-1");
    assert!(!node.exists("/var/lib/forge/window.json"));
    as_declared(&project);
}

#[test]
fn host_that_does_not_return_from_its_reboot_fails() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = prepare(&nodes, "max_unavailable: 2, reboot: allow, reboot_timeout: 25s");
    // Its network does not come up after the reboot.
    nodes[0].must("rm -f /etc/systemd/network/* && systemctl disable --quiet ssh ssh.socket || :");
    let out = apply(&project);
    assert_eq!(out.code, 3, "{out}");
    assert!(out.stdout.contains("did not come back within 25 s after its reboot"), "{out}");
    assert_eq!(nodes[1].must("cat /etc/driver"), "1.0-1");
    nodes[0].reset();
}

const BOOT: &str = "recipe: boot
summary: A file that is read at boot, by a program that cannot be probed
steps:
  - name: file
    file: { path: /etc/boot.conf, content: \"1\\n\" }
  - name: booted
    restart_on: [file]
    reboot: {}
";

/// A `reboot` step. The host's state decides whether a reboot is due, so a change made without forge triggers it, too.
#[test]
fn reboot_step_runs_if_a_file_changed_after_the_boot() {
    Distribution::ALL.into_iter().for_each(reboot_after_a_changed_file);
}

fn reboot_after_a_changed_file(distribution: Distribution) {
    let Some(nodes) = Fleet::take_on(distribution, 1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("boot", BOOT);
    let project = project.inventory("rollout: { reboot: allow }\napply:\n  - { recipe: boot, on: all }\n");
    let first = node.boot_id();
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("reboots for boot/booted"), "{plan}");
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    let second = node.boot_id();
    assert_ne!(first, second);
    as_declared(&project);
    // As after a kill between the change and the reboot: the file is newer than the boot.
    node.must("touch /etc/boot.conf");
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 2, "{plan}");
    assert!(plan.stdout.contains("needs a reboot: `/etc/boot.conf` changed after the boot"), "{plan}");
    let out = apply(&project);
    assert_eq!(out.code, 0, "{out}");
    assert_ne!(node.boot_id(), second);
    as_declared(&project);
    crate::proof::mark_on(distribution, "reboot");
}

/// Only the repository that an earlier step adds shows that it lacks the version. The service is the witness: it was not
/// stopped.
#[test]
fn host_is_not_taken_out_of_service_for_a_version_that_a_new_repository_lacks() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.write("/etc/systemd/system/fm.service", FM_UNIT);
    node.must("systemctl daemon-reload && systemctl enable --quiet fm && systemctl start fm");
    let start = node.must("systemctl show -P InvocationID fm");
    let driver = "recipe: driver
summary: A repository, and a package that takes the host out of service
params: { version: { type: version } }
steps:
  - { name: repository, apt_repository: { name: own, uris: ['file:/srv/own'], suites: ['./'], trusted: true } }
  - { name: package, disruption: D2, package: { name: forge-tool, version: '{{ params.version }}' } }
";
    let stops = FM.replace(
        "    file: { path: /etc/fm.conf, content: \"{{ recipes['driver'].version }}\\n\" }",
        "    file: { path: /etc/fm.conf, content: x }",
    );
    let inventory = |version: &str| {
        format!(
            "apply:\n  - {{ recipe: driver, on: all, with: {{ version: {version} }} }}\n  - {{ recipe: fm, on: all }}\n"
        )
    };
    node.must(
        "mkdir /srv/own && cp -r /srv/forge-repo/. /srv/own/ && rm -f /etc/apt/sources.list.d/* && apt-get -qq update",
    );
    let project = Project::new(&nodes).recipe("driver", driver).recipe("fm", &stops);
    let project = project.inventory(&inventory("9.9"));
    let plan = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(plan.code, 2, "{plan}");
    let refused = apply(&project);
    let why = "not taken out of service: `driver/package` is blocked";
    assert!(refused.code == 3 && refused.stdout.contains(why) && refused.stdout.contains("9.9"), "{refused}");
    assert_eq!(node.must("systemctl show -P InvocationID fm"), start, "{refused}");
    assert!(!node.exists("/var/lib/forge/window.json"));
    let project = project.inventory(&inventory("1.0"));
    let applied = apply(&project);
    assert_eq!(applied.code, 0, "{applied}");
    assert_ne!(node.must("systemctl show -P InvocationID fm"), start);
    as_declared(&project);
}
