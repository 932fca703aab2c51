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

/// A resume of one host does not hide that the run before it failed on another.
#[test]
fn resume_of_one_host_does_not_hide_the_others() {
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", ONE), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let both = |code: &str| ["a", "b"].map(|host| lab.inside("inventory.yaml", host, code));
    both("touch /etc/broken");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 3\n"));
    both("rm /etc/broken");
    assert!(lab.forge(&["resume", "--on", "b", "--yes"]).starts_with("exit 0\n"));
    assert_eq!(both("cat /etc/lab 2>/dev/null"), ["", "x\n"]);
    let run = lab.shell("ls state/lab/runs | head -n 1");
    let (run, left) = (run.trim(), lab.shell("forge resume --yes; echo exit $?"));
    assert!(left.contains("exit 3") && left.contains(&format!("`forge resume {run} --on a`")), "{left}");
    assert_eq!(both("cat /etc/lab 2>/dev/null"), ["", "x\n"], "{left}");
    assert!(lab.forge(&["resume", "--on", "b", "--yes"]).starts_with("exit 0\n"), "`b` is finished");
    let rest = lab.forge(&["resume", run, "--on", "a", "--yes"]);
    assert!(rest.starts_with("exit 0\n"), "{rest}");
    assert_eq!(both("cat /etc/lab"), ["x\n", "x\n"], "{rest}");
    let done = lab.shell("forge resume --yes; echo exit $?");
    assert!(done.contains("exit 0") && done.contains("nothing to resume") && !done.contains("left"), "{done}");
    lab.nothing_is_left();
}

/// What an undo took back on the host that was left is not applied again.
#[test]
fn resume_leaves_what_an_undo_took_back() {
    let recipe = RECIPE.replace("steps:\n", "steps:\n  - { name: early, file: { path: /etc/early, content: x } }\n");
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", ONE), ("recipes/r.yaml", &recipe)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let both = |code: &str| ["a", "b"].map(|host| lab.inside("inventory.yaml", host, code));
    both("touch /etc/broken");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 3\n"));
    both("rm /etc/broken");
    let run = lab.shell("ls state/lab/runs");
    assert!(lab.forge(&["resume", "--on", "b", "--yes"]).starts_with("exit 0\n"));
    let undone = lab.forge(&["undo", run.trim(), "-i", "inventory.yaml", "--on", "a", "--yes", "--partial"]);
    assert_eq!(both("ls /etc/early 2>&-"), ["", "/etc/early\n"], "{undone}");
    let rest = lab.shell("forge resume --yes; echo exit $?");
    assert!(rest.contains("exit 0") && rest.contains("nothing to resume"), "{rest}");
    assert_eq!(both("ls /etc/early 2>&-"), ["", "/etc/early\n"], "{rest}");
    lab.nothing_is_left();
}

#[test]
fn hosts_that_a_killed_run_did_not_reach_are_unfinished() {
    const SLOW: &str = "recipe: r
summary: a step that waits on `a`
steps:
  - name: f
    command: { check: test -e /etc/lab, apply: 'mkdir -p /srv/t; touch /srv/t/begun; until test -e /srv/t/go; do sleep 0.1; done; echo x >>/etc/lab' }
";
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", ONE), ("recipes/r.yaml", SLOW)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let mut run = lab.on_a_terminal("echo $$ >pid; exec ./forge -q apply --yes --parallel 1");
    let pause = || std::thread::sleep(std::time::Duration::from_millis(100));
    let begun = || lab.inside("inventory.yaml", "a", "ls /srv/t 2>/dev/null").contains("begun");
    assert!((0..600).any(|_| begun() || {
        pause();
        false
    }));
    lab.shell("kill -9 $(cat pid)");
    run.wait().unwrap();
    for host in ["a", "b"] {
        lab.inside("inventory.yaml", host, "mkdir -p /srv/t; touch /srv/t/go");
    }
    let again = lab.forge(&["apply", "--yes", "--on", "@unfinished"]);
    let files = ["a", "b"].map(|host| lab.inside("inventory.yaml", host, "cat /etc/lab"));
    assert_eq!(files, ["x\n", "x\n"], "{again}");
    lab.nothing_is_left();
}

/// A step of scope `one` ran on a host that the run finished: a plan of the other hosts alone cannot know that.
#[test]
fn resume_plans_the_other_hosts_too_if_steps_depend_on_them() {
    let recipe = "recipe: r\nsteps:\n  - name: key\n    scope: one\n    \
                  command: { check: test -s /srv/key, apply: echo k >/srv/key }\n    \
                  export: { v: { read: cat /srv/key } }\n  \
                  - { name: page, file: { path: /srv/page, content: '{{ exports.r.v }}' } }\n";
    let files = [("inventory.yaml", ONE), ("recipes/r.yaml", recipe)];
    let lab = match Lab::new(Who::all()[0], &files) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    lab.inside("inventory.yaml", "b", "mkdir /srv/page");
    let first = lab.forge(&["apply", "--yes"]);
    assert!(first.starts_with("exit 3\n") && first.contains("`/srv/page` is a directory"), "{first}");
    lab.inside("inventory.yaml", "b", "rmdir /srv/page");
    let resumed = lab.forge(&["resume", "--yes"]);
    assert!(resumed.starts_with("exit 0\n"), "{resumed}");
    assert_eq!(lab.inside("inventory.yaml", "b", "cat /srv/page; ls /srv"), "kpage\n", "{resumed}");
    lab.nothing_is_left();
}
