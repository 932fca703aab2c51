//! Runs with workers (`--engine local`), and what is left of them when processes are killed. Files on the hosts are the
//! witness of what was done there, and how often.

use super::host::{Lab, Who};
use super::remove_keys::remove_keys;
use serde_json::Value;
use std::time::{Duration, Instant};

const INVENTORY: &str = "cluster: lab\nconnect: { transport: sandbox }\nhosts:\n  a: {}\n  b: {}\n  c: {}\n  d: {}\n  e: {}\n\
                         apply:\n  - { recipe: count, on: all }\n";

/// Counts how often its command ran on a host. It fails where `/etc/broken` exists.
const RECIPE: &str = "recipe: count\nsummary: a counted command\nsteps:\n  \
    - name: file\n    file: { path: /etc/lab, content: \"lab\\n\" }\n  \
    - name: command\n    command:\n      check: test -e /etc/done\n      \
      apply: test ! -e /etc/broken && sleep ${PAUSE:-0} && echo x >>/etc/count && touch /etc/done\n";

pub fn recipe_with_pause(pause: &str) -> String {
    RECIPE.replace("${PAUSE:-0}", pause)
}

fn lab(recipe: &str) -> Option<Lab> {
    lab_of(INVENTORY, recipe)
}

fn lab_of(inventory: &str, recipe: &str) -> Option<Lab> {
    match Lab::new(Who::all()[0], &[("inventory.yaml", inventory), ("recipes/count.yaml", recipe)]) {
        Ok(lab) => Some(lab),
        Err(why) => {
            eprintln!("skipped: a sandbox: {why}");
            None
        }
    }
}

/// Returns how often the command ran on each host.
fn counts(lab: &Lab, hosts: &[&str]) -> Vec<usize> {
    let count = |host: &&str| lab.inside("inventory.yaml", host, "cat /etc/count 2>/dev/null").lines().count();
    hosts.iter().map(count).collect()
}

const HOSTS: [&str; 5] = ["a", "b", "c", "d", "e"];
const ENGINE: [&str; 6] = ["--engine", "local", "--workers", "3", "--shard-size", "2"];

fn apply_with_workers(lab: &Lab, more: &[&str]) -> String {
    lab.forge(&[&["apply", "--yes"], &ENGINE[..], more].concat())
}

/// Returns the report of a run without times and names of runs.
fn comparable_report(said: &str) -> Value {
    // The plan for people and the errors on stderr follow the document.
    let json = said.split_once('\n').unwrap().1;
    let mut documents = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let mut report = documents.next().and_then(Result::ok).unwrap_or_else(|| panic!("no document: {said}"));
    remove_keys(&mut report, &["took", "run", "cluster", "plan", "time", "began"]);
    report
}

