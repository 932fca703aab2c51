//! Sequences of runs: new, changed, flapping and unobserved findings.

use super::*;
use crate::drift::model::LastApplied;
use crate::drift::{DRIFT_VERSION, DetectedDrift, DriftCause, FindingAspect, FindingSeverity, HostDrift};
use crate::model::{BlockClass, DisruptionClass, StepVerdict, VerifyLevel};
use crate::plan::UnreachableReason;
use crate::resource::{ChangeMark, ChangedObject};
use std::time::Duration;

/// The observation of host `h` in one run.
enum Saw {
    /// The attribute has this value.
    Value(&'static str),
    Nothing,
    /// The step is blocked, so that its attributes are not compared.
    Blocked,
    /// The step as a whole is pending.
    Pending,
    /// The attribute differs, and its step was applied last at this time.
    Applied(&'static str),
    /// The object is no longer declared.
    Undeclared,
    /// The host has no records, so that no object of it is known to be no longer declared.
    NoRecords,
    /// The step could not be evaluated.
    Unknown,
    /// No step of its recipe could be evaluated.
    UnknownRecipe,
    /// The host was unreachable.
    Silence,
    /// The step was out of scope.
    Elsewhere,
    /// The step is ignored now.
    Ignored,
}

fn finding(value: &str, time: &str) -> DriftFinding {
    DriftFinding {
        host: HostName::new("h"),
        recipe: "base".into(),
        step: "motd".into(),
        aspect: FindingAspect::Step,
        attribute: Some("mode".into()),
        mark: ChangeMark::default(),
        object: ChangedObject::Nameless,
        kind: "file".into(),
        title: "/etc/motd".into(),
        path: None,
        verdict: StepVerdict::Change,
        reason: "mode differs".into(),
        hint: None,
        desired: Some("0644".into()),
        observed: Some(value.into()),
        diff: None,
        check: None,
        secret: false,
        last_applied: None,
        culprit: None,
        cause: DriftCause::MachineChanged,
        uncompared: false,
        severity: FindingSeverity::Medium,
        disruption: DisruptionClass::D0,
        level: VerifyLevel::L0,
        action: None,
        place: String::new(),
        standing: FindingNovelty::New,
        first_seen: time.to_owned(),
        last_seen: time.to_owned(),
        times: 1,
        also: 0,
    }
}

fn apply_at(time: &str) -> LastApplied {
    LastApplied { value: None, time: time.into(), run: "r".into(), user: "u".into(), controller: "c".into() }
}

fn run(saw: &Saw, time: &str) -> (DriftReport, DetectedDrift) {
    let silent = HostReachability::Unreachable(UnreachableReason::new("refused", None));
    let reach = if matches!(saw, Saw::Silence) { silent } else { HostReachability::Observed };
    let host = HostDrift {
        host: HostName::new("h"),
        reach,
        settled: 1,
        follow: 0,
        warnings: Vec::new(),
        took: Duration::ZERO,
    };
    let findings = match saw {
        Saw::Value(value) => vec![finding(value, time)],
        Saw::Blocked => {
            vec![DriftFinding { attribute: None, verdict: StepVerdict::Blocked(BlockClass::Host), ..finding("", time) }]
        }
        Saw::Pending => vec![DriftFinding { attribute: None, cause: DriftCause::Pending, ..finding("", time) }],
        Saw::Applied(applied) => vec![DriftFinding { last_applied: Some(apply_at(applied)), ..finding("0600", time) }],
        Saw::Undeclared => vec![DriftFinding { cause: DriftCause::NoLongerDeclared, ..finding("0600", time) }],
        _ => Vec::new(),
    };
    let mut found = DetectedDrift::default();
    let step = (HostName::new("h"), "base".to_owned(), "motd".to_owned());
    match saw {
        Saw::Unknown => _ = found.undecided.insert(step),
        Saw::UnknownRecipe => _ = found.undecided.insert((step.0, step.1, "*".to_owned())),
        Saw::Ignored => _ = found.ignored_steps.insert(step),
        Saw::NoRecords => _ = found.unrecorded.insert(step.0),
        _ => {}
    }
    let drift = DriftReport {
        version: DRIFT_VERSION,
        forge: String::new(),
        run: time.to_owned(),
        cluster: "c".to_owned(),
        inventory: String::new(),
        time: time.to_owned(),
        simulated: Vec::new(),
        hosts: vec![host],
        findings,
        unknown: Vec::new(),
        resolved: Vec::new(),
        ignored: Vec::new(),
        ignored_steps: Default::default(),
        no_history: None,
        notified: Vec::new(),
        outliers: None,
        outliers_count: false,
        took: Duration::from_millis(1500),
    };
    (drift, found)
}

/// A sequence of runs: each reads the history text of the previous ones.
struct Story(Vec<String>);

impl Story {
    fn tell(&mut self, saw: &Saw, time: &str) -> DriftReport {
        let past = FindingHistory::from_entries(&parse_history_entries(self.0.iter().map(String::as_str)));
        let (mut drift, found) = run(saw, time);
        let looks = !matches!(saw, Saw::Elsewhere);
        let entry = compare_with_history(&mut drift, &past, &DetectionScope { admits: &|_, _| looks, found: &found });
        self.0.push(serde_json::to_string(&entry).unwrap());
        drift
    }

    fn entries(&self) -> Vec<DriftHistoryEntry> {
        parse_history_entries(self.0.iter().map(String::as_str))
    }
}

const T: [&str; 5] = [
    "2026-11-21T09:00:00Z",
    "2026-11-21T09:15:00Z",
    "2026-11-21T09:30:00Z",
    "2026-11-21T09:45:00Z",
    "2026-11-23T10:00:00Z",
];

/// Returns standing, first time and count of the finding, and the number of resolved findings.
fn told(drift: &DriftReport) -> (Option<(FindingNovelty, &str, u32)>, usize) {
    let finding = drift.findings.first();
    (finding.map(|f| (f.standing, f.first_seen.as_str(), f.times)), drift.resolved.len())
}

#[test]
fn persistent_finding_is_new_once_and_changes_with_its_value() {
    let mut story = Story(Vec::new());
    assert_eq!(told(&story.tell(&Saw::Value("0600"), T[0])), (Some((FindingNovelty::New, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Value("0600"), T[1])), (Some((FindingNovelty::Same, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Value("0700"), T[2])), (Some((FindingNovelty::Changed, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Value("0700"), T[3])), (Some((FindingNovelty::Same, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[4])), (None, 1));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[4])), (None, 0), "told once");
}

/// An attribute that differs does not show that the step, which was pending as a whole, is effective.
#[test]
fn pending_step_is_not_resolved_by_a_finding_about_an_attribute() {
    let mut story = Story(Vec::new());
    story.tell(&Saw::Pending, T[0]);
    assert_eq!(told(&story.tell(&Saw::Value("0600"), T[1])), (Some((FindingNovelty::New, T[1], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Pending, T[2])), (Some((FindingNovelty::Same, T[0], 1)), 1));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[3])), (None, 1));
}

/// What a blocked step did not compare is still open once it is compared again.
#[test]
fn blocked_step_resolves_no_finding_about_its_attributes() {
    let mut story = Story(Vec::new());
    story.tell(&Saw::Value("0600"), T[0]);
    assert_eq!(told(&story.tell(&Saw::Blocked, T[1])), (Some((FindingNovelty::New, T[1], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Value("0600"), T[2])), (Some((FindingNovelty::Same, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[3])), (None, 2));
}

/// A finding that a run did not check is neither confirmed nor resolved.
#[test]
fn unchecked_finding_is_neither_new_nor_resolved() {
    for saw in [Saw::Unknown, Saw::UnknownRecipe, Saw::Silence, Saw::Elsewhere, Saw::Ignored] {
        let mut story = Story(Vec::new());
        story.tell(&Saw::Value("0600"), T[0]);
        assert_eq!(told(&story.tell(&saw, T[1])), (None, 0));
        let standing =
            if matches!(saw, Saw::Ignored) { (FindingNovelty::New, T[2], 1) } else { (FindingNovelty::Same, T[0], 1) };
        assert_eq!(told(&story.tell(&Saw::Value("0600"), T[2])), (Some(standing), 0));
    }
}

#[test]
fn finding_that_flaps_within_a_day_is_counted_as_one() {
    let mut story = Story(Vec::new());
    story.tell(&Saw::Value("0600"), T[0]);
    assert_eq!(told(&story.tell(&Saw::Nothing, T[1])), (None, 1));
    assert_eq!(told(&story.tell(&Saw::Value("0600"), T[2])), (Some((FindingNovelty::Again, T[0], 2)), 0));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[3])), (None, 1));
    assert_eq!(
        told(&story.tell(&Saw::Value("0600"), T[4])),
        (Some((FindingNovelty::New, T[4], 1)), 0),
        "two days later"
    );
}

