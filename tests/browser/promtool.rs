//! The text file, the alert rules and the dashboard, checked by the program that reads them.

use super::sample;
use forge::model::HostName;
use forge::view::drift::write_prometheus;
use serde_json::{Value, json};
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

/// Returns the dashboard of drift reports, and that of the recipe dcgm-monitoring.
fn dashboards() -> [Value; 2] {
    let drift = std::fs::read_to_string(deploy("grafana/forge-drift.json")).unwrap();
    let recipes = forge::config::builtin_data::BUILTIN_RECIPES;
    let (_, recipe) = recipes.iter().find(|(name, _)| *name == "dcgm-monitoring").unwrap();
    let devices = recipe.split("{%- raw %}").nth(1).and_then(|rest| rest.split("{%- endraw %}").next()).unwrap();
    [drift.as_str(), devices].map(|text| serde_json::from_str(text).unwrap())
}

/// Returns the queries of a dashboard with values in place of its variables.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<i64> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels with one id");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() >= panels.len(), "a panel without a query");
    let values = [("$__rate_interval", "5m"), ("$__range_s", "3600"), ("$__range", "1h")];
    let names = ["$cluster", "$node", "$instance"].map(|name| (name, ".*"));
    let fill = |query: &str| {
        values.iter().chain(&names).fold(query.to_owned(), |query, (name, value)| query.replace(name, value))
    };
    queries.into_iter().map(fill).inspect(|query| assert!(!query.contains('$'), "{query}")).collect()
}

/// Series of two hours for what forge writes, and for the names that exporters have, with the labels that they set:
/// NVIDIA/dcgm-exporter 4.4.2-4.7.0 `internal/pkg/rendermetrics`, prometheus/node_exporter
/// `collector/infiniband_linux.go`. Their values make every query have a result: counters grow, a port is down, an
/// Xid was reported.
fn series() -> Vec<Value> {
    let written = sample::written(&sample::rich(), write_prometheus);
    let own = written.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        json!({ "series": series, "values": format!("{value}x120") })
    });
    let of = |labels: &str, names: &str| {
        let one = |name: &str| match name.ends_with("_total") || name.contains("COUNTER") || name.contains("BANDWIDTH")
        {
            true => json!({ "series": format!("{name}{labels}"), "values": "0+60x120" }),
            false => json!({ "series": format!("{name}{labels}"), "values": "2x120" }),
        };
        names.lines().map(one).collect::<Vec<_>>()
    };
    let gpu = r#"{gpu="0",UUID="GPU-0",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-01"}"#;
    let port = r#"{instance="gpu-01:9100",device="mlx5_0",port="1"}"#;
    let gpus = of(gpu, include_str!("../samples/dcgm-exporter-names.txt"));
    own.chain(gpus).chain(of(port, include_str!("../samples/node-infiniband-names.txt"))).collect()
}

/// promtool parses each query and evaluates it on real names of metrics: a query without a result would be an empty
/// panel.
#[test]
fn every_query_of_the_dashboards_has_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<String> = dashboards().iter().flat_map(queries).collect();
    let has_result = |query: &String| {
        let expr = format!("count({query}) > bool 0");
        json!({ "expr": expr, "eval_time": "90m", "exp_samples": [{ "labels": "{}", "value": 1 }] })
    };
    let group = json!({
        "interval": "1m", "input_series": series(), "promql_expr_test": all.iter().map(has_result).collect::<Vec<_>>(),
    });
    let file = folder.path().join("test.json");
    std::fs::write(&file, json!({ "rule_files": [], "evaluation_interval": "1m", "tests": [group] }).to_string())
        .unwrap();
    let Some((well, said)) = promtool(&["test", "rules", file.to_str().unwrap()], "") else { return };
    assert!(well, "{said}");
    assert!(all.len() > 30, "{}", all.len());
}

/// The time in each state: a port that was down for half of the hour, hosts whose outcome changed.
#[test]
fn time_in_each_state_is_measured_over_the_range() {
    let [drift, devices] = dashboards();
    let query = |dashboard: &Value, needle: &str| {
        queries(dashboard).into_iter().find(|query| query.contains(needle) && query.contains("3600")).unwrap()
    };
    let tests = [
        (query(&devices, "node_infiniband_state_id"), r#"{instance="n1",device="mlx5_0",port="1"}"#, 1800),
        (query(&drift, "forge_drift_hosts"), r#"{outcome="drifted"}"#, 3600),
        (query(&drift, "forge_drift_findings"), r#"{severity="high"}"#, 1800),
    ];
    let one = |(expr, labels, value): &(String, &str, i32)| json!({ "expr": expr, "eval_time": "59m", "exp_samples": [{ "labels": labels, "value": value }] });
    let input = json!([
        { "series": r#"node_infiniband_state_id{instance="n1",device="mlx5_0",port="1"}"#, "values": "4x29 2x29" },
        { "series": r#"forge_drift_hosts{cluster="lab",outcome="drifted"}"#, "values": "2x29 0x29" },
        { "series": r#"forge_drift_findings{cluster="lab",recipe="base",severity="high"}"#, "values": "3x29 0x29" },
    ]);
    let group = json!({ "interval": "1m", "input_series": input, "promql_expr_test": tests.iter().map(one).collect::<Vec<_>>() });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.json");
    std::fs::write(&file, json!({ "rule_files": [], "evaluation_interval": "1m", "tests": [group] }).to_string())
        .unwrap();
    let Some((well, said)) = promtool(&["test", "rules", file.to_str().unwrap()], "") else { return };
    assert!(well, "{said}");
}
