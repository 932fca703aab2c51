//! The exact lines of progress.

use super::super::state::ProgressPhase;
use super::*;
use crate::engine::{NodeDrainEvent, StepResult, VerifyResult};
use crate::model::{HostName, HostOutcome, StepId};
use crate::plan::UnreachableReason;
use crate::view::escape::{self, tests::HOSTILE};
use crate::view::sample::{failed_result, host, untrusted_text};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn render_events(detail: ProgressDetail, events: &[Event]) -> String {
    let shared = SharedBuffer::default();
    let mut plain =
        PlainProgress::new(Box::new(shared.clone()), ProgressState::default(), detail, |_| "12:01:33".into());
    events.iter().for_each(|event| plain.show_event(event, Instant::now()));
    plain.finish();
    let bytes = shared.0.lock().unwrap().clone();
    anstream::adapter::strip_str(std::str::from_utf8(&bytes).unwrap()).to_string()
}

fn step_finished_event(result: StepResult) -> Event {
    let (step, title, took) = (StepId::new("base", "nginx"), untrusted_text("nginx"), Duration::from_millis(2_100));
    Event::StepFinished { host: host("node-01"), step, title, result, hint: None, check: None, changes: vec![], took }
}

fn all_events() -> Vec<Event> {
    let step = || StepId::new("base", "nginx");
    let flight = || vec![(host("node-01"), step())];
    let node = || host("node-01");
    let because_verify = |result| Event::Verified {
        host: node(),
        recipe: "base".into(),
        name: "page answers".into(),
        result,
        check: None,
    };
    vec![
        Event::AwaitingWorkers { limit: Duration::from_mins(1) },
        Event::ObserveStarted { hosts: 3 },
        Event::Connecting { host: node() },
        Event::Retrying { host: node(), step: step(), why: untrusted_text("exit status 100"), attempt: 2 },
        Event::Observed { host: node(), trips: 2, took: Duration::from_millis(310) },
        Event::Unreachable {
            host: host("node-02"),
            why: UnreachableReason::new(untrusted_text("no route to host"), None),
        },
        Event::ApplyStarted { run: "20261121T093015-4f2a".into(), hosts: 2, steps: 5 },
        Event::HostStarted { host: node(), steps: 1 },
        Event::AwaitingCanaries { hosts: vec![host("node-02"), host("node-03")], canaries: vec![node()] },
        Event::Reattached {
            host: node(),
            step: Some(step()),
            what: untrusted_text("`base/nginx` of run 20261121T090000-1b2c"),
        },
        Event::Waiting { host: node(), step: step(), what: untrusted_text("`base/key` on node-03") },
        Event::AwaitingVerification {
            host: host("kubernetes"),
            recipe: "gpus".into(),
            name: "GPUs of every node".into(),
            why: untrusted_text("failed: a == b (n1 has 7)"),
        },
        Event::StepStarted { host: node(), step: step(), title: untrusted_text("nginx"), long: true },
        Event::StepOutput { host: node(), step: step(), line: untrusted_text("Unpacking nginx …") },
        step_finished_event(StepResult::Changed),
        step_finished_event(StepResult::AlreadyOk { reason: untrusted_text("installed") }),
        step_finished_event(failed_result()),
        step_finished_event(StepResult::Skipped { reason: untrusted_text("needs `base/repo`") }),
        because_verify(VerifyResult::Held),
        because_verify(VerifyResult::Failed { reason: untrusted_text("exit status 7") }),
        Event::Fetching { what: untrusted_text("https://h/x.run"), done: 12_000_000, total: Some(412_300_000) },
        Event::Fetching { what: untrusted_text("https://h/y.run"), done: 812, total: None },
        Event::Fetched {
            what: untrusted_text("https://h/x.run"),
            bytes: 412_300_000,
            took: Duration::from_millis(3210),
        },
        Event::Sending { host: node(), step: step(), done: 400_000, total: 412_300_000 },
        Event::Node {
            host: node(),
            node: untrusted_text("gpu-3"),
            news: NodeDrainEvent::Waits { pods: vec![untrusted_text("pod ml/a cannot be evicted")] },
        },
        Event::Node {
            host: node(),
            node: untrusted_text("gpu-3"),
            news: NodeDrainEvent::Lacks {
                what: vec![untrusted_text("nvidia.com/gpu (7 of 8)"), untrusted_text("rdma/ib (0 of 63)")],
            },
        },
        Event::Node {
            host: node(),
            node: untrusted_text("gpu-3"),
            news: NodeDrainEvent::Drained { pods: 1, cordoned: true },
        },
        Event::Node {
            host: node(),
            node: untrusted_text("gpu-3"),
            news: NodeDrainEvent::Drained { pods: 0, cordoned: false },
        },
        Event::Node { host: node(), node: untrusted_text("gpu-3"), news: NodeDrainEvent::Returned { cordoned: false } },
        Event::Node { host: node(), node: untrusted_text("gpu-3"), news: NodeDrainEvent::Returned { cordoned: true } },
        Event::Node { host: node(), node: untrusted_text(""), news: NodeDrainEvent::Absent },
        Event::Node { host: node(), node: untrusted_text(""), news: NodeDrainEvent::NoCluster },
        Event::HostFinished { host: node(), outcome: HostOutcome::Changed, reason: untrusted_text("") },
        Event::HostFinished { host: node(), outcome: HostOutcome::Failed, reason: untrusted_text("1 step failed") },
        Event::BudgetSpent { failed: 2, allowed: 1, canary: None },
        Event::BudgetSpent { failed: 1, allowed: 0, canary: Some(node()) },
        Event::NoHistory { why: untrusted_text("state folder `/s` is not writable: No space left on device") },
        Event::Stopping { in_flight: flight() },
        Event::Stopping { in_flight: vec![] },
        Event::Detached { in_flight: flight() },
    ]
}