/// Exit code and report are those of one process: for changes, a failed host, the failure budget and a second run.
#[test]
fn workers_report_what_one_process_reports() {
    let Some(lab) = lab(&recipe_with_pause("0")) else { return };
    let other = INVENTORY.replace("cluster: lab", "cluster: other");
    let budget = "rollout: { canary: 1, max_failed: 0 }\n";
    lab.file("inventory.yaml", &format!("{INVENTORY}{budget}"));
    lab.file("other.yaml", &format!("{other}{budget}"));
    let everywhere = |host: &str, code: &str| {
        ["inventory.yaml", "other.yaml"].iter().for_each(|inventory| drop(lab.inside(inventory, host, code)));
    };
    let both = |more: &[&str]| {
        let one = lab.forge(&[&["apply", "other.yaml", "--yes", "--format", "json"], more].concat());
        let many = apply_with_workers(&lab, &[&["inventory.yaml", "--format", "json"], more].concat());
        assert_eq!(many.lines().next(), one.lines().next(), "{many}\n{one}");
        assert_eq!(comparable_report(&many), comparable_report(&one));
        many
    };
    everywhere("a", "touch /etc/broken");
    let failed = both(&[]);
    assert!(failed.starts_with("exit 8\n") && failed.contains("not started: canary `a` did not succeed"), "{failed}");
    assert_eq!(counts(&lab, &HOSTS), [0; 5]);
    everywhere("a", "rm /etc/broken");
    assert!(both(&[]).starts_with("exit 0\n"));
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
    let again = both(&[]);
    assert!(again.starts_with("exit 0\n") && !again.contains("\"changed\""), "{again}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
    everywhere("c", "rm /etc/done && touch /etc/broken");
    assert!(
        both(&["--on", "a,c"]).starts_with("exit 3\n"),
        "the last host fails: the budget keeps no other from starting"
    );
    let runs = lab.forge(&["runs", "-i", "inventory.yaml"]);
    assert!(runs.contains("exit 0, 5 hosts: 5 changed") && runs.contains("exit 0, 5 hosts: 5 ok"), "{runs}");
    lab.forge(&["sandbox", "reset", "-i", "other.yaml"]);
}

/// Waits until `ready` returns a value.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "not within 60 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the coordinator knows that a worker changes a host.
fn wait_for_first_step(lab: &Lab) {
    let started = || lab.shell("cat state/lab/runs/*/journal.ndjson").contains("step_started").then_some(());
    wait_for("a host that changes", started);
}

/// The host and the process that works on it are both alive when the process is killed; a second worker goes on.
#[test]
fn killed_worker_is_replaced_and_no_command_runs_twice() {
    let Some(lab) = lab(&recipe_with_pause("2")) else { return };
    let run = lab.start(&[&["apply", "--yes"], &ENGINE[..]].concat());
    wait_for_first_step(&lab);
    let worker = wait_for("a worker that applies", || lab.list_processes(" worker ").into_iter().next());
    lab.kill(worker);
    let said = run.finish();
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5], "{said}");
    assert!(said.contains("applied: 5 hosts: "), "{said}");
}

/// The second worker keeps what it finds next to what the first one kept. The interrupted step was a change of the run.
#[test]
fn undo_restores_what_both_workers_of_a_host_changed() {
    let recipe = "recipe: count\nsteps:\n  - { name: early, file: { path: /etc/early, content: new } }\n  \
        - name: slow\n    command: { check: test -e /etc/done, apply: sleep 3 && touch /etc/done }\n  \
        - { name: late, file: { path: /etc/late, content: new } }\n  - { name: gone, absent: { path: /etc/gone } }\n";
    let Some(lab) = lab(recipe) else { return };
    let inside = |host: &str, code: &str| lab.inside("inventory.yaml", host, code);
    let state = "cd /etc; head early late gone; stat -c '%n %a' early late gone";
    let prepare = "for f in early late gone; do echo old $f >/etc/$f; chmod 600 /etc/$f; done";
    let before = HOSTS.map(|host| inside(host, &format!("{prepare}; {state}")));
    let run = lab.start(&[&["apply", "--yes"], &ENGINE[..]].concat());
    let slow = || lab.shell("grep -h step_started state/lab/runs/*/journal.ndjson").contains("slow").then_some(());
    wait_for("the slow step", slow);
    lab.kill(wait_for("a worker that applies", || lab.list_processes(" worker ").into_iter().next()));
    let said = run.finish();
    assert!(said.starts_with("exit 0\n") && said.contains("applied: 5 hosts: 5 changed; 20 steps changed"), "{said}");
    let undone = lab.forge(&["undo", "last", "--yes", "--partial"]);
    assert!(undone.starts_with("exit 0\n"), "{undone}");
    assert_eq!(HOSTS.map(|host| inside(host, state)), before, "{undone}");
}

