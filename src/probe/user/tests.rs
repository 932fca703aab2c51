//! Tests that parse recorded answers about accounts.

use super::*;
use crate::probe::UnansweredReason;
use crate::probe::section::SectionEnd;
use crate::probe::section::testing::{answers, printed, recorded};

fn one(name: &str, raw: &SectionOutput) -> Result<UserState, UnansweredReason> {
    let probe = Probe::User { name: name.to_owned() };
    let seen = answers(&build_section(vec![probe.clone()]).expect("a section"), raw);
    seen.get(&probe).map(|reading| match reading {
        ProbeReading::User(state) => state.clone(),
        other => panic!("{other:?}"),
    })
}

#[test]
fn accounts_are_parsed_with_groups_and_lock_state() {
    let raw = recorded(include_str!("../../../tests/fixtures/probe/user.txt"));
    let alice = UserInfo {
        uid: 1003,
        gid: 1004,
        group: "alice".into(),
        gecos: "Alice A".into(),
        home: "/home/alice".into(),
        shell: "/bin/bash".into(),
        groups: vec!["adm".into(), "ops".into()],
        locked: Some(true),
        expired: false,
        ages: false,
        has_password: Some(false),
    };
    assert_eq!(one("alice", &raw), Ok(UserState::Present(Box::new(alice))));
    assert_eq!(one("not-here", &raw), Ok(UserState::Absent));
    let Ok(UserState::Present(nobody)) = one("nobody", &raw) else { panic!() };
    assert_eq!((nobody.group.as_str(), nobody.groups.len()), ("nogroup", 0));
}

#[test]
fn unreadable_shadow_file_leaves_lock_state_unknown() {
    let text = "passwd\x000\x00bob:x:1:2::/home/bob:/bin/sh\x00groups\x00bob\x00\x00bob\x00\x00:0\x00shadow\x00\x00";
    let Ok(UserState::Present(bob)) = one("bob", &printed(text)) else { panic!() };
    assert_eq!(bob.locked, None);
    let open = text.replace("shadow\0", "shadow\0bob:$y$j9T$x:1::::::");
    let Ok(UserState::Present(bob)) = one("bob", &printed(open)) else { panic!() };
    assert_eq!((bob.locked, bob.has_password), (Some(false), Some(true)));
    let shut = text.replace("shadow\0", "shadow\0bob:!$y$j9T$x:1::::::");
    let Ok(UserState::Present(bob)) = one("bob", &printed(shut)) else { panic!() };
    assert_eq!((bob.locked, bob.has_password), (Some(true), Some(true)));
}

#[test]
fn failed_or_truncated_answer_is_not_an_absent_account() {
    assert_eq!(
        one("bob", &printed("passwd\x001\x00\x00shadow\x00\x00")).expect_err("failed").why,
        "`getent` returned no answer"
    );
    let mut raw = printed("passwd\x002\x00bob:x:1:2::/:/bin/sh\x00groups\x00bob\x00\x00bob\x00\x00");
    raw.end = SectionEnd::TimedOut;
    assert_eq!(one("bob", &raw), Err(UnansweredReason::new("timed out after 20 s")));
    assert_eq!(one("eve", &raw), Ok(UserState::Absent), "that much had come");
}

#[test]
fn numeric_or_malformed_user_names_are_rejected() {
    assert!(["root", "_apt", "a.b", "alice@corp", "9lives"].into_iter().all(is_user_name));
    assert!(!["", "0", "-x", "a:b", "a b", "a\nb", "a/b", "a\0"].into_iter().any(is_user_name));
}

#[test]
fn users_are_queried_individually_if_the_batch_fails() {
    let text = "passwd\x000\x00bob:x:1:2::/:/bin/sh\nann:x:3:4::/:/bin/sh\x00groups\x00bob\x00ann\x00\x00:1\x00\
                groups\x00bob\x00\x00staff\x00domain users\x00\x00:0\x00groups\x00ann\x00\x00\x00:0\x00shadow\x00\x00";
    let Ok(UserState::Present(bob)) = one("bob", &printed(text)) else { panic!() };
    assert_eq!((bob.group.as_str(), bob.groups), ("staff", vec!["domain users".to_owned()]));
    assert_eq!(one("ann", &printed(text)).expect_err("`id` failed").why, "`getent` returned no answer");
}

#[test]
fn account_expires_on_its_day() {
    let line = "ops:!:19000:0:99999:7::20000:";
    assert!(has_expired(line, 20_000 * 86_400));
    assert!(!has_expired(line, 20_000 * 86_400 - 1));
    assert!(!has_expired("ops:!:19000:0:99999:7:::", 20_000 * 86_400));
}