#[test]
fn verbose_prints_every_event() {
    insta::assert_snapshot!(render_events(ProgressDetail::Verbose, &all_events()));
}

#[test]
fn normal_prints_changes_and_failures() {
    insta::assert_snapshot!(render_events(ProgressDetail::Normal, &all_events()));
}

#[test]
fn quiet_prints_only_failures() {
    insta::assert_snapshot!(render_events(ProgressDetail::Quiet, &all_events()));
}

#[test]
fn host_output_line_is_escaped_to_one_line() {
    for (raw, harmless) in HOSTILE {
        let event = Event::StepOutput { host: host("a"), step: StepId::new("r", "s"), line: untrusted_text(raw) };
        let line = render_events(ProgressDetail::Verbose, &[event]);
        assert_eq!(line, format!("12:01:33 a r/s | {harmless}\n"));
        assert!(!line.chars().any(escape::is_hidden_char));
    }
}

#[test]
fn running_download_is_reported_in_the_heartbeat() {
    let fetching = Event::Fetching { what: untrusted_text("driver.run"), done: 12_000_000, total: Some(412_300_000) };
    let shared = SharedBuffer::default();
    let mut plain =
        PlainProgress::new(Box::new(shared.clone()), ProgressState::default(), ProgressDetail::Normal, |_| {
            "12:01:33".into()
        });
    let began = Instant::now();
    plain.show_event(&fetching, began);
    (0..=31).for_each(|s| plain.tick(began + s * Duration::from_secs(1)));
    let bytes = shared.0.lock().unwrap().clone();
    assert_eq!(std::str::from_utf8(&bytes).unwrap(), "12:01:33 30s: driver.run 12.0 of 412.3 MB\n");
}

/// The cluster's API is observed together with the hosts, but does not count as one.
#[test]
fn cluster_api_is_not_counted_as_an_observed_host() {
    let mut state = ProgressState::default();
    let now = Instant::now();
    let observed = |host: HostName| Event::Observed { host, trips: 1, took: Duration::ZERO };
    state.record_event(&Event::ObserveStarted { hosts: 1 }, now);
    state.record_event(&observed(HostName::cluster_api()), now);
    assert!(matches!(state.phase(), ProgressPhase::Observing { done: 0, total: 1 }));
    state.record_event(&observed(host("n1")), now);
    assert!(matches!(state.phase(), ProgressPhase::Observing { done: 1, total: 1 }));
}

