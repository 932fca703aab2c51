//! Runs with workers: what the coordinator decides for the hosts of all of them.

use super::super::shards::WorkerMessage;
use super::super::{Event, HostNews, StepResult};
use super::across::{ALL, FIRST};
use super::simulated_project::SimulatedProject;
use super::window::DRIVER_ALONE;
use super::worker_project::{WorkerSetup, count_open_windows, run_with_workers};
use crate::model::HostOutcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn driver_project(hosts: usize, rollout: &str) -> Arc<SimulatedProject> {
    let apply = format!("rollout: {{ {rollout} }}\napply:\n  - {{ recipe: driver, on: all }}\n");
    Arc::new(SimulatedProject::new(hosts, &apply, &[("driver", DRIVER_ALONE)]))
}

#[test]
fn windows_of_all_workers_open_within_the_budget() {
    for setup in [WorkerSetup::per_host(), WorkerSetup::new(1, 1), WorkerSetup::new(2, 3)] {
        let stage = driver_project(5, "canary: 1, max_unavailable: 2");
        let ran = run_with_workers(&stage, setup);
        assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
        assert!((1..=2).contains(&count_open_windows(&ran.events)), "{:#?}", ran.events);
        assert!(ran.find_host_finish("n1") < ran.find_host_start("n2"));
    }
}

/// One that fails in its window stays out of service, so no other window opens; the steps that need none run.
#[test]
fn host_that_stays_out_of_service_keeps_the_windows_of_other_workers_shut() {
    let motd = "steps:\n  - { name: file, command: { check: 'test -e @root/motd', apply: 'touch @root/motd' } }\n";
    let apply =
        "rollout: { max_unavailable: 1 }\napply:\n  - { recipe: motd, on: all }\n  - { recipe: driver, on: all }\n";
    let stage = Arc::new(SimulatedProject::new(3, apply, &[("motd", motd), ("driver", DRIVER_ALONE)]));
    stage.create_host_file("n1", "bad");
    let ran = run_with_workers(&stage, WorkerSetup::per_host());
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Failed);
    for host in ["n2", "n3"] {
        let said = ran.describe_step(host, "driver/packages");
        assert!(said.contains("`max_unavailable` (1) is used up by n1"), "{host}: {said}");
        assert!(stage.has_file(host, "motd") && !stage.has_file(host, "driver"));
    }
}

/// The second worker does not reach the host, so the window that the first one opened is still open.
#[test]
fn window_of_a_dead_worker_counts_until_another_worker_has_closed_it() {
    let stage = driver_project(2, "max_unavailable: 1");
    let host = stage.clone();
    let setup = WorkerSetup::per_host().with_kills(move |worker, message| {
        let is_inside = matches!(message, WorkerMessage::Event { event: Event::WindowOpened { .. } });
        if worker == 1 && is_inside {
            host.create_host_file("n1", ".sim/refuse");
        }
        worker == 1 && is_inside
    });
    let ran = run_with_workers(&stage, setup);
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Unreachable, "{:#?}", ran.report);
    let said = ran.describe_step("n2", "driver/packages");
    assert!(said.contains("`max_unavailable` (1) is used up by n1"), "{said}");
    assert!(!stage.has_file("n2", "driver"));
}

#[test]
fn window_of_a_dead_worker_is_closed_by_its_replacement() {
    let stage = driver_project(2, "max_unavailable: 1");
    let setup = WorkerSetup::per_host().with_kills(|worker, message| {
        worker == 1 && matches!(message, WorkerMessage::Event { event: Event::WindowOpened { .. } })
    });
    let ran = run_with_workers(&stage, setup);
    assert_eq!((ran.exit_code(), stage.has_file("n2", "driver")), (0, true), "{:#?}", ran.report);
    assert!(
        ran.find_host_finish("n1")
            < ran.find_event(|event| { matches!(event, Event::WindowOpened { host, .. } if host.as_str() == "n2") })
    );
}

