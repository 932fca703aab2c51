//! Hosts that a run did not bring back into service: they stay out until everything on them is proven, and other hosts
//! wait for them. The mark of a window on the host and its files are read beside forge.

use crate::support::{Fleet, Node, Output, Project};

const MARK: &str = "/var/lib/forge/window.json";

/// A change that takes its host out of service, with a verification that the test decides.
const DRIVER: &str = "recipe: driver
summary: A change that takes the host out of service
steps:
  - name: file
    disruption: D2
    file: { path: /etc/driver, content: \"1\\n\" }
verify:
  - name: gpu
    check: test -e /srv/gpu
";

/// A setting that no reboot makes effective, and a verification that fails.
const EARLY: &str = "recipe: early
summary: A setting for the next boot
steps:
  - name: file
    file: { path: /etc/modprobe.d/early.conf, content: \"# early\\n\" }
    effective: { by: [reboot], check: test -e /srv/early }
verify:
  - name: works
    check: test -e /srv/early
";

const PAGE: &str = "recipe: page
summary: A page
steps:
  - name: file
    file: { path: /srv/page, content: \"1\\n\" }
verify:
  - name: served
    check: test -e /srv/served
";

fn apply(project: &Project) -> Output {
    project.forge(["apply", "inventory.yaml", "--yes"])
}

fn written(nodes: &[Node], path: &str) -> Vec<bool> {
    nodes.iter().map(|node| node.exists(path)).collect()
}

#[test]
fn host_whose_verification_fails_stays_out_of_service() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let project = Project::new(&nodes).recipe("driver", DRIVER);
    let project = project.inventory("apply: [{ recipe: driver, on: all }]\n");
    let out = apply(&project);
    assert!(out.code != 0 && node.exists(MARK), "{out}");
    // The step matches now, but the host is not proven.
    let out = apply(&project);
    assert!(out.code != 0 && node.exists(MARK), "{out}");
    assert!(!out.stdout.contains("back in service"), "{out}");
    let out = project.forge(["resume"]);
    assert!(out.code != 0 && node.exists(MARK), "{out}");
    // Drift reports it, even if everything matches again.
    node.must("touch /srv/gpu");
    let drift = project.forge(["drift", "inventory.yaml"]);
    assert!(drift.code == 2 && drift.stdout.contains(" opened is still open"), "{drift}");
    let out = apply(&project);
    assert!(out.code == 0 && !node.exists(MARK), "{out}");
    project.forge(["drift", "inventory.yaml"]).must_exit(0);
}

/// A measurement that the test decides: a number that the host has in a file.
const SPEED: &str = "test: speed
scope: host
output: number
command: [cat, /srv/speed]
";

/// The second entry is about another host.
fn return_tests(nodes: &[Node]) -> String {
    let [own, other] = [&nodes[0].name, &nodes[1].name];
    let entries = format!("{{ test: speed, on: {own}, least: 10 }}, {{ test: speed, on: {other}, least: 99 }}");
    format!(
        "rollout: {{ return_tests: return }}\ntests: {{ return: [{entries}] }}\napply: [{{ recipe: driver, on: {own} }}]\n"
    )
}

/// Passed verifications do not bring back a host that is slow.
#[test]
fn host_is_not_brought_back_before_it_passes_its_tests() {
    let Some(nodes) = Fleet::take(2) else { return };
    let node = &nodes[0];
    node.must("touch /srv/gpu");
    let project = Project::new(&nodes).recipe("driver", DRIVER).file("tests/speed.yaml", SPEED);
    let project = project.inventory(&return_tests(&nodes));
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("back in service once it passes speed"), "{plan}");

    let out = apply(&project);
    let missing = "test `speed` was not measured: exit status 1: /usr/bin/cat: /srv/speed: No such file or directory";
    assert!(out.code == 3 && out.to_string().contains(missing), "{out}");
    assert!(node.exists("/etc/driver") && node.exists(MARK), "{out}");

    node.must("echo 7 >/srv/speed");
    let out = project.forge(["apply", "inventory.yaml", "--yes", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out.stdout).unwrap_or_else(|_| panic!("{out}"));
    let host = &report["report"]["hosts"][0];
    let reason = "not brought back into service: test `speed` failed: 7, expected at least 10 (declared)";
    assert_eq!((out.code, host["reason"].as_str()), (3, Some(reason)), "{out}");
    assert_eq!(host["return_tests"][0]["verdict"]["result"], "fail", "{out}");
    assert!(node.exists(MARK), "{out}");

    node.must("echo 12 >/srv/speed");
    let out = apply(&project);
    assert!(out.code == 0 && !node.exists(MARK), "{out}");
    assert!(out.stdout.contains("tests before return: 1 passed"), "{out}");
    // The host keeps the proof, so that drift knows whether it still holds.
    let proofs = String::from_utf8_lossy(&node.read("/var/lib/forge/applied/fleet@@proofs.json")).into_owned();
    assert!(proofs.contains("return/speed"), "{proofs}");
    project.forge(["drift", "inventory.yaml"]).must_exit(0);
    let left =
        node.sh("systemctl list-units --all --plain --no-legend 'forge-test-*'; ls /run/forge-test-* 2>/dev/null");
    assert_eq!(left.stdout, "");

    // A host without a window is not tested.
    node.must("echo 7 >/srv/speed");
    let out = apply(&project);
    assert!(out.code == 0 && !out.stdout.contains("tests before return"), "{out}");
}

#[test]
fn window_of_another_inventory_stays_open() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let driver = Project::new(&nodes).called("gpu").recipe("driver", DRIVER);
    let driver = driver.inventory("apply: [{ recipe: driver, on: all }]\n");
    let out = apply(&driver);
    assert!(out.code != 0 && node.exists(MARK), "{out}");

    // Another inventory changes the host, but does not bring it back, whatever it undoes.
    let base = Project::new(&nodes).called("base").recipe("page", PAGE).recipe("driver", DRIVER);
    let base = base.inventory("apply: [{ recipe: page, on: all }]\n");
    node.must("touch /srv/served");
    let plan = base.forge(["plan", "inventory.yaml"]);
    assert!(plan.stdout.contains("of cluster `gpu` opened a window that is still open"), "{plan}");
    let out = apply(&base);
    assert!(out.code == 0 && node.exists("/srv/page") && node.exists(MARK), "{out}");
    let out = base.forge(["undo", "last", "--yes"]);
    assert!(out.code == 0 && !node.exists("/srv/page") && node.exists(MARK), "{out}");

    // It opens no window of its own there: that would replace the mark.
    let before = node.read(MARK);
    node.must("rm /etc/driver");
    base.rewrite("apply: [{ recipe: driver, on: all }]\n");
    let out = apply(&base);
    assert!(out.code == 3 && !node.exists("/etc/driver") && node.read(MARK) == before, "{out}");
    assert!(out.to_string().contains("opened a window that is still open"), "{out}");

    node.must("touch /srv/gpu");
    let out = apply(&driver);
    assert!(out.code == 0 && node.exists("/etc/driver") && !node.exists(MARK), "{out}");
}

#[test]
fn undo_of_one_run_does_not_close_the_window_of_another() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("touch /srv/served");
    let project = Project::new(&nodes).recipe("driver", DRIVER).recipe("page", PAGE);
    let project = project.inventory("apply: [{ recipe: page, on: all }]\n");
    apply(&project).must_exit(0);
    let run = node.must("ls /var/lib/forge/undo");
    project.rewrite("apply: [{ recipe: page, on: all }, { recipe: driver, on: all }]\n");
    let out = apply(&project);
    assert!(out.code != 0 && node.exists(MARK), "{out}");
    let out = project.forge(["undo", &run, "--yes"]);
    assert!(out.code == 0 && !node.exists("/srv/page") && node.exists(MARK), "{out}");
}

