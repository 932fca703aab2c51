//! Every folder in `tests/recordings` is a test: it runs `facts`, `plan` and `why-slow` with the recording in it.
//!
//! `recording.json` is a file written by `--record`, `expected.txt` the expected output; `FORGE_BLESS=1` writes the
//! latter. If the folder has an `inventory.yaml` (and `recipes/`), the output of `plan` and `why-slow` is compared too.

use super::support::Place;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn recordings() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.file_name().unwrap() != "README.md");
    for folder in &folders {
        let whole = folder.join("recording.json").exists();
        assert!(whole, "{}: no `recording.json`; each recording needs its own folder", folder.display());
    }
    folders.sort();
    folders
}

/// Runs forge with an empty PATH: everything that needs a program fails.
fn forge(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forge"));
    command.args(arguments).current_dir(folder).env_clear().env("PATH", "").env("COLUMNS", "100").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let exit = output.status.code().map_or("signal".to_owned(), |code| code.to_string());
    format!("$ forge {}\nexit {exit}\n{}{}\n", arguments.join(" "), text(&output.stdout), text(&output.stderr))
}

/// Returns an inventory of the recorded hosts, for a recording without its own.
fn inventory(recording: &serde_json::Value) -> String {
    let hosts = recording["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| format!("  {}: {{}}\n", host["host"].as_str().unwrap()));
    format!("cluster: recorded\nhosts:\n{}", hosts.collect::<String>())
}

fn said(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("recording.json")).unwrap();
    let recording: serde_json::Value = serde_json::from_str(&text).unwrap();
    let origin = recording["origin"].as_str().unwrap();
    assert!(["field", "source", "reconstructed"].contains(&origin), "{}: origin `{origin}`", folder.display());
    if !folder.join("inventory.yaml").exists() {
        let place = Place::new().file("inventory.yaml", &inventory(&recording)).file("recording.json", &text);
        return forge(place.path(), &["facts", "--observed", "recording.json"]);
    }
    let verbs: [&[&str]; 3] = [&["facts"], &["plan", "-v"], &["why-slow"]];
    verbs.map(|verb| forge(folder, &[verb, &["--observed", "recording.json"]].concat())).concat()
}

#[test]
fn recordings_give_the_expected_output() {
    let all = recordings();
    assert!(!all.is_empty());
    for folder in all {
        let (said, file) = (said(&folder), folder.join("expected.txt"));
        if std::env::var_os("FORGE_BLESS").is_some() {
            std::fs::write(&file, &said).unwrap();
            continue;
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(said == expected, "{}: FORGE_BLESS=1 rewrites it:\n{said}", file.display());
    }
}

const RECORDING: &str = r#"{"version": 1, "forge": "0.1.0", "origin": "reconstructed", "hosts": [
  {"host": "a", "reach": "observed", "answers": [
    {"asked": "`stat`", "probes": [{"path": {"path": "/etc/x", "want": null}}], "limit_s": 20,
     "answer": {"printed": {"end": {"exited": 0}, "began": true, "stdout": {"text": "errors\u0000stat: cannot statx '/etc/x': No such file or directory\u0000sums\u0000\u0000"},
                "stderr": {"text": ""}, "truncated": false}}}]},
  {"host": "b", "reach": {"unreachable": {"why": "the connection was refused", "hint": null}}, "answers": []}]}"#;

fn place() -> Place {
    Place::new()
        .file("seen.json", RECORDING)
        // No process listens on this port, and no connection is made.
        .file("inventory.yaml", "cluster: c\nhosts: { a: { address: 127.0.0.1, connect: { port: 1 } }, b: {}, c: {} }\napply: [{ recipe: r, on: all, ensure: absent }]\n")
        .file(
            "recipes/r.yaml",
            "recipe: r\nsteps:\n  - name: x\n    file: { path: /etc/x, content: hello }\n  - name: user\n    user: { name: y }\n",
        )
}

