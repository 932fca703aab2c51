//! Hosts on hold. Files on the hosts are the witness of what apply did.

use super::host::{Lab, Who};
use super::{ONE, RECIPE, as_everybody};

/// The hold of this test, without its time.
fn without_time(text: &str) -> String {
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").unwrap();
    let by = regex::Regex::new(r"on hold by .+?@\S+").unwrap();
    by.replace_all(&time.replace_all(text, "TIME"), "on hold by ME").into_owned()
}

fn lab_files(lab: &Lab) -> String {
    ["a", "b"].map(|host| lab.inside("inventory.yaml", host, "cat /etc/lab 2>/dev/null || echo none")).concat()
}

#[test]
fn host_on_hold_is_left_alone_until_it_is_released() {
    as_everybody(|lab| {
        let held = lab.forge(&["hold", "a", "--why", "ticket 7"]);
        let simulated = "simulated, no real hardware: a\n\n";
        assert_eq!(without_time(&held), format!("exit 0\n{simulated}a: on hold by ME since TIME: ticket 7\n"));
        let plan = without_time(&lab.forge(&["plan", "--detailed-exitcode"]));
        let section = "on hold: apply leaves these hosts alone\n- on hold by ME since TIME: ticket 7\n    \
                       hint: `forge release` ends the hold\n    on a\n";
        assert!(plan.starts_with("exit 10\n") && plan.contains(section), "{plan}");
        let apply = without_time(&lab.forge(&["apply", "--yes"]));
        assert!(apply.starts_with("exit 10\n") && apply.contains("on hold by ME since TIME: ticket 7"), "{apply}");
        assert_eq!(lab_files(lab), "none\nlab\n", "only `b` was changed");
        let drift = without_time(&lab.forge(&["drift"]));
        assert!(drift.starts_with("exit 2\n") && drift.contains("on hold by ME since TIME: ticket 7"), "{drift}");

        let again = without_time(&lab.forge(&["hold", "a", "--why", "it's $HOME", "--until", "2d"]));
        let until = "on hold by ME since TIME until TIME: it's $HOME\n    was on hold by ME since TIME: ticket 7\n";
        assert_eq!(again, format!("exit 0\n{simulated}a: {until}"));
        let released = without_time(&lab.forge(&["release", "all"]));
        assert!(
            released.contains("a: released\n    was on hold by ME since TIME until TIME: it's $HOME\n"),
            "{released}"
        );
        assert!(released.contains("b: was not on hold\n"), "{released}");
        assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
        assert_eq!(lab_files(lab), "lab\nlab\n");
        assert_eq!(lab.inside("inventory.yaml", "a", "ls -A /var/lib/forge | grep hold"), "", "no mark is left");
        lab.nothing_is_left();
    });
}

/// The second host waits for the window of the first one when it is put on hold. What it did before its window stays.
#[test]
fn host_that_waits_for_its_window_is_not_taken_out_of_service() {
    let recipe = "recipe: r\nsteps:\n  - { name: early, file: { path: /etc/early, content: x } }\n  \
        - name: heavy\n    disruption: D2\n    command:\n      check: test -e /etc/heavy\n      \
        apply: 'touch /etc/begun; until test -e /etc/go; do sleep 0.1; done; touch /etc/heavy'\n";
    let inventory = format!("{ONE}rollout: {{ max_unavailable: 1 }}\n");
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", &inventory), ("recipes/r.yaml", recipe)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let inside = |host: &str, code: &str| lab.inside("inventory.yaml", host, code);
    let run = lab.start(&["apply", "--yes"]);
    let waits =
        || inside("a", "ls /etc/begun 2>&-").contains("begun") && inside("b", "ls /etc/early 2>&-").contains("early");
    let waited = (0..300).any(|_| {
        waits() || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            false
        }
    });
    assert!(waited);
    let hold = lab.forge(&["hold", "b", "--why", "ticket 8"]);
    let works = "ticket 8\n    another run works on this host: `forge apply inventory.yaml` by ";
    assert!(hold.starts_with("exit 0\n") && hold.contains(works), "{hold}");
    inside("a", "touch /etc/go");
    let said = without_time(&run.finish());
    assert!(said.starts_with("exit 10\n") && said.contains("on hold by ME since TIME: ticket 8"), "{said}");
    assert_eq!(inside("a", "ls /etc/heavy"), "/etc/heavy\n", "{said}");
    assert_eq!(inside("b", "ls /etc/begun /var/lib/forge/window.json 2>&-"), "", "{said}");
    lab.forge(&["release", "b"]);
    inside("b", "touch /etc/go");
    assert!(lab.forge(&["apply", "--yes"]).starts_with("exit 0\n"));
    lab.nothing_is_left();
}

