//! What drift says, what its plan repairs, why a saved plan is stale, and what one apply does. The host is the witness.

use super::host::{Lab, Who};

const INVENTORY: &str =
    "cluster: lab\nconnect: { transport: sandbox }\nhosts: { a: }\napply:\n  - { recipe: r, on: all }\n";
const FILES: &str = "recipe: r\nsteps:\n  - { name: tuned, file: { path: /srv/tuned, content: x } }\n  \
    - { name: page, file: { path: /srv/page, content: x } }\n";

fn lab(inventory: &str, recipe: &str) -> Option<Lab> {
    match Lab::new(Who::all()[0], &[("inventory.yaml", inventory), ("recipes/r.yaml", recipe)]) {
        Ok(lab) => Some(lab),
        Err(why) => {
            eprintln!("skipped: a sandbox: {why}");
            None
        }
    }
}

#[test]
fn every_object_that_a_step_left_is_named() {
    let recipe =
        |path: &str| format!("recipe: r\nsteps:\n  - {{ name: conf, file: {{ path: {path}, content: x }} }}\n");
    let Some(lab) = lab(INVENTORY, &recipe("/srv/a")) else { return };
    for path in ["/srv/a", "/srv/b", "/srv/c"] {
        lab.file("recipes/r.yaml", &recipe(path));
        assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    }
    assert_eq!(lab.inside("inventory.yaml", "a", "ls /srv"), "a\nb\nc\n");
    for format in ["text", "markdown", "sarif", "junit", "json"] {
        let drift = lab.forge(&["drift", "--format", format]);
        let named = ["/srv/a", "/srv/b"].map(|path| drift.contains(path));
        assert!(drift.starts_with("exit 2\n") && named == [true, true], "{format}: {drift}");
    }
    lab.nothing_is_left();
}

#[test]
fn repair_plan_leaves_what_drift_ignores() {
    let ignore = "drift:\n  ignore:\n    - { step: r/tuned, why: being tuned, until: 2099-12-01 }\n";
    let Some(lab) = lab(&format!("{INVENTORY}{ignore}"), FILES) else { return };
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    lab.inside("inventory.yaml", "a", "echo by hand | tee /srv/tuned /srv/page");
    let drift = lab.forge(&["drift", "--plan-out", "fix.json"]);
    let left_out = "not in the plan, as `drift.ignore` ignores it: `r/tuned`\n";
    assert!(drift.starts_with("exit 2\n") && drift.contains("1 ignored") && drift.contains(left_out), "{drift}");
    let applied = lab.forge(&["apply", "fix.json", "--yes"]);
    assert!(applied.starts_with("exit 0\n"), "{applied}");
    assert_eq!(lab.inside("inventory.yaml", "a", "cat /srv/tuned /srv/page"), "by hand\nx");
    lab.nothing_is_left();
}

#[test]
fn plan_of_a_host_on_hold_says_so_after_the_release() {
    let Some(lab) = lab(INVENTORY, FILES) else { return };
    lab.forge(&["hold", "a", "--why", "ticket 7"]);
    assert!(lab.forge(&["plan", "-o", "held.json"]).starts_with("exit 0\n"));
    lab.forge(&["release", "a"]);
    let applied = lab.forge(&["apply", "held.json", "--yes"]);
    let why = "was held back in the plan (on hold by ";
    assert!(applied.starts_with("exit 6\n") && applied.contains(why), "{applied}");
    assert_eq!(lab.inside("inventory.yaml", "a", "ls /srv"), "");
    lab.nothing_is_left();
}

/// The step that exports the value matches, and the file that it reads comes with an earlier step.
#[test]
fn value_that_an_earlier_step_makes_readable_is_exported_in_one_apply() {
    let recipe = r#"recipe: r
steps:
  - { name: key, file: { path: /srv/key, content: "tok\n" } }
  - name: read
    command: { check: "true", apply: "true" }
    export:
      key: { read: cat /srv/key }
  - { name: use, file: { path: /srv/used, content: "{{ exports['r'].key['a'] }}" } }
"#;
    let Some(lab) = lab(INVENTORY, recipe) else { return };
    let plan = lab.forge(&["plan", "--detailed-exitcode"]);
    assert!(plan.starts_with("exit 2\n") && plan.contains("`key` of `r` is exported"), "{plan}");
    let applied = lab.forge(&["apply", "--yes"]);
    assert!(applied.starts_with("exit 0\n"), "{applied}");
    assert_eq!(lab.inside("inventory.yaml", "a", "cat /srv/used"), "tok");
    lab.nothing_is_left();
}

const UNIT: &str = "[Service]\\nExecStart=/bin/sleep 4712\\n[Install]\\nWantedBy=multi-user.target\\n";

fn service(name: &str) -> String {
    format!("recipe: r\nsteps:\n  - {{ name: s, service: {{ name: {name}, state: running, enabled: true }} }}\n")
}

/// Like systemd, the stand-in of `systemctl` answers for the unit that an alias means.
#[test]
fn alias_of_a_running_unit_matches() {
    let Some(lab) = lab(INVENTORY, &service("al.service")) else { return };
    let script = "printf 'UNITAlias=al.service\n' >/etc/systemd/system/real.service; systemctl enable --now real";
    lab.inside("inventory.yaml", "a", &script.replace("UNIT", UNIT));
    let planned = lab.forge(&["plan", "-v"]);
    assert!(planned.contains("= service al  r/s\n"), "{planned}");
    let named = lab.inside("inventory.yaml", "a", "systemctl show -p Id,Names al; systemctl is-enabled al");
    assert_eq!(named, "Id=real.service\nNames=real.service al.service\nalias\n");
    lab.nothing_is_left();
}

/// systemd prints no type of a masked unit, because it does not read the file below the mask.
#[test]
fn masked_unit_is_unmasked_and_started() {
    let Some(lab) = lab(INVENTORY, &service("mm.service")) else { return };
    let script = "printf 'UNIT' >/usr/lib/systemd/system/mm.service; systemctl mask mm; systemctl show -p Type mm";
    assert_eq!(lab.inside("inventory.yaml", "a", &script.replace("UNIT", UNIT)), "Type=\n");
    let applied = lab.forge(&["apply", "--yes"]);
    assert!(applied.starts_with("exit 0\n"), "{applied}");
    assert_eq!(
        lab.inside("inventory.yaml", "a", "systemctl show -p Type,ActiveState mm"),
        "Type=simple\nActiveState=active\n"
    );
    lab.nothing_is_left();
}
