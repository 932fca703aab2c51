//! Lost connections, locks, full disks, failing steps, and the results reported for them.

use super::super::{Event, VerifyResult};
use super::simulated_project::SimulatedProject;
use crate::model::{HostName, HostOutcome};
use crate::plan::HostReachability;

const ALL: &str = "apply:\n  - { recipe: r, on: all }\n";
const THREE: &str = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'touch @root/a' } }
  - { name: b, command: { check: 'test -e @root/b', apply: 'if [ -e @root/cut ]; then touch @root/.sim/lost; fi; test ! -e @root/bad && touch @root/b' } }
  - { name: c, command: { check: 'test -e @root/c', apply: 'touch @root/c' } }
verify:
  - { name: it answers, check: 'test ! -e @root/mute' }
";

#[test]
fn lost_connection_records_nothing_and_other_hosts_continue() {
    let stage = SimulatedProject::new(2, ALL, &[("r", THREE)]);
    stage.create_host_file("n1", "cut");
    let ran = stage.run_once();
    let steps = ["r/a", "r/b", "r/c"].map(|step| ran.describe_step("n1", step));
    assert_eq!(steps, ["changed", "unknown: outcome unknown: simulated", "cancelled"]);
    assert!(stage.has_file("n1", "b"), "it may well have happened");
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Unreachable, HostOutcome::Changed, 4)
    );
    let lost = ran.report.hosts[0].steps.iter().find(|step| step.id.to_string() == "r/b").unwrap();
    assert!(!lost.took.is_zero(), "it ran until the connection was lost");
    let hint = "retry when the host is reachable: the next run detects completed steps and waits for running ones";
    assert_eq!(ran.host_message("n1"), format!("simulated\n{hint}"));
    assert!(!stage.has_record("n1", "r/b"), "and is not recorded");
    std::fs::remove_file(stage.host_root("n1").join("cut")).unwrap();
    let ran = stage.run_once();
    assert_eq!((ran.describe_step("n1", "r/c").as_str(), ran.exit_code()), ("changed", 0));
    assert!(stage.has_record("n1", "r/a") && stage.has_record("n1", "r/b"), "the next run records what it finds");
}

#[test]
fn host_lost_before_its_first_change_is_unreachable() {
    let stage = SimulatedProject::new(2, ALL, &[("r", THREE)]);
    let ran = stage.run_with(|stage| stage.create_host_file("n1", ".sim/deaf"), |_, _| ());
    assert_eq!(
        (ran.host_outcome("n1"), ran.describe_step("n1", "r/a").as_str(), ran.exit_code()),
        (HostOutcome::Unreachable, "cancelled", 4)
    );
    assert_eq!(ran.host_outcome("n2"), HostOutcome::Changed);
}

#[test]
fn host_that_refuses_connections_is_unreachable() {
    let stage = SimulatedProject::new(2, ALL, &[("r", THREE)]);
    stage.create_host_file("n2", ".sim/refuse");
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Changed, HostOutcome::Unreachable, 4)
    );
}

#[test]
fn held_lock_is_reported_with_its_holder() {
    let stage = SimulatedProject::new(2, ALL, &[("r", THREE)]);
    stage.create_host_file("n1", ".sim/held");
    let ran = stage.run_once();
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Locked, HostOutcome::Changed, 7)
    );
    assert!(!stage.has_file("n1", "a"));
    let who = "`forge apply other.yaml` by eve@c2 (pid 7), since 2026-11-21T09:30:15Z, run r2";
    let hint = "run again when it has finished; the lock of a dead controller expires within two minutes";
    assert_eq!(ran.host_message("n1"), format!("this host is locked by another run: {who}\n{hint}"));
}