#[test]
fn unrecorded_checks_are_unknown_without_contacting_hosts() {
    let place = place();
    let said = forge(place.path(), &["plan", "-v", "--observed", "seen.json"]);
    insta::assert_snapshot!(said);
    let said = forge(place.path(), &["verify", "--observed", "seen.json"]);
    assert!(said.contains("\nexit 5\n") || said.contains("\nexit 4\n") || said.contains("\nexit 3\n"), "{said}");
    assert!(said.contains("not recorded"), "{said}");
    let head = "from recorded answers; no host was contacted:\n  seen.json  time unknown\n\n";
    let timed = format!("{{\"recorded\": \"2026-11-21T12:00:00Z\", {}", &RECORDING.trim_start()[1..]);
    let place = place.file("timed.json", &timed);
    assert!(said.contains(head), "{said}");
    let said = forge(place.path(), &["verify", "--observed", "timed.json", "--quiet"]);
    assert!(said.contains("\n  timed.json  2026-11-21T12:00:00Z ("), "{said}");
    // Documents name them for programs; their age is for the reader to compute.
    for verb in ["plan", "verify", "drift", "facts"] {
        let said = forge(place.path(), &[verb, "--observed", "timed.json", "-q", "--format", "json"]);
        let told: serde_json::Value =
            serde_json::from_str(&said[said.find('{').unwrap()..said.rfind('}').unwrap() + 1]).unwrap();
        let expected = serde_json::json!([{ "path": "timed.json", "recorded": "2026-11-21T12:00:00Z" }]);
        assert_eq!(told["recordings"], expected, "{said}");
    }
}

#[test]
fn invalid_recording_file_is_rejected() {
    let place = place().file("other.json", r#"{"version": 2}"#).file("none.json", "hello");
    let said = |file: &str| forge(place.path(), &["facts", "--observed", file]);
    let hint = "  hint: create one with `forge facts --record FILE` or `forge plan --record FILE`\n\n";
    assert_eq!(
        said("other.json"),
        format!(
            "$ forge facts --observed other.json\nexit 65\nerror: cannot read recording `other.json`: it has version 2; this forge supports version 1\n{hint}"
        )
    );
    assert!(said("none.json").contains("recording `none.json`: it is not a recording: "), "{}", said("none.json"));
    assert!(said("missing.json").contains("recording `missing.json`: no such file\n"), "{}", said("missing.json"));
    let both = forge(place.path(), &["plan", "--record", "a.json", "--observed", "seen.json"]);
    assert!(both.contains("\nexit 64\n"), "{both}");
}

/// Returns one recording per host of the shipped recording of three Debian hosts.
fn split_shipped_recording() -> (String, Vec<String>) {
    let whole = std::fs::read_to_string(root().join("debian12-web/recording.json")).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let hosts = parsed["hosts"].as_array().unwrap().iter();
    let parts = hosts.map(|host| {
        let mut part = parsed.clone();
        part["hosts"] = serde_json::json!([host]);
        part.to_string()
    });
    (whole, parts.collect())
}

/// Recordings of shards give the same plan as one recording of all hosts, byte for byte, in every order.
#[test]
fn merged_recordings_give_the_plan_of_one_recording() {
    let (whole, parts) = split_shipped_recording();
    assert_eq!(parts.len(), 3);
    let mut place = Place::new().file("whole.json", &whole).file("shards/readme.md", "ignored");
    for file in ["inventory.yaml", "recipes/web.yaml"] {
        if let Ok(text) = std::fs::read_to_string(root().join("debian12-web").join(file)) {
            place = place.file(file, &text);
        }
    }
    for (at, part) in parts.iter().enumerate() {
        place = place.file(&format!("shards/{at}.json"), part);
    }
    let plan = |files: &[&str]| {
        let flags = files.iter().flat_map(|file| ["--observed", file]);
        let said = forge(place.path(), &["plan", "--format", "json"].into_iter().chain(flags).collect::<Vec<_>>());
        // The names of the recordings are not part of the plan.
        let (head, rest) = said.split_once("\"recordings\": [").unwrap();
        let (head, rest) = (head.split_once('\n').unwrap().1, rest.split_once("\n  ],\n").unwrap().1);
        format!("{head}{rest}")
    };
    let one = plan(&["whole.json"]);
    assert!(one.contains("\"verdict\": \"change\"") && one.contains("node-09"), "{one}");
    let [a, b, c] = ["shards/0.json", "shards/1.json", "shards/2.json"];
    for files in [&[a, b, c][..], &[c, a, b], &["shards"]] {
        assert_eq!(plan(files), one, "{files:?}");
    }
    assert_ne!(plan(&[a, c]), one);
    let twice = forge(place.path(), &["plan", "--observed", "whole.json", "--observed", "shards"]);
    let expected = "exit 65\nerror: host `node-01` is in two recordings: `whole.json` and `shards/0.json`\n  hint: pass one of \
                    them, or record each host once: `forge plan --on HOSTS --record FILE`\n";
    assert!(twice.contains(expected), "{twice}");
    std::fs::create_dir(place.path().join("empty")).unwrap();
    let empty = forge(place.path(), &["plan", "--observed", "empty"]);
    assert!(empty.contains("exit 65\nerror: folder `empty` contains no recording\n"), "{empty}");
}
