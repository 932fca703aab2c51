//! Drift on real hosts: changes made without forge are found, distinguished from changes of the recipe, and repaired by
//! apply. Detection itself writes nothing.

use crate::support::{Fleet, Node, Output, Project};
use serde_json::Value;

const KINDS: &str = "
recipe: kinds
steps:
  - name: package
    package: { name: forge-demo, version: 1.1-1 }
  - name: account
    user: { name: drifter, shell: /bin/sh }
  - name: folder
    directory: { path: /srv/drift, owner: drifter, mode: '0750' }
  - name: page
    file: { path: /srv/drift/page, content: \"hello\\n\", owner: drifter, mode: '0640' }
  - name: setting
    line: { path: /etc/drift.conf, line: level=3, match: '^level=', create: true }
  - name: shortcut
    link: { path: /srv/shortcut, target: /srv/drift }
  - name: forwarding
    sysctl: { key: net.ipv4.ip_forward, value: 1 }
  - name: unit
    unit: { name: drifting.service, content: \"[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n\" }
  - name: service
    service: { name: drifting, state: running, enabled: true }
  - name: mark
    command: { creates: /srv/mark, apply: touch /srv/mark }
verify:
  - { name: page is there, check: test -s /srv/drift/page }
";

fn project(nodes: &[Node], recipe: &str) -> Project {
    Project::new(nodes).recipe("kinds", recipe).inventory("apply:\n  - { recipe: kinds, on: all }\n")
}

fn drift(project: &Project) -> (Output, Value) {
    let out = project.forge(["drift", "inventory.yaml", "--format", "json", "--plan-out", "repair.json"]);
    let value = serde_json::from_str(&out.stdout).unwrap_or_default();
    (out, value)
}

/// Returns `step attribute cause` of each finding.
fn told(document: &Value) -> Vec<String> {
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or("-").to_owned();
    let findings = document["drift"]["findings"].as_array().cloned().unwrap_or_default();
    findings.iter().map(|f| format!("{} {} {}", text(f, "step"), text(f, "attribute"), text(f, "cause"))).collect()
}

/// Changes made without forge, and the findings that drift must report.
const TAMPERS: [(&str, &[&str]); 12] = [
    ("apt-get install -qqy --allow-downgrades forge-demo=1.0-1 >&2", &["package version machine-changed"]),
    ("usermod -s /bin/bash drifter", &["account shell machine-changed"]),
    ("chmod 0777 /srv/drift", &["folder mode machine-changed"]),
    ("printf 'hallo\\n' >/srv/drift/page", &["page content machine-changed"]),
    ("chown root /srv/drift/page", &["page owner machine-changed"]),
    ("rm /srv/drift/page", &["page exists machine-changed"]),
    ("sed -i s/3/4/ /etc/drift.conf", &["setting line machine-changed"]),
    ("ln -sfn /srv /srv/shortcut", &["shortcut target machine-changed"]),
    ("sysctl -qw net.ipv4.ip_forward=0", &["forwarding loaded machine-changed"]),
    ("systemctl stop drifting", &["service state machine-changed"]),
    ("systemctl disable -q drifting", &["service enabled machine-changed"]),
    ("rm /srv/mark", &["mark command machine-changed"]),
];

#[test]
fn each_change_without_forge_is_classified_and_repaired() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, project) = (&nodes[0], project(&nodes, KINDS));
    let before = drift(&project);
    assert_eq!(before.0.code, 2, "{}", before.0);
    assert!(told(&before.1).iter().all(|line| line.ends_with(" unknown")), "{:?}", told(&before.1));
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert_eq!(drift(&project).0.code, 0, "{}", drift(&project).0);
    for (what, expected) in TAMPERS {
        node.must(what);
        let (out, document) = drift(&project);
        assert_eq!(out.code, 2, "{what}: {out}");
        let found = told(&document);
        let of_verification = |line: &&String| !line.starts_with("page is there");
        let found: Vec<&String> = found.iter().filter(of_verification).collect();
        assert_eq!(found, expected, "{what}");
        let applied = project.forge(["apply", "repair.json", "--yes", "--quiet"]);
        assert_eq!(applied.code, 0, "{what}: {applied}");
        let (out, document) = drift(&project);
        assert_eq!((out.code, told(&document)), (0, vec![]), "{what}: {out}");
    }
    let history = project.forge(["drift", "inventory.yaml", "--history"]);
    assert!(history.code == 0 && history.stdout.contains("mean time to repair"), "{history}");
}

