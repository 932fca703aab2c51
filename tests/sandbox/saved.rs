//! A saved plan that is applied to some of its hosts first. Files on the hosts are the witness of what apply did.

use super::host::{Lab, Who};
use super::{ONE, RECIPE};

fn lab_files(lab: &Lab) -> String {
    ["a", "b"].map(|host| lab.inside("inventory.yaml", host, "cat /etc/lab 2>/dev/null || echo none")).concat()
}

#[test]
fn saved_plan_is_applied_to_one_host_first_and_then_to_the_others() {
    let canary = format!("{ONE}rollout: {{ canary: 1 }}\n");
    let files = [("inventory.yaml", ONE), ("canary.yaml", canary.as_str()), ("recipes/r.yaml", RECIPE)];
    let lab = match Lab::new(Who::all()[0], &files) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let plan = lab.forge(&["plan", "canary.yaml", "-o", "canary.json"]);
    assert!(plan.starts_with("exit 0\n"), "{plan}");
    let refused = lab.forge(&["apply", "canary.json", "--yes", "--on", "b"]);
    assert!(
        refused.starts_with("exit 64\n") && refused.contains("`--on b` leaves out canaries of the plan: a"),
        "{refused}"
    );
    assert!(lab.forge(&["plan", "--on", "a", "-o", "a.json"]).starts_with("exit 0\n"));
    let refused = lab.forge(&["apply", "a.json", "--yes", "--on", "b"]);
    let foreign = "`--on b` selects hosts that the plan does not contain: b";
    assert!(refused.starts_with("exit 64\n") && refused.contains(foreign), "{refused}");
    let refused = lab.forge(&["apply", "a.json", "--yes", "--on", "nowhere"]);
    assert!(refused.starts_with("exit 64\n") && refused.contains("`nowhere`"), "{refused}");
    assert_eq!(lab_files(&lab), "none\nnone\n");

    assert!(lab.forge(&["plan", "-o", "plan.json"]).starts_with("exit 0\n"));
    let first = lab.forge(&["apply", "plan.json", "--yes", "--on", "a"]);
    assert!(first.starts_with("exit 0\n") && !first.contains("on b"), "{first}");
    assert_eq!(lab_files(&lab), "lab\nnone\n");
    let rest = lab.forge(&["apply", "plan.json", "--yes"]);
    assert!(rest.starts_with("exit 0\n"), "`a` is done, not stale: {rest}");
    assert_eq!(lab_files(&lab), "lab\nlab\n");
    let again = lab.forge(&["apply", "plan.json", "--yes"]);
    assert!(again.starts_with("exit 0\n") && again.contains("no changes"), "{again}");

    lab.inside("inventory.yaml", "a", "rm /etc/lab");
    let undone = lab.forge(&["apply", "plan.json", "--yes", "--on", "a"]);
    assert!(undone.starts_with("exit 6\n") && undone.contains("this plan has already run here: run "), "{undone}");
    assert_eq!(lab_files(&lab), "none\nlab\n");
    lab.nothing_is_left();
}

/// On `b` a directory is in the way, so that the plan is stale there.
#[test]
fn resumed_run_continues_its_saved_plan_on_the_chosen_host() {
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let records = |host: &str| lab.inside("inventory.yaml", host, "cat /var/lib/forge/applied/*.json");
    assert!(lab.forge(&["plan", "-o", "plan.json"]).starts_with("exit 0\n"));
    lab.inside("inventory.yaml", "b", "mkdir /etc/lab");
    let stale = lab.forge(&["apply", "plan.json", "--yes"]);
    assert!(stale.starts_with("exit 6\n"), "{stale}");
    lab.inside("inventory.yaml", "b", "rmdir /etc/lab");
    let dry = lab.forge(&["resume", "--dry-run", "--step", "r"]);
    assert!(dry.starts_with("exit 0\n") && dry.contains("on b\n") && !dry.contains("on a\n"), "{dry}");
    assert!(!dry.contains("next: "), "`forge apply` would select other hosts: {dry}");
    let resumed = lab.forge(&["resume", "--on", "b", "--yes"]);
    assert!(resumed.starts_with("exit 0\n"), "{resumed}");
    assert_eq!(lab_files(&lab), "lab\nlab\n");
    let digest = lab.shell("grep -o 'sha256:[0-9a-f]*' plan.json | head -n 1");
    assert!(records("b").contains(digest.trim()), "the saved plan was not applied: {digest} {}", records("b"));
    lab.nothing_is_left();
}