/// What the first worker has seen fail, the second one has done: it counts for no budget.
#[test]
fn trouble_of_a_dead_worker_is_taken_back_by_its_replacement() {
    let steps = "steps:
  - { name: odd, command: { check: 'test -e @root/odd', apply: 'test ! -e @root/bad && touch @root/odd' } }
  - { name: slow, needs: [], command: { check: 'test -e @root/slow', apply: 'touch @root/slow' } }
";
    let apply = "rollout: { max_failed: 1 }\napply:\n  - { recipe: r, on: all }\n";
    let stage = Arc::new(SimulatedProject::new(3, apply, &[("r", steps)]));
    ["n1", "n2"].iter().for_each(|host| stage.create_host_file(host, "bad"));
    let (host, told) = (stage.clone(), Arc::new(AtomicBool::new(false)));
    let was_told = told.clone();
    let setup = WorkerSetup::new(1, 1).with_kills(move |worker, message| {
        let is_trouble = matches!(message, WorkerMessage::News { news: HostNews::TroubleFound { failed: true }, .. });
        if worker == 1 && is_trouble {
            told.store(true, Ordering::Relaxed);
            std::fs::remove_file(host.host_root("n1").join("bad")).unwrap();
        }
        worker == 1 && is_trouble
    });
    let ran = run_with_workers(&stage, setup);
    assert!(was_told.load(Ordering::Relaxed));
    let outcomes = ["n1", "n2", "n3"].map(|host| ran.host_outcome(host));
    assert_eq!(outcomes, [HostOutcome::Changed, HostOutcome::Failed, HostOutcome::Changed], "{:#?}", ran.report);
    assert!(!ran.report.budget_spent);
}

/// The failure that the first worker saw is the one that the second worker sees.
#[test]
fn failure_of_a_host_counts_once_for_both_of_its_workers() {
    let steps = "steps:
  - { name: odd, command: { check: 'test -e @root/odd', apply: 'test ! -e @root/bad && touch @root/odd' } }
";
    let apply = "rollout: { max_failed: 1 }\napply:\n  - { recipe: r, on: all }\n";
    let stage = Arc::new(SimulatedProject::new(3, apply, &[("r", steps)]));
    stage.create_host_file("n1", "bad");
    let setup = WorkerSetup::new(1, 3).with_kills(|worker, message| {
        worker == 1 && matches!(message, WorkerMessage::News { news: HostNews::TroubleFound { failed: true }, .. })
    });
    let ran = run_with_workers(&stage, setup);
    let outcomes = ["n1", "n2", "n3"].map(|host| ran.host_outcome(host));
    assert_eq!(outcomes, [HostOutcome::Failed, HostOutcome::Changed, HostOutcome::Changed], "{:#?}", ran.report);
    assert!(!ran.report.budget_spent);
}

#[test]
fn worker_that_died_once_is_not_said_to_have_died_twice() {
    let stage = driver_project(1, "max_unavailable: 1");
    let setup = WorkerSetup::per_host()
        .with_kills(|_, message| matches!(message, WorkerMessage::Event { event: Event::HostStarted { .. } }));
    let ran = run_with_workers(&stage, setup);
    assert!(ran.host_message("n1").contains("its worker died twice: killed"), "{:#?}", ran.report);
    let stage = driver_project(1, "max_unavailable: 1");
    let folder = stage.clone();
    let setup = WorkerSetup::per_host().with_kills(move |_, message| {
        if matches!(message, WorkerMessage::HostDone { .. }) {
            std::fs::remove_dir_all(folder.store_root().join("objects")).unwrap();
        }
        false
    });
    let ran = run_with_workers(&stage, setup);
    let said = ran.host_message("n1");
    assert!(said.contains("the report of its worker cannot be read: ") && !said.contains("died"), "{said}");
}

/// A worker speaks for its own hosts only.
#[test]
fn report_that_cannot_be_read_counts_for_a_host_of_that_worker_only() {
    let stage = driver_project(2, "max_unavailable: 2");
    let setup = WorkerSetup::per_host();
    let ran = run_with_workers(&stage, WorkerSetup { foreign_report: true, ..setup });
    assert_eq!((ran.exit_code(), ran.host_outcome("n2")), (0, HostOutcome::Changed), "{:#?}", ran.report);
}

