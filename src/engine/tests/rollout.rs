//! Canaries, the failure budget, and stopping.

use super::super::{CancelSignal, Event};
use super::simulated_project::SimulatedProject;
use crate::model::{DisruptionClass, HostOutcome};
use crate::plan::PlanPolicy;
use std::time::Duration;

const STEP: &str = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'sleep 0.3; test ! -e @root/bad && touch @root/a' } }
  - { name: b, command: { check: 'test -e @root/b', apply: 'touch @root/b' } }
";

fn rollout_project(hosts: usize, rollout: &str) -> SimulatedProject {
    SimulatedProject::new(
        hosts,
        &format!("rollout: {{ {rollout} }}\napply:\n  - {{ recipe: r, on: all }}\n"),
        &[("r", STEP)],
    )
}

#[test]
fn canary_finishes_before_other_hosts_start() {
    let ran = rollout_project(3, "canary: 1").run_once();
    assert_eq!(ran.exit_code(), 0);
    assert!(
        ran.find_host_finish("n1") < ran.find_host_start("n2")
            && ran.find_host_finish("n1") < ran.find_host_start("n3")
    );
    let told = ran.find_event(|event| match event {
        Event::AwaitingCanaries { hosts, canaries } => format!("{hosts:?} {canaries:?}") == WAITING,
        _ => false,
    });
    assert!(told < ran.find_host_start("n1"));
}

const WAITING: &str = r#"[HostName("n2"), HostName("n3")] [HostName("n1")]"#;

#[test]
fn failed_canary_cancels_the_other_hosts() {
    let stage = rollout_project(3, "canary: 1");
    stage.create_host_file("n1", "bad");
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Failed, HostOutcome::Cancelled, 8)
    );
    let host = &ran.report.hosts[1];
    assert_eq!(host.reason.raw(), "not started: canary `n1` did not succeed");
    assert_eq!(ran.describe_step("n2", "r/a"), "cancelled", "what would have been done is listed");
    assert!(!stage.has_file("n2", "a") && !stage.has_file("n3", "state"), "nothing was written there");
    let told = ran.events.iter().filter(|event| matches!(event, Event::BudgetSpent { .. })).count();
    assert_eq!(told, 1);
}

const BARRIER: &str = "needs: { r: { of: selected } }
steps:
  - { name: z, command: { check: 'test -e @root/z', apply: 'touch @root/z' } }
";

/// n1 failed a step and waits for all hosts at a barrier: those that have not started do not start because of that.
#[test]
fn failed_host_that_waits_at_a_barrier_lets_no_others_start() {
    let apply = |rollout: &str| {
        format!("rollout: {{ {rollout} }}\napply:\n  - {{ recipe: r, on: all }}\n  - {{ recipe: gate, on: all }}\n")
    };
    for (rollout, why) in [
        ("canary: 1", "not started: canary `n1` did not succeed"),
        ("max_failed: 0", "not started: 1 host failed, 0 allowed"),
    ] {
        let stage = SimulatedProject {
            parallel: 1,
            ..SimulatedProject::new(3, &apply(rollout), &[("r", STEP), ("gate", BARRIER)])
        };
        stage.create_host_file("n1", "bad");
        let ran = stage.run_once();
        assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 8), "{rollout}");
        for (at, host) in [(1, "n2"), (2, "n3")] {
            assert_eq!(
                (ran.host_outcome(host), stage.has_file(host, "a")),
                (HostOutcome::Cancelled, false),
                "{rollout}"
            );
            assert_eq!(ran.report.hosts[at].reason.raw(), why);
        }
        std::fs::remove_file(stage.host_root("n1").join("bad")).unwrap();
        assert_eq!(stage.run_once().exit_code(), 0);
        assert!(["n1", "n2", "n3"].iter().all(|host| stage.has_file(host, "z")), "{rollout}");
    }
}

/// The verification of n1 failed, and n1 waits until the others are verified: they do not start because of that.
#[test]
fn canary_whose_verification_fails_lets_no_others_start_at_a_barrier() {
    let apply = "rollout: { canary: 1 }\napply:\n  - { recipe: r, on: all }\n  - { recipe: gate, on: all }\n";
    let verified = format!("{STEP}verify:\n  - {{ name: it answers, check: 'test ! -e @root/mute' }}\n");
    let gate = BARRIER.replace("{ of: selected }", "{ phase: verified, of: selected }");
    let stage = SimulatedProject::new(3, apply, &[("r", &verified), ("gate", &gate)]);
    stage.create_host_file("n1", "mute");
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 8));
    assert!(!stage.has_file("n2", "a") && !stage.has_file("n3", "a"));
    std::fs::remove_file(stage.host_root("n1").join("mute")).unwrap();
    assert_eq!(stage.run_once().exit_code(), 0);
}

