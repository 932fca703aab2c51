//! Past runs: a state folder with a finished run, a later one, and a killed one.

use super::support::Place;

fn report(run: &str, second: &str) -> String {
    let step = |result: &str| {
        format!(
            r#"{{"id":{{"recipe":"motd","step":"file"}},"title":"/etc/motd",{result},"changes":[],"took":{{"secs":1,"nanos":0}},"place":"recipes/motd.yaml:3:5"}}"#
        )
    };
    let host = |name: &str, outcome: &str, result: &str| {
        format!(
            r#"{{"host":"{name}","outcome":"{outcome}","reason":"","hint":null,"steps":[{}],"verify":[{{"recipe":"motd","name":"it is read","result":"held","place":""}}],"took":{{"secs":1,"nanos":0}}}}"#,
            step(result)
        )
    };
    let (word, result) = match second {
        "changed" => ("changed", r#""result":"changed""#),
        _ => (
            "failed",
            r#""result":"failed","failure":{"why":"exit status 1","tail":"no \u001b[31mspace","hint":null,"log":null}"#,
        ),
    };
    format!(
        r#"{{"version":1,"run":"{run}","verb":"apply","cluster":"lab","plan":"p","hosts":[{},{}],"budget_spent":false,"interrupted":false,"took":{{"secs":2,"nanos":0}}}}"#,
        host("a", "changed", r#""result":"changed""#),
        host("b", word, result)
    )
}

fn info(run: &str) -> String {
    format!(
        r#"{{"version":1,"run":"{run}","verb":"apply","cluster":"lab","inventory":"inventory.yaml","began":"2026-11-21T10:46:26Z","user":"ada","controller":"ctl"}}"#
    )
}

const JOURNAL: &str = r#"{"event":"apply_started","run":"20261123T080000-cccc","hosts":2,"steps":2}
{"event":"host_started","host":"a","steps":1}
{"event":"host_started","host":"b","steps":1}
{"event":"step_started","host":"a","step":{"recipe":"motd","step":"file"},"title":"/etc/motd","long":false}
{"event":"step_finished","host":"a","step":{"recipe":"motd","step":"file"},"title":"/etc/motd","result":{"result":"changed"},"changes":[],"took":{"secs":0,"nanos":5}}
{"event":"step_finished","host":"a","step":{"recipe":"motd","step":"limits"},"title":"limits","result":{"result":"pending","reason":"not effective yet"},"hint":"log in again","check":{"command":"limits-of app","status":3,"output":"4096 of 8192"},"changes":[],"took":{"secs":0,"nanos":5}}
{"event":"host_finished","host":"a","outcome":"changed","reason":""}
{"event":"step_started","host":"b","step":{"recipe":"motd","step":"file"},"title":"/etc/motd","long":false}
{"event":"step_fin"#;

const FIRST: &str = "20261121T104626-aaaa";
const SECOND: &str = "20261122T070000-bbbb";

fn place() -> Place {
    let at = |run: &str, file: &str| format!(".forge/lab/runs/{run}/{file}");
    Place::new()
        .file(&at(FIRST, "report.json"), &report(FIRST, "failed"))
        .file(&at(FIRST, "run.json"), &info(FIRST))
        .file(&at(SECOND, "report.json"), &report(SECOND, "changed"))
        .file(&at(SECOND, "run.json"), &info(SECOND))
        .file(&at("20261123T080000-cccc", "journal.ndjson"), JOURNAL)
        .file(&at("20261120T000000-dddd", "report.json"), "{\"version\": 1}")
}

#[test]
fn runs_are_listed_newest_first() {
    insta::assert_snapshot!(place().forge(&["runs"]));
}

#[test]
fn last_limits_the_list_of_runs() {
    let said = place().forge(&["runs", "--last", "2", "--format", "json"]);
    let text = said.split("--- stdout\n").nth(1).unwrap().split("--- stderr").next().unwrap();
    let document: serde_json::Value = serde_json::from_str(text).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0]["run"]["finished"], false);
    assert_eq!(runs[1]["run"]["info"]["user"], "ada");
    assert_eq!(runs[1]["run"]["exit"], serde_json::json!({"code": 0, "name": "done"}));
}

#[test]
fn show_prints_a_stored_run() {
    insta::assert_snapshot!(place().forge(&["show", "20261121"]));
}

#[test]
fn show_reports_an_unfinished_run() {
    insta::assert_snapshot!(place().forge(&["show", "last"]));
}

/// A state folder on a full file system takes the folder and an empty journal.
#[test]
fn run_without_records_is_not_called_unfinished() {
    let run = "20261124T080000-eeee";
    let place = || Place::new().file(&format!(".forge/lab/runs/{run}/journal.ndjson"), "");
    let listed = place().forge(&["runs"]);
    assert!(listed.contains("lab      no records: its hosts and results are unknown\n"), "{listed}");
    let shown = place().forge(&["show", "last"]);
    assert!(shown.contains("no records: its hosts and results are unknown; nothing was written after"), "{shown}");
    // A sandbox would go on when the test ends.
    let inventory = "cluster: lab\nhosts: { a: { address: 127.0.0.1, connect: { port: 1 } } }\n";
    let project = place().file("inventory.yaml", inventory);
    let resumed = project.forge(&["resume", "--dry-run"]);
    assert!(resumed.contains(&format!("run {run} left no records: all hosts are planned\n")), "{resumed}");
}

#[test]
fn resume_names_the_flag_of_the_inventory() {
    assert_eq!(
        Place::new().forge(&["resume", "inv.yaml"]),
        "exit 64\n--- stdout\n--- stderr\nerror: `inv.yaml` is not a run\n  hint: pass the inventory as `-i inv.yaml`\n"
    );
}

#[test]
fn two_runs_are_compared() {
    insta::assert_snapshot!(place().forge(&["runs", "--compare", "20261121", "20261122"]));
}

#[test]
fn show_rejects_unreadable_and_unknown_runs() {
    let mut said = String::new();
    for run in ["20261120", "202611", "last-week", "gone.json", "odd.json"] {
        said += &format!("== {run}\n{}", place().file("odd.json", "{\"result\": \"facts\"}").forge(&["show", run]));
    }
    said += &format!("== none\n{}", Place::new().forge(&["show", "last"]));
    insta::assert_snapshot!(said);
}

#[test]
fn show_accepts_a_report_file() {
    let path = format!(".forge/lab/runs/{FIRST}/report.json");
    let said = place().forge(&["show", &path]);
    assert!(said.starts_with("exit 0\n") && said.contains("motd/file") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn runs_verb_prints_an_empty_list_without_runs() {
    assert_eq!(
        Place::new().forge(&["runs"]),
        "exit 0\n--- stdout\nrun  started (UTC)  verb  by  cluster  result\n\nruns: 0\n--- stderr\n\
         no runs in `.forge`; an inventory elsewhere has its history next to it: pass it with `-i`\n"
    );
}

#[test]
fn show_without_a_run_is_rejected_with_a_hint() {
    assert_eq!(
        place().forge(&["show"]),
        "exit 64\n--- stdout\n--- stderr\nerror: no run given\n  \
         hint: `forge show last` shows the newest run, `forge runs` lists all\n"
    );
}

/// A misspelled host is an error, whether or not there is something to resume.
#[test]
fn resume_checks_the_selection() {
    let inventory = "cluster: lab\nconnect: { transport: sandbox }\nhosts: [node-a, node-b]\n";
    for (second, run) in [("failed", FIRST), ("changed", SECOND)] {
        let place = Place::new()
            .file("inventory.yaml", inventory)
            .file(&format!(".forge/lab/runs/{run}/report.json"), &report(run, second))
            .file(&format!(".forge/lab/runs/{run}/run.json"), &info(run));
        let resumed = place.forge(&["resume", "--dry-run", "--on", "node-c"]);
        assert!(
            resumed.contains("`node-c` is neither a host nor a group") && resumed.contains("did you mean `node-a`?"),
            "{resumed}"
        );
        assert!(resumed.starts_with("exit 64") && !resumed.contains("nothing to resume"), "{resumed}");
    }
}

/// A stored report of `forge test`.
const TESTS: &str = r#"{"version":1,"run":"20261122T060000-7e57","cluster":"lab","set":"quick","tests":[],"skipped":[],"against":null,"interrupted":false,"took":{"secs":2,"nanos":0}}"#;

#[test]
fn show_prints_a_run_of_tests() {
    let place = || place().file(".forge/lab/tests/20261122T060000-7e57.json", TESTS);
    let shown = place().forge(&["show", "20261122T0600", "--format", "json"]);
    let text = shown.split("--- stdout\n").nth(1).unwrap().split("--- stderr").next().unwrap();
    let document: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!((&document["result"], &document["tests"]["set"]), (&"tests".into(), &"quick".into()), "{shown}");
    assert!(place().forge(&["show", "20261122T060000-7e57"]).contains("quick"));
    let compared = place().forge(&["runs", "--compare", "20261122T06", "last"]);
    let why = "error: `20261122T060000-7e57` is a run of tests\n  hint: `forge test --set quick --against \
               20261122T060000-7e57` compares with it\n";
    assert!(compared.ends_with(why), "{compared}");
}

#[test]
fn runs_of_tests_are_listed_among_the_others() {
    let place = || {
        place()
            .file(".forge/lab/tests/20261122T060000-7e57.json", TESTS)
            .file(".forge/lab/tests/20261119T060000-7e58.json", "{}")
    };
    insta::assert_snapshot!(place().forge(&["runs"]));
    let listed = place().forge(&["runs", "--last", "3", "--format", "json"]);
    let text = listed.split("--- stdout\n").nth(1).unwrap().split("--- stderr").next().unwrap();
    let document: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["runs"][2]["tests"]["set"], "quick", "{listed}");
    assert_eq!(document["runs"][2]["tests"]["accepted"], false, "{listed}");
}
