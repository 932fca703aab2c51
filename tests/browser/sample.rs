//! Sample drift documents, built from JSON: the published format.

use forge::drift::{DriftReport, DriftRunSummary};
use forge::view::drift::{DriftReportInput, write_html};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub const NOW: &str = "2026-11-21T09:30:00Z";

/// Returns a finding about a file's content.
pub fn finding(host: &str, recipe: &str, step: &str, severity: &str, cause: &str) -> Value {
    json!({
        "host": host, "recipe": recipe, "step": step, "aspect": "step", "attribute": "content", "kind": "file",
        "title": format!("/etc/{step}"), "verdict": "change", "reason": "content differs",
        "desired": "4 bytes, sha256 aa", "observed": "5 bytes, sha256 bb",
        "diff": format!("@@ -1,2 +1,2 @@\n-{step} = 1\n+{step} = 2\n same\n"),
        "last_applied": { "time": "2026-11-20T18:00:00Z", "run": "20261120T180000-4f2a", "user": "ann", "controller": "ctl-1" },
        "cause": cause, "severity": severity, "disruption": "D1", "level": "L0",
        "place": format!("recipes/{recipe}.yaml:7:5"), "standing": "new", "first_seen": NOW, "last_seen": NOW,
    })
}

/// Returns a run over `hosts`.
pub fn drift(hosts: &[String], findings: Vec<Value>) -> DriftReport {
    let took = json!({ "secs": 1, "nanos": 200_000_000 });
    let of = |host: &String| json!({ "host": host, "reach": "observed", "settled": 12, "took": took });
    let value = json!({
        "version": 1, "forge": "0.1.0", "run": "20261121T093000-77aa", "cluster": "h100-prod", "inventory": "inventory.yaml",
        "time": NOW, "hosts": hosts.iter().map(of).collect::<Vec<_>>(), "findings": findings, "unknown": [], "took": took,
    });
    serde_json::from_value(value).unwrap()
}

pub fn hosts(count: usize) -> Vec<String> {
    (1..=count).map(|at| format!("node-{at:02}")).collect()
}

/// Returns a run with many findings, of every severity.
pub fn rich() -> DriftReport {
    let mut findings = Vec::new();
    for host in hosts(40) {
        let number: usize = host[5..].parse().unwrap();
        let mut push = |every, recipe, step, severity, cause| {
            if number.is_multiple_of(every) {
                findings.push(finding(&host, recipe, step, severity, cause));
            }
        };
        push(2, "base", "sysctl", "medium", "machine-changed");
        push(3, "nvidia-driver", "config", "low", "recipe-changed");
        push(7, "nginx", "site", "medium", "both");
        push(11, "doca-ofed", "mlnx", "high", "machine-changed");
        push(13, "containerd", "config", "low", "pending");
        push(20, "nvidia-driver", "gpus", "critical", "hardware-fault");
    }
    let mut drift = drift(&hosts(40), findings);
    drift.hosts[38].reach =
        serde_json::from_value(json!({ "unreachable": { "why": "connection refused", "hint": "check its power" } }))
            .unwrap();
    drift.findings.retain(|finding| finding.host.as_str() != "node-39");
    let unsure = json!([{ "host": "node-05", "recipe": "base", "step": "clock", "aspect": "step", "reason": "timed out after 20 s", "place": "recipes/base.yaml:9:5" }]);
    drift.unknown = serde_json::from_value(unsure).unwrap();
    drift
}

/// Returns two days of runs.
pub fn runs() -> Vec<DriftRunSummary> {
    let run = |at: i64| {
        let time = NOW.parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_mins(15 * (192 - at));
        // The last one is the run of `rich`.
        let findings = 12 + (at % 40 - 20).abs() + if at > 100 { 20 } else { 0 };
        json!({
            "run": format!("r{at}"), "time": time.to_string(), "hosts": 40, "unreachable": u8::from(at > 150), "findings": findings,
            "unknown": u8::from(at % 7 > 2), "new": 0, "changed": 0, "resolved": 0, "exit": 2, "took_ms": 1200,
        })
    };
    (1..=192).map(|at| serde_json::from_value(run(at)).unwrap()).collect()
}

type Writer = fn(&DriftReportInput<'_>, &mut dyn Write) -> io::Result<()>;

pub fn written(drift: &DriftReport, writer: Writer) -> String {
    let runs = runs();
    let told = DriftReportInput {
        drift,
        exit: drift.exit_code(),
        runs: &runs,
        last_success: NOW.parse().ok(),
        recordings: &[],
    };
    let mut out = Vec::new();
    writer(&told, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Writes the page into a folder.
pub fn page(folder: &Path, drift: &DriftReport) -> PathBuf {
    let path = folder.join("drift.html");
    std::fs::write(&path, written(drift, write_html)).unwrap();
    path
}