/// The object matched when its step was applied: what differs now appeared later.
#[test]
fn finding_after_a_later_apply_is_another_occurrence() {
    let (before, between) = ("2026-11-21T08:59:00.5Z", "2026-11-21T09:10:00.7Z");
    let mut story = Story(Vec::new());
    assert_eq!(told(&story.tell(&Saw::Applied(before), T[0])), (Some((FindingNovelty::New, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Applied(between), T[1])), (Some((FindingNovelty::Again, T[1], 2)), 0));
    assert_eq!(told(&story.tell(&Saw::Applied(between), T[2])), (Some((FindingNovelty::Same, T[1], 2)), 0));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[3])), (None, 1));
    let again = story.tell(&Saw::Applied("2026-11-21T09:44:00Z"), "2026-11-21T10:00:00Z");
    assert_eq!(told(&again), (Some((FindingNovelty::Again, "2026-11-21T10:00:00Z", 3)), 0));
    let all = summarize_history("c", &story.entries(), None);
    let span =
        |known: &KnownFinding| (known.first_seen.clone(), known.resolved.clone().unwrap_or_default(), known.times);
    let spans: Vec<_> = all.resolved.iter().map(span).collect();
    assert_eq!(spans, [(T[1].into(), T[3].into(), 2), (T[0].into(), "2026-11-21T09:10:00Z".into(), 1)]);
    assert_eq!(all.open.iter().map(span).collect::<Vec<_>>(), [("2026-11-21T10:00:00Z".into(), String::new(), 3)]);
}

