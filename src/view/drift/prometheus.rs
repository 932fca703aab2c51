//! Drift as a text file for the node exporter: gauges, which a rule can alert on.

use super::Told;
use crate::drift::{Drift, HostDrift, Severity};
use crate::model::HostName;
use crate::plan::Reach;
use crate::view::escape;
use jiff::Timestamp;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};

/// Characters of a label's value at most.
const LABEL: usize = 120;

const LAST_SUCCESS: &str = "forge_drift_last_success_timestamp_seconds";

/// What a metric is called, what it tells, and its values by their labels.
struct Metric {
    name: &'static str,
    help: &'static str,
    /// Labels beside `cluster`, rendered. A map, since two samples with the same labels are no valid file.
    samples: BTreeMap<String, String>,
}

/// Writes the whole file. Where a metric has no value it is left out.
pub fn prometheus(told: &Told<'_>, out: &mut dyn Write) -> io::Result<()> {
    let cluster = label("cluster", &told.drift.cluster);
    metrics(told).iter().filter(|metric| !metric.samples.is_empty()).try_for_each(|metric| {
        writeln!(out, "# HELP {} {}\n# TYPE {} gauge", metric.name, metric.help, metric.name)?;
        metric.samples.iter().try_for_each(|(labels, value)| {
            let comma = if labels.is_empty() { "" } else { "," };
            writeln!(out, "{}{{{cluster}{comma}{labels}}} {value}", metric.name)
        })
    })
}

/// Reads from an earlier file of the same cluster when a run last told everything. `None` where it does not say so.
pub fn last_success(text: &str, cluster: &str) -> Option<Timestamp> {
    let head = format!("{LAST_SUCCESS}{{{}}} ", label("cluster", cluster));
    let value = text.lines().find_map(|line| line.strip_prefix(head.as_str()))?;
    Timestamp::from_second(value.trim().parse().ok()?).ok()
}

fn metrics(told: &Told<'_>) -> Vec<Metric> {
    let drift = told.drift;
    let time = drift.time.parse::<Timestamp>().ok();
    vec![
        metric(
            "forge_drift_findings",
            "Findings of the last run of forge drift, by recipe and severity.",
            findings(drift),
        ),
        metric(
            "forge_drift_unknown",
            "Steps and verifications that the last run could not judge.",
            [one(drift.unknown.len())],
        ),
        metric("forge_drift_hosts", "Hosts of the last run, each counted once, by outcome.", hosts(drift)),
        metric(
            "forge_drift_cluster_api",
            "Outcome of the last run for what is declared through the cluster's API: 1 for its own.",
            cluster_api(drift),
        ),
        metric("forge_drift_ignored", "Findings that the inventory passes over.", [one(drift.counts().ignored)]),
        metric(
            "forge_drift_exit_code",
            "Exit code of the last run: 0 as declared, 2 findings.",
            [one(told.exit.code())],
        ),
        metric(
            "forge_drift_duration_seconds",
            "How long the last run took.",
            [one(format!("{:.3}", drift.took.as_secs_f64()))],
        ),
        metric(
            "forge_drift_last_run_timestamp_seconds",
            "When the last run had looked at the hosts.",
            time.map(seconds),
        ),
        metric(
            LAST_SUCCESS,
            "When a run last told everything of every host, whether it found something or not.",
            told.last_success.map(seconds),
        ),
    ]
}

fn metric(name: &'static str, help: &'static str, samples: impl IntoIterator<Item = (String, String)>) -> Metric {
    Metric { name, help, samples: samples.into_iter().collect() }
}

fn one(value: impl ToString) -> (String, String) {
    (String::new(), value.to_string())
}

fn seconds(time: Timestamp) -> (String, String) {
    one(time.as_second())
}

/// Every recipe with a finding, with all severities: what is put right goes to 0 before it goes away.
fn findings(drift: &Drift) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for finding in &drift.findings {
        // An empty label is no label to Prometheus.
        let name = if finding.recipe.raw().is_empty() { "(none)" } else { finding.recipe.raw() };
        let recipe = label("recipe", name);
        for severity in Severity::WORST_FIRST {
            let count = counts.entry(format!("{recipe},{}", label("severity", severity.name()))).or_default();
            *count += usize::from(severity == finding.severity);
        }
    }
    counts.into_iter().map(|(labels, count)| (labels, count.to_string())).collect()
}

/// Every outcome; the cluster's API is not a host.
fn hosts(drift: &Drift) -> BTreeMap<String, String> {
    outcomes(drift, drift.hosts.iter().filter(|host| !host.host.is_cluster()))
}

/// Every outcome of the cluster's API; none where it was not looked at.
fn cluster_api(drift: &Drift) -> BTreeMap<String, String> {
    match drift.hosts.iter().find(|host| host.host.is_cluster()) {
        Some(api) => outcomes(drift, std::iter::once(api)),
        None => BTreeMap::new(),
    }
}

/// Counts each under its worst outcome: what is silent, then what is not known, then what is not as declared.
fn outcomes<'d>(drift: &Drift, hosts: impl Iterator<Item = &'d HostDrift>) -> BTreeMap<String, String> {
    let unknown: HashSet<&HostName> = drift.unknown.iter().map(|unsure| &unsure.host).collect();
    let drifted: HashSet<&HostName> = drift.findings.iter().map(|finding| &finding.host).collect();
    let mut counts = BTreeMap::from(["as-declared", "drifted", "unknown", "unreachable"].map(|outcome| (outcome, 0)));
    for host in hosts {
        let outcome = match &host.reach {
            Reach::Unreachable(_) => "unreachable",
            Reach::Observed if unknown.contains(&host.host) => "unknown",
            Reach::Observed if drifted.contains(&host.host) => "drifted",
            Reach::Observed => "as-declared",
        };
        *counts.entry(outcome).or_default() += 1;
    }
    counts.into_iter().map(|(outcome, count)| (label("outcome", outcome), count.to_string())).collect()
}

/// Returns `name="value"`.
fn label(name: &str, value: &str) -> String {
    let value = escape::short(value, LABEL).replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{value}\"")
}