#[test]
fn non_root_host_is_refused_before_locking_or_writing() {
    let stage = SimulatedProject::new(2, ALL, &[("r", THREE)]);
    ["plain", "held"].iter().for_each(|fault| stage.create_host_file("n1", &format!(".sim/{fault}")));
    let ran = stage.run_once();
    let refused = ran.plan.hosts[0].refused.as_ref().unwrap();
    let (why, hint) = ("runs as `plain`, but root is required", "set `connect: { sudo: … }` or log in as root");
    assert_eq!((refused.why.raw(), refused.hint.raw()), (why, hint));
    assert_eq!((ran.plan.exit_code(false).code(), ran.plan.count_steps().refused), (3, 1));
    assert_eq!(
        (ran.host_outcome("n1"), ran.host_outcome("n2"), ran.exit_code()),
        (HostOutcome::Blocked, HostOutcome::Changed, 3)
    );
    assert_eq!(ran.host_message("n1"), format!("{why}\n{hint}"));
    assert_eq!(ran.describe_step("n1", "r/a"), format!("skipped: {why}"));
    assert!(!stage.has_file("n1", "a") && !stage.has_file("n1", "state"));
}

#[test]
fn non_root_host_without_changes_is_ok() {
    let stage = SimulatedProject::new(1, ALL, &[("r", THREE)]);
    ["a", "b", "c", ".sim/plain"].iter().for_each(|file| stage.create_host_file("n1", file));
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code(), ran.plan.exit_code(false).code()), (HostOutcome::Ok, 0, 0));
    assert!(!stage.has_file("n1", "state"), "no record is written");
}

/// Only the last part of the output is kept; here 64 KiB.
#[test]
fn truncated_output_does_not_change_the_step_result() {
    let much = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'seq 99999; touch @root/a' } }
  - { name: b, command: { check: 'test -e @root/b', apply: 'seq 99999; exit 3' } }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", much)]).run_once();
    assert_eq!(
        (ran.describe_step("n1", "r/a").as_str(), ran.describe_step("n1", "r/b").as_str()),
        ("changed", "failed: exit status 3")
    );
    let printed = |event: &Event| match event {
        Event::StepPrinted { step, output, .. } if &*step.step == "a" => Some(output.raw().to_owned()),
        _ => None,
    };
    let printed = ran.events.iter().find_map(printed).unwrap();
    let first = "(output truncated: the beginning is missing)\n";
    assert!(printed.starts_with(first) && printed.ends_with("\n99999") && printed.len() < 70_000);
    let crate::engine::StepResult::Failed { failure } = &ran.report.hosts[0].steps[1].result else { panic!() };
    assert!(failure.tail.raw().ends_with("99998\n99999"));
}

#[test]
fn truncated_output_is_not_exported() {
    let much = "steps:
  - name: a
    command: { check: 'test -e @root/a', apply: 'seq 99999; touch @root/a' }
    export: { numbers: { stdout: true } }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", much)]).run_once();
    let why = "failed: ran, but its output is too long to be exported";
    assert_eq!(ran.describe_step("n1", "r/a"), why);
}

#[test]
fn command_whose_check_still_fails_is_reported_with_its_check() {
    let checked = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'true' } }
";
    let run = |steps: &str| SimulatedProject::new(1, ALL, &[("r", steps)]).run_once().describe_step("n1", "r/a");
    let why = "failed: the command succeeded, but the step still differs: ";
    assert_eq!(run(checked), format!("{why}check exited with 1"));
    let created = run(&checked.replace("check: 'test -e @root/a'", "creates: '@root/a'"));
    assert!(created.starts_with(why) && created.ends_with("/a` does not exist"), "{created}");
}

/// The action kills the shell that would report its exit status: the state observed afterwards decides.
#[test]
fn action_with_unobserved_exit_is_judged_by_the_host_state() {
    let kills = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'touch @root/a; read -r a b c parent rest < /proc/$PPID/stat; kill -9 \"$parent\"' } }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", kills)]).run_once();
    assert_eq!((ran.describe_step("n1", "r/a").as_str(), ran.exit_code()), ("changed", 0));
    let ran = SimulatedProject::new(1, ALL, &[("r", &kills.replace("touch @root/a; ", ""))]).run_once();
    let why = "failed: its end was not observed; still differs after the change: check exited with 1";
    assert_eq!(ran.describe_step("n1", "r/a"), why);
}