/// Workers stop when their coordinator is gone; `forge resume` finishes the run.
#[test]
fn resume_finishes_the_run_of_a_killed_coordinator() {
    let Some(lab) = lab(&recipe_with_pause("1")) else { return };
    let run = lab.start(&[&["apply", "--yes", "--parallel", "3"], &ENGINE[..]].concat());
    wait_for_first_step(&lab);
    lab.kill(run.process_id());
    run.finish();
    let resumed = lab.forge(&[&["resume", "--yes"], &ENGINE[..]].concat());
    assert!(resumed.starts_with("exit 0\n"), "{resumed}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5], "{resumed}");
    wait_for("the end of all workers", || lab.list_processes(" worker ").is_empty().then_some(()));
    let again = apply_with_workers(&lab, &[]);
    assert!(again.starts_with("exit 0\n") && again.contains("no changes"), "{again}");
}

/// Without `--engine`, a resume waits for the workers of the killed run too: they hold the locks of their hosts.
#[test]
fn resume_without_workers_waits_for_those_of_a_killed_coordinator() {
    let Some(lab) = lab(&recipe_with_pause("4")) else { return };
    let run = lab.start(&[&["apply", "--yes", "--parallel", "3"], &ENGINE[..]].concat());
    wait_for_first_step(&lab);
    lab.kill(run.process_id());
    run.finish();
    let resumed = lab.shell("forge resume --yes; echo exit $?");
    assert!(resumed.contains("\nexit 0\n"), "{resumed}");
    let says = "waiting up to 1 min 00 s for the workers of an earlier run on this machine\n";
    assert_eq!(resumed.matches(says).count(), 1, "{resumed}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5], "{resumed}");
}

/// A job controller may start a finished pod again. With its reports, a task contacts no host; without them, each step is
/// evaluated before it acts.
#[test]
fn task_that_runs_again_changes_nothing() {
    let Some(lab) = lab(&recipe_with_pause("1")) else { return };
    let run = lab.start(&[&["apply", "--yes"], &ENGINE[..]].concat());
    let copy = "rm -rf copy; mkdir copy; cp -r state/lab/engine/2* copy/engine && \
                grep -q '\"job\":{\"apply\"' copy/engine/objects/* && echo copied";
    wait_for("the tasks of the run", || lab.shell(copy).contains("copied").then_some(()));
    assert!(run.finish().starts_with("exit 0\n"));
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
    let task = lab.shell("grep -l '\"job\":{\"apply\"' copy/engine/objects/* | head -n 1");
    let stopped = lab.shell(&format!("forge worker {} </dev/null; echo exit $?", task.trim()));
    assert!(stopped.contains("exit 130") && !stopped.contains("host_done"), "no order to begin: {stopped}");
    lab.shell("rm -rf copy/engine/reports");
    // The end of the orders stops a worker.
    let begin = |lab: &Lab| {
        lab.shell(&format!("(echo '{{\"order\":\"begin\"}}'; sleep 5) | forge worker {}; echo exit $?", task.trim()))
    };
    let again = begin(&lab);
    assert!(again.contains("\"message\":\"host_done\"") && again.contains("\"message\":\"finished\""), "{again}");
    assert!(again.contains("exit 0") && !again.contains("step_started"), "{again}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
    HOSTS.iter().for_each(|host| drop(lab.inside("inventory.yaml", host, "rm /etc/done")));
    let repeated = begin(&lab);
    assert!(repeated.contains("\"message\":\"host_done\"") && !repeated.contains("\"connecting\""), "{repeated}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5], "a host with a report is not contacted");
}

/// The first interrupt finishes running steps; hosts that have not started stay as they are, and the report says so.
#[test]
fn interrupt_reaches_the_workers() {
    let Some(lab) = lab(&recipe_with_pause("2")) else { return };
    let run = lab.start(&["apply", "--yes", "--engine", "local", "--workers", "1", "--parallel", "1"]);
    wait_for_first_step(&lab);
    lab.interrupt(run.process_id());
    let said = run.finish();
    assert!(said.starts_with("exit 130\n"), "{said}");
    let counts = counts(&lab, &HOSTS);
    assert!(counts.iter().sum::<usize>() < 5 && counts.iter().all(|count| *count < 2), "{counts:?} {said}");
    assert!(said.contains("the run was stopped before this host started"), "{said}");
    let last = lab.forge(&["show", "last"]);
    assert!(last.contains("the run was stopped before this host started"), "{last}");
}

/// A plan that workers observed is saved with their answers; workers carry it out once on each host.
#[test]
fn saved_plan_of_workers_runs_once() {
    let Some(lab) = lab(&recipe_with_pause("0")) else { return };
    let plan = lab.forge(&[&["plan", "-o", "plan.json"], &ENGINE[..]].concat());
    assert!(plan.starts_with("exit 0\n") && plan.contains("plan: 10 changes"), "{plan}");
    let first = lab.forge(&["apply", "plan.json", "--yes", "--on", "a"]);
    assert!(first.starts_with("exit 0\n"), "a process without workers reads the same plan: {first}");
    let rest = lab.forge(&[&["apply", "plan.json", "--yes"], &ENGINE[..]].concat());
    assert!(rest.starts_with("exit 0\n"), "{rest}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
    lab.inside("inventory.yaml", "b", "rm /etc/done");
    let again = lab.forge(&[&["apply", "plan.json", "--yes"], &ENGINE[..]].concat());
    assert!(again.starts_with("exit 6\n") && again.contains("this plan has already run here: run "), "{again}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
    let drift = lab.forge(&[&["drift"], &ENGINE[..]].concat());
    assert!(drift.starts_with("exit 2\n"), "{drift}");
    let alone = lab.forge(&["drift"]);
    assert_eq!(drift.lines().last(), alone.lines().last(), "{drift}\n{alone}");
}

/// A second coordinator of the same cluster does not begin.
#[test]
fn second_coordinator_is_locked_out() {
    let Some(lab) = lab(&recipe_with_pause("3")) else { return };
    let run = lab.start(&[&["apply", "--yes"], &ENGINE[..]].concat());
    wait_for_first_step(&lab);
    let second = apply_with_workers(&lab, &[]);
    assert!(second.starts_with("exit 7\n"), "{second}");
    assert!(second.contains("another run of this cluster with workers is in progress"), "{second}");
    assert!(run.finish().starts_with("exit 0\n"));
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
}

const WINDOWS: &str = "recipe: count\nsummary: a disruptive command\nsteps:\n  - name: command\n    disruption: D2\n    command:\n      \
    check: test -e /etc/done\n      apply: date +%s.%N >>/etc/window && sleep 1 && date +%s.%N >>/etc/window && touch /etc/done\n";

/// Returns the times of each host's window.
pub fn window_times(lab: &Lab, hosts: &[&str]) -> Vec<(f64, f64)> {
    let read = |host: &&str| {
        let text = lab.inside("inventory.yaml", host, "cat /etc/window");
        let times: Vec<f64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(times.len(), 2, "{host}: {text}");
        (times[0], times[1])
    };
    hosts.iter().map(read).collect()
}

/// Returns the largest number of windows that were open at once.
pub fn most_open_windows(windows: &[(f64, f64)]) -> usize {
    let open_at = |time: f64| windows.iter().filter(|(begin, end)| *begin <= time && time < *end).count();
    windows.iter().map(|(begin, _)| open_at(*begin)).max().unwrap_or(0)
}

/// Each worker has hosts of its own, but only one coordinator decides how many are out of service.
#[test]
fn canary_and_max_unavailable_hold_over_all_workers() {
    let inventory = format!("{INVENTORY}rollout: {{ canary: 1, max_unavailable: 2 }}\n");
    let Some(lab) = lab_of(&inventory, WINDOWS) else { return };
    let said = lab.forge(&["apply", "--yes", "--engine", "local", "--workers", "4", "--shard-size", "1"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    let windows = window_times(&lab, &HOSTS);
    assert_eq!(most_open_windows(&windows), 2, "{windows:?}");
    let (canary, others) = windows.split_first().unwrap();
    assert!(others.iter().all(|(begin, _)| *begin >= canary.1), "{windows:?}");
}

/// The canary waits for its window, so no worker gets another host.
#[test]
fn canary_that_waits_for_the_hours_holds_back_all_workers() {
    let hour = |later: i64| (jiff::Zoned::now() + jiff::Span::new().hours(later)).strftime("%H:00").to_string();
    let hours = format!("{}-{}", hour(5), hour(6));
    let rollout = format!("rollout: {{ canary: 1, max_unavailable: 2, hours: \"{hours}\" }}\n");
    let file = "steps:\n  - name: file\n    file: { path: /etc/no-window, content: x }\n";
    let recipe = WINDOWS.replacen("steps:\n", file, 1) + "verify:\n  - { name: done, check: test -e /etc/done }\n";
    let Some(lab) = lab_of(&format!("{INVENTORY}{rollout}"), &recipe) else { return };
    let said = lab.forge(&["apply", "--yes", "--engine", "local", "--workers", "4", "--shard-size", "1"]);
    assert!(said.starts_with("exit 10\n"), "{said}");
    assert!(said.contains("the hours held back the window of canary `a`"), "{said}");
    assert!(said.contains("`count/command` is held back") && !said.contains("did not succeed"), "{said}");
    let written = |host: &&&str| !lab.inside("inventory.yaml", host, "ls /etc/no-window /etc/window 2>&-").is_empty();
    assert_eq!(HOSTS.iter().filter(written).collect::<Vec<_>>(), [&"a"], "{said}");
}

const AFTER: &str = "recipe: after\nsummary: waits\nneeds: { count: { of: selected, least: 100% } }\nsteps:\n  \
    - name: late\n    command: { check: test -e /etc/late, apply: date +%s.%N >/etc/late }\n";

/// No host begins the step behind the barrier before all hosts have done the one before it, whichever worker has them.
#[test]
fn barrier_holds_over_worker_processes() {
    let recipe = recipe_with_pause("1").replace("touch /etc/done", "date +%s.%N >/etc/done");
    let Some(lab) = lab_of(INVENTORY, &recipe) else { return };
    lab.file("inventory.yaml", &format!("{INVENTORY}  - {{ recipe: after, on: all }}\n"));
    lab.file("recipes/after.yaml", AFTER);
    let said = lab.forge(&["apply", "--yes", "--engine", "local", "--workers", "1", "--shard-size", "2"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(counts(&lab, &HOSTS), [1; 5]);
    let read = |file: &str| -> Vec<f64> {
        let text = HOSTS.iter().map(|host| lab.inside("inventory.yaml", host, &format!("cat {file}")));
        text.map(|text| text.trim().parse().unwrap()).collect()
    };
    let (done, late) = (read("/etc/done"), read("/etc/late"));
    assert!(done.iter().all(|done| late.iter().all(|late| late > done)), "{done:?} {late:?}");
    lab.inside("inventory.yaml", "c", "rm /etc/done /etc/late && touch /etc/broken");
    lab.inside("inventory.yaml", "a", "rm /etc/late");
    let failed = apply_with_workers(&lab, &[]);
    assert!(failed.starts_with("exit 3\n") && failed.contains("got 4; missing: c"), "{failed}");
}

/// Workers record what one process records: all facts too, so that a plan of the recording is that of the hosts.
#[test]
fn recording_of_workers_is_that_of_one_process() {
    let Some(lab) = lab_of(INVENTORY, RECIPE) else { return };
    assert!(apply_with_workers(&lab, &["--on", "a,b"]).starts_with("exit 0\n"));
    let engine = ["--engine", "local", "--workers", "2", "--shard-size", "2"];
    let planned = lab.forge(&[&["plan", "--record", "workers.json"], &engine[..]].concat());
    assert!(planned.starts_with("exit 0\n"), "{planned}");
    assert!(lab.forge(&["plan", "--record", "one.json"]).starts_with("exit 0\n"));
    let observed = |file: &str| {
        let said = lab.forge(&["plan", "--observed", file, "--format", "json"]);
        said.split_once("\"plan\": {").map(|(_, plan)| plan.to_owned())
    };
    let of_workers = observed("workers.json");
    assert!(of_workers.is_some() && of_workers == observed("one.json"), "{of_workers:?}");
    let facts = lab.shell("forge facts --observed workers.json --format json; echo exit $?");
    assert!(facts.contains("exit 0") && !facts.contains("not recorded"), "{facts}");
}

/// The verifications are evaluated on what the workers observed.
#[test]
fn verify_with_workers_finds_what_differs() {
    let recipe = format!("{RECIPE}verify:\n  - {{ name: done, check: test -e /etc/done }}\n");
    let Some(lab) = lab_of(INVENTORY, &recipe) else { return };
    assert!(apply_with_workers(&lab, &[]).starts_with("exit 0\n"));
    let verify = || lab.forge(&["verify", "--engine", "local", "--workers", "2", "--shard-size", "2"]);
    let passed = verify();
    assert!(passed.starts_with("exit 0\n") && passed.contains("5 hosts: 5 ok"), "{passed}");
    lab.inside("inventory.yaml", "d", "rm /etc/done");
    let failed = verify();
    assert!(failed.starts_with("exit 5\n") && failed.contains("on d"), "{failed}");
}

/// A step that workers cannot carry out is refused before anything changes.
#[test]
fn waits_for_hosts_of_a_limited_step_are_refused() {
    let Some(lab) = lab_of(INVENTORY, &RECIPE.replace("- name: command\n", "- name: command\n    at_once: 1\n")) else {
        return;
    };
    lab.file("inventory.yaml", &format!("{INVENTORY}  - {{ recipe: after, on: all }}\n"));
    lab.file("recipes/after.yaml", AFTER);
    let said = apply_with_workers(&lab, &[]);
    assert!(said.starts_with("exit 64\n"), "{said}");
    assert!(said.contains("`--engine` cannot carry out this plan yet: step `after/late` of `"), "{said}");
    assert_eq!(lab.inside("inventory.yaml", "a", "ls /etc/lab /etc/late 2>/dev/null"), "");
    assert!(apply_with_workers(&lab, &["--skip", "after"]).starts_with("exit 0\n"));
}

/// The step runs on one host for all of them, whichever worker has that host; each host writes what it exports.
#[test]
fn step_that_runs_on_one_host_for_all_runs_once_over_worker_processes() {
    let recipe = "recipe: count\nsummary: one key\nsteps:\n  - name: key\n    scope: one\n    command:\n      \
                  check: test -e /etc/key\n      apply: echo x >>/etc/count; sleep 1; cat /etc/hostname >/etc/key\n    \
                  export: { key: { read: cat /etc/key } }\n  - name: copy\n    file:\n      path: /etc/copy\n      \
                  content: \"{{ exports['count'].key }}\"\n";
    let Some(lab) = lab_of(INVENTORY, recipe) else { return };
    let said = lab.forge(&["apply", "--yes", "--engine", "local", "--workers", "3", "--shard-size", "1"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    let read = |file: &str| HOSTS.map(|host| lab.inside("inventory.yaml", host, &format!("cat {file} 2>/dev/null")));
    assert_eq!(read("/etc/count"), ["x\n", "", "", "", ""], "{said}");
    let key = lab.inside("inventory.yaml", "a", "cat /etc/hostname");
    assert!(!key.is_empty() && read("/etc/copy").iter().all(|copy| copy.trim() == key.trim()), "{said}");
    let again = lab.forge(&["apply", "--yes"]);
    assert!(again.starts_with("exit 0\n") && again.contains("no changes"), "{again}");
}
