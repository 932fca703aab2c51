//! Sequences of runs, and the news for a recipient who missed some of them.

use super::*;
use crate::drift::{DRIFT_VERSION, DriftCause, ENTRY_VERSION, FindingSeverity, history::DriftHistorySnapshot};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn known(step: &str, print: &str, times: u32, resolved: Option<&str>) -> KnownFinding {
    KnownFinding {
        host: HostName::new("h"),
        recipe: "base".into(),
        step: step.into(),
        attribute: None,
        cause: DriftCause::MachineChanged,
        severity: FindingSeverity::Medium,
        first_seen: TIME.into(),
        since: TIME.into(),
        applied: None,
        times,
        print: print.into(),
        resolved: resolved.map(str::to_owned),
    }
}

const TIME: &str = "2026-11-21T09:00:00Z";

/// A run: `+a` new, `~a` changed, `-a` resolved, `=a` ignored from now on, `*a` reappeared.
fn run(name: &str, time: &str, words: &[&str]) -> DriftHistoryEntry {
    let mut entry = DriftHistoryEntry {
        version: ENTRY_VERSION,
        run: name.into(),
        time: time.into(),
        took_ms: 1,
        hosts: 1,
        missed: vec![],
        findings: 0,
        unknown: 0,
        exit: 0,
        before: None,
        new: vec![],
        changed: vec![],
        resolved: vec![],
        dropped: vec![],
    };
    for word in words {
        let step = &word[1..];
        match &word[..1] {
            "+" => entry.new.push(known(step, "1", 1, None)),
            "*" => entry.new.push(known(step, "1", 2, None)),
            "~" => entry.changed.push(known(step, "2", 1, None)),
            "-" => entry.resolved.push(known(step, "1", 1, Some(time))),
            "/" => entry.resolved.push(known(step, "1", 2, Some(time))),
            _ => entry.dropped.push(known(step, "1", 1, None)),
        }
    }
    entry
}

fn drift() -> DriftReport {
    DriftReport {
        version: DRIFT_VERSION,
        forge: String::new(),
        run: "r".into(),
        cluster: "lab".into(),
        inventory: String::new(),
        time: TIME.into(),
        simulated: vec![],
        hosts: vec![],
        findings: vec![],
        unknown: vec![],
        resolved: vec![],
        ignored: vec![],
        ignored_steps: Default::default(),
        no_history: None,
        notified: vec![],
        outliers: None,
        outliers_count: false,
        took: std::time::Duration::ZERO,
    }
}

fn runs(list: &[&[&str]]) -> Vec<DriftHistoryEntry> {
    list.iter().enumerate().map(|(at, words)| run(&format!("r{}", at + 1), TIME, words)).collect()
}

/// Formats the news: `+a ~b -c`, and the numbers of open and passed findings.
fn said(entries: &[DriftHistoryEntry], told: &str) -> String {
    match build_notice(entries, told, &drift()) {
        NoticeDecision::Nothing => "nothing".to_owned(),
        NoticeDecision::Waiting => "waiting".to_owned(),
        NoticeDecision::Tell(notice) => {
            let words = |sign: &str, items: &[DriftNoticeItem]| -> Vec<String> {
                items.iter().map(|item| format!("{sign}{}", item.known.step.raw())).collect()
            };
            let all = [words("+", &notice.new), words("~", &notice.changed), words("-", &notice.resolved)].concat();
            format!("{}; {} open, {} passed", all.join(" "), notice.open, notice.passed)
        }
    }
}

#[test]
fn each_change_is_notified_once() {
    let entries = runs(&[&["+a"], &["+b", "~a"], &["-a"], &[]]);
    assert_eq!(said(&entries[..1], ""), "+a; 1 open, 0 passed");
    assert_eq!(said(&entries[..2], "r1"), "+b ~a; 2 open, 0 passed");
    assert_eq!(said(&entries[..3], "r2"), "-a; 1 open, 0 passed");
    assert_eq!(said(&entries, "r3"), "nothing");
    assert_eq!(said(&entries, "r4"), "nothing");
    assert_eq!(said(&[], ""), "nothing");
}

#[test]
fn missed_notices_are_merged_into_the_next_one() {
    let entries = runs(&[&["+a"], &["+b"], &["~a", "+c"], &["-c", "=b"]]);
    assert_eq!(said(&entries, "r1"), "~a; 1 open, 1 passed", "an ignored finding is not resolved");
    assert_eq!(said(&entries, ""), "+a; 1 open, 1 passed");
}

#[test]
fn flapping_finding_is_resolved_only_after_staying_away() {
    let mut entries = runs(&[&["+a"], &["-a"], &["*a"], &["/a"]]);
    assert_eq!(said(&entries[..3], "r2"), "+a; 1 open, 0 passed");
    assert_eq!(said(&entries, "r3"), "waiting");
    entries.push(run("r5", "2026-11-22T08:00:00Z", &[]));
    assert_eq!(said(&entries, "r3"), "waiting");
    entries.push(run("r6", "2026-11-22T10:00:00Z", &[]));
    assert_eq!(said(&entries, "r3"), "-a; 0 open, 0 passed");
    // With other news it is included immediately.
    entries[3].new.push(known("b", "1", 1, None));
    assert_eq!(said(&entries[..4], "r3"), "+b -a; 1 open, 0 passed");
}

#[test]
fn forgotten_run_keeps_findings_of_its_snapshot_open() {
    let mut entries = runs(&[&["+b"]]);
    entries[0].before = Some(DriftHistorySnapshot { open: vec![known("a", "1", 1, None)], recent: vec![] });
    assert_eq!(said(&entries, "long ago"), "+b; 2 open, 0 passed");
}

proptest! {
    /// Whichever notifications succeed, the recipient ends up with the open findings, without losses or duplicates.
    #[test]
    fn notices_sum_up_to_the_open_findings(steps in prop::collection::vec((0usize..3, any::<bool>()), 1..20)) {
        let (mut open, mut told, mut cursor) = (BTreeSet::new(), BTreeSet::new(), String::new());
        let mut entries = Vec::new();
        for (at, (step, works)) in steps.into_iter().enumerate() {
            let name = ["a", "b", "c"][step];
            let word = if open.remove(name) { format!("-{name}") } else { open.insert(name); format!("+{name}") };
            entries.push(run(&format!("r{at}"), TIME, &[&word]));
            let NoticeDecision::Tell(notice) = build_notice(&entries, &cursor, &drift()) else {
                // Findings that appeared and disappeared in between are not news.
                prop_assert_eq!(&told, &open.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
                continue;
            };
            if works {
                for item in &notice.new {
                    prop_assert!(told.insert(item.known.step.raw().to_owned()), "told twice");
                }
                for item in &notice.resolved {
                    prop_assert!(told.remove(item.known.step.raw()), "put right, and was never told");
                }
                cursor = format!("r{at}");
                prop_assert_eq!(&told, &open.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
            }
        }
    }
}
