//! sudo's journal entries: recorded on a node, and forged.

use super::super::journal;
use super::*;
use proptest::prelude::*;

const RECORDED: &str = include_str!("../../../../tests/samples/culprit/journal.jsonl");

fn users() -> BTreeMap<String, String> {
    [("0", "root"), ("1000", "admin"), ("1001", "deploy"), ("1002", "plain")]
        .map(|(uid, name)| (uid.to_owned(), name.to_owned()))
        .into()
}

fn entry(uid: &str, exe: &str, message: &str) -> SystemJournalEntry {
    SystemJournalEntry {
        time: Timestamp::UNIX_EPOCH,
        boot: "b".into(),
        pid: "7".into(),
        uid: uid.into(),
        comm: "sudo".into(),
        exe: exe.into(),
        identifier: String::new(),
        unit: String::new(),
        job: String::new(),
        result: String::new(),
        message: message.into(),
    }
}

fn one(message: &str) -> Option<SudoCommand> {
    parse_commands(&[entry("1001", "/usr/bin/sudo", message)], &users()).pop()
}

#[test]
fn recorded_sudo_journal_is_parsed() {
    let all = parse_commands(&journal::parse_entries(RECORDED), &users());
    let told = all.iter().map(|sudo| {
        let took =
            sudo.ended.map_or("open".to_owned(), |end| format!("{} s", end.as_second() - sudo.began.as_second()));
        format!("{} {} {took} in {}: {}", clock::format_time(sudo.began), sudo.user, sudo.cwd, sudo.command_line())
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn commands_refused_by_sudo_are_ignored() {
    for refused in [
        "deploy : 3 incorrect password attempts ; TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/rm /etc/motd",
        "deploy : command not allowed ; TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/rm /etc/motd",
        "deploy : user NOT in sudoers ; PWD=/ ; USER=root ; COMMAND=/usr/bin/rm /etc/motd",
        "deploy : a password is required ; PWD=/ ; USER=root ; COMMAND=/usr/bin/rm /etc/motd",
        "pam_unix(sudo:auth): authentication failure; logname= uid=1001 euid=0",
    ] {
        assert_eq!(one(refused), None, "{refused}");
    }
}

/// An entry does not count unless its writer is sudo, or the account in the entry.
#[test]
fn forged_sudo_entry_is_ignored() {
    let message = "admin : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/rm /etc/motd";
    let of = |uid: &str, exe: &str| parse_commands(&[entry(uid, exe, message)], &users()).len();
    assert_eq!(of("1002", "/home/plain/sudo"), 0);
    // A process that executes sudo right after writing has sudo's program.
    assert_eq!(of("1002", "/usr/bin/sudo"), 0);
    assert_eq!(of("0", "/usr/bin/logger"), 0);
    assert_eq!(of("4711", "/usr/bin/sudo"), 0);
    assert_eq!((of("1000", "/usr/bin/sudo"), of("0", "/usr/bin/sudo")), (1, 1));
    let other = SystemJournalEntry { comm: "logger".into(), ..entry("0", "/usr/bin/sudo", message) };
    assert_eq!(parse_commands(&[other], &users()), []);
}

#[test]
fn relative_paths_and_paths_inside_scripts_are_recognized() {
    let names = |command: &str| {
        one(&format!("deploy : PWD=/etc ; USER=root ; COMMAND={command}")).unwrap().mentions_path("/etc/motd")
    };
    for yes in [
        "/usr/bin/vim /etc/motd",
        "/usr/bin/tee motd",
        "/usr/bin/vim ./motd",
        "/usr/bin/vim ../etc//motd",
        "/usr/bin/sh -c 'echo hi >/etc/motd'",
        "/usr/bin/dd of=/etc/motd",
    ] {
        assert!(names(yes), "{yes}");
    }
    for no in ["/etc/motd", "/usr/bin/vim /etc/motd.d", "/usr/bin/vim /srv/etc/motd", "/usr/bin/vim motd/x"] {
        assert!(!names(no), "{no}");
    }
}

#[test]
fn command_covers_only_its_running_time() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let run = |command: &str, ended: Option<i64>| SudoCommand {
        ended: ended.map(at),
        ..one(&format!("deploy : PWD=/ ; USER=root ; COMMAND={command}")).unwrap()
    };
    assert!(
        run("/usr/bin/vim /x", Some(10)).covers_time(at(11)) && !run("/usr/bin/vim /x", Some(10)).covers_time(at(12))
    );
    assert!(
        !run("/usr/bin/vim /x", Some(10)).covers_time(at(-2)) && run("/usr/bin/vim /x", Some(10)).covers_time(at(-1))
    );
    assert!(run("/usr/bin/vim /x", None).covers_time(at(9999)) && run("/usr/bin/bash", None).covers_time(at(9999)));
    assert!(run("/usr/bin/tee /x", None).covers_time(at(60)) && !run("/usr/bin/tee /x", None).covers_time(at(61)));
    assert!(!run("/usr/bin/bash -c true", None).covers_time(at(61)));
}

/// An editor that was open when the host went down does not count as open afterwards.
#[test]
fn open_command_ends_with_its_boot() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let opened = entry("1001", "/usr/bin/sudo", "deploy : PWD=/ ; USER=root ; COMMAND=/usr/bin/vim /x");
    let said = |boot: &str, seconds| SystemJournalEntry {
        boot: boot.into(),
        time: at(seconds),
        message: "x".into(),
        ..opened.clone()
    };
    let all = parse_commands(&[opened.clone(), said("b", 50), said("c", 90)], &users());
    assert!(all[0].covers_time(at(51)) && !all[0].covers_time(at(52)));
}

#[test]
fn octal_escapes_of_sudo_are_decoded() {
    assert_eq!(unescape_octal("a#012b #33 #1 #"), "a\nb #33 #1 #");
    assert_eq!(unescape_octal("#777 #é01"), "#777 #é01");
}

#[test]
fn continued_command_lines_are_joined() {
    let said = |message: &str| entry("1001", "/usr/bin/sudo", message);
    let first = said("deploy : PWD=/ ; USER=root ; COMMAND=/usr/bin/tee /a");
    let all = parse_commands(&[first, said("  deploy : (command continued) /etc/motd")], &users());
    assert_eq!(
        (all.len(), all[0].mentions_path("/etc/motd"), all[0].command_line().as_str()),
        (1, true, "tee /a /etc/motd")
    );
}

#[test]
fn sessions_of_forge_are_ignored() {
    let own = r#"deploy : PWD=/ ; USER=root ; COMMAND=/usr/bin/sh -c 'm=$1; printf \'\\001%s<\' "$m"; sh -s' forge 6362d719183d7b38"#;
    assert_eq!(one(own), None);
    assert!(one(&own.replace("m=$1; ", "")).is_some());
}

/// Output of sudo 1.9.13 on a node.
#[test]
fn quoted_sudo_command_lines_are_split_into_words() {
    let of = |text: &str| split_words(text).join("|");
    assert_eq!(
        of(r#"/usr/bin/sh -c 'echo "a b" $1' x 'with  space'"#),
        r#"/usr/bin/sh|-c|echo "a b" $1|x|with  space"#
    );
    assert_eq!(of(r#"/usr/bin/sh -c 'echo "it\'s" >>/etc/issue'"#), r#"/usr/bin/sh|-c|echo "it's" >>/etc/issue"#);
    assert_eq!(of(r"/usr/bin/printf a\\nb"), r"/usr/bin/printf|a\nb");
    assert_eq!((of("a 'b"), of("a b\\"), of("")), ("a|b".into(), "a|b".into(), String::new()));
}

proptest! {
    #[test]
    fn arbitrary_sudo_messages_do_not_break_the_parser(message in "\\PC*", command in "\\PC*") {
        let text = format!("deploy : PWD=/{message} ; USER=root ; COMMAND={command}");
        let sudo = parse_commands(&[entry("1001", "/usr/bin/sudo", &text), entry("1001", "", &message)], &users());
        prop_assert!(sudo.iter().all(|sudo| sudo.user == "deploy" || message.contains(" : ")));
        for sudo in &sudo {
            let _ = (sudo.command_line(), sudo.mentions_path(&message), sudo.tokens().count());
        }
    }
}
