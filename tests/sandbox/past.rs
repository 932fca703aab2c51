//! Selectors that refer to the last run. Files on the hosts are the witness of what apply did.

use super::ONE;
use super::host::{Lab, Who};

const RECIPE: &str = "recipe: r
summary: a step that fails on a broken host
steps:
  - { name: f, command: { check: test -e /etc/lab, apply: 'test ! -e /etc/broken && echo x >>/etc/lab' } }
";

#[test]
fn hosts_are_selected_by_their_outcome_in_the_last_run() {
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let none = lab.forge(&["plan", "--on", "@failed"]);
    assert!(none.starts_with("exit 64\n") && none.contains("refers to the last run, and there was no run"), "{none}");
    lab.inside("inventory.yaml", "b", "touch /etc/broken");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 3\n"));
    let plan = lab.forge(&["plan", "--on", "@failed"]);
    assert!(plan.contains("simulated, no real hardware: b\n"), "{plan}");
    let changed = lab.forge(&["exec", "@changed", "--", "cat /etc/lab"]);
    assert!(changed.contains("\na: x\n") && !changed.contains("b:"), "{changed}");
    let gone = lab.forge(&["plan", "--on", "@unreachable"]);
    assert!(gone.contains("selector `@unreachable` matches no hosts"), "{gone}");
    lab.inside("inventory.yaml", "b", "rm /etc/broken");
    let again = lab.shell("forge apply --yes --on @unfinished");
    assert!(again.contains("hosts of the last run: apply 2"), "{again}");
    let files = ["a", "b"].map(|host| lab.inside("inventory.yaml", host, "cat /etc/lab"));
    assert_eq!(files, ["x\n", "x\n"], "each was changed once: {again}");
    lab.nothing_is_left();
}