#[test]
fn recipe_changes_are_distinguished_from_machine_changes() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, project) = (&nodes[0], project(&nodes, KINDS));
    project.forge(["apply", "inventory.yaml", "--yes", "--quiet"]).must_exit(0);
    let project = project.recipe("kinds", &KINDS.replace("'0640'", "'0600'").replace("/bin/sh }", "/bin/dash }"));
    let (out, document) = drift(&project);
    assert_eq!(out.code, 2, "{out}");
    assert_eq!(told(&document), ["account shell recipe-changed", "page mode recipe-changed"]);
    node.must("chmod 0644 /srv/drift/page; printf 'hallo\\n' >/srv/drift/page");
    let expected = ["account shell recipe-changed", "page content machine-changed", "page mode both"];
    assert_eq!(told(&drift(&project).1), expected);
    let finding = &drift(&project).1["drift"]["findings"][2];
    let value = |key: &str| finding[key].as_str().unwrap_or("-").to_owned();
    assert_eq!((value("desired"), value("observed")), ("0600".to_owned(), "0644".to_owned()));
    assert_eq!(finding["last_applied"]["value"], "0640");
    assert!(value("place").contains("recipes/kinds.yaml:"), "{finding}");
    let gone = project.inventory("apply: []\n");
    let (out, document) = drift(&gone);
    assert_eq!(out.code, 2, "{out}");
    assert!(told(&document).iter().all(|line| line.ends_with("no-longer-declared")), "{:?}", told(&document));
}

#[test]
fn drift_writes_nothing_on_the_host() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, project) = (&nodes[0], project(&nodes, KINDS));
    project.forge(["apply", "inventory.yaml", "--yes", "--quiet"]).must_exit(0);
    node.must("chmod 0777 /srv/drift");
    let before = node.snapshot();
    for _ in 0..2 {
        drift(&project).0.must_exit(2);
    }
    assert_eq!(node.snapshot(), before);
    let recorded = project.forge(["drift", "inventory.yaml", "--record", "seen.json"]);
    assert_eq!((recorded.code, node.snapshot()), (2, before), "{recorded}");
    let live = project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
    node.stop();
    let planned = project.forge(["plan", "inventory.yaml", "--observed", "seen.json", "--detailed-exitcode"]);
    let plan = planned.after_recordings();
    assert_eq!((planned.code, plan), (2, live.stdout.as_str()), "a plan from the recording of drift");
    node.start();
}