/// The canary is put on hold before its window opens: its change is not proven, so no other host is changed.
#[test]
fn canary_that_is_put_on_hold_holds_back_the_other_hosts() {
    let recipe = "recipe: r\nsteps:\n  - name: early\n    command:\n      check: test -e /etc/early\n      \
        apply: 'touch /etc/begun; until test -e /etc/go; do sleep 0.1; done; touch /etc/early'\n  \
        - name: heavy\n    needs: [early]\n    disruption: D2\n    command: { check: test -e /etc/heavy, apply: touch /etc/heavy }\n";
    let inventory = format!("{ONE}rollout: {{ canary: 1, max_unavailable: 1 }}\n");
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", &inventory), ("recipes/r.yaml", recipe)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    let inside = |host: &str, code: &str| lab.inside("inventory.yaml", host, code);
    for engine in [&[][..], &["--engine", "local", "--workers", "2", "--shard-size", "1"]] {
        for host in ["a", "b"] {
            inside(host, "rm -f /etc/begun /etc/early /etc/go /etc/heavy");
        }
        let run = lab.start(&[&["apply", "--yes"], engine].concat());
        let begun = (0..300).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            inside("a", "ls /etc/begun 2>&-").contains("begun")
        });
        assert!(begun);
        assert!(lab.forge(&["hold", "a", "--why", "ticket 9"]).starts_with("exit 0\n"));
        inside("a", "touch /etc/go");
        let said = run.finish();
        assert!(said.starts_with("exit 10\n") && said.contains("canary `a` was put on hold"), "{said}");
        assert_eq!(inside("a", "ls /etc/early /etc/heavy 2>&-"), "/etc/early\n", "{said}");
        assert_eq!(inside("b", "ls /etc/begun /etc/early 2>&-"), "", "{said}");
        lab.forge(&["release", "a"]);
    }
    lab.nothing_is_left();
}

/// A path that cannot hold the note leaves the host alone, and nothing is called done.
#[test]
fn hold_that_cannot_be_written_fails_and_the_host_is_left_alone() {
    as_everybody(|lab| {
        lab.inside("inventory.yaml", "a", "mkdir -p /var/lib/forge/hold.json");
        let held = lab.forge(&["hold", "a", "--why", "ticket 7"]);
        assert!(held.starts_with("exit 3\n") && held.contains("/var/lib/forge/hold.json is not a file"), "{held}");
        let apply = lab.forge(&["apply", "--yes"]);
        assert!(apply.starts_with("exit 10\n") && apply.contains("on hold by an unknown user"), "{apply}");
        assert_eq!(lab_files(lab), "none\nlab\n", "only `b` was changed");
        lab.inside("inventory.yaml", "a", "rmdir /var/lib/forge/hold.json; : >/var/lib/forge/hold.json");
        let released = lab.forge(&["release", "a"]);
        assert!(released.contains("a: released") && released.contains("was on hold by an unknown user"), "{released}");
    });
}

#[test]
fn hold_ends_by_the_clock_of_the_host() {
    let tests = "tests: { quick: [{ test: dcgm-diag, on: all, required: true }] }\n";
    let inventory = format!("{ONE}{tests}");
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", &inventory), ("recipes/r.yaml", RECIPE)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    lab.inside(
        "inventory.yaml",
        "a",
        "echo broken >/var/lib/forge/hold.json || { mkdir -p /var/lib/forge; echo broken >/var/lib/forge/hold.json; }",
    );
    let apply = lab.forge(&["apply", "--yes"]);
    assert!(apply.starts_with("exit 10\n"), "a mark that cannot be read is a hold: {apply}");
    let over = r#"{"why":"x","by":"y","since":"2020-01-01T00:00:00Z","until":"2020-01-02T00:00:00Z"}"#;
    lab.inside("inventory.yaml", "a", &format!("echo '{over}' >/var/lib/forge/hold.json"));
    let apply = lab.forge(&["apply", "--yes"]);
    assert!(apply.starts_with("exit 0\n"), "{apply}");
    assert_eq!(lab_files(&lab), "lab\nlab\n");
    let drift = lab.forge(&["drift"]);
    assert!(drift.starts_with("exit 0\n"), "a sandbox cannot be measured, and no test is due there: {drift}");
    lab.nothing_is_left();
}

#[test]
fn hold_during_a_run_or_after_its_plan_is_respected() {
    const SLOW: &str = "recipe: r
summary: a step that waits on `a`
steps:
  - name: f
    command: { check: test -e /etc/lab, apply: 'mkdir -p /srv/t; touch /srv/t/begun; until test -e /srv/t/go; do sleep 0.1; done; echo lab >/etc/lab' }
";
    let lab = match Lab::new(Who::all()[0], &[("inventory.yaml", ONE), ("recipes/r.yaml", SLOW)]) {
        Ok(lab) => lab,
        Err(why) => return eprintln!("skipped: a sandbox: {why}"),
    };
    lab.inside("inventory.yaml", "b", "mkdir -p /srv/t; touch /srv/t/go");
    assert!(lab.forge(&["plan", "-o", "plan.json"]).starts_with("exit 0\n"));
    let mut run = lab.on_a_terminal("exec ./forge -q apply --yes --parallel 1 >out 2>&1");
    let begun = || lab.inside("inventory.yaml", "a", "ls /srv/t 2>/dev/null").contains("begun");
    assert!((0..600).any(|_| begun() || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        false
    }));
    assert!(lab.forge(&["hold", "b", "--why", "wait"]).starts_with("exit 0\n"));
    lab.inside("inventory.yaml", "a", "touch /srv/t/go");
    run.wait().unwrap();
    let out = lab.shell("cat out");
    assert!(out.contains("on hold by"), "{out}");
    assert_eq!(lab_files(&lab), "lab\nnone\n", "{out}");
    lab.inside("inventory.yaml", "a", "rm /etc/lab");
    let saved = lab.forge(&["apply", "plan.json", "--yes", "--replay"]);
    assert!(saved.starts_with("exit 10\n") && saved.contains("on hold by"), "{saved}");
    assert_eq!(lab_files(&lab), "lab\nnone\n", "a saved plan respects a hold");
    lab.nothing_is_left();
}
