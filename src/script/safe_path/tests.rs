//! Runs path checks in real shells: where paths lead, why they are refused, and who can place entries there.

use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

const SHELLS: [&[&str]; 3] = [&["dash"], &["bash"], &["bash", "--posix"]];

/// The user id of another user.
const OTHER: u32 = 65_534;

/// Enters `path` and returns the resulting directory with its properties, or the error.
fn enter(shell: &[&str], path: &str) -> String {
    let code = format!(
        "set -u\nfail() {{ printf '%s' \"$*\"; exit 1; }}\n{ENTER_DIRECTORY}\nenter \"$1\"\n\
         printf '%s shared=%s foreign=%s' \"$(readlink /proc/self/cwd)\" \"$shared\" \"$foreign\"\n\
         [ \"$here\" = \"$(stat -c %d:%i .)\" ] || printf ' which is another'\n"
    );
    let output = Command::new(shell[0]).args(&shell[1..]).args(["-c", &code, "sh", path]).output().expect("it starts");
    assert!(output.stderr.is_empty(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A home directory of another user and a directory that every user can write to, below a directory of root.
fn create_shared_dir() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().expect("a place");
    let at = |name: &str| dir.path().join(name);
    for name in ["home/sub/roots", "odd/-a b/\u{fc}\nn", "sticky/mine", "group", "vault"] {
        std::fs::create_dir_all(at(name)).expect("a folder");
    }
    let links = [
        ("/etc", "home/d"),
        ("/", "home/sub/roots/up"),
        ("vault", "to-vault"),
        ("./odd/../to-vault", "twice"),
        ("b", "a"),
        ("a", "b"),
        ("mine", "sticky/roots"),
        ("mine", "sticky/theirs"),
        ("home/sub", "to-home"),
        ("../vault", "group/link"),
    ];
    for (target, name) in links {
        symlink(target, at(name)).expect("a link");
    }
    std::fs::write(at("file"), "").expect("a file");
    std::fs::set_permissions(at("sticky"), PermissionsExt::from_mode(0o1777)).expect("a mode");
    std::fs::set_permissions(at("group"), PermissionsExt::from_mode(0o775)).expect("a mode");
    let given = ["home", "home/sub"].iter().all(|name| chown(at(name), Some(OTHER), Some(OTHER)).is_ok());
    let link = Command::new("chown").args(["-h", "65534"]).arg(at("sticky/theirs")).status();
    (given && link.is_ok_and(|status| status.success())).then_some(dir)
}

fn cases(root: &str) -> Vec<(String, String)> {
    let at = |name: &str| format!("{root}/{name}");
    let is = |name: &str, shared: &str, foreign: &str| format!("{} shared={shared} foreign={foreign}", at(name));
    let barred = |name: &str, who: &str| {
        format!("{} is a symbolic link that {who} can replace: forge does not follow it", at(name))
    };
    vec![
        (at("vault"), is("vault", "", "")),
        (at("odd/-a b/\u{fc}\nn"), is("odd/-a b/\u{fc}\nn", "", "")),
        (at("to-vault"), is("vault", "", "")),
        (at("twice"), is("vault", "", "")),
        (at("home"), is("home", "all", "")),
        (at("home/sub"), is("home/sub", "all", "yes")),
        (at("home/sub/roots"), is("home/sub/roots", "", "yes")),
        (at("to-home"), is("home/sub", "all", "yes")),
        (at("home/d"), barred("home/d", "user nobody")),
        (at("home/d/ssh"), barred("home/d", "user nobody")),
        (at("home/d/nothing"), barred("home/d", "user nobody")),
        (at("home/sub/roots/up"), barred("home/sub/roots/up", "user nobody")),
        (at("group"), is("group", "all", "")),
        (at("group/link"), barred("group/link", "other users")),
        (at("sticky"), is("sticky", "sticky", "")),
        (at("sticky/mine"), is("sticky/mine", "", "")),
        (at("sticky/roots"), is("sticky/mine", "", "")),
        (at("sticky/theirs"), barred("sticky/theirs", "other users")),
        (at("a/x"), format!("{} leads through too many symbolic links", at("a/x"))),
        (at("nothing/x"), format!("directory {} does not exist", at("nothing/x"))),
        (at("file/x"), format!("{} is not a directory", at("file"))),
    ]
}

#[test]
fn symlinks_that_other_users_can_create_are_not_followed() {
    let Some(dir) = create_shared_dir().filter(|_| rustix::process::geteuid().is_root()) else { return };
    let cases = cases(dir.path().to_str().expect("text"));
    for shell in SHELLS {
        for (path, expected) in &cases {
            assert_eq!(enter(shell, path), *expected, "{shell:?} {path:?}");
        }
        assert_eq!(enter(shell, ""), "/ shared= foreign=");
    }
}

/// Debian's link in `/var/run`, which many paths of old programs contain.
#[test]
fn system_symlink_is_followed() {
    let Ok(target) = std::fs::read_link("/var/run") else { return };
    assert!(Path::new("/var").join(target).ends_with("run"));
    assert_eq!(enter(&["sh"], "/var/run"), "/run shared= foreign=");
}

/// Checks a source as a mount does; returns the refusal, if any.
fn source(shell: &[&str], source: &str, before: &str) -> String {
    let code = format!(
        "fail() {{ printf 'fails: %s' \"$*\"; exit 1; }}\n{ENTER_DIRECTORY}\n{REQUIRE_FIXED_NAME}\n\
         barred() {{ printf 'barred: %s' \"$*\"; exit 9; }}\n{before}\nrequire_fixed_source \"$1\"\n"
    );
    let output =
        Command::new(shell[0]).args(&shell[1..]).args(["-c", &code, "sh", source]).output().expect("it starts");
    assert!(output.stderr.is_empty(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn mount_sources_that_are_not_local_paths_are_skipped() {
    for shell in SHELLS {
        for what in ["//server/share", "//server/share/sub", "server:/export", "UUID=1", "tmpfs", "/dev/no-disk/part1"]
        {
            assert_eq!(source(shell, what, ""), "", "{shell:?} {what}");
        }
    }
}

#[test]
fn replaceable_source_below_dev_is_rejected() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let at = dir.path().to_str().expect("text").to_owned();
    let name = at.rsplit('/').next().expect("a name");
    chown(dir.path(), Some(OTHER), Some(OTHER)).expect("it is given");
    let only = "forge mounts and unmounts only where no other user can replace the path";
    for shell in SHELLS {
        for path in
            [at.clone(), format!("/dev//shm/{name}"), format!("/dev/./shm/{name}"), format!("/dev/../dev/shm/{name}")]
        {
            assert_eq!(
                source(shell, &path, ""),
                format!("barred: other users can replace {path}: {only}"),
                "{shell:?}"
            );
        }
        assert_eq!(source(shell, &format!("{at}.none"), ""), format!("fails: {at}.none does not exist"));
    }
}

/// If the owner cannot be read, the source is not reported as owned by another user.
#[test]
fn unreadable_owner_is_a_failure_not_a_refusal() {
    let Some(dir) = create_shared_dir().filter(|_| rustix::process::geteuid().is_root()) else { return };
    let path = format!("{}/sticky/mine", dir.path().to_str().expect("text"));
    for shell in SHELLS {
        for (status, why) in
            [(124, "did not answer within 10 s"), (137, "did not answer within 10 s"), (127, "(exit status 127)")]
        {
            let said = source(shell, &path, &format!("timeout() {{ return {status}; }}"));
            assert!(said.starts_with("fails: ") && said.contains(&path) && said.ends_with(why), "{shell:?} {said}");
        }
        assert_eq!(source(shell, &path, ""), "");
    }
}