#[test]
fn heartbeat_is_printed_after_long_silence() {
    let shared = SharedBuffer::default();
    let mut plain =
        PlainProgress::new(Box::new(shared.clone()), ProgressState::default(), ProgressDetail::Normal, |_| {
            "12:01:33".into()
        });
    let (began, second) = (Instant::now(), Duration::from_secs(1));
    plain.tick(began);
    plain.show_event(&Event::ExecStarted { hosts: 2 }, began);
    plain.show_event(&Event::Connecting { host: host("n1") }, began);
    (0..=61).for_each(|s| plain.tick(began + s * second));
    plain.show_event(
        &Event::HostFinished { host: host("n1"), outcome: HostOutcome::Ok, reason: untrusted_text("") },
        began + 62 * second,
    );
    (62..=120).for_each(|s| plain.tick(began + s * second));
    let bytes = shared.0.lock().unwrap().clone();
    let lines = [
        "12:01:33 running on 2 hosts",
        "12:01:33 0/2 hosts, 30s: observing on n1 (30s)",
        "12:01:33 0/2 hosts, 1m 00s: observing on n1 (1m 00s)",
    ];
    assert_eq!(
        std::str::from_utf8(&bytes).unwrap().lines().collect::<Vec<_>>(),
        lines,
        "nothing is running at the end"
    );
}

/// A line for each test of each host would hide the rest: they are details, and the activity of the host.
#[test]
fn test_of_a_returning_host_is_its_activity() {
    let shared = SharedBuffer::default();
    let mut plain =
        PlainProgress::new(Box::new(shared.clone()), ProgressState::default(), ProgressDetail::Verbose, |_| {
            "12:01:33".into()
        });
    let began = Instant::now();
    let round = |done, left: Option<u64>| Event::ReturnTestRound {
        host: HostName::new("gpu-01"),
        test: "ib-write-bw-loopback".into(),
        rail: Some("mlx5_0".into()),
        done,
        total: 2,
        left: left.map(Duration::from_secs),
    };
    plain.show_event(&round(0, None), began);
    plain.show_event(&round(1, Some(170)), began);
    let bytes = shared.0.lock().unwrap().clone();
    let lines = [
        "12:01:33 gpu-01 is tested: ib-write-bw-loopback on mlx5_0, round 1 of 2",
        "12:01:33 gpu-01 is tested: ib-write-bw-loopback on mlx5_0, round 2 of 2, about 3m left",
    ];
    assert_eq!(std::str::from_utf8(&bytes).unwrap().lines().collect::<Vec<_>>(), lines);
    let mut state = ProgressState::default();
    state.record_event(&round(1, Some(170)), began);
    let activity = format!("{:?}", state.activities().map(|(_, activity)| &activity.doing).collect::<Vec<_>>());
    assert!(activity.contains("testing: ib-write-bw-loopback on mlx5_0, round 2 of 2"), "{activity}");
}

#[test]
fn rounds_of_tests_are_shown_with_the_remaining_time() {
    let shared = SharedBuffer::default();
    let mut plain =
        PlainProgress::new(Box::new(shared.clone()), ProgressState::default(), ProgressDetail::Normal, |_| {
            "12:01:33".into()
        });
    let began = Instant::now();
    let round = |done, left: Option<u64>, isolation| Event::TestRound {
        test: "ib-write-bw".into(),
        rail: Some("mlx5_0".into()),
        measurements: 4,
        isolation,
        done,
        total: 14,
        left: left.map(Duration::from_secs),
    };
    plain.show_event(&round(0, None, false), began);
    plain.show_event(&round(1, Some(170), false), began + Duration::from_secs(12));
    (13..=43).for_each(|second| plain.tick(began + Duration::from_secs(second)));
    plain.show_event(&round(14, Some(0), true), began + Duration::from_secs(43));
    let bytes = shared.0.lock().unwrap().clone();
    let lines = [
        "12:01:33 round 1 of 14: ib-write-bw on mlx5_0, 4 measurements",
        "12:01:33 round 2 of 14: ib-write-bw on mlx5_0, 4 measurements, about 3m left",
        "12:01:33 1/14 rounds: ib-write-bw on mlx5_0, 4 measurements, 42s, about 3m left",
        "12:01:33 searching for the bad part: ib-write-bw on mlx5_0, 4 measurements",
    ];
    assert_eq!(std::str::from_utf8(&bytes).unwrap().lines().collect::<Vec<_>>(), lines);
}