/// A login shell in a mount namespace in which the whole host is read-only.
const READ_ONLY: &str = "#!/bin/sh
[ -n \"$1\" ] || exec unshare --mount --propagation private \"$0\" inside
for at in $(cut -d' ' -f5 /proc/self/mountinfo); do mount -o remount,bind,ro \"$at\" 2>/dev/null; done
if touch /etc/writable 2>/dev/null; then echo 'the host is not read-only' >&2; exit 1; fi
exec sh
";

/// Returns the unknown facts of a document, with the reason.
fn unknown(out: &Output) -> Vec<String> {
    let document: Value = serde_json::from_str(&out.stdout).unwrap_or_default();
    let facts = document["facts"][0]["facts"].as_object().cloned().unwrap_or_default();
    assert!(facts.len() > 20, "too few facts were probed: {out}");
    let unknown = facts.iter().filter(|(_, fact)| fact.get("unknown").is_some());
    unknown.map(|(name, fact)| format!("{name}: {}", fact["unknown"]["why"])).collect()
}

#[test]
fn built_in_probes_work_on_a_read_only_host() {
    let Some(nodes) = Fleet::take(1) else { return };
    let Some(fleet) = Fleet::require() else { return };
    let (node, plain) = (&nodes[0], project(&nodes, KINDS));
    plain.forge(["apply", "inventory.yaml", "--yes", "--quiet"]).must_exit(0);
    node.write("/usr/local/sbin/read-only", READ_ONLY);
    node.must("chmod 0755 /usr/local/sbin/read-only");
    let command = format!("[ssh, -F, {}, {}, /usr/local/sbin/read-only]", fleet.ssh_config.display(), node.name);
    let inventory = format!(
        "cluster: fleet\ndrift: {{ unconfined: true }}\nhosts:\n  {}: {{ connect: {{ command: {command} }} }}\napply:\n  - {{ recipe: kinds, on: all }}\n",
        node.name
    );
    let confined = project(&nodes, KINDS).file("inventory.yaml", &inventory);
    let facts = |project: &Project| unknown(&project.forge(["facts", "inventory.yaml", "--format", "json", "--trust"]));
    assert_eq!(facts(&confined), facts(&plain));
    let out = confined.forge(["drift", "inventory.yaml", "--trust"]);
    assert_eq!(out.code, 0, "{out}");
    // Does not tamper with a kernel setting: its kind reports that it is not writable here.
    node.must("chmod 0777 /srv/drift; systemctl stop drifting");
    let out = confined.forge(["drift", "inventory.yaml", "--trust", "--format", "json"]);
    let document = serde_json::from_str(&out.stdout).unwrap_or_default();
    let expected = ["folder mode machine-changed", "service state machine-changed"];
    assert_eq!(told(&document), expected, "{out}");
}

#[test]
fn recipe_check_is_unknown_if_it_cannot_be_confined() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = "
recipe: kinds
steps:
  - name: careless
    command: { check: 'touch /srv/written; test -e /srv/there', apply: touch /srv/there }
";
    let plain = project(&nodes, recipe);
    plain.forge(["apply", "inventory.yaml", "--yes", "--quiet"]).must_exit(0);
    node.must("rm /srv/written");
    let (out, _) = drift(&plain);
    assert_eq!((out.code, node.exists("/srv/written")), (0, false), "{out}");
    // Whether it fails because of the view or of the machine is not known.
    node.must("rm /srv/there");
    let (out, document) = drift(&plain);
    let why = document["drift"]["unknown"][0]["reason"].as_str().unwrap_or_default().to_owned();
    assert_eq!((out.code, told(&document), node.exists("/srv/written")), (9, vec![], false), "{out}");
    assert!(why.contains("the check exited with 1 after a write was refused"), "{why}");
    node.must("touch /srv/there; mv /usr/bin/unshare /usr/bin/unshare.away");
    let (out, document) = drift(&plain);
    assert_eq!((out.code, told(&document), node.exists("/srv/written")), (9, vec![], false), "{out}");
    let why = document["drift"]["unknown"][0]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(why.starts_with("unconfined: ") && why.contains("unshare"), "{why}");
    let allowed = plain.inventory("drift: { unconfined: true }\napply:\n  - { recipe: kinds, on: all }\n");
    let (out, _) = drift(&allowed);
    assert_eq!((out.code, node.exists("/srv/written")), (0, true), "{out}");
}

const GPUS: &str = "
recipe: kinds
steps:
  - name: page
    file: { path: /srv/page, content: x }
verify:
  - { name: there are GPUs, expect: facts.gpus | length > 0 }
";

#[test]
fn gpu_off_the_bus_is_a_hardware_fault_with_an_action() {
    let Some(nodes) = Fleet::take(1) else { return };
    let (node, project) = (&nodes[0], project(&nodes, GPUS));
    node.profile("h100x8-ndr");
    project.forge(["apply", "inventory.yaml", "--yes", "--quiet"]).must_exit(0);
    let (out, document) = drift(&project);
    assert_eq!((out.code, told(&document)), (0, vec![]), "{out}");
    node.fault("gpu-off-bus", true);
    let (out, document) = drift(&project);
    let faults: Vec<&Value> = document["drift"]["findings"].as_array().expect("a list").iter().collect();
    assert_eq!(faults.len(), 1, "{out}");
    assert_eq!((&faults[0]["cause"], &faults[0]["action"]), (&"hardware-fault".into(), &"power-cycle".into()), "{out}");
    let text = project.forge(["drift", "inventory.yaml"]);
    assert!(text.stdout.contains("hardware faults: apply cannot repair them"), "{text}");
    node.fault("gpu-off-bus", false);
    assert_eq!(told(&drift(&project).1), [""; 0]);
}

