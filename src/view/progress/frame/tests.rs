//! Complete frames, with a clock set by the test.

use super::super::heartbeat::heartbeat;
use super::*;
use crate::engine::{Event, PastDurations, PlanWorkload, RunReport, StepResult};
use crate::model::{HostName, HostOutcome, StepId, StepVerdict};
use crate::plan::{Plan, RolloutPlan};
use crate::view::escape::tests::HOSTILE;
use crate::view::sample;
use anstream::adapter::strip_str;

const WIDE: TerminalSize = TerminalSize { columns: 100, lines: 24 };

/// A run with its clock in seconds.
struct Scene {
    state: ProgressState,
    began: Instant,
    now: u64,
}

impl Scene {
    /// Returns a run that started to apply `plan`, with four hosts at once.
    fn applying(plan: &Plan, past: &[RunReport]) -> Self {
        let state = ProgressState::applying(PlanWorkload::new(plan, 4, &PastDurations::of(past)));
        let mut scene = Self { state, began: Instant::now(), now: 0 };
        scene.event(Event::ApplyStarted { run: "r".into(), hosts: 0, steps: 0 });
        scene
    }

    fn event(&mut self, event: Event) {
        self.state.event(&event, self.began + Duration::from_secs(self.now));
    }

    fn at(&mut self, now: u64) -> &mut Self {
        self.now = now;
        self
    }

    fn start(&mut self, name: &str, step: &str) {
        self.event(Event::StepStarted { host: sample::host(name), step: id(step), title: "".into(), long: true });
    }

    fn finish(&mut self, name: &str, step: &str, result: StepResult, took: u64) {
        self.event(Event::StepFinished {
            host: sample::host(name),
            step: id(step),
            title: "".into(),
            result,
            changes: vec![],
            took: Duration::from_secs(took),
        });
    }

    fn close(&mut self, name: &str, outcome: HostOutcome) {
        self.event(Event::HostFinished { host: sample::host(name), outcome, reason: "".into() });
    }

    /// Returns the frame and asserts that it fits.
    fn picture(&mut self, size: TerminalSize) -> String {
        let lines = render(&mut self.state, self.began + Duration::from_secs(self.now), size);
        let lines: Vec<String> = lines.iter().map(|line| strip_str(line).to_string()).collect();
        assert!(lines.len() < size.lines, "{lines:#?}");
        assert!(lines.iter().all(|line| line.width() < size.columns), "{lines:#?}");
        lines.join("\n")
    }
}

fn id(step: &str) -> StepId {
    StepId::new("driver", step)
}

/// Returns a plan for hosts `gpu-001` to `gpu-NNN`, each with two steps to run.
fn fleet(hosts: usize) -> Plan {
    let steps: Vec<_> = ["install", "persistenced"]
        .iter()
        .map(|name| crate::plan::StepPlan {
            id: id(name),
            ..sample::step(name, "package", name, StepVerdict::Change, "not installed")
        })
        .collect();
    sample::plan((1..=hosts).map(|n| sample::observed(&name(n), steps.clone())).collect())
}

fn name(n: usize) -> String {
    format!("gpu-{n:03}")
}

/// Returns a past run in which `install` took five minutes and `persistenced` ten seconds.
fn past() -> RunReport {
    let step = |name, took| crate::engine::StepReport {
        id: id(name),
        took: Duration::from_secs(took),
        ..sample::step_report(name, StepResult::Changed)
    };
    let steps = vec![step("install", 300), step("persistenced", 10)];
    sample::report("apply", vec![sample::host_report("gpu-001", steps, vec![])])
}

fn begin(scene: &mut Scene, hosts: impl Iterator<Item = usize>) {
    for n in hosts {
        scene.event(Event::HostStarted { host: sample::host(&name(n)), steps: 2 });
        scene.start(&name(n), "install");
    }
}

/// Returns a run: a step of the first host failed, the second runs its last step, the third prints, the fourth waits.
fn busy(past: &[RunReport]) -> Scene {
    let mut scene = Scene::applying(&fleet(6), past);
    begin(&mut scene, 1..=4);
    scene.at(65).finish("gpu-001", "install", crate::view::sample::failure(), 65);
    scene.finish("gpu-001", "persistenced", StepResult::Skipped { reason: "".into() }, 0);
    scene.close("gpu-001", HostOutcome::Failed);
    scene.at(70).finish("gpu-002", "install", StepResult::Changed, 70);
    scene.start("gpu-002", "persistenced");
    let line = "Unpacking nvidia-driver-570 (570.86.15-1) …".into();
    scene.event(Event::StepOutput { host: sample::host("gpu-003"), step: id("install"), line });
    scene.event(Event::AwaitingWindow { host: sample::host("gpu-004"), wave: 1 });
    scene.at(72);
    scene
}

#[test]
fn many_hosts_at_once() {
    let mut scene = Scene::applying(&fleet(16), &[]);
    begin(&mut scene, 1..=16);
    scene.at(10);
    ["kernel", "headers"].iter().for_each(|step| scene.start("gpu-016", step));
    insta::assert_snapshot!(scene.picture(WIDE));
}