/// Both steps run in one script; the second one changes the result of the first, and then fails itself.
#[test]
fn failure_of_a_step_that_acted_stays_visible_after_another_failure() {
    let both = "steps:
  - { name: a, file: { path: '@root/a', content: 'a' } }
  - { name: b, file: { path: '@root/b', content: 'b', validate: 'cp $FORGE_FILE @root/a; exit 3' } }
  - { name: c, file: { path: '@root/c', content: 'c' } }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", both)]).run_once();
    let steps = ["r/a", "r/b", "r/c"].map(|step| ran.describe_step("n1", step));
    assert_eq!(
        steps,
        [
            "failed: still differs after the change: content",
            "failed: exit status 1",
            "skipped: `r/a` of the same recipe failed"
        ]
    );
}

#[test]
fn run_timeout_applies_to_checks_without_a_timeout() {
    let slow = "steps:
  - { name: a, command: { check: 'sleep 2; exit 1', apply: 'true' } }
  - { name: b, command: { check: 'sleep 2', apply: 'true', check_timeout: 20s } }
";
    let limit = Some(std::time::Duration::from_millis(900));
    let ran = SimulatedProject { timeout: limit, ..SimulatedProject::new(1, ALL, &[("r", slow)]) }.run_once();
    assert_eq!((ran.describe_step("n1", "r/a").as_str(), ran.exit_code()), ("unknown: timed out after 1 s", 9));
    assert_eq!(ran.plan.hosts[0].steps[1].verdict, crate::model::StepVerdict::Ok);
}

#[test]
fn records_of_completed_steps_survive_a_later_failure() {
    let stage = SimulatedProject::new(1, ALL, &[("r", THREE)]);
    stage.create_host_file("n1", "bad");
    let ran = stage.run_once();
    let steps = ["r/a", "r/b", "r/c"].map(|step| ran.describe_step("n1", step));
    assert_eq!(steps, ["changed", "failed: exit status 1", "skipped: needs `r/b`, which did not succeed"]);
    assert_eq!(["r/a", "r/b", "r/c"].map(|step| stage.has_record("n1", step)), [true, false, false]);
}

#[test]
fn unwritable_records_fail_the_host_before_the_next_step() {
    let two = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'touch @root/a @root/.sim/full' } }
  - { name: b, command: { check: 'test -e @root/b', apply: 'touch @root/b' } }
";
    let stage = SimulatedProject::new(1, ALL, &[("r", two)]);
    let ran = stage.run_once();
    assert_eq!(ran.describe_step("n1", "r/a"), "changed");
    assert!(
        ran.describe_step("n1", "r/b").starts_with("failed: records could not be written"),
        "{}",
        ran.describe_step("n1", "r/b")
    );
    assert_eq!((ran.host_outcome("n1"), stage.has_file("n1", "b")), (HostOutcome::Failed, false));
}

/// Steps above one that cannot run are done, those below it are not: as planned.
#[test]
fn blocked_step_skips_only_the_steps_below_it() {
    let files = "steps:
  - { name: a, file: { path: '@root/a', content: x, @own } }
  - { name: b, file: { path: '@root/b', content: x, @own } }
  - { name: c, file: { path: '@root/c', content: x, @own } }
";
    let stage = SimulatedProject::new(1, ALL, &[("r", files)]);
    std::fs::create_dir(stage.host_root("n1").join("b")).unwrap();
    let ran = stage.run_once();
    assert_eq!(ran.plan.count_steps().change, 1);
    assert_eq!(
        (ran.describe_step("n1", "r/a").as_str(), stage.has_file("n1", "c"), ran.exit_code()),
        ("changed", false, 3)
    );
    assert!(ran.describe_step("n1", "r/b").starts_with("blocked: "));
    assert_eq!(ran.describe_step("n1", "r/c"), "skipped: needs `r/b`");
}

#[test]
fn step_dependency_does_not_affect_earlier_steps() {
    let files = "steps:
  - { name: a, file: { path: '@root/a', content: x, @own } }
  - { name: b, needs: [base], file: { path: '@root/b', content: x, @own } }
";
    let base = "steps:\n  - { name: odd, command: { check: exit 7, apply: 'true' } }\n";
    let apply = "apply:\n  - { recipe: base, on: all }\n  - { recipe: r, on: all }\n";
    let stage = SimulatedProject::new(1, apply, &[("r", files), ("base", base)]);
    let ran = stage.run_once();
    assert_eq!((ran.describe_step("n1", "r/a").as_str(), ran.exit_code()), ("changed", 9));
    assert_eq!(ran.describe_step("n1", "r/b"), "skipped: needs `base/odd`, which did not succeed");
}