const SECOND: &str = "needs:
  first: { of: selected, least: 100% }
steps:
  - name: go
    command: { check: 'test -e @root/second', apply: 'test -e @root/../n1/first && test -e @root/../n3/first && touch @root/second' }
";

fn barrier_project(rollout: &str) -> Arc<SimulatedProject> {
    let apply = format!("{rollout}{ALL}");
    Arc::new(SimulatedProject::new(3, &apply, &[("first", FIRST), ("second", SECOND)]))
}

/// Whoever has the hosts: one worker each, one worker at a time, or two hosts together.
#[test]
fn barrier_holds_over_all_workers() {
    for setup in [WorkerSetup::per_host(), WorkerSetup::new(1, 1), WorkerSetup::new(1, 2)] {
        let stage = barrier_project("");
        let ran = run_with_workers(&stage, setup);
        assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
        let steps = ["n1", "n2", "n3"].map(|host| ran.describe_step(host, "second/go"));
        assert_eq!(steps, ["changed", "changed", "changed"]);
    }
}

#[test]
fn barrier_over_workers_names_the_missing_hosts() {
    for setup in [WorkerSetup::per_host(), WorkerSetup::new(1, 1)] {
        let stage = barrier_project("");
        stage.create_host_file("n2", "bad");
        let ran = run_with_workers(&stage, setup);
        let said = "skipped: needs `first/try` on 3 hosts, got 2; missing: n2";
        assert_eq!(ran.describe_step("n1", "second/go"), said);
        assert_eq!((ran.exit_code(), stage.has_file("n3", "second")), (3, false));
    }
}

/// Hosts on which nothing changes count by what was observed of them.
#[test]
fn barrier_over_workers_counts_hosts_without_changes() {
    let stage = barrier_project("");
    ["first", "second"].iter().for_each(|file| stage.create_host_file("n3", file));
    let ran = run_with_workers(&stage, WorkerSetup::per_host());
    assert_eq!((ran.exit_code(), ran.describe_step("n1", "second/go").as_str()), (0, "changed"), "{:#?}", ran.report);
}

/// The failed host ends the start of others, and with it the wait for them. Only a wait that nothing can end is a deadlock.
#[test]
fn spent_budget_ends_the_waits_for_hosts_that_do_not_start() {
    for workers in [1, 2] {
        let stage = barrier_project("rollout: { max_failed: 0 }\n");
        stage.create_host_file("n2", "bad");
        let ran = run_with_workers(&stage, WorkerSetup::new(workers, 1));
        let said = ran.describe_step("n1", "second/go");
        assert!(said.starts_with("skipped: needs `first/try` on 3 hosts, got "), "{workers}: {said}");
        assert!(!format!("{:?}", ran.report).contains("cannot go on"), "{workers}: {:#?}", ran.report);
        assert!(ran.report.budget_spent && ran.host_outcome("n3") == HostOutcome::Cancelled, "{:#?}", ran.report);
    }
}

/// A canary lets those start that it waits for.
#[test]
fn canary_of_a_worker_gets_the_hosts_that_it_waits_for() {
    let stage = barrier_project("rollout: { canary: 1 }\n");
    let ran = run_with_workers(&stage, WorkerSetup::new(1, 1));
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
}

/// The worker of n2 dies before its barrier; its replacement reaches it.
#[test]
fn barrier_waits_for_the_replacement_of_a_dead_worker() {
    let stage = barrier_project("");
    let setup = WorkerSetup::per_host().with_kills(|worker, message| {
        worker == 2 && matches!(message, WorkerMessage::Event { event: Event::StepStarted { .. } })
    });
    let ran = run_with_workers(&stage, setup);
    assert_eq!((ran.exit_code(), ran.describe_step("n1", "second/go").as_str()), (0, "changed"), "{:#?}", ran.report);
}

