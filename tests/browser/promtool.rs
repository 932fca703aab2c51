//! The text file, the alert rules and the dashboard, checked by the program that reads them.

use super::sample;
use forge::model::HostName;
use forge::view::drift::write_prometheus;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)
}

/// Runs promtool. Returns whether it succeeded and its output; `None` if it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: promtool is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8(said).unwrap()))
}

/// Returns promtool's output about a text file: empty if the file is valid, `None` if promtool is not installed.
pub fn check_metrics(text: &str) -> Option<String> {
    let (well, said) = promtool(&["check", "metrics"], text)?;
    assert!(well, "{said}\n{text}");
    Some(said)
}

#[test]
fn metrics_file_passes_promtool() {
    let Some(said) = check_metrics(&sample::written(&sample::rich(), write_prometheus)) else { return };
    assert_eq!(said, "");
    assert_eq!(
        check_metrics(&sample::written(&sample::drift(&[], vec![]), write_prometheus)).as_deref(),
        Some(""),
        "a file without findings must be valid, too"
    );
    let (well, _) = promtool(&["check", "metrics"], "forge_drift_findings{cluster=\"\"\"} 1\n").unwrap();
    assert!(!well, "promtool accepts an invalid file");
}

#[test]
fn the_alert_rules_are_valid_and_fire() {
    let rules = deploy("prometheus/forge-drift.rules.yaml");
    let Some((well, said)) = promtool(&["check", "rules", "--lint=all", "--lint-fatal", rules.to_str().unwrap()], "")
    else {
        return;
    };
    assert!(well, "{said}");
    let cases = deploy("prometheus/forge-drift.rules.test.yaml");
    let (well, said) = promtool(&["test", "rules", cases.to_str().unwrap()], "").unwrap();
    assert!(well, "{said}");
}

/// Returns every metric name in `text`.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("forge_drift_")).map(str::to_owned).collect()
}

#[test]
fn rules_and_dashboard_use_only_written_metrics() {
    let mut drift = sample::rich();
    let mut api = drift.hosts[0].clone();
    api.host = HostName::new(HostName::CLUSTER);
    drift.hosts.push(api);
    let written = named(&sample::written(&drift, write_prometheus));
    for file in ["prometheus/forge-drift.rules.yaml", "grafana/forge-drift.json"] {
        let used = named(&std::fs::read_to_string(deploy(file)).unwrap());
        assert!(!used.is_empty(), "{file}");
        let unknown: Vec<_> = used.difference(&written).collect();
        assert!(unknown.is_empty(), "{file} uses metrics that no report writes: {unknown:?}");
    }
}

#[test]
fn the_queries_of_the_dashboard_are_valid() {
    let text = std::fs::read_to_string(deploy("grafana/forge-drift.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() >= panels.len(), "a panel without a query");
    let ids: BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels with one id");
    // promtool parses the queries as rules. The dashboard's variables are replaced first.
    let rule = |(at, query): (usize, &&str)| {
        let query = query.replace("$cluster", ".*").replace("$__rate_interval", "5m");
        serde_json::json!({ "record": format!("dashboard:query_{at}"), "expr": query })
    };
    let rules: Vec<_> = queries.iter().enumerate().map(rule).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.json");
    std::fs::write(&file, serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())
        .unwrap();
    let Some((well, said)) = promtool(&["check", "rules", file.to_str().unwrap()], "") else { return };
    assert!(well, "{said}");
}