/// A verification or a check that cannot be evaluated does not count as a success, also not in the next run.
#[test]
fn canary_with_an_unknown_result_stays_the_canary() {
    let unsure = "test ! -e @root/odd || exit 2";
    let verified = format!(
        "steps:\n  - {{ name: a, file: {{ path: '@root/a', content: x, @own }} }}\nverify:\n  - {{ name: fit, check: '{unsure}' }}\n"
    );
    let checked = format!(
        "steps:\n  - {{ name: a, file: {{ path: '@root/a', content: x, @own }} }}\n  \
         - {{ name: b, command: {{ check: '{unsure}; test -e @root/b', apply: 'touch @root/b' }} }}\n"
    );
    for recipe in [verified, checked] {
        let apply = "rollout: { canary: 1 }\napply:\n  - { recipe: r, on: all }\n";
        let stage = SimulatedProject::new(3, apply, &[("r", &recipe)]);
        stage.create_host_file("n1", "odd");
        for round in 1..=3 {
            let ran = stage.run_once();
            assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Unknown, 8), "round {round}");
            assert!(!stage.has_file("n2", "a") && !stage.has_file("n3", "a"), "round {round}");
        }
        std::fs::remove_file(stage.host_root("n1").join("odd")).unwrap();
        assert_eq!(stage.run_once().exit_code(), 0);
        assert!(stage.has_file("n2", "a") && stage.has_file("n3", "a"));
    }
}

#[test]
fn locked_canary_cancels_the_other_hosts() {
    let stage = rollout_project(2, "canary: 1");
    stage.create_host_file("n1", ".sim/held");
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Locked, HostOutcome::Cancelled, 8)
    );
}

/// The budget is checked when a host gets its place in the window, not when the run starts.
#[test]
fn failure_budget_cancels_hosts_that_have_not_started() {
    let stage = SimulatedProject { parallel: 1, ..rollout_project(4, "max_failed: 1") };
    stage.create_host_file("n1", "bad");
    stage.create_host_file("n2", "bad");
    let ran = stage.run_once();
    let outcomes = ["n1", "n2", "n3", "n4"].map(|host| ran.host_outcome(host));
    assert_eq!(outcomes, [HostOutcome::Failed, HostOutcome::Failed, HostOutcome::Cancelled, HostOutcome::Cancelled]);
    assert_eq!((ran.report.hosts[2].reason.raw(), ran.exit_code()), ("not started: 2 hosts failed, 1 allowed", 8));
}

#[test]
fn unreachable_host_spends_no_failure_budget() {
    let stage = rollout_project(2, "max_failed: 0");
    stage.create_host_file("n1", ".sim/refuse");
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Unreachable, HostOutcome::Changed, 4)
    );
}

/// n1 matches, but its verification fails: that does not count as a failure of this rollout.
#[test]
fn unchanged_host_with_failed_verification_spends_no_budget() {
    let steps = format!("{STEP}verify:\n  - {{ name: it answers, check: 'test ! -e @root/mute' }}\n");
    let stage =
        SimulatedProject::new(2, "rollout: { max_failed: 0 }\napply:\n  - { recipe: r, on: all }\n", &[("r", &steps)]);
    ["n1/a", "n1/b", "n1/mute"].iter().for_each(|file| stage.create_host_file("", file));
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Failed, HostOutcome::Changed, 5)
    );
}

