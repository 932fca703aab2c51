//! Tests that parse recorded answers about keys of accounts.

use super::*;
use crate::probe::section::End;
use crate::probe::section::testing::{answers, printed, recorded};
use crate::probe::{PathInfo, PathType, Unknown};

fn ask(users: &[&str], raw: &Raw) -> Vec<Result<KeysState, Unknown>> {
    let probe = |user: &&str| Probe::AuthorizedKeys { user: (*user).to_owned() };
    let section = section(users.iter().map(probe).collect()).unwrap();
    let seen = answers(&section, raw);
    let state = |user| match seen.get(&probe(user)) {
        Ok(Reading::AuthorizedKeys(state)) => Ok(state.clone()),
        Ok(other) => panic!("{other:?}"),
        Err(unknown) => Err(unknown),
    };
    users.iter().map(state).collect()
}

fn fixture() -> Raw {
    recorded(include_str!("../../../tests/fixtures/probe/keys.txt"))
}

fn there(state: &PathState) -> &PathInfo {
    match state {
        PathState::Present(info) => info,
        PathState::Absent => panic!("absent"),
    }
}

#[test]
fn homes_folders_and_bodies_go_to_their_accounts() {
    let states = ask(&["admin", "none", "plain"], &fixture());
    let Ok(KeysState::Account(admin)) = &states[0] else { panic!("{states:?}") };
    assert_eq!((admin.home.as_str(), there(&admin.home_at).kind), ("/home/admin", PathType::Directory));
    assert_eq!((there(&admin.folder).mode, there(&admin.folder).owner.raw()), (0o700, "admin"));
    let body = there(&admin.file).body.as_ref().unwrap();
    assert!(body.raw().starts_with("ssh-ed25519 ") && there(&admin.file).sha256.is_some());
    assert_eq!(states[1], Ok(KeysState::NoAccount));
    let Ok(KeysState::Account(plain)) = &states[2] else { panic!("{states:?}") };
    assert_eq!((&plain.folder, &plain.file), (&PathState::Absent, &PathState::Absent));
}

#[test]
fn what_did_not_come_is_unknown() {
    let whole = fixture();
    let cut = whole.stdout.windows(7).position(|w| w == b"errors\0").expect("is in it");
    let cut = Raw { end: End::TimedOut, stdout: whole.stdout[..cut].to_vec(), ..printed("") };
    let late = Unknown::new("timed out after 20 s");
    assert_eq!(ask(&["plain", "none"], &cut), [Err(late), Ok(KeysState::NoAccount)]);
    let failed = printed("user\0x\x001\0\0");
    assert_eq!(ask(&["x"], &failed), [Err(Unknown::new("`getent` returned no answer").said(""))]);
}
