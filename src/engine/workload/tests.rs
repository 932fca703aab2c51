//! Counts and estimates, with a fixed clock.

use super::*;
use crate::engine::{CompletedReboot, StepFailure};
use crate::model::StepVerdict;
use crate::plan::{HostWindow, PlannedReboot, RolloutPlan};
use crate::view::sample::{host, observed_host, plan, step};

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn step_id(name: &str) -> StepId {
    StepId::new("base", name)
}

fn past_durations(steps: &[(&str, u64)], reboot: Option<u64>) -> PastDurations {
    PastDurations {
        steps: steps.iter().map(|(name, s)| (step_id(name), seconds(*s))).collect(),
        reboot: reboot.map(seconds),
    }
}

/// Hosts `n1` to `nN`, each with these steps to run.
fn plan_for_fleet(hosts: usize, steps: &[&str]) -> Plan {
    let steps: Vec<_> = steps.iter().map(|name| step(name, "file", name, StepVerdict::Change, "")).collect();
    plan((1..=hosts).map(|n| observed_host(&format!("n{n}"), steps.clone())).collect())
}

fn started_event(name: &str, step: &str) -> Event {
    Event::StepStarted { host: host(name), step: step_id(step), title: "".into(), long: false }
}

fn finished_event(name: &str, step: &str, result: StepResult, took: u64) -> Event {
    Event::StepFinished {
        host: host(name),
        step: step_id(step),
        title: "".into(),
        result,
        hint: None,
        check: None,
        changes: vec![],
        took: seconds(took),
    }
}

fn host_finished_event(name: &str, outcome: HostOutcome) -> Event {
    Event::HostFinished { host: host(name), outcome, reason: "".into() }
}

fn failed_step_result() -> StepResult {
    let failure = StepFailure { why: "".into(), tail: "".into(), hint: None, log: None, artifact: false };
    StepResult::Failed { failure }
}

fn estimate_seconds(plan: &Plan, parallel: usize, past: &PastDurations) -> Option<u64> {
    PlanWorkload::new(plan, parallel, past).estimate_remaining(Instant::now()).map(|time| time.as_secs())
}

#[test]
fn step_that_few_hosts_run_at_once_takes_longer() {
    let past = past_durations(&[("join", 60)], None);
    let estimate = |at_once: Option<usize>| {
        let mut fleet = plan_for_fleet(6, &["join"]);
        fleet.hosts.iter_mut().for_each(|host| host.steps[0].at_once = at_once);
        estimate_seconds(&fleet, 16, &past)
    };
    assert_eq!([None, Some(2), Some(1)].map(estimate), [Some(60), Some(180), Some(360)]);
}

#[test]
fn only_planned_steps_are_counted_and_each_once() {
    let mut fleet = plan_for_fleet(2, &["a", "b"]);
    fleet.hosts[0].steps.push(step("ok", "file", "ok", StepVerdict::Ok, ""));
    let mut work = PlanWorkload::new(&fleet, 16, &PastDurations::default());
    assert_eq!((work.total(), work.done(), work.queued()), (4, 0, 2));
    let now = Instant::now();
    work.apply_event(&Event::HostStarted { host: host("n1"), steps: 2 }, now);
    assert_eq!(work.queued(), 1);
    let same = StepResult::AlreadyOk { reason: "".into() };
    work.apply_event(&finished_event("n1", "ok", same, 0), now);
    assert_eq!(work.done(), 0, "it was as desired when the plan was made");
    work.apply_event(&finished_event("n1", "a", StepResult::Changed, 1), now);
    work.apply_event(&finished_event("n1", "a", StepResult::Changed, 1), now);
    assert_eq!(work.done(), 1);
    work.apply_event(&finished_event("n1", "b", failed_step_result(), 1), now);
    work.apply_event(&host_finished_event("n1", HostOutcome::Failed), now);
    assert_eq!((work.done(), work.not_run()), (2, 0));
    work.apply_event(&host_finished_event("n2", HostOutcome::Unreachable), now);
    assert_eq!((work.done(), work.not_run(), work.queued()), (4, 2, 0), "what a lost host had to do did not run");
    assert_eq!(work.estimate_remaining(now), None);
}

#[test]
fn blocked_and_unstarted_unknown_steps_count_as_not_run() {
    let mut work = PlanWorkload::new(&plan_for_fleet(1, &["a", "b", "c"]), 16, &PastDurations::default());
    let now = Instant::now();
    let blocked = StepResult::Blocked { class: crate::model::BlockClass::Busy, reason: "".into() };
    let unknown = || StepResult::Unknown { reason: "".into() };
    work.apply_event(&finished_event("n1", "a", blocked, 0), now);
    work.apply_event(&finished_event("n1", "b", unknown(), 0), now);
    work.apply_event(&started_event("n1", "c"), now);
    work.apply_event(&finished_event("n1", "c", unknown(), 1), now);
    assert_eq!((work.done(), work.not_run()), (3, 2), "the link broke only while the last one ran");
}

/// A step over a list that was not known is one step in the plan and several in the run.
#[test]
fn instances_planned_as_one_step_are_counted_once() {
    let mut work = PlanWorkload::new(&plan_for_fleet(1, &["each", "b"]), 16, &PastDurations::default());
    for key in ["x", "y"] {
        let step = StepId { key: Some(key.into()), ..step_id("each") };
        let mut event = finished_event("n1", "", StepResult::Changed, 1);
        if let Event::StepFinished { step: named, .. } = &mut event {
            *named = step;
        }
        work.apply_event(&event, Instant::now());
    }
    assert_eq!((work.done(), work.total()), (1, 2));
}

