//! A run that detaches from a script: what other verbs say while the script goes on. A file on the host is the witness.

use super::ONE;
use super::host::{Lab, Who};
use std::time::{Duration, Instant};

const SLOW: &str = "recipe: r
summary: one step that takes its time
steps:
  - { name: slow, command: { creates: /srv/done, apply: 'touch /srv/begun; until test -e /srv/go; do sleep 0.1; done; touch /srv/done' } }
";

/// Waits until the host has a file.
fn await_file(lab: &Lab, file: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while lab.inside("inventory.yaml", "a", &format!("ls {file} 2>/dev/null")).is_empty() {
        assert!(Instant::now() < end, "{file} is missing after 60 s");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn script_that_goes_on_without_its_run_is_seen_by_other_verbs() {
    let files = [("inventory.yaml", ONE), ("recipes/r.yaml", SLOW)];
    let lab = match Lab::new(Who::all()[0], &files) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let run = lab.start(&["apply", "--yes", "--on", "a"]);
    await_file(&lab, "/srv/begun");
    let listed = lab.forge(&["runs"]);
    assert!(listed.contains("in progress, 1 host: 1 running"), "{listed}");
    lab.interrupt(run.process_id());
    std::thread::sleep(Duration::from_millis(500));
    lab.interrupt(run.process_id());
    let said = run.finish();
    assert!(said.starts_with("exit 130\n") && said.contains("still running on the hosts: r/slow on a"), "{said}");

    let works = "another run works on this host: `forge apply inventory.yaml` by ";
    let plan = lab.forge(&["plan", "--on", "a"]);
    assert!(plan.contains(works), "{plan}");
    let drift = lab.forge(&["drift", "--on", "a"]);
    assert!(drift.starts_with("exit 9\n") && drift.contains(works), "{drift}");
    assert!(drift.contains("not judged while a run works on the host: `/srv/done` does not exist"), "{drift}");
    let verify = lab.forge(&["verify", "--on", "a"]);
    assert!(verify.starts_with("exit 9\n") && verify.contains(works), "{verify}");

    lab.inside("inventory.yaml", "a", "touch /srv/go");
    await_file(&lab, "/srv/done");
    let drift = lab.forge(&["drift", "--on", "a"]);
    assert!(!drift.contains("works on") && drift.contains("no drift"), "{drift}");
    lab.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
    lab.nothing_is_left();
}