#[test]
fn canary_that_stays_out_of_service_stops_the_rollout() {
    let Some(nodes) = Fleet::take(2) else { return };
    let project = Project::new(&nodes).recipe("early", EARLY).inventory(
        "rollout: { reboot: allow, max_unavailable: 2, canary: 1, max_failed: 0 }\napply: [{ recipe: early, on: all }]\n",
    );
    let out = apply(&project);
    assert!(nodes[0].exists(MARK) && !nodes[1].exists(MARK), "{out}");
    assert_eq!(written(&nodes, "/etc/modprobe.d/early.conf"), [true, false], "{out}");
    assert!(out.code == 8 && out.to_string().contains("not brought back into service"), "{out}");
}

#[test]
fn canary_that_failed_is_the_canary_of_the_next_run() {
    let Some(nodes) = Fleet::take(3) else { return };
    let project = Project::new(&nodes).recipe("page", PAGE);
    let project = project.inventory("rollout: { canary: 1, max_failed: 0 }\napply: [{ recipe: page, on: all }]\n");
    for _ in 0..2 {
        let out = apply(&project);
        assert_eq!((out.code, written(&nodes, "/srv/page")), (8, vec![true, false, false]), "{out}");
    }
    nodes.iter().for_each(|node| _ = node.must("touch /srv/served"));
    let out = apply(&project);
    assert_eq!((out.code, written(&nodes, "/srv/page")), (0, vec![true; 3]), "{out}");
}

#[test]
fn plan_names_quorum_members_that_are_not_selected() {
    let Some(nodes) = Fleet::take(2) else { return };
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let project = Project::new(&nodes).recipe("driver", DRIVER).inventory(&format!(
        "groups: {{ cp: {{ hosts: [{}] }} }}\nrollout: {{ quorum: [cp] }}\napply: [{{ recipe: driver, on: all }}]\n",
        names.join(", ")
    ));
    let told = "not selected, so it is not known whether they are in service: ";
    let plan = project.forge(["plan", "inventory.yaml", "--on", names[1]]);
    assert!(plan.stdout.contains(&format!("{told}{}", names[0])), "{plan}");
    let plan = project.forge(["plan", "inventory.yaml"]);
    assert!(!plan.stdout.contains(told), "{plan}");
}