/// The canary waits for a key that another host creates: that host starts, the third one does not.
#[test]
fn canary_can_wait_for_a_non_canary_host() {
    let mesh = "steps:
  - name: key
    scope: one
    command: { check: 'test -e @root/key', apply: 'touch @root/key' }
    export:
      value: { read: 'cat @root/key' }
";
    let after = "needs: [mesh]
steps:
  - { name: file, file: { path: '@root/accepted', content: \"{{ exports['mesh'].value }}\", @own } }
  - { name: slow, command: { check: 'test -e @root/slow', apply: 'sleep 0.3; touch @root/slow' } }
";
    let apply = "rollout: { canary: 1 }\napply:\n  - { recipe: mesh, on: 'n2,n3' }\n  - { recipe: after, on: all }\n";
    let stage = SimulatedProject::new(3, apply, &[("mesh", mesh), ("after", after)]);
    let ran = stage.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert!(
        ran.find_host_start("n2") < ran.find_host_finish("n1")
            && ran.find_host_finish("n1") < ran.find_host_start("n3")
    );
}

fn stop_at(name: &'static str) -> impl FnMut(&Event, &CancelSignal) {
    move |event, cancel| {
        if matches!(event, Event::StepStarted { host, step, .. } if host.as_str() == name && &*step.step == "a") {
            cancel.raise_level();
        }
    }
}

#[test]
fn first_stop_finishes_running_steps_and_starts_none() {
    let stage = SimulatedProject { parallel: 1, ..rollout_project(2, "canary: 1") };
    let ran = stage.run_with(|_| (), stop_at("n1"));
    assert_eq!(
        (ran.describe_step("n1", "r/a").as_str(), ran.describe_step("n1", "r/b").as_str()),
        ("changed", "cancelled")
    );
    assert!(stage.has_record("n1", "r/a"), "what was proven is recorded");
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Cancelled, HostOutcome::Cancelled, 130)
    );
    assert_eq!(ran.report.hosts[1].reason.raw(), "the run was stopped before this host started");
    assert_eq!(ran.describe_step("n2", "r/a"), "cancelled");
    assert_eq!(ran.report.hosts[0].reason.raw(), "the run was stopped before `r/b`");
}

#[test]
fn stopped_run_begins_no_restart_that_waits_for_its_place() {
    let steps = "steps:\n  - { name: a, disruption: D1, command: { check: 'test -e @root/a', apply: 'sleep 0.5; touch @root/a' } }\n";
    let apply = "rollout: { max_restarting: 1 }\napply:\n  - { recipe: r, on: all }\n";
    let stage = SimulatedProject::new(2, apply, &[("r", steps)]);
    let mut is_stopped = false;
    let ran = stage.run_with(
        |_| (),
        |event, cancel| {
            if matches!(event, Event::StepStarted { .. }) && !std::mem::replace(&mut is_stopped, true) {
                cancel.raise_level();
            }
        },
    );
    let acted = ["n1", "n2"].iter().filter(|host| stage.has_file(host, "a")).count();
    assert_eq!((acted, ran.exit_code()), (1, 130), "{:?}", ran.report);
}

#[test]
fn a_stop_ends_waiting_at_a_barrier() {
    let first = "steps:\n  - { name: a, command: { check: 'test -e @root/a', apply: '{% if host.name == \"n2\" %}sleep 1; {% endif %}touch @root/a' } }\n";
    let second = "needs:
  first: { of: selected, least: 100% }
steps:
  - { name: go, command: { check: 'test -e @root/go', apply: 'touch @root/go' } }
";
    let apply = "apply:\n  - { recipe: first, on: all }\n  - { recipe: second, on: all }\n";
    let at = |event: &Event, cancel: &CancelSignal| {
        if matches!(event, Event::Waiting { .. }) {
            cancel.raise_level();
        }
    };
    // In parallel, n2 is already active. Sequentially, it has not started and never will: that is not a missing
    // dependency.
    for parallel in [2, 1] {
        let stage =
            SimulatedProject { parallel, ..SimulatedProject::new(2, apply, &[("first", first), ("second", second)]) };
        let ran = stage.run_with(|_| (), at);
        assert_eq!((ran.describe_step("n1", "second/go").as_str(), ran.exit_code()), ("cancelled", 130), "{parallel}");
    }
}

#[test]
fn second_stop_detaches_at_once() {
    let stage = rollout_project(2, "canary: 1");
    let mut first = stop_at("n1");
    let ran = stage.run_with(
        |_| (),
        move |event, cancel| {
            first(event, cancel);
            if matches!(event, Event::Stopping { .. }) {
                cancel.raise_level();
            }
        },
    );
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Cancelled, 130));
    let in_flight = ran.find_event(|event| matches!(event, Event::Detached { in_flight } if in_flight.len() == 1));
    assert!(in_flight > 0);
}

/// n1 has completed a and runs b, n2 is done, n3 waits for its place.
#[test]
fn detached_run_reports_done_running_and_remaining_steps() {
    let steps = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'touch @root/a' } }
  - { name: b, command: { check: 'test -e @root/b', apply: '{% if host.name == \"n1\" %}sleep 3; {% endif %}touch @root/b' } }
  - { name: c, command: { check: 'test -e @root/c', apply: 'touch @root/c' } }
  - { name: d, command: { check: 'test -e @root/d', apply: 'touch @root/d' } }
