//! Tests that parse recorded answers about a recipe's own checks.

use super::*;
use crate::probe::section::testing::{answers, printed};

fn probe(user: Option<&str>) -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: "a".into(),
        script: "true".into(),
        user: user.map(str::to_owned),
        cwd: None,
        env: vec![],
        timeout_s: Some(7),
    }))
}

fn one(user: Option<&str>, raw: &SectionOutput) -> Result<ProbeOutput, UnansweredReason> {
    read(user, ProbeCheckOptions::default(), raw)
}

fn read(user: Option<&str>, checks: ProbeCheckOptions, raw: &SectionOutput) -> Result<ProbeOutput, UnansweredReason> {
    let probe = probe(user);
    let seen = answers(&build_section(&probe, checks).expect("a check"), raw);
    seen.get(&probe).map(|reading| match reading {
        ProbeReading::Output(output) => output.clone(),
        other => panic!("{other:?}"),
    })
}

#[test]
fn exit_code_of_the_check_is_returned() {
    let raw = SectionOutput { end: SectionEnd::Exited(3), stderr: b"err".to_vec(), ..printed("out") };
    let expected = ProbeOutput { status: 3, stdout: "out".into(), stderr: "err".into(), truncated: false };
    assert_eq!(one(None, &raw), Ok(expected));
}

#[test]
fn check_that_cannot_start_or_finish_is_unknown() {
    assert_eq!(
        one(None, &SectionOutput { end: SectionEnd::TimedOut, ..printed("") }),
        Err(UnansweredReason::new("timed out after 7 s"))
    );
    let unbegun =
        |stderr: &str| SectionOutput { end: SectionEnd::Exited(1), began: false, stderr: stderr.into(), ..printed("") };
    assert_eq!(one(Some("eve"), &unbegun("forge-no-user\n")), Err(UnansweredReason::new("user `eve` does not exist")));
    assert_eq!(one(Some("eve"), &unbegun("forge-missing setpriv\n")), Err(UnansweredReason::missing_tool("setpriv")));
    let said = UnansweredReason::new("the check could not be started").with_message("sh: cd: can't cd to /x");
    assert_eq!(one(None, &unbegun("sh: cd: can't cd to /x\n")), Err(said));
}

#[test]
fn default_timeout_applies_to_checks_without_their_own() {
    let limit = |timeout_s| {
        let Probe::Check(check) = probe(None) else { unreachable!() };
        build_section(&Probe::Check(Box::new(CheckProbe { timeout_s, ..*check })), Some(Duration::from_secs(5)).into())
            .expect("a check")
            .timeout_s
    };
    assert_eq!((limit(None), limit(Some(7))), (5, 7));
}

#[test]
fn check_is_unknown_where_confinement_fails() {
    let unbegun =
        |stderr: &str| SectionOutput { end: SectionEnd::Exited(1), began: false, stderr: stderr.into(), ..printed("") };
    let why = "unconfined: the host cannot run the check without write access";
    for (stderr, said) in [
        ("forge-unconfined `unshare` is missing\n", "`unshare` is missing"),
        ("unshare: unshare failed: Operation not permitted\n", "unshare failed: Operation not permitted"),
    ] {
        assert_eq!(one(None, &unbegun(stderr)), Err(UnansweredReason::new(why).with_message(said)));
    }
    let text = format!(
        "{:?}",
        build_section(&probe(None), ProbeCheckOptions { confined: true, limit: None }).expect("a check").body
    );
    assert!(text.contains("remount,bind,ro"), "{text}");
}

/// Outside of the view the same check may succeed.
#[test]
fn check_that_cannot_write_in_the_view_is_unknown() {
    let stderr = "touch: cannot touch '/srv/.probe': Read-only file system\n";
    let ended = |status| SectionOutput { end: SectionEnd::Exited(status), stderr: stderr.into(), ..printed("") };
    let confined = ProbeCheckOptions { confined: true, limit: None };
    let why =
        "the check exited with 1 after a write was refused; forge runs it in a read-only view, so it must not write";
    assert_eq!(read(None, confined, &ended(1)), Err(UnansweredReason::new(why).with_message(stderr)));
    assert_eq!(read(None, confined, &ended(0)).map(|output| output.status), Ok(0));
    assert_eq!(one(None, &ended(1)).map(|output| output.status), Ok(1), "the host's own file system");
}
