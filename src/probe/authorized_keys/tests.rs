//! Tests that parse recorded answers about keys of accounts.

use super::*;
use crate::probe::section::SectionEnd;
use crate::probe::section::testing::{answers, printed, recorded};
use crate::probe::{PathInfo, PathType, UnansweredReason};

fn ask(users: &[&str], raw: &SectionOutput) -> Vec<Result<AuthorizedKeysState, UnansweredReason>> {
    let probe = |user: &&str| Probe::AuthorizedKeys { user: (*user).to_owned() };
    let section = build_section(users.iter().map(probe).collect()).unwrap();
    let seen = answers(&section, raw);
    let state = |user| match seen.get(&probe(user)) {
        Ok(ProbeReading::AuthorizedKeys(state)) => Ok(state.clone()),
        Ok(other) => panic!("{other:?}"),
        Err(unknown) => Err(unknown),
    };
    users.iter().map(state).collect()
}

fn fixture() -> SectionOutput {
    recorded(include_str!("../../../tests/fixtures/probe/keys.txt"))
}

fn there(state: &PathState) -> &PathInfo {
    match state {
        PathState::Present(info) => info,
        PathState::Absent => panic!("absent"),
    }
}

#[test]
fn homes_directories_and_files_match_their_accounts() {
    let states = ask(&["admin", "none", "plain"], &fixture());
    let Ok(AuthorizedKeysState::Account(admin)) = &states[0] else { panic!("{states:?}") };
    assert_eq!((admin.home.as_str(), there(&admin.home_at).kind), ("/home/admin", PathType::Directory));
    assert_eq!((there(&admin.folder).mode, there(&admin.folder).owner.raw()), (0o700, "admin"));
    let body = there(&admin.file).body.as_ref().unwrap();
    assert!(body.raw().starts_with("ssh-ed25519 ") && there(&admin.file).sha256.is_some());
    assert_eq!(states[1], Ok(AuthorizedKeysState::NoAccount));
    let Ok(AuthorizedKeysState::Account(plain)) = &states[2] else { panic!("{states:?}") };
    assert_eq!((&plain.folder, &plain.file), (&PathState::Absent, &PathState::Absent));
}

#[test]
fn missing_answer_is_unknown() {
    let whole = fixture();
    let cut = whole.stdout.windows(7).position(|w| w == b"errors\0").expect("is in it");
    let cut = SectionOutput { end: SectionEnd::TimedOut, stdout: whole.stdout[..cut].to_vec(), ..printed("") };
    let late = UnansweredReason::new("timed out after 20 s");
    assert_eq!(ask(&["plain", "none"], &cut), [Err(late), Ok(AuthorizedKeysState::NoAccount)]);
    let failed = printed("user\0x\x001\0\0");
    assert_eq!(ask(&["x"], &failed), [Err(UnansweredReason::new("`getent` returned no answer").with_message(""))]);
}