/// The report of the first worker is stored, but the coordinator has not read that the step was done.
#[test]
fn barrier_counts_what_the_stored_report_of_a_dead_worker_says() {
    let stage = Arc::new(SimulatedProject::new(
        2,
        "apply:\n  - { recipe: first, on: n1 }\n  - { recipe: second, on: n2 }\n",
        &[("first", FIRST), ("second", &SECOND.replace(" && test -e @root/../n3/first", ""))],
    ));
    let setup = WorkerSetup { deaf_to_news: true, ..WorkerSetup::new(1, 1) }
        .with_kills(|worker, message| worker == 1 && matches!(message, WorkerMessage::HostDone { .. }));
    let ran = run_with_workers(&stage, setup);
    assert_eq!((ran.exit_code(), ran.describe_step("n2", "second/go").as_str()), (0, "changed"), "{:#?}", ran.report);
}

/// n1 waits for n2 before its own window, and n2 for the wave of n1: nothing hangs, and the reason is shown.
#[test]
fn wait_that_would_last_forever_ends_with_a_reason() {
    let big = "steps:
  - { name: big, disruption: D2, command: { check: 'test -e @root/big', apply: 'touch @root/big' } }
";
    let go = "needs: { b: { of: selected, least: 100% } }
steps:
  - { name: go, command: { check: 'test -e @root/go', apply: 'touch @root/go' } }
";
    let apply = ["a, on: n1", "b, on: n2", "c, on: n1"].map(|entry| format!("  - {{ recipe: {entry} }}\n")).concat();
    let apply = format!("rollout: {{ max_unavailable: 1 }}\napply:\n{apply}");
    let recipes = [("a", go), ("b", big), ("c", &format!("needs: [a]\n{big}"))];
    for setup in [WorkerSetup::per_host(), WorkerSetup::new(1, 1), WorkerSetup::new(1, 2)] {
        let stage = Arc::new(SimulatedProject::new(2, &apply, &recipes));
        let ran = run_with_workers(&stage, setup);
        let said = "skipped: needs `b/big`, but n2 cannot go on: every host of this run waits for another one";
        assert_eq!(ran.describe_step("n1", "a/go"), said, "{:#?}", ran.report);
        let is_told = |event: &Event| {
            matches!(event, Event::StepFinished { result: StepResult::Skipped { reason }, .. }
                if reason.raw().contains("cannot go on"))
        };
        assert!(ran.events.iter().any(is_told), "{:#?}", ran.events);
    }
}

/// The first run leaves the window of n1 open, before n1 waits for n2 in it: n2 gets its turn in the second run.
#[test]
fn host_in_a_window_that_was_left_open_gets_the_hosts_that_it_waits_for() {
    let second = "needs: { driver: { of: selected, least: 100% } }
steps:
  - { name: go, command: { check: 'test -e @root/go', apply: 'test ! -e @root/odd && touch @root/go' } }
";
    let apply = "rollout: { canary: 1, max_unavailable: 2 }\napply:\n  - { recipe: driver, on: all }\n  - { recipe: second, on: all }\n";
    let recipes = [("driver", DRIVER_ALONE), ("second", second)];
    for with_workers in [false, true] {
        let stage = Arc::new(SimulatedProject::new(3, apply, &recipes));
        stage.write_host_file("n1", "state/window.json", "{\"run\": \"r7\"}");
        stage.create_host_file("n1", "driver");
        let ran = match with_workers {
            true => run_with_workers(&stage, WorkerSetup::per_host()),
            false => stage.run_once(),
        };
        assert_eq!((ran.exit_code(), stage.has_file("n3", "go")), (0, true), "{with_workers} {:#?}", ran.report);
    }
}