";
    let stage = SimulatedProject {
        parallel: 2,
        ..SimulatedProject::new(3, "apply:\n  - { recipe: r, on: all }\n", &[("r", steps)])
    };
    stage.create_host_file("n3", "deep/x");
    let mut twice = false;
    let at = |event: &Event, cancel: &CancelSignal| {
        let done = matches!(event, Event::HostFinished { host, .. } if host.as_str() == "n2");
        if (done || matches!(event, Event::Stopping { .. })) && !twice {
            twice = matches!(event, Event::Stopping { .. });
            cancel.raise_level();
        }
    };
    let ran = stage.run_with(|_| (), at);
    let steps = ["r/a", "r/b", "r/c", "r/d"].map(|step| ran.describe_step("n1", step));
    assert_eq!(steps, ["changed", "unknown: was running when forge exited", "cancelled", "cancelled"]);
    let reason = "forge exited before this host was done; steps: 1 changed, 1 in flight, 2 not started";
    let hint = "run again: the next run waits for running jobs first";
    assert_eq!(ran.host_message("n1"), format!("{reason}\n{hint}"));
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Cancelled, HostOutcome::Changed, 130)
    );
    assert_eq!(ran.host_outcome("n3"), HostOutcome::Cancelled);
}

/// With one place, work on several hosts never overlaps: the sum of their times is at most the run's time.
#[test]
fn host_duration_excludes_the_wait_for_a_slot() {
    let ran = SimulatedProject { parallel: 1, ..rollout_project(3, "canary: 1") }.run_once();
    assert_eq!(ran.exit_code(), 0, "{:#?}", ran.report);
    assert!(ran.report.hosts.iter().all(|host| host.took.as_millis() >= 300), "{:#?}", ran.report);
    let worked: Duration = ran.report.hosts.iter().map(|host| host.took).sum();
    assert!(worked <= ran.report.took, "{worked:?} of {:?}", ran.report.took);
}

/// A step that needs one above `--max-disruption` is skipped as asked.
#[test]
fn canary_with_a_change_that_is_held_back_lets_the_others_start() {
    let steps = "steps:
  - { name: page, file: { path: '@root/page', content: x, @own } }
  - { name: big, disruption: D2, command: { creates: '@root/big', apply: 'touch @root/big' } }
  - { name: later, file: { path: '@root/later', content: x, @own } }
";
    let inventory = "rollout: { canary: 1 }\napply:\n  - { recipe: r, on: all }\n";
    let mut stage = SimulatedProject::new(2, inventory, &[("r", steps)]);
    stage.policy = PlanPolicy { max_disruption: DisruptionClass::D1, ..PlanPolicy::default() };
    let ran = stage.run_once();
    let outcomes = ["n1", "n2"].map(|host| ran.host_outcome(host));
    assert_eq!((outcomes, ran.exit_code()), ([HostOutcome::Pending; 2], 10));
    assert!(stage.has_file("n2", "page") && !stage.has_file("n2", "big") && !stage.has_file("n2", "later"));
}

/// A step that is skipped because of another host is not what `--max-disruption` asks for.
#[test]
fn canary_that_another_host_keeps_from_a_step_stays_the_canary() {
    let own = "needs: { other: { of: selected, least: 100% } }
steps:
  - { name: page, file: { path: '@root/page', content: x, @own } }
";
    let other = "steps:\n  - { name: odd, command: { check: 'test ! -e @root/bad || exit 7; test -e @root/odd', apply: 'touch @root/odd' } }\n";
    let big =
        "steps:\n  - { name: big, disruption: D2, command: { creates: '@root/big', apply: 'touch @root/big' } }\n";
    let apply = ["other", "own", "big"].map(|name| format!("  - {{ recipe: {name}, on: all }}\n")).concat();
    let recipes = [("other", other), ("own", own), ("big", big)];
    let mut stage = SimulatedProject::new(3, &format!("rollout: {{ canary: 1 }}\napply:\n{apply}"), &recipes);
    stage.policy = PlanPolicy { max_disruption: DisruptionClass::D1, ..PlanPolicy::default() };
    stage.create_host_file("n2", "bad");
    let ran = stage.run_once();
    assert_eq!(ran.host_outcome("n1"), HostOutcome::Skipped, "{:#?}", ran.report.hosts[0]);
}
