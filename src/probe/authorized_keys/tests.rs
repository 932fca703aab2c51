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

/// Reconstructed: the answer about the second account follows that of the first.
#[test]
fn unsearchable_directory_and_second_file_belong_to_their_account() {
    let row = |mode: &str, path: &str| format!("{mode}\x001\x001.0\x001.0\0u\0u\x001000\x001000\0{path}\0{path}\0");
    let homes = ["/home/a", "/home/b"].map(|home| {
        let file = |name: &str| row("8180", &format!("{home}/.ssh/{name}"));
        [row("41ed", home), row("41c0", &format!("{home}/.ssh")), file("authorized_keys"), file("authorized_keys2")]
    });
    let stdout = format!(
        "user\0a\x000\0a:x:1000:1000::/home/a:/bin/sh\0user\0b\x000\0b:x:1001:1001::/home/b:/bin/sh\0\
         unsearchable\0b\0/home\0{}errors\0\0sums\0\0body\x000\0YQ==\0body\x001\0Yg==\0body\x002\0YTI=\0body\x003\0YjI=\0",
        homes.concat().concat()
    );
    let texts: Vec<_> = ask(&["a", "b"], &printed(&stdout))
        .into_iter()
        .map(|state| {
            let Ok(AuthorizedKeysState::Account(info)) = state else { panic!("{state:?}") };
            let body = |state| there(state).body.as_ref().map(|body| body.raw().to_owned());
            (body(&info.file), body(&info.second_file), info.unsearchable)
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(texts, [(text("a"), text("a2"), None), (text("b"), text("b2"), text("/home"))]);
}