#[test]
fn state_changed_since_the_plan_makes_the_step_stale() {
    let file = "steps:\n  - { name: a, file: { path: '@root/a', content: new, @own } }\n";
    let stage = SimulatedProject::new(1, ALL, &[("r", file)]);
    let ran = stage.run_with(|stage| stage.create_host_file("n1", "a"), |_, _| ());
    assert!(ran.describe_step("n1", "r/a").starts_with("stale: "), "{}", ran.describe_step("n1", "r/a"));
    assert_eq!(
        (ran.host_outcome("n1"), ran.exit_code(), stage.read_file("n1", "a").as_str()),
        (HostOutcome::Stale, 6, "x")
    );
}

/// The plan shows a difference of a step that is predicted, as its directory will be made first. Another one since then is
/// no effect of that.
#[test]
fn predicted_change_is_stale_if_another_one_would_be_made() {
    let steps = "steps:
  - { name: folder, directory: { path: '@root/f', mode: '0755', @own } }
  - { name: inner, file: { path: '@root/f/inner', content: new, @own } }
  - { name: after, file: { path: '@root/after', content: new, @own } }
";
    let stage = SimulatedProject::new(1, ALL, &[("r", steps)]);
    let ran = stage.run_with(
        |stage| {
            std::fs::create_dir(stage.host_root("n1").join("f")).unwrap();
            std::fs::write(stage.host_root("n1").join("f/inner"), "precious").unwrap();
        },
        |_, _| (),
    );
    let inner = ran.describe_step("n1", "r/inner");
    assert!(inner.starts_with("stale: planned: "), "{inner}");
    assert_eq!(stage.read_file("n1", "f/inner"), "precious");
}

/// The earlier run worked on after this one was planned.
#[test]
fn change_that_differs_because_an_earlier_run_still_worked_is_made() {
    let steps = "steps:
  - { name: one, file: { path: '@root/one', content: new, mode: '0640', @own } }
";
    for (busy, expected) in [(true, "changed"), (false, "stale: ")] {
        let stage = SimulatedProject::new(1, ALL, &[("r", steps)]);
        stage.write_host_file("n1", "one", "old");
        if busy {
            stage.create_host_file("n1", ".sim/busy");
        }
        let ran = stage.run_with(
            |stage| {
                let _ = std::fs::remove_file(stage.host_root("n1").join(".sim/busy"));
                stage.write_host_file("n1", "one", "of the earlier run");
            },
            |_, _| (),
        );
        let step = ran.describe_step("n1", "r/one");
        assert!(step.starts_with(expected), "{busy}: {step}");
    }
}

#[test]
fn step_completed_since_the_plan_is_ok() {
    let stage = SimulatedProject::new(1, ALL, &[("r", THREE)]);
    let ran = stage.run_with(|stage| stage.create_host_file("n1", "b"), |_, _| ());
    assert_eq!((ran.describe_step("n1", "r/b").as_str(), ran.exit_code()), ("ok", 0));
    assert!(stage.has_record("n1", "r/b"));
}

#[test]
fn failed_verification_has_a_distinct_exit_code() {
    let stage = SimulatedProject::new(1, ALL, &[("r", THREE)]);
    stage.create_host_file("n1", "mute");
    let ran = stage.run_once();
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 5));
}

#[test]
fn failed_step_is_retried_as_configured() {
    let flaky = "steps:
  - name: a
    retries: 1
    command: { check: 'test -e @root/a', apply: 'test -e @root/once && touch @root/a; touch @root/once; test -e @root/a' }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", flaky)]).run_once();
    assert_eq!(ran.describe_step("n1", "r/a"), "changed");
    let told = |event: &Event| match event {
        Event::Retrying { host, step, why, attempt } => Some(format!("{host} {step} {attempt}: {}", why.raw())),
        _ => None,
    };
    assert_eq!(ran.events.iter().filter_map(told).collect::<Vec<_>>(), ["n1 r/a 2: exit status 1"]);
}

