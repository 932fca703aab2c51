//! Archives, valid and malicious ones.

use super::*;
use base64::Engine as _;
use std::os::unix::fs::MetadataExt;

/// A member of an archive, as in its header.
struct ArchiveMember {
    name: &'static str,
    kind: u8,
    mode: u32,
    body: &'static str,
    target: &'static str,
}

const fn make_member(
    name: &'static str,
    kind: u8,
    mode: u32,
    body: &'static str,
    target: &'static str,
) -> ArchiveMember {
    ArchiveMember { name, kind, mode, body, target }
}

const fn file_member(name: &'static str) -> ArchiveMember {
    make_member(name, b'0', 0o644, "body\n", "")
}

const fn symlink_to(name: &'static str, target: &'static str) -> ArchiveMember {
    make_member(name, b'2', 0o777, "", target)
}

/// Writes an archive byte by byte, because `tar` does not create the malicious ones.
fn write_tar(members: &[ArchiveMember]) -> Vec<u8> {
    let mut out = Vec::new();
    for member in members {
        let mut header = [0u8; 512];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, member.name.as_bytes());
        put(100, format!("{:07o}\0{:07o}\0{:07o}\0", member.mode, 1234, 1234).as_bytes());
        put(124, format!("{:011o}\0{:011o}\0", member.body.len(), 1_000_000_000).as_bytes());
        put(148, b"        ");
        put(156, &[member.kind]);
        put(157, member.target.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(header);
        out.extend(member.body.as_bytes());
        out.resize(out.len().div_ceil(512) * 512, 0);
    }
    out.extend([0; 1024]);
    out
}

fn tar_source(members: &[ArchiveMember]) -> Value {
    json!({ "base64": base64::engine::general_purpose::STANDARD.encode(write_tar(members)) })
}

const TOOL: &[ArchiveMember] = &[
    make_member("tool-1/", b'5', 0o755, "", ""),
    make_member("tool-1/bin/run it", b'0', 0o750, "#!/bin/sh\n", ""),
    file_member("tool-1/with\nnewline"),
    symlink_to("tool-1/bin/also", "../with \"quotes\" -> x"),
    make_member("tool-1/hard", b'1', 0o644, "", "tool-1/bin/run it"),
];

#[test]
fn an_archive_is_unpacked_repaired_and_removed() {
    if !is_root() {
        return;
    }
    for shell in SHELLS {
        let trial = ActionTrial::new();
        let into = trial.path(&NASTY.replace(['/', '\n', '\t', '\\'], "_"));
        let written = json!({ "into": into, "source": tar_source(TOOL), "strip": 1, "owner": "nobody" });
        let archive = trial.build("archive", &written, false);
        assert_eq!(trial.converge(shell, archive.as_ref()), "5 members match");
        let run = format!("{into}/bin/run it");
        assert_eq!((file_mode(&run), file_mode(&into)), (0o750, 0o755));
        assert_eq!(std::fs::metadata(&run).unwrap().uid(), 65534);
        assert_eq!(std::fs::read_dir(trial.dir.path()).unwrap().count(), 2, "no other file remains");
        std::fs::write(format!("{into}/stranger"), "").unwrap();
        assert_eq!(trial.assess_resource(archive.as_ref()).verdict, StepVerdict::Ok);
        std::fs::set_permissions(&into, PermissionsExt::from_mode(0o2700)).unwrap();
        std::os::unix::fs::chown(&into, Some(1000), None).unwrap();
        let reason = trial.assess_resource(archive.as_ref()).reason;
        assert_eq!(reason.raw(), format!("of `{into}`, owner and mode differ"));
        trial.converge(shell, archive.as_ref());
        assert_eq!((file_mode(&into), std::fs::metadata(&into).unwrap().uid()), (0o755, 65534));
        assert!(Path::new(&format!("{into}/stranger")).exists(), "nothing was unpacked");
        let tampers: [&dyn Fn(); 4] = [
            &|| std::fs::set_permissions(&run, PermissionsExt::from_mode(0o777)).unwrap(),
            &|| std::fs::write(&run, "#!/bin/no\n").unwrap(),
            &|| std::fs::remove_file(format!("{into}/bin/also")).unwrap(),
            &|| std::fs::rename(format!("{into}/bin"), format!("{into}/lib")).unwrap(),
        ];
        for tamper in tampers {
            tamper();
            trial.converge(shell, archive.as_ref());
            assert_eq!(std::fs::read_to_string(&run).unwrap(), "#!/bin/sh\n");
            assert!(!Path::new(&format!("{into}/stranger")).exists());
        }
        let newer = json!({ "into": into, "source": tar_source(&[file_member("tool-2/new")]), "strip": 1 });
        trial.converge(shell, trial.build("archive", &newer, false).as_ref());
        assert!(!Path::new(&run).exists() && Path::new(&format!("{into}/new")).exists());
        trial.converge(shell, trial.build("archive", &newer, true).as_ref());
        assert_eq!(std::fs::read_dir(trial.path("forge-state/archives")).unwrap().count(), 0);
    }
}

#[test]
fn compressed_archive_on_the_host_is_unpacked() {
    if !is_root() {
        return;
    }
    for option in ["-czf", "-cJf", "-cjf"] {
        let trial = ActionTrial::new();
        let (path, into) = (trial.path("archive"), trial.path("into"));
        std::fs::create_dir(trial.path("tree")).unwrap();
        std::fs::write(trial.path("tree/x"), "x").unwrap();
        let packed = Command::new("tar").args([option, &path, "-C", &trial.path("tree"), "."]).status().unwrap();
        if !packed.success() {
            eprintln!("skipped: cannot pack with `{option}`");
            continue;
        }
        let archive = trial.build("archive", &json!({ "into": into, "path": path }), false);
        assert_eq!(trial.converge("dash", archive.as_ref()), "the only member matches");
        std::fs::write(&path, "no archive").unwrap();
        assert_eq!(trial.assess_resource(archive.as_ref()).reason.raw(), "archive differs");
        let said = trial.failed_change_message("dash", archive.as_ref());
        assert!(said.ends_with("forge: tar cannot read the archive\n"), "{said}");
        assert!(Path::new(&format!("{into}/x")).exists());
    }
}

