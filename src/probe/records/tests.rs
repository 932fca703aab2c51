//! Tests that parse recorded answers about applied records.

use super::*;
use crate::probe::UnansweredReason;
use crate::probe::section::testing::{answers, printed, recorded};

fn one(raw: &SectionOutput) -> Result<RecordsState, UnansweredReason> {
    let seen = answers(&build_section(vec![Probe::Records]).expect("a section"), raw);
    seen.get(&Probe::Records).map(|reading| match reading {
        ProbeReading::Records(state) => RecordsState::clone(state),
        other => panic!("{other:?}"),
    })
}

#[test]
fn records_key_and_running_units_are_parsed() {
    let state = one(&recorded(include_str!("../../../tests/fixtures/probe/records.txt"))).expect("known");
    let record = |name: &str| state.records.get(name).map(UntrustedText::raw);
    assert_eq!(record("b.json"), Some("{\"b\":2}\n"));
    assert_eq!(record("r%2Fa.json"), Some("{\n \"a\": 1}\n"), "lines keep their order");
    assert_eq!(record("empty.json"), Some(""), "an empty record is not a missing record");
    assert_eq!(state.records.len(), 3);
    assert_eq!(state.key, Some("ab".repeat(32)));
    let started = UntrustedText::from("Sat 2026-11-21 10:07:26 UTC");
    assert_eq!(state.running, [("forge-run-1.service".to_owned(), started)], "a packaged service is not a forge step");
    assert!(!format!("{state:?}").contains("abab"), "the key is not shown");
}

#[test]
fn host_without_records_has_an_empty_state() {
    assert_eq!(one(&printed("key\0\0units\0\0lines\0")), Ok(RecordsState::default()));
}

#[test]
fn hold_is_read_with_the_clock_of_the_host() {
    let held = |printed_text: &str| one(&printed(printed_text)).expect("known").hold;
    let mark = |now| Some(HoldMark { text: "{\"why\":\"x\"}".into(), now });
    assert_eq!(held("key\0\0units\0\0hold\0{\"why\":\"x\"}\x001764072000\0lines\0"), mark(Some(1_764_072_000)));
    assert_eq!(held("key\0\0units\0\0hold\0{\"why\":\"x\"}\0\0lines\0"), mark(None), "a host without `date`");
}

#[test]
fn run_that_holds_the_lock_is_read() {
    let text = "run: r1\nby: ops@admin (pid 8)\nsince: today\nwhat: forge apply a.yaml\n";
    let state = one(&printed(format!("key\0\0units\0\0writer\0{text}\0lines\0"))).expect("known");
    let described = state.writer.map(|writer| writer.describe());
    assert_eq!(described.as_deref(), Some("`forge apply a.yaml` by ops@admin (pid 8), since today, run r1"));
    let unread = one(&printed("key\0\0units\0\0writer\0\0lines\0")).expect("known");
    assert_eq!(unread.writer, None, "it has just begun or ended");
}

#[test]
fn guards_are_read_with_run_time_and_steps() {
    let printed_text =
        "key\0\0units\0\0guard\0restored\x0020261121T093015-4f2a-0003\x005m\0base/a\nbase/b[x y]\0lines\0";
    let guards = one(&printed(printed_text)).expect("known").guards;
    let steps = vec!["base/a".into(), "base/b[x y]".into()];
    let run = "20261121T093015-4f2a".into();
    assert_eq!(guards, [GuardTrace { state: GuardState::Restored, run, steps, time: "5m".into() }]);
    assert!(one(&printed("key\0\0units\0\0guard\0gone\0a-1\x005m\0b/c\0lines\0")).is_err());
}

#[test]
fn truncated_or_denied_answer_is_unknown() {
    assert_eq!(one(&printed("key\0\0units\0\0record\0a.js")).expect_err("cut").why, "the records returned no answer");
    let mut raw = printed("");
    raw.end = SectionEnd::Exited(1);
    raw.stderr = b"/var/lib/forge/applied: Permission denied\n".to_vec();
    let unknown = one(&raw).expect_err("refused");
    assert_eq!(unknown.why, "the records failed with status 1");
    assert_eq!(unknown.said, Some("/var/lib/forge/applied: Permission denied".into()));
}

#[test]
fn key_of_wrong_length_is_ignored() {
    assert_eq!(one(&printed("key\0abcd\0units\0\0lines\0")).map(|state| state.key), Ok(None));
}

#[test]
fn account_is_known_even_if_records_are_unreadable() {
    let of = |raw: &SectionOutput| {
        let seen = answers(&build_section(vec![Probe::Records, Probe::Account]).expect("a section"), raw);
        (seen.get(&Probe::Records).is_ok(), seen.get(&Probe::Account).cloned())
    };
    let account = |account| Ok(ProbeReading::Account(account));
    assert_eq!(of(&printed("account\0\0key\0\0units\0\0lines\0")), (true, account(ScriptAccount::Root)));
    assert_eq!(of(&printed("account\0/\0key\0\0units\0\0lines\0")).1, account(ScriptAccount::Isolated));
    let refused = SectionOutput { end: SectionEnd::Exited(1), ..printed("account\0plain\0") };
    assert_eq!(of(&refused), (false, account(ScriptAccount::Other("plain".into()))));
    assert!(of(&printed("acc")).1.is_err(), "a truncated answer is not an answer");
}
