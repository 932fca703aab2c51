//! Untrusted inventories, planned from a recording, start no program and open no connection. Checked with strace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// System calls that create a process or a connection.
const CALLS: &str = "trace=execve,execveat,fork,vfork,clone,clone3,socket,connect,bind,sendto";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile")
}

/// Reports whether strace is installed; `scripts/test` installs it. Without it the test is skipped.
fn can_trace() -> bool {
    let found = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: strace is not installed");
    }
    found
}

/// Copies the inventory of a folder to a place where a test may write.
fn copy(folder: &Path) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(format!("{}/.", folder.display())).arg(place.path()).status();
    assert!(copied.unwrap().success());
    place
}

/// Returns forge's output, and every call that created a process or a connection.
fn traced(place: &Path, arguments: &[&str]) -> (String, Vec<String>) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-q", "-e", CALLS, "-o"]).arg(log.path()).args(["timeout", "60"]);
    command.arg(env!("CARGO_BIN_EXE_forge")).args(arguments).current_dir(place).stdin(Stdio::null());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("COLUMNS", "100");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let exit = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
    let said =
        format!("$ forge {}\nexit {exit}\n{}{}\n", arguments.join(" "), text(&output.stdout), text(&output.stderr));
    (said, started(&std::fs::read_to_string(log.path()).unwrap()))
}

/// Returns the calls after the start of forge itself. Creating a thread does not count.
fn started(log: &str) -> Vec<String> {
    let calls = log.lines().map(|line| line.split_once(' ').map_or(line, |(_, call)| call.trim_start()));
    // Compare the first argument only: strace truncates long texts in the others.
    let begins = concat!("execve(\"", env!("CARGO_BIN_EXE_forge"), "\",");
    let own = calls.skip_while(|call| !call.starts_with(begins));
    let call = |call: &&str| {
        ["execve", "fork", "vfork", "clone", "socket", "connect", "bind", "sendto"]
            .iter()
            .any(|name| call.starts_with(name))
    };
    own.skip(1).filter(call).filter(|call| !call.contains("CLONE_THREAD")).map(str::to_owned).collect()
}

fn folders() -> Vec<PathBuf> {
    let all = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

#[test]
fn hostile_inventory_starts_no_program_with_a_recording() {
    if !can_trace() {
        return;
    }
    let recording = root().join("recording.json");
    assert!(folders().len() >= 6);
    for folder in folders() {
        let mut all = String::new();
        for trust in [&[][..], &["--trust"]] {
            let place = copy(&folder);
            std::fs::copy(&recording, place.path().join("seen.json")).unwrap();
            std::fs::remove_file(place.path().join("expected.txt")).ok();
            let before = files(place.path());
            let plan = ["plan", "--observed", "seen.json"];
            let (said, started) = traced(place.path(), &[&plan[..], trust].concat());
            assert!(started.is_empty(), "{}: {started:#?}\n{said}", folder.display());
            assert_eq!(files(place.path()), before, "{}: forge wrote a file", folder.display());
            all += &said;
        }
        expect(&folder.join("expected.txt"), &all);
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn expect(file: &Path, said: &str) {
    if std::env::var_os("FORGE_BLESS").is_some() {
        return std::fs::write(file, said).unwrap();
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    assert!(said == expected, "{}: FORGE_BLESS=1 rewrites it:\n{said}", file.display());
}

/// The check can fail: with `--trust` and without a recording, the same inventory does run its programs.
#[test]
fn hostile_inventory_starts_programs_without_a_recording() {
    if !can_trace() {
        return;
    }
    let place = copy(&root().join("programs"));
    let (said, started) = traced(place.path(), &["plan", "--trust", "--on", "a"]);
    assert!(started.iter().any(|call| call.starts_with("execve(") && call.contains("touch")), "{started:#?}\n{said}");
    assert!(place.path().join("owned").exists(), "{said}");
}