#[test]
fn step_undone_by_a_later_step_fails() {
    let steps = "steps:
  - { name: a, command: { check: 'test -e @root/a', apply: 'touch @root/a' } }
  - { name: b, command: { check: 'test -e @root/b', apply: 'touch @root/b; rm @root/a' } }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", steps)]).run_once();
    assert!(ran.describe_step("n1", "r/a").starts_with("failed: no longer matches at the end of the run: "));
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Failed, 3));
}

#[test]
fn step_made_effective_by_a_later_step_is_not_pending() {
    let steps = "steps:
  - name: option
    command: { check: 'test -e @root/option', apply: 'touch @root/option' }
    effective: { by: [restart], check: 'test -e @root/loaded' }
  - { name: load, command: { check: 'test -e @root/loaded', apply: 'touch @root/loaded' } }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", steps)]).run_once();
    assert_eq!(
        (ran.describe_step("n1", "r/option").as_str(), ran.host_outcome("n1"), ran.exit_code()),
        ("changed", HostOutcome::Changed, 0)
    );
    let never = steps
        .replace("touch @root/loaded", "touch @root/other")
        .replace("check: 'test -e @root/loaded', apply", "check: 'test -e @root/other', apply");
    let ran = SimulatedProject::new(1, ALL, &[("r", &never)]).run_once();
    assert!(ran.describe_step("n1", "r/option").starts_with("pending: "), "{}", ran.describe_step("n1", "r/option"));
    assert_eq!((ran.host_outcome("n1"), ran.exit_code()), (HostOutcome::Pending, 10));
}

#[test]
fn verification_fails_with_every_status_except_those_that_cannot_tell() {
    let verify = "steps: []
verify:
  - { name: three, check: 'exit 3' }
  - { name: two, check: 'echo no device >&2; exit 2' }
  - { name: no program, check: 'no-such-program-of-forge' }
  - { name: zero, check: 'true' }
";
    let ran = SimulatedProject::new(1, ALL, &[("r", verify)]).run_once();
    let results: Vec<&VerifyResult> = ran.report.hosts[0].verify.iter().map(|verify| &verify.result).collect();
    assert_eq!(results[0], &VerifyResult::Failed { reason: "the check exited 3".into() });
    assert_eq!(results[1], &VerifyResult::Unknown { reason: "the check exited with 2: no device".into() });
    let VerifyResult::Unknown { reason } = results[2] else { panic!("{results:?}") };
    assert!(reason.raw().starts_with("the check exited with 127: "), "{}", reason.raw());
    assert_eq!((results[3], ran.exit_code()), (&VerifyResult::Held, 5));
}

/// A step that failed decides the outcome, also if another one is blocked before it.
#[test]
fn reason_of_a_host_is_the_result_that_decides_its_outcome() {
    let blocked = "steps:\n  - { name: blocked, line: { path: '@root/none', line: x } }\n";
    let failing = "steps:\n  - { name: failing, command: { check: 'false', apply: 'exit 4' } }\n";
    let apply = "apply:\n  - { recipe: r, on: all }\n  - { recipe: s, on: all }\n";
    let stage = SimulatedProject::new(1, apply, &[("r", blocked), ("s", failing)]);
    let ran = stage.run_once();
    assert!(ran.describe_step("n1", "r/blocked").starts_with("blocked: "), "{}", ran.describe_step("n1", "r/blocked"));
    let reason = ran.host_message("n1");
    assert!(reason.starts_with("`s/failing` failed: exit status 4"), "{reason}");
}

/// An apply holds the lock over one channel and acts over another.
#[test]
fn doctor_finds_a_host_that_refuses_a_second_channel() {
    let stage = SimulatedProject::new(1, "apply:\n  - { recipe: base, on: all }\n", &[("base", "steps: []\n")]);
    let check = || {
        let (project, hosts) = (stage.load_project(), [HostName::new("n1")]);
        let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
        let options = stage.run_options();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(crate::engine::doctor(&project, &hosts, &options, &options.control_dir, false, &events))
    };
    assert_eq!(check().hosts[0].reach, HostReachability::Observed);
    std::fs::write(stage.host_root("n1").join(".sim/one-channel"), "").unwrap();
    assert!(matches!(check().hosts[0].reach, HostReachability::Unreachable(_)), "{:?}", check().hosts[0].reach);
}