/// A cron job may meet an apply: what the apply has not done yet is a difference, and the report names the apply.
#[test]
fn drift_names_the_run_that_changes_the_host() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    node.must("mkfifo /srv/wait");
    let recipe = "recipe: kinds\nsummary: Two steps\nsteps:\n  - name: slow\n    command: { creates: /srv/slow, apply: cat /srv/wait >/srv/slow }\n  \
        - name: page\n    needs: [slow]\n    file: { path: /srv/page, content: x }\n";
    let project = project(&nodes, recipe);
    let mut apply = project.begin();
    node.until("pgrep -f '[c]at /srv/wait'", 60);
    let during = project.forge(["drift", "inventory.yaml"]);
    assert!(during.code == 9 && during.stdout.contains("another run works on this host: `forge apply"), "{during}");
    let open = "not judged while a run works on the host: ";
    assert!(during.stdout.contains(open) && during.stdout.contains("no findings on 1 host"), "{during}");
    node.must("echo done >/srv/wait");
    assert!(apply.wait().success());
    let after = project.forge(["drift", "inventory.yaml"]);
    assert!(after.code == 0 && !after.stdout.contains("another run works"), "{after}");
    // A killed run leaves its name in the file, but not its lock.
    node.must("printf 'a\\n1\\nrun: r\\nby: x\\nsince: y\\nwhat: z\\n' >/run/lock/forge");
    node.must("rm /srv/page");
    let killed = project.forge(["drift", "inventory.yaml"]);
    assert!(killed.code == 2 && !killed.stdout.contains("another run works"), "{killed}");
}

/// A verification that did not pass in the apply is no change of the machine.
#[test]
fn verification_that_failed_in_the_apply_is_no_change_of_the_machine() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = "recipe: kinds\nsummary: A page\nsteps: [{ name: page, file: { path: /srv/page, content: x } }]\n\
        verify: [{ name: it is served, check: test -e /srv/served }]\n";
    let project = project(&nodes, recipe);
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 5, "{applied}");
    let said = "; it did not pass in run ";
    let found = project.forge(["drift", "inventory.yaml"]);
    assert!(found.code == 2 && found.stdout.contains(said) && !found.stdout.contains("the machine changed"), "{found}");
    // An apply of a step alone does not evaluate it.
    let part = project.forge(["apply", "inventory.yaml", "--yes", "--step", "kinds/page"]);
    assert_eq!(part.code, 0, "{part}");
    let found = project.forge(["drift", "inventory.yaml"]);
    assert!(found.code == 2 && found.stdout.contains(said), "{found}");
    // Without a change, an apply that passes replaces the record.
    node.must("touch /srv/served");
    let applied = project.forge(["apply", "inventory.yaml", "--yes"]);
    assert_eq!(applied.code, 0, "{applied}");
    assert!(!node.must("cat /var/lib/forge/applied/*.json").contains("unverified"));
    node.must("rm /srv/served");
    let found = project.forge(["drift", "inventory.yaml"]);
    assert!(found.code == 2 && found.stdout.contains("the machine changed") && !found.stdout.contains(said), "{found}");
}

/// A hold is a note of the package manager: no check has to wait until it is there again.
#[test]
fn missing_hold_hides_no_other_difference() {
    let Some(nodes) = Fleet::take(1) else { return };
    let node = &nodes[0];
    let recipe = "recipe: kinds\nsummary: A package\nsteps:\n\
        - { name: package, package: { name: forge-demo, version: 1.1-1, hold: true } }\n\
        - { name: ready, wait_for: { command: test -e /srv/ready, timeout: 5s } }\n\
        verify: [{ name: it is served, check: test -e /srv/served }]\n";
    node.must("touch /srv/ready /srv/served");
    let project = project(&nodes, &recipe.replace("\n- ", "\n  - "));
    project.forge(["apply", "inventory.yaml", "--yes"]).must_exit(0);
    node.must("apt-mark unhold forge-demo >&2");
    let (out, document) = drift(&project);
    assert_eq!((out.code, told(&document)), (2, vec!["package hold machine-changed".to_owned()]), "{out}");
    let verified = project.forge(["verify", "inventory.yaml"]);
    assert!(verified.code == 5 && verified.to_string().contains("1 failed"), "{verified}");
    node.must("rm /srv/served");
    let expected = ["package hold machine-changed", "it is served - machine-changed"];
    assert_eq!(told(&drift(&project).1), expected);
    node.must("rm /srv/ready");
    let waits = "ready wait machine-changed";
    assert_eq!(told(&drift(&project).1), [expected[0], waits, expected[1]], "only the host changed");
}
