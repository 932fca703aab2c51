//! Complete frames, with a clock set by the test.

use super::super::heartbeat::format_heartbeat;
use super::*;
use crate::engine::{Event, PastDurations, PlanWorkload, RunReport, StepResult};
use crate::model::{HostName, HostOutcome, StepId, StepVerdict};
use crate::plan::{Plan, RolloutPlan};
use crate::view::escape::tests::HOSTILE;
use crate::view::sample;
use anstream::adapter::strip_str;
use std::time::Duration;

const WIDE_TERMINAL: TerminalSize = TerminalSize { columns: 100, lines: 24 };

/// A run with its clock in seconds.
struct Scene {
    state: ProgressState,
    began: Instant,
    now: u64,
}

impl Scene {
    /// Returns a run that started to apply `plan`, with four hosts at once.
    fn begin_apply(plan: &Plan, past: &[RunReport]) -> Self {
        let state = ProgressState::for_apply(PlanWorkload::new(plan, 4, &PastDurations::from_reports(past)));
        let mut scene = Self { state, began: Instant::now(), now: 0 };
        scene.send_event(Event::ApplyStarted { run: "r".into(), hosts: 0, steps: 0 });
        scene
    }

    fn send_event(&mut self, event: Event) {
        self.state.record_event(&event, self.began + Duration::from_secs(self.now));
    }

    fn set_time(&mut self, now: u64) -> &mut Self {
        self.now = now;
        self
    }

    fn start_step(&mut self, name: &str, step: &str) {
        self.send_event(Event::StepStarted {
            host: sample::host(name),
            step: driver_step_id(step),
            title: "".into(),
            long: true,
        });
    }

    fn finish_step(&mut self, name: &str, step: &str, result: StepResult, took: u64) {
        self.send_event(Event::StepFinished {
            host: sample::host(name),
            step: driver_step_id(step),
            title: "".into(),
            result,
            hint: None,
            check: None,
            changes: vec![],
            took: Duration::from_secs(took),
        });
    }

    fn finish_host(&mut self, name: &str, outcome: HostOutcome) {
        self.send_event(Event::HostFinished { host: sample::host(name), outcome, reason: "".into() });
    }

    /// Returns the frame and asserts that it fits.
    fn render_checked(&mut self, size: TerminalSize) -> String {
        let lines = render_frame(&mut self.state, self.began + Duration::from_secs(self.now), size);
        let lines: Vec<String> = lines.iter().map(|line| strip_str(line).to_string()).collect();
        assert!(lines.len() < size.lines, "{lines:#?}");
        assert!(lines.iter().all(|line| line.width() < size.columns), "{lines:#?}");
        lines.join("\n")
    }
}

fn driver_step_id(step: &str) -> StepId {
    StepId::new("driver", step)
}

/// Returns a plan for hosts `gpu-001` to `gpu-NNN`, each with two steps to run.
fn fleet_plan(hosts: usize) -> Plan {
    let steps: Vec<_> = ["install", "persistenced"]
        .iter()
        .map(|name| crate::plan::StepPlan {
            id: driver_step_id(name),
            ..sample::step(name, "package", name, StepVerdict::Change, "not installed")
        })
        .collect();
    sample::plan((1..=hosts).map(|n| sample::observed_host(&gpu_host_name(n), steps.clone())).collect())
}

fn gpu_host_name(n: usize) -> String {
    format!("gpu-{n:03}")
}

/// Returns a past run in which `install` took five minutes and `persistenced` ten seconds.
fn past_report() -> RunReport {
    let step = |name, took| crate::engine::StepReport {
        id: driver_step_id(name),
        took: Duration::from_secs(took),
        ..sample::step_report(name, StepResult::Changed)
    };
    let steps = vec![step("install", 300), step("persistenced", 10)];
    sample::report("apply", vec![sample::host_report("gpu-001", steps, vec![])])
}

fn start_hosts(scene: &mut Scene, hosts: impl Iterator<Item = usize>) {
    for n in hosts {
        scene.send_event(Event::HostStarted { host: sample::host(&gpu_host_name(n)), steps: 2 });
        scene.start_step(&gpu_host_name(n), "install");
    }
}

/// Returns a run: a step of the first host failed, the second runs its last step, the third prints, the fourth waits.
fn busy_scene(past: &[RunReport]) -> Scene {
    let mut scene = Scene::begin_apply(&fleet_plan(6), past);
    start_hosts(&mut scene, 1..=4);
    scene.set_time(65).finish_step("gpu-001", "install", crate::view::sample::failed_result(), 65);
    scene.finish_step("gpu-001", "persistenced", StepResult::Skipped { reason: "".into() }, 0);
    scene.finish_host("gpu-001", HostOutcome::Failed);
    scene.set_time(70).finish_step("gpu-002", "install", StepResult::Changed, 70);
    scene.start_step("gpu-002", "persistenced");
    let line = "Unpacking nvidia-driver-570 (570.86.15-1) …".into();
    scene.send_event(Event::StepOutput { host: sample::host("gpu-003"), step: driver_step_id("install"), line });
    scene.send_event(Event::AwaitingWindow { host: sample::host("gpu-004"), wave: 1 });
    scene.set_time(72);
    scene
}

#[test]
fn frame_with_many_hosts_matches_snapshot() {
    let mut scene = Scene::begin_apply(&fleet_plan(16), &[]);
    start_hosts(&mut scene, 1..=16);
    scene.set_time(10);
    ["kernel", "headers"].iter().for_each(|step| scene.start_step("gpu-016", step));
    insta::assert_snapshot!(scene.render_checked(WIDE_TERMINAL));
}