/// n2 waits for all hosts, so those get workers. Then the hours hold back n1: n6, which waits for a place, does not start.
#[test]
fn host_that_waits_for_its_place_learns_that_a_canary_is_held_back() {
    fn clock() -> jiff::Timestamp {
        let morning = jiff::civil::date(2026, 11, 21).at(9, 0, 0, 0);
        morning.to_zoned(jiff::tz::TimeZone::system()).unwrap().timestamp()
    }
    let before = "steps:
  - name: file
    command:
      check: test -e @root/before
      apply: for try in $(seq 200); do test -e @root/../n4/begun && exec touch @root/before; sleep 0.05; done; false
";
    let first = "steps:
  - name: try
    command: { check: 'test -e @root/first', apply: 'touch @root/begun; sleep 1; touch @root/first' }
";
    let apply = "rollout: { canary: 2, max_unavailable: 2, reboot: allow, hours: \"12:00-13:00\" }
apply:
  - { recipe: before, on: n1 }
  - { recipe: driver, on: n1 }
  - { recipe: first, on: [n3, n4, n5, n6] }
  - { recipe: second, on: n2 }
";
    let second = "needs: { first: { of: selected, least: 100% } }
steps:
  - { name: go, command: { check: 'test -e @root/go', apply: 'touch @root/go' } }
";
    let recipes = [("before", before), ("driver", DRIVER_ALONE), ("first", first), ("second", second)];
    let stage = SimulatedProject { clock, parallel: 2, ..SimulatedProject::new(6, apply, &recipes) };
    let ran = run_with_workers(&Arc::new(stage), WorkerSetup::new(8, 3));
    let said = ["n4", "n6"].map(|host| ran.describe_step(host, "first/try"));
    let held = "held: the hours held back the window of canary `n1`";
    assert_eq!(said, ["changed", held], "{:#?}", ran.report);
    assert!(ran.describe_step("n2", "second/go").contains("missing: n6"), "{:#?}", ran.report);
}

/// n1 has nothing to change and waits for n2 before its record is written: it does not take the place of n2.
#[test]
fn host_that_lacks_only_records_takes_no_place_of_a_limited_step() {
    let first = FIRST.replace("    command:", "    at_once: 1\n    command:");
    let second = "needs: { first: { of: selected, least: 100% } }
steps:
  - { name: go, command: { check: 'test -e @root/go', apply: 'touch @root/go' } }
";
    let apply = "apply:\n  - { recipe: first, on: all }\n  - { recipe: second, on: n1 }\n";
    for setup in [WorkerSetup::per_host(), WorkerSetup::new(1, 1)] {
        let stage = Arc::new(SimulatedProject::new(3, apply, &[("first", &*first), ("second", second)]));
        ["first", "go"].iter().for_each(|file| stage.create_host_file("n1", file));
        let ran = run_with_workers(&stage, setup);
        assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
        assert!(stage.has_record("n1", "second/go"));
    }
}