#[test]
fn estimate_requires_a_known_duration_of_every_step() {
    assert_eq!(estimate_seconds(&plan_for_fleet(2, &["a", "b"]), 16, &PastDurations::default()), None);
    assert_eq!(
        estimate_seconds(&plan_for_fleet(2, &["a", "b"]), 16, &past_durations(&[("a", 10)], None)),
        None,
        "one step is not known"
    );
    assert_eq!(
        estimate_seconds(&plan_for_fleet(2, &["a", "b"]), 16, &past_durations(&[("a", 10), ("b", 5)], None)),
        Some(15)
    );
    assert_eq!(
        estimate_seconds(&plan_for_fleet(0, &[]), 16, &past_durations(&[("a", 10)], None)),
        None,
        "nothing is to be run"
    );
}

#[test]
fn estimate_accounts_for_parallel_slots() {
    let past = past_durations(&[("a", 10)], None);
    assert_eq!(estimate_seconds(&plan_for_fleet(16, &["a"]), 16, &past), Some(10));
    assert_eq!(estimate_seconds(&plan_for_fleet(64, &["a"]), 16, &past), Some(40));
    let canary = Plan {
        rollout: RolloutPlan { canaries: vec![host("n1")], ..RolloutPlan::default() },
        ..plan_for_fleet(17, &["a"])
    };
    assert_eq!(estimate_seconds(&canary, 16, &past), Some(20), "the others begin after the canary");
}

#[test]
fn estimate_adds_up_waves_and_reboots() {
    let mut fleet = plan_for_fleet(4, &["a"]);
    let window = || HostWindow {
        reboots: vec![PlannedReboot { steps: vec![], certain: true, guard_s: None }],
        ..HostWindow::default()
    };
    fleet.hosts.iter_mut().for_each(|host| host.window = Some(window()));
    let waves = vec![vec![host("n1"), host("n2")], vec![host("n3"), host("n4")]];
    fleet.rollout = RolloutPlan { waves, max_unavailable: 2, ..RolloutPlan::default() };
    assert_eq!(
        estimate_seconds(&fleet, 16, &past_durations(&[("a", 10)], None)),
        None,
        "how long a reboot takes is not known"
    );
    let known = past_durations(&[("a", 10)], Some(100));
    assert_eq!(estimate_seconds(&fleet, 16, &known), Some(220));
    let (now, mut work) = (Instant::now(), PlanWorkload::new(&fleet, 16, &past_durations(&[("a", 10)], None)));
    let rebooting = Event::Rebooting { host: host("n1"), steps: vec![] };
    let reboot = CompletedReboot { from: "a".into(), to: "b".into(), took: seconds(100) };
    work.apply_event(&rebooting, now);
    work.apply_event(&Event::Rebooted { host: host("n1"), reboot }, now);
    assert_eq!(
        work.estimate_remaining(now),
        Some(seconds(220)),
        "the first reboot of this run tells how long others take"
    );
    let mut work = PlanWorkload::new(&fleet, 16, &known);
    ["n1", "n2"].iter().for_each(|name| work.apply_event(&Event::Rebooting { host: host(name), steps: vec![] }, now));
    assert_eq!(work.estimate_remaining(now + seconds(30)), Some(seconds(190)));
}

#[test]
fn estimate_serializes_limited_restarts() {
    let mut fleet = plan_for_fleet(10, &["a"]);
    fleet.rollout.max_restarting = Some(1);
    assert_eq!(estimate_seconds(&fleet, 16, &past_durations(&[("a", 10)], None)), Some(10), "nothing is restarted");
    fleet.hosts.iter_mut().for_each(|host| host.steps[0].disruption = DisruptionClass::D1);
    assert_eq!(estimate_seconds(&fleet, 16, &past_durations(&[("a", 10)], None)), Some(100));
}

#[test]
fn estimate_excludes_finished_work() {
    let (now, mut work) = (
        Instant::now(),
        PlanWorkload::new(&plan_for_fleet(1, &["a", "b"]), 1, &past_durations(&[("a", 10), ("b", 5)], None)),
    );
    work.apply_event(&started_event("n1", "a"), now);
    let left = |work: &PlanWorkload, after| work.estimate_remaining(now + seconds(after)).map(|time| time.as_secs());
    assert_eq!((left(&work, 0), left(&work, 4)), (Some(15), Some(11)));
    assert_eq!(left(&work, 3600), Some(5), "a step that takes longer than before says nothing of the next one");
    work.apply_event(&finished_event("n1", "a", StepResult::Changed, 12), now + seconds(12));
    assert_eq!(left(&work, 12), Some(5));
    work.apply_event(&started_event("n1", "b"), now + seconds(12));
    assert_eq!(left(&work, 30), None, "all that is known of is over");
}

#[test]
fn estimate_uses_durations_from_the_current_run() {
    let (now, mut work) =
        (Instant::now(), PlanWorkload::new(&plan_for_fleet(3, &["a", "b"]), 1, &PastDurations::default()));
    ["a", "b"].iter().for_each(|step| work.apply_event(&started_event("n1", step), now));
    work.apply_event(&finished_event("n1", "a", StepResult::Changed, 8), now + seconds(8));
    assert_eq!(work.estimate_remaining(now), None);
    work.apply_event(&finished_event("n1", "b", StepResult::Changed, 8), now + seconds(8));
    assert_eq!(work.estimate_remaining(now), Some(seconds(16)), "two steps of one script share its time");
    let mut work = PlanWorkload::new(&plan_for_fleet(3, &["a"]), 1, &PastDurations::default());
    work.apply_event(&started_event("n1", "a"), now);
    work.apply_event(&finished_event("n1", "a", failed_step_result(), 1), now);
    assert_eq!(work.estimate_remaining(now), None, "how long a step takes to fail says nothing of how long it takes");
}