#[test]
fn frame_shows_failures_and_waiting_hosts() {
    insta::assert_snapshot!(busy_scene(&[]).render_checked(WIDE_TERMINAL));
}

#[test]
fn past_runs_give_a_time_estimate() {
    insta::assert_snapshot!(busy_scene(&[past_report()]).render_checked(WIDE_TERMINAL));
}

#[test]
fn frame_fits_a_narrow_terminal() {
    insta::assert_snapshot!(busy_scene(&[past_report()]).render_checked(TerminalSize { columns: 40, lines: 24 }));
}

#[test]
fn frame_shows_canary_and_then_many_hosts() {
    let rollout = RolloutPlan { canaries: vec![sample::host("gpu-001")], ..RolloutPlan::default() };
    let mut scene = Scene::begin_apply(&Plan { rollout, ..fleet_plan(200) }, &[past_report()]);
    let hosts: Vec<HostName> = (2..=200).map(|n| sample::host(&gpu_host_name(n))).collect();
    scene.send_event(Event::AwaitingCanaries { hosts, canaries: vec![sample::host("gpu-001")] });
    start_hosts(&mut scene, 1..=1);
    scene.set_time(20);
    insta::assert_snapshot!("canary", scene.render_checked(WIDE_TERMINAL));
    scene.set_time(310).finish_step("gpu-001", "install", StepResult::Changed, 290);
    scene.finish_host("gpu-001", HostOutcome::Changed);
    start_hosts(&mut scene, 2..=150);
    scene.set_time(400);
    insta::assert_snapshot!("many", scene.render_checked(TerminalSize { columns: 100, lines: 10 }));
}

#[test]
fn frame_shows_observation_and_downloads() {
    let mut scene = Scene { state: ProgressState::default(), began: Instant::now(), now: 0 };
    assert_eq!(scene.render_checked(WIDE_TERMINAL), "");
    scene.send_event(Event::ObserveStarted { hosts: 3 });
    (1..=3).for_each(|n| scene.send_event(Event::Connecting { host: sample::host(&gpu_host_name(n)) }));
    scene.set_time(3).send_event(Event::Observed {
        host: sample::host("gpu-001"),
        trips: 2,
        took: Duration::from_secs(3),
    });
    let why = crate::plan::UnreachableReason::new("no route to host", None);
    scene.send_event(Event::Unreachable { host: sample::host("gpu-002"), why });
    let what = "https://mirror/driver.run";
    scene.send_event(Event::Fetching { what: what.into(), done: 12_000_000, total: Some(412_300_000) });
    insta::assert_snapshot!(scene.render_checked(WIDE_TERMINAL));
    scene.send_event(Event::Fetched { what: what.into(), bytes: 1, took: Duration::ZERO });
    assert!(!scene.render_checked(WIDE_TERMINAL).contains("mirror"));
}

#[test]
fn tiny_terminal_shows_only_the_summary() {
    for lines in [1, 2, 3] {
        let picture = render_frame(&mut busy_scene(&[]).state, Instant::now(), TerminalSize { columns: 3, lines });
        assert_eq!(picture.len(), lines.saturating_sub(1).max(1), "{picture:?}");
        assert!(picture.iter().all(|line| strip_str(line).to_string().width() < 3), "{picture:?}");
    }
}

#[test]
fn host_output_is_escaped() {
    for (raw, harmless) in HOSTILE {
        let mut scene = Scene::begin_apply(&fleet_plan(1), &[]);
        start_hosts(&mut scene, 1..=1);
        let line = (*raw).into();
        scene.send_event(Event::StepOutput { host: sample::host("gpu-001"), step: driver_step_id("install"), line });
        let picture = scene.render_checked(TerminalSize { columns: 200, lines: 24 });
        assert_eq!(picture.lines().next(), Some(format!("     0s  gpu-001  driver/install | {harmless}").as_str()));
        assert!(!picture.chars().any(escape::is_hidden_char), "{picture:?}");
    }
}

#[test]
fn heartbeat_summarizes_running_and_waiting_steps() {
    let mut scene = busy_scene(&[past_report()]);
    let now = scene.began + Duration::from_secs(72);
    let text = format_heartbeat(&mut scene.state, now).map(|text| strip_str(&text).to_string());
    assert_eq!(
        text.as_deref(),
        Some(
            "3/12 steps, 1 failed, 1 not run, 1m 12s, about 6m left, 2 hosts queued: driver/install on gpu-003 (1m 12s), \
             driver/persistenced on gpu-002 (2s) and waiting for wave 2 on gpu-004 (2s)"
        )
    );
    assert_eq!(format_heartbeat(&mut ProgressState::default(), now), None);
}

#[test]
fn durations_and_estimates_are_abbreviated() {
    let of = |s| (format_elapsed(Duration::from_secs(s)), format_estimate(Duration::from_secs(s)));
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(of(8), pair("8s", "10s"));
    assert_eq!(of(50), pair("50s", "50s"));
    assert_eq!(of(51), pair("51s", "1m"));
    assert_eq!(of(125), pair("2m 05s", "3m"));
    assert_eq!(of(3541), pair("59m 01s", "1h 00m"));
    assert_eq!(of(4021), pair("1h 07m", "1h 10m"));
}

#[test]
fn text_is_truncated_by_display_width() {
    assert_eq!((truncate_columns("abc", 3), truncate_columns("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    assert_eq!(truncate_columns("日本語", 4), "日…");
}
