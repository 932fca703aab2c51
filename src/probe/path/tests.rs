//! Tests that parse recorded answers about paths.

use super::*;
use crate::probe::section::SectionEnd;
use crate::probe::section::testing::{answers, printed, recorded};

fn fixture() -> SectionOutput {
    recorded(include_str!("../../../tests/fixtures/probe/path.txt"))
}

fn all(probes: &[(&str, Option<&str>)], raw: &SectionOutput) -> Vec<Result<ProbeReading, UnansweredReason>> {
    let probe =
        |(path, want): &(&str, Option<&str>)| Probe::Path { path: (*path).into(), want: want.map(str::to_owned) };
    let probes: Vec<Probe> = probes.iter().map(probe).collect();
    let section = build_sections(probes.clone()).remove(0);
    let seen = answers(&section, raw);
    probes.iter().map(|probe| seen.get(probe).cloned()).collect()
}

fn one(path: &str, raw: &SectionOutput) -> Result<PathInfo, UnansweredReason> {
    match all(&[(path, None)], raw).remove(0)? {
        ProbeReading::Path(PathState::Present(info)) => Ok(*info),
        other => panic!("{other:?}"),
    }
}

const ABSENT: ProbeReading = ProbeReading::Path(PathState::Absent);

#[test]
fn files_directories_symlinks_and_devices_are_parsed() {
    let raw = fixture();
    let passwd = one("/etc/passwd", &raw).expect("there");
    let expected = PathInfo {
        kind: PathType::File,
        owner: "root".into(),
        group: "root".into(),
        mode: 0o644,
        size: 1184,
        mtime: 1_795_255_646.212_576_9,
        ctime: 1_795_255_646.212_576_9,
        sha256: Some("773cff1c9fd1755fc627f16d86d13b7bbec2df690066a9b27ff135645a61bf5e".into()),
        body: None,
        target: None,
        dangling: false,
    };
    assert!((passwd.ctime - expected.ctime).abs() < 1e-6);
    assert_eq!(passwd, PathInfo { ctime: passwd.ctime, mtime: passwd.mtime, ..expected });
    let kind = |path| one(path, &raw).map(|info| (info.kind, info.mode));
    assert_eq!(kind("/etc"), Ok((PathType::Directory, 0o755)));
    assert_eq!(kind("/dev/null"), Ok((PathType::Other, 0o666)));
    let link = one("/etc/localtime", &raw).expect("there");
    assert_eq!((link.kind, link.target), (PathType::Symlink, Some("/usr/share/zoneinfo/Etc/UTC".into())));
    assert_eq!(one("/tmp/link", &raw).expect("there").target, Some("to -> x".into()));
}

#[test]
fn paths_escaped_by_sha256sum_keep_their_digest() {
    let raw = fixture();
    for path in ["/tmp/b\\s", "/tmp/q'u", "/tmp/li\nne"] {
        assert!(one(path, &raw).expect("there").sha256.is_some(), "{path:?}");
    }
}

#[test]
fn body_is_assigned_only_to_the_probe_that_wanted_it() {
    let wants = [("/etc/nope", None), ("/tmp/li\nne", Some("0"))];
    let answers = all(&wants, &fixture());
    assert_eq!(answers[0], Ok(ABSENT));
    let Ok(ProbeReading::Path(PathState::Present(info))) = &answers[1] else { panic!() };
    assert_eq!(info.body, Some("x".into()));
    let same = all(&[("/tmp/li\nne", info.sha256.as_deref())], &fixture());
    let Ok(ProbeReading::Path(PathState::Present(info))) = &same[0] else { panic!() };
    assert_eq!(info.body, None, "a matching file has no diff");
}

#[test]
fn absent_path_is_distinguished_from_permission_denied() {
    let said =
        |errors: &str, path: &str| PathErrors::parse(errors).explain_missing(path).map_err(|unknown| unknown.why);
    let gone = "stat: cannot statx '/a': No such file or directory\nstat: cannot statx '/b/c': Not a directory";
    assert_eq!(said(gone, "/a"), Ok(()));
    assert_eq!(said(gone, "/b/c"), Ok(()));
    assert_eq!(said(gone, "/li\nne"), Ok(()), "spelled differently, but all of them are missing");
    let both = format!("{gone}\nstat: cannot statx '/root/x': Permission denied");
    assert_eq!(said(&both, "/a"), Ok(()));
    assert_eq!(said(&both, "/root/x"), Err("permission denied".into()));
    assert_eq!(said(&both, "/li\nne"), Err("`stat` could not read it".into()));
    assert_eq!(said("", "/a"), Err("`stat` could not read it".into()));
}

#[test]
fn first_line_about_a_missing_path_counts() {
    let said =
        |errors: &str, path: &str| PathErrors::parse(errors).explain_missing(path).map_err(|unknown| unknown.why);
    let denied = "stat: cannot statx '/a': Permission denied";
    let gone = "stat: cannot statx '/a': No such file or directory";
    // A name with a quote of its own.
    let quoted = "stat: cannot statx '/it's/'/a': No such file or directory";
    for (errors, expected) in [
        (format!("{denied}\n{gone}"), Err("permission denied".to_owned())),
        (format!("{gone}\n{denied}"), Ok(())),
        (format!("{quoted}\n{denied}"), Ok(())),
        (format!("{denied}\n{quoted}"), Err("permission denied".to_owned())),
    ] {
        assert_eq!(said(&errors, "/a"), expected, "{errors}");
    }
    assert_eq!(said(&format!("{denied}\n{quoted}"), "/it's/'/a"), Ok(()));
}

#[test]
fn answers_received_before_a_timeout_are_kept() {
    let whole = fixture();
    let at = |text: &str| whole.stdout.windows(text.len()).position(|w| w == text.as_bytes()).expect("is in it");
    let cut =
        |end: usize| SectionOutput { end: SectionEnd::TimedOut, stdout: whole.stdout[..end].to_vec(), ..printed("") };
    let late = UnansweredReason::new("timed out after 20 s");
    assert_eq!(one("/etc/passwd", &cut(at("sums\0"))), Err(late.clone()), "its digest is missing");
    assert!(one("/etc", &cut(at("sums\0"))).is_ok(), "a folder has no digest");
    assert_eq!(all(&[("/etc/nope", None)], &cut(at("errors\0"))), [Err(late)]);
    assert_eq!(all(&[("/etc/nope", None)], &cut(at("sums\0"))), [Ok(ABSENT)]);
}

#[test]
fn owner_without_a_name_is_reported_as_uid() {
    let row = "81a4\x005\x001.5\x002.5\x00UNKNOWN\x00UNKNOWN\x001234\x0077\x00/x\x00/x\x00errors\x00\x00sums\x00\x00";
    let info = one("/x", &printed(row)).expect("there");
    assert_eq!((info.owner.raw(), info.group.raw(), info.mtime, info.ctime), ("1234", "77", 1.5, 2.5));
    assert_eq!(info.sha256, None, "it could not be read");
}

/// Reconstructed.
#[test]
fn dangling_symlink_is_marked() {
    let row = |path: &str| format!("a1ff\x007\x001.0\x001.0\0root\0root\x000\x000\0{path}\0{path} -> to\0");
    let raw = printed(format!("{}{}errors\0\0dangling\0/b\0sums\0\0", row("/a"), row("/b")));
    assert_eq!(["/a", "/b"].map(|path| one(path, &raw).map(|info| info.dangling)), [Ok(false), Ok(true)]);
}