/// Times of findings are whole seconds: the finding of 09:00:00 appeared after the apply in that second.
#[test]
fn apply_in_the_second_of_its_finding_is_not_another_occurrence() {
    let (applied, again) = ("2026-11-21T09:00:00.3Z", "2026-11-21T09:00:00.8Z");
    let mut story = Story(Vec::new());
    assert_eq!(told(&story.tell(&Saw::Applied(applied), T[0])), (Some((FindingNovelty::New, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Applied(applied), T[1])), (Some((FindingNovelty::Same, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Applied(again), T[2])), (Some((FindingNovelty::Again, T[2], 2)), 0));
}

/// Only a host's records show what is no longer declared.
#[test]
fn finding_is_not_resolved_by_the_loss_of_records() {
    let mut story = Story(Vec::new());
    story.tell(&Saw::Undeclared, T[0]);
    assert_eq!(told(&story.tell(&Saw::NoRecords, T[1])), (None, 0));
    assert_eq!(told(&story.tell(&Saw::Undeclared, T[2])), (Some((FindingNovelty::Same, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[3])), (None, 1));
    // Another difference is observed on the object itself.
    let mut story = Story(Vec::new());
    story.tell(&Saw::Value("0600"), T[0]);
    assert_eq!(told(&story.tell(&Saw::NoRecords, T[1])), (None, 1));
}

#[test]
fn incomplete_lines_and_unknown_versions_are_skipped() {
    let mut story = Story(Vec::new());
    story.tell(&Saw::Value("0600"), T[0]);
    story.tell(&Saw::Value("0600"), T[1]);
    let half = story.0[1][..30].to_owned();
    let other = story.0[1].replacen("\"version\":1", "\"version\":9", 1);
    story.0 = vec![story.0[0].clone(), half, other, String::new()];
    assert_eq!(story.entries().len(), 1);
    assert_eq!(told(&story.tell(&Saw::Value("0600"), T[2])), (Some((FindingNovelty::Same, T[0], 1)), 0));
}

#[test]
fn first_entry_of_a_rotated_file_restores_open_findings() {
    let mut story = Story(Vec::new());
    story.tell(&Saw::Value("0600"), T[0]);
    let past = FindingHistory::from_entries(&story.entries());
    let (mut drift, found) = run(&Saw::Value("0600"), T[1]);
    let entry = compare_with_history(&mut drift, &past, &DetectionScope { admits: &|_, _| true, found: &found });
    let first = DriftHistoryEntry { before: Some(past.to_snapshot(T[1])), ..entry };
    let mut story = Story(vec![serde_json::to_string(&first).unwrap()]);
    assert_eq!(told(&story.tell(&Saw::Value("0600"), T[2])), (Some((FindingNovelty::Same, T[0], 1)), 0));
    assert_eq!(told(&story.tell(&Saw::Nothing, T[3])), (None, 1));
    let past = FindingHistory::from_entries(&story.entries());
    assert_eq!((past.to_snapshot(T[3]).recent.len(), past.to_snapshot(T[4]).recent.len()), (1, 0));
}

#[test]
fn history_summary_has_repair_time_and_top_hosts_and_steps() {
    let mut story = Story(Vec::new());
    for (saw, time) in [Saw::Value("1"), Saw::Nothing, Saw::Value("1"), Saw::Nothing, Saw::Value("1")].iter().zip(T) {
        story.tell(saw, time);
    }
    let all = summarize_history("c", &story.entries(), None);
    assert_eq!(all.runs.len(), 5);
    assert_eq!(
        all.runs.iter().map(|run| (run.findings, run.new, run.resolved, run.exit)).collect::<Vec<_>>(),
        [(1, 1, 0, 2), (0, 0, 1, 0), (1, 1, 0, 2), (0, 0, 1, 0), (1, 1, 0, 2)]
    );
    // Two repairs of 15 minutes each: flapping does not make the second one longer.
    assert_eq!(all.mean_time_to_repair_s, Some(900));
    assert_eq!((all.hosts[0].name.raw(), all.hosts[0].count), ("h", 3));
    assert_eq!((all.steps[0].name.raw(), all.steps[0].count), ("base/motd", 3));
    assert_eq!((all.open.len(), all.resolved.len()), (1, 2));
    let late = summarize_history("c", &story.entries(), Some(T[3].parse().unwrap()));
    assert_eq!((late.runs.len(), late.resolved.len(), late.open.len(), late.hosts[0].count), (2, 1, 1, 1));
    assert_eq!(summarize_history("c", &[], None).mean_time_to_repair_s, None);
}
