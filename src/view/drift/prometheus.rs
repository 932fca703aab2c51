//! Drift as a text file for the node exporter: gauges for alerting rules.

use super::DriftReportInput;
use crate::drift::{DriftReport, FindingSeverity, HostDrift};
use crate::model::HostName;
use crate::plan::HostReachability;
use crate::view::escape;
use crate::view::recording_files::find_oldest_recording;
use jiff::Timestamp;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};

/// Maximum characters of a label value.
const MAX_LABEL_CHARS: usize = 120;

const LAST_SUCCESS_METRIC: &str = "forge_drift_last_success_timestamp_seconds";

/// A metric with its help text and its samples.
struct PrometheusMetric {
    name: &'static str,
    help: &'static str,
    /// Values by rendered labels other than `cluster`. A map, because duplicate label sets make the file invalid.
    samples: BTreeMap<String, String>,
}

/// Writes the whole file. Metrics without samples are omitted.
pub fn write_prometheus(told: &DriftReportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let cluster = format_label("cluster", &told.drift.cluster);
    collect_metrics(told).iter().filter(|metric| !metric.samples.is_empty()).try_for_each(|metric| {
        writeln!(out, "# HELP {} {}\n# TYPE {} gauge", metric.name, metric.help, metric.name)?;
        metric.samples.iter().try_for_each(|(labels, value)| {
            let comma = if labels.is_empty() { "" } else { "," };
            writeln!(out, "{}{{{cluster}{comma}{labels}}} {value}", metric.name)
        })
    })
}

/// Reads the time of the last complete run from an earlier file of the same cluster. Returns `None` if it is missing.
pub fn parse_last_success(text: &str, cluster: &str) -> Option<Timestamp> {
    let head = format!("{LAST_SUCCESS_METRIC}{{{}}} ", format_label("cluster", cluster));
    let value = text.lines().find_map(|line| line.strip_prefix(head.as_str()))?;
    Timestamp::from_second(value.trim().parse().ok()?).ok()
}

fn collect_metrics(told: &DriftReportInput<'_>) -> Vec<PrometheusMetric> {
    let drift = told.drift;
    let time = match told.recordings {
        [] => drift.time.parse::<Timestamp>().ok(),
        recorded => find_oldest_recording(recorded),
    };
    vec![
        new_metric(
            "forge_drift_findings",
            "Findings of the last run of forge drift, by recipe and severity.",
            finding_samples(drift),
        ),
        new_metric(
            "forge_drift_unknown",
            "Steps and verifications that the last run could not evaluate.",
            [unlabeled_sample(drift.unknown.len())],
        ),
        new_metric("forge_drift_hosts", "Hosts of the last run, each counted once, by outcome.", host_samples(drift)),
        new_metric(
            "forge_drift_cluster_api",
            "Outcome of the last run for resources of the cluster's API: 1 for the actual outcome.",
            cluster_api_samples(drift),
        ),
        new_metric(
            "forge_drift_ignored",
            "Findings that the inventory ignores.",
            [unlabeled_sample(drift.count_findings().ignored)],
        ),
        new_metric(
            "forge_drift_exit_code",
            "Exit code of the last run: 0 no drift, 2 findings.",
            [unlabeled_sample(told.exit.code())],
        ),
        new_metric(
            "forge_drift_duration_seconds",
            "Duration of the last run.",
            [unlabeled_sample(format!("{:.3}", drift.took.as_secs_f64()))],
        ),
        new_metric(
            "forge_drift_last_run_timestamp_seconds",
            "Time at which the last run had observed the hosts.",
            time.map(timestamp_sample),
        ),
        new_metric(
            LAST_SUCCESS_METRIC,
            "Time of the last run that evaluated every host completely, with or without findings.",
            told.last_success.map(timestamp_sample),
        ),
    ]
}

fn new_metric(
    name: &'static str,
    help: &'static str,
    samples: impl IntoIterator<Item = (String, String)>,
) -> PrometheusMetric {
    PrometheusMetric { name, help, samples: samples.into_iter().collect() }
}

fn unlabeled_sample(value: impl ToString) -> (String, String) {
    (String::new(), value.to_string())
}

fn timestamp_sample(time: Timestamp) -> (String, String) {
    unlabeled_sample(time.as_second())
}

/// Counts findings by recipe and severity, zero counts included, so that a resolved finding goes to 0.
fn finding_samples(drift: &DriftReport) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for finding in &drift.findings {
        // An empty label is no label to Prometheus.
        let name = if finding.recipe.raw().is_empty() { "(none)" } else { finding.recipe.raw() };
        let recipe = format_label("recipe", name);
        for severity in FindingSeverity::WORST_FIRST {
            let count = counts.entry(format!("{recipe},{}", format_label("severity", severity.name()))).or_default();
            *count += usize::from(severity == finding.severity);
        }
    }
    counts.into_iter().map(|(labels, count)| (labels, count.to_string())).collect()
}

/// Counts hosts by outcome. The cluster's API is not a host.
fn host_samples(drift: &DriftReport) -> BTreeMap<String, String> {
    outcome_samples(drift, drift.hosts.iter().filter(|host| !host.host.is_cluster()))
}

/// Returns the outcome of the cluster's API. Empty if it was not observed.
fn cluster_api_samples(drift: &DriftReport) -> BTreeMap<String, String> {
    match drift.hosts.iter().find(|host| host.host.is_cluster()) {
        Some(api) => outcome_samples(drift, std::iter::once(api)),
        None => BTreeMap::new(),
    }
}

/// Counts each host under its worst outcome: unreachable, then unknown, then drifted.
fn outcome_samples<'d>(drift: &DriftReport, hosts: impl Iterator<Item = &'d HostDrift>) -> BTreeMap<String, String> {
    let unknown: HashSet<&HostName> = drift.unknown.iter().map(|unsure| &unsure.host).collect();
    let drifted: HashSet<&HostName> = drift.findings.iter().map(|finding| &finding.host).collect();
    let mut counts = BTreeMap::from(["as-declared", "drifted", "unknown", "unreachable"].map(|outcome| (outcome, 0)));
    for host in hosts {
        let outcome = match &host.reach {
            HostReachability::Unreachable(_) => "unreachable",
            HostReachability::Observed if unknown.contains(&host.host) => "unknown",
            HostReachability::Observed if drifted.contains(&host.host) => "drifted",
            HostReachability::Observed => "as-declared",
        };
        *counts.entry(outcome).or_default() += 1;
    }
    counts.into_iter().map(|(outcome, count)| (format_label("outcome", outcome), count.to_string())).collect()
}

/// Returns `name="value"`.
fn format_label(name: &str, value: &str) -> String {
    let value = escape::escape_truncated(value, MAX_LABEL_CHARS).replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{value}\"")
}