#[test]
fn unsafe_archive_member_is_rejected_before_unpacking() {
    if !is_root() {
        return;
    }
    let cases: &[(&[ArchiveMember], &str)] = &[
        (&[file_member("ok"), file_member("/etc/cron.d/x")], "member \"/etc/cron.d/x\" has an absolute name"),
        (&[file_member("a/../../x")], "member \"a/../../x\" has `..` in its name"),
        (
            &[make_member("pipe", b'6', 0o644, "", "")],
            "member \"pipe\" is a device, a pipe or something else that is no file",
        ),
        (
            &[make_member("dev", b'3', 0o644, "", "")],
            "member \"dev\" is a device, a pipe or something else that is no file",
        ),
        (&[make_member("suid", b'0', 0o4755, "x", "")], "member \"suid\" is set-user-id or set-group-id"),
        (&[make_member("sgid", b'0', 0o2644, "x", "")], "member \"sgid\" is set-user-id or set-group-id"),
        (&[symlink_to("l", "/etc")], "member \"l\" leads outside, to \"/etc\""),
        (&[symlink_to("a/l", "../../x")], "member \"a/l\" leads outside, to \"../../x\""),
        // Harmless as text, but `a` may be a link, which changes the target of `..`.
        (&[symlink_to("l", "a/../b")], "member \"l\" leads outside, to \"a/../b\""),
        (&[make_member("h", b'1', 0o644, "", "/etc/shadow")], "member \"h\" leads outside, to \"/etc/shadow\""),
        (&[make_member("h", b'1', 0o644, "", "../shadow")], "member \"h\" leads outside, to \"../shadow\""),
        (&[file_member("d/x"), symlink_to("d", "e")], "member \"d/x\" lies below a link"),
        (
            &[make_member("a \"b\" -> c", b'6', 0o644, "", "")],
            "member \"a \\\"b\\\" -> c\" is a device, a pipe or something else that is no file",
        ),
        (&[make_member("./", b'5', 0o755, "", "")], "the archive has no members that would be unpacked"),
    ];
    for (members, message) in cases {
        let trial = ActionTrial::new();
        let into = trial.path("into");
        let archive = trial.build("archive", &json!({ "into": into, "source": tar_source(members) }), false);
        let said = trial.failed_change_message("dash", archive.as_ref());
        let quiet: String =
            said.lines().filter(|line| line.starts_with("forge: ")).map(|line| format!("{line}\n")).collect();
        assert_eq!(quiet, format!("forge: {message}\nforge: the archive is refused: nothing was unpacked\n"));
        assert_eq!(std::fs::read_dir(trial.dir.path()).unwrap().count(), 0);
    }
}

/// `strip` moves the root: a link inside the archive may then point outside the unpacked tree.
#[test]
fn links_are_checked_after_strip_is_applied() {
    if !is_root() {
        return;
    }
    let members = &[file_member("a/x"), symlink_to("a/b/l", "../../y")];
    let trial = ActionTrial::new();
    let build = |strip: u32, into: &str| {
        trial.build(
            "archive",
            &json!({ "into": trial.path(into), "source": tar_source(members), "strip": strip }),
            false,
        )
    };
    trial.converge("dash", build(0, "whole").as_ref());
    let said = trial.failed_change_message("dash", build(1, "cut").as_ref());
    assert!(said.starts_with("forge: member \"a/b/l\" leads outside, to \"../../y\"\n"), "{said}");
}

#[test]
fn directory_with_unknown_entries_is_not_replaced() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let into = trial.path("into");
    std::fs::create_dir(&into).unwrap();
    let archive = trial.build("archive", &json!({ "into": into, "source": tar_source(&[file_member("x")]) }), false);
    assert_eq!(trial.assess_resource(archive.as_ref()).verdict, StepVerdict::Change, "an empty one is");
    std::fs::write(format!("{into}/theirs"), "").unwrap();
    assert_eq!(
        trial.assess_resource(archive.as_ref()).reason.raw(),
        format!("`{into}` contains entries that forge did not unpack: `theirs`")
    );
}

#[test]
fn interrupted_removal_of_many_members_goes_on() {
    if !is_root() {
        return;
    }
    let trial = ActionTrial::new();
    let into = trial.path("into");
    let members: Vec<ArchiveMember> = (0..500).map(|n| file_member(format!("{n}").leak())).collect();
    let written = json!({ "into": into, "source": tar_source(&members), "only_unchanged": true });
    trial.converge("dash", trial.build("archive", &written, false).as_ref());
    for n in 0..450 {
        std::fs::remove_file(format!("{into}/{n}")).unwrap();
    }
    std::fs::write(format!("{into}/theirs"), "").unwrap();
    let removal = trial.build("archive", &written, true);
    let reason = trial.assess_resource(removal.as_ref()).reason;
    let others = "contains entries that forge did not unpack, or that were modified: `theirs`";
    assert_eq!(reason.raw(), format!("`{into}` {others}"));
    std::fs::remove_file(format!("{into}/theirs")).unwrap();
    trial.converge("dash", removal.as_ref());
    assert!(!Path::new(&into).exists());
    std::fs::create_dir(&into).unwrap();
    let reason = trial.assess_resource(removal.as_ref()).reason;
    assert_eq!(reason.raw(), format!("`{into}` is an empty directory without a record of an archive"));
}