/// The step runs on the host that the plan has chosen among all, whichever worker has it; the others wait for it there.
#[test]
fn step_of_scope_one_runs_once_over_all_workers() {
    let mesh = "steps:
  - name: key
    scope: one
    command: { check: 'test -e @root/key', apply: 'echo run >> @root/../runs; echo secret > @root/key' }
    export:
      value: { read: 'cat @root/key' }
  - name: accept
    file: { path: '@root/accepted', content: \"{{ exports['mesh'].value }}\\n\", @own }
  - name: go
    needs: [key]
    command: { check: 'test -e @root/go', apply: 'test -e @root/../n1/key && touch @root/go' }
";
    for setup in [WorkerSetup::per_host(), WorkerSetup::new(1, 1), WorkerSetup::new(2, 2)] {
        let stage = SimulatedProject::new(4, "apply:\n  - { recipe: mesh, on: all }\n", &[("mesh", mesh)]);
        let stage = Arc::new(stage);
        let ran = run_with_workers(&stage, setup);
        assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
        let hosts = ["n1", "n2", "n3", "n4"];
        assert_eq!(hosts.map(|host| stage.has_file(host, "key")), [true, false, false, false]);
        assert!(hosts.iter().all(|host| stage.read_file(host, "accepted") == "secret\n" && stage.has_file(host, "go")));
        assert_eq!(stage.read_file("", "runs"), "run\n");
        assert_eq!(stage.run_once().plan.count_steps().change, 0);
    }
}

/// The key was made on the last host: no worker of others makes a second one, and a failure is named as without workers.
#[test]
fn step_of_scope_one_stays_on_its_host_over_all_workers() {
    let once = "steps:
  - { name: key, scope: one, command: { check: 'test -e @root/key', apply: 'test ! -e @root/bad && touch @root/key' } }
  - { name: go, needs: [key], command: { check: 'test -e @root/go', apply: 'touch @root/go' } }
";
    let project = || Arc::new(SimulatedProject::new(3, "apply:\n  - { recipe: r, on: all }\n", &[("r", once)]));
    let stage = project();
    stage.create_host_file("n3", "key");
    let ran = run_with_workers(&stage, WorkerSetup::per_host());
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(["n1", "n2", "n3"].map(|host| stage.has_file(host, "key")), [false, false, true]);
    let stage = project();
    stage.create_host_file("n1", "bad");
    let ran = run_with_workers(&stage, WorkerSetup::per_host());
    assert_eq!(ran.describe_step("n2", "r/go"), "skipped: needs `r/key` on n1");
    assert_eq!((ran.describe_step("n1", "r/key").as_str(), ran.exit_code()), ("failed: exit status 1", 3));
    // One that does not answer may have made it.
    let stage = project();
    stage.create_host_file("n2", ".sim/refuse");
    let ran = run_with_workers(&stage, WorkerSetup::per_host());
    let said = ran.describe_step("n1", "r/key");
    assert!(said.starts_with("unknown: `n2` is unreachable") && !stage.has_file("n1", "key"), "{said}");
}

/// A worker dies while it makes the key: its replacement goes on with it, on the same host.
#[test]
fn step_of_scope_one_survives_the_death_of_its_worker() {
    let once = "steps:
  - { name: key, scope: one, command: { check: 'test -e @root/key', apply: 'touch @root/key' } }
  - { name: go, needs: [key], command: { check: 'test -e @root/go', apply: 'test -e @root/../n1/key && touch @root/go' } }
";
    let stage = Arc::new(SimulatedProject::new(3, "apply:\n  - { recipe: r, on: all }\n", &[("r", once)]));
    let setup = WorkerSetup::per_host().with_kills(|worker, message| {
        worker == 1 && matches!(message, WorkerMessage::Event { event: Event::StepStarted { .. } })
    });
    let ran = run_with_workers(&stage, setup);
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert_eq!(["n1", "n2", "n3"].map(|host| stage.has_file(host, "key")), [true, false, false]);
    assert!(["n1", "n2", "n3"].iter().all(|host| stage.has_file(host, "go")));
}

/// A check of scope `fleet` compares the values of all hosts; no host goes on before it.
#[test]
fn step_of_scope_fleet_follows_the_hosts_of_all_workers() {
    let steps = "steps:
  - name: version
    command: { check: 'test -e @root/version', apply: 'echo 1 > @root/version' }
    export: { found: { read: 'cat @root/version' } }
  - name: agree
    scope: fleet
    command: { check: \"test 1 = '{{ exports['r'].found | items | map('last') | unique | length }}'\" }
  - { name: go, needs: [agree], command: { check: 'test -e @root/go', apply: 'touch @root/go' } }
";
    let hosts = ["n1", "n2", "n3"];
    for setup in [WorkerSetup::per_host, || WorkerSetup::new(1, 1), || WorkerSetup::new(1, 2)] {
        let stage = Arc::new(SimulatedProject::new(3, "apply:\n  - { recipe: r, on: all }\n", &[("r", steps)]));
        let ran = run_with_workers(&stage, setup());
        assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
        assert!(hosts.iter().all(|host| stage.has_file(host, "go")), "{:#?}", ran.report);
        stage.write_host_file("n2", "version", "2\n");
        hosts.iter().for_each(|host| std::fs::remove_file(stage.host_root(host).join("go")).unwrap());
        let ran = run_with_workers(&stage, setup());
        assert_ne!(ran.exit_code(), 0, "{:#?}", ran.report);
        assert!(!hosts.iter().any(|host| stage.has_file(host, "go")), "{:#?}", ran.report);
    }
}