#[test]
fn failures_and_waits() {
    insta::assert_snapshot!(busy(&[]).picture(WIDE));
}

#[test]
fn history_gives_an_estimate() {
    insta::assert_snapshot!(busy(&[past()]).picture(WIDE));
}

#[test]
fn a_narrow_terminal() {
    insta::assert_snapshot!(busy(&[past()]).picture(TerminalSize { columns: 40, lines: 24 }));
}

#[test]
fn two_hundred_hosts_behind_a_canary() {
    let rollout = RolloutPlan { canaries: vec![sample::host("gpu-001")], ..RolloutPlan::default() };
    let mut scene = Scene::applying(&Plan { rollout, ..fleet(200) }, &[past()]);
    let hosts: Vec<HostName> = (2..=200).map(|n| sample::host(&name(n))).collect();
    scene.event(Event::AwaitingCanaries { hosts, canaries: vec![sample::host("gpu-001")] });
    begin(&mut scene, 1..=1);
    scene.at(20);
    insta::assert_snapshot!("canary", scene.picture(WIDE));
    scene.at(310).finish("gpu-001", "install", StepResult::Changed, 290);
    scene.close("gpu-001", HostOutcome::Changed);
    begin(&mut scene, 2..=150);
    scene.at(400);
    insta::assert_snapshot!("many", scene.picture(TerminalSize { columns: 100, lines: 10 }));
}

#[test]
fn hosts_that_are_observed() {
    let mut scene = Scene { state: ProgressState::default(), began: Instant::now(), now: 0 };
    assert_eq!(scene.picture(WIDE), "");
    scene.event(Event::ObserveStarted { hosts: 3 });
    (1..=3).for_each(|n| scene.event(Event::Connecting { host: sample::host(&name(n)) }));
    scene.at(3).event(Event::Observed { host: sample::host("gpu-001"), trips: 2, took: Duration::from_secs(3) });
    let why = crate::plan::UnreachableReason::new("no route to host", None);
    scene.event(Event::Unreachable { host: sample::host("gpu-002"), why });
    let what = "https://mirror/driver.run";
    scene.event(Event::Fetching { what: what.into(), done: 12_000_000, total: Some(412_300_000) });
    insta::assert_snapshot!(scene.picture(WIDE));
    scene.event(Event::Fetched { what: what.into(), bytes: 1, took: Duration::ZERO });
    assert!(!scene.picture(WIDE).contains("mirror"));
}

#[test]
fn a_terminal_without_room_shows_the_sums() {
    for lines in [1, 2, 3] {
        let picture = render(&mut busy(&[]).state, Instant::now(), TerminalSize { columns: 3, lines });
        assert_eq!(picture.len(), lines.saturating_sub(1).max(1), "{picture:?}");
        assert!(picture.iter().all(|line| strip_str(line).to_string().width() < 3), "{picture:?}");
    }
}

#[test]
fn what_hosts_print_is_harmless() {
    for (raw, harmless) in HOSTILE {
        let mut scene = Scene::applying(&fleet(1), &[]);
        begin(&mut scene, 1..=1);
        let line = (*raw).into();
        scene.event(Event::StepOutput { host: sample::host("gpu-001"), step: id("install"), line });
        let picture = scene.picture(TerminalSize { columns: 200, lines: 24 });
        assert_eq!(picture.lines().next(), Some(format!("     0s  gpu-001  driver/install | {harmless}").as_str()));
        assert!(!picture.chars().any(escape::hidden), "{picture:?}");
    }
}

#[test]
fn a_heartbeat_says_what_goes_on() {
    let mut scene = busy(&[past()]);
    let now = scene.began + Duration::from_secs(72);
    let text = heartbeat(&mut scene.state, now).map(|text| strip_str(&text).to_string());
    assert_eq!(
        text.as_deref(),
        Some(
            "3/12 steps, 1 failed, 1 not run, 1m 12s, about 6m left, 2 hosts queued: driver/install on gpu-003 (1m 12s), \
             driver/persistenced on gpu-002 (2s) and waiting for wave 2 on gpu-004 (2s)"
        )
    );
    assert_eq!(heartbeat(&mut ProgressState::default(), now), None);
}

#[test]
fn times_are_short() {
    let of = |s| (elapsed(Duration::from_secs(s)), rounded(Duration::from_secs(s)));
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(of(8), pair("8s", "10s"));
    assert_eq!(of(50), pair("50s", "50s"));
    assert_eq!(of(51), pair("51s", "1m"));
    assert_eq!(of(125), pair("2m 05s", "3m"));
    assert_eq!(of(3541), pair("59m 01s", "1h 00m"));
    assert_eq!(of(4021), pair("1h 07m", "1h 10m"));
}

#[test]
fn a_text_is_cut_by_its_width() {
    assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
    assert_eq!(cut("日本語", 4), "日…");
}
