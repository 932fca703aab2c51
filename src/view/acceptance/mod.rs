//! Results of acceptance tests in every format: one module per format, each a pure function of the same report.
//!
//! Architecture Invariant: what a measurement is called and how it ended is decided here once. No format shows a
//! measurement without a value as passed.

mod html;
mod junit;
mod markdown;
#[cfg(test)]
mod tests;
mod text;

pub use html::write_html;
pub use junit::write_junit;
pub use markdown::write_markdown;
pub use text::write_text;

use crate::acceptance::{TestVerdict, format_measure, format_number};
use crate::engine::{AcceptanceReport, ComparedValues, MeasuredScope, TestReport, TestRow};
use crate::model::HostName;
use crate::view::{fold, format_count};
use std::collections::BTreeSet;

/// How a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasurementEnd {
    /// Good.
    Pass,
    /// Within its limit, but worse than in the earlier run.
    Worse,
    /// Outside its limit, or with a fault.
    Fail,
    /// Without a value.
    NotMeasured,
}

impl MeasurementEnd {
    fn of(row: &TestRow) -> Self {
        match (&row.verdict, &row.worse) {
            (TestVerdict::Pass { .. }, None) => Self::Pass,
            (TestVerdict::Pass { .. }, Some(_)) => Self::Worse,
            (TestVerdict::Fail { .. }, _) => Self::Fail,
            (TestVerdict::NotMeasured { .. }, _) => Self::NotMeasured,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Worse => "worse",
            Self::Fail => "fail",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Returns the names of hosts, folded: `gpu[02:10],gpu15`.
fn fold_host_names(hosts: &[HostName]) -> String {
    fold::fold_names(hosts.iter().map(HostName::as_str))
}

/// Returns the name of a test. If the run has it several times, the parameters that differ follow.
fn name_test(report: &AcceptanceReport, test: &TestReport) -> String {
    let same: Vec<&TestReport> = report.tests.iter().filter(|other| other.test == test.test).collect();
    let differs = |name: &str| same.iter().any(|other| other.parameters.get(name) != test.parameters.get(name));
    let own = test.parameters.iter().filter(|(name, _)| differs(name));
    own.fold(test.test.clone(), |name, (parameter, value)| format!("{name} {parameter}={value}"))
}

/// Returns the hosts and the rail. For a pair, the direction of the data: from the client to the server.
fn name_measurement(test: &TestReport, row: &TestRow) -> String {
    let hosts = match (test.scope, row.hosts.as_slice()) {
        (MeasuredScope::Pair, [server, client]) => format!("{} → {}", client.as_str(), server.as_str()),
        (_, hosts) => fold::fold_names(hosts.iter().map(HostName::as_str)),
    };
    match &row.rail {
        Some(rail) => format!("{hosts} {rail}"),
        None => hosts,
    }
}

/// Returns the value with its limit, or the reason, and the hosts that were lost.
fn describe_end(test: &TestReport, row: &TestRow) -> String {
    let end = describe_verdict(test, row);
    match row.lost.as_slice() {
        [] => end,
        lost => format!("{end}; lost during the measurement: {}", fold::fold_names(lost.iter().map(HostName::as_str))),
    }
}

fn describe_verdict(test: &TestReport, row: &TestRow) -> String {
    match (&row.verdict, &row.worse) {
        (TestVerdict::Pass { value, .. }, Some(worse)) => format!("{}: {worse}", format_measure(*value, &test.unit)),
        (TestVerdict::Pass { value, expected }, None) => {
            format!("{}, {expected}", format_measure(*value, &test.unit))
        }
        (TestVerdict::Fail { reason, .. } | TestVerdict::NotMeasured { reason }, _) => reason.clone(),
    }
}

/// Returns the range of the values of passed measurements.
fn describe_range(test: &TestReport, passed: &[&TestRow]) -> String {
    let values = || passed.iter().filter_map(|row| row.verdict.value());
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    format!("{} to {}", format_number(least), format_measure(most, &test.unit))
}

/// Returns `12 passed, 3 worse, 1 failed, 2 not measured, 1 host not tested`.
fn describe_counts(report: &AcceptanceReport) -> String {
    let rows: Vec<MeasurementEnd> = report.tests.iter().flat_map(|test| &test.rows).map(MeasurementEnd::of).collect();
    let count = |end: MeasurementEnd| rows.iter().filter(|row| **row == end).count();
    let mut counts = vec![format!("{} passed", count(MeasurementEnd::Pass))];
    let others = [
        (MeasurementEnd::Worse, "worse"),
        (MeasurementEnd::Fail, "failed"),
        (MeasurementEnd::NotMeasured, "not measured"),
    ];
    let others = others.into_iter().map(|(end, word)| (count(end), word)).filter(|(count, _)| *count > 0);
    counts.extend(others.map(|(count, word)| format!("{count} {word}")));
    let lost: BTreeSet<&HostName> = report.tests.iter().flat_map(|test| &test.rows).flat_map(|row| &row.lost).collect();
    counts.extend((!lost.is_empty()).then(|| format!("{} lost", format_count(lost.len(), "host"))));
    let skipped = report.skipped.len();
    counts.extend((skipped > 0).then(|| format!("{} not tested", format_count(skipped, "host"))));
    counts.join(", ")
}

/// Returns how many values were compared with the earlier run, and why others were not.
fn describe_comparison(run: &str, counts: ComparedValues) -> String {
    let ComparedValues { compared, other_parameters, without_earlier } = counts;
    let others = [(other_parameters, "measured there with other parameters"), (without_earlier, "not measured there")];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    let others: Vec<String> = others.map(|(count, why)| format!("{} {why}", format_count(count, "value"))).collect();
    match (compared, others.is_empty()) {
        (0, true) => format!("not compared with run {run}: no measured value"),
        (0, false) => format!("not compared with run {run}: {}", others.join(", ")),
        (_, true) => format!("compared with run {run}: {}", format_count(compared, "value")),
        (_, false) => {
            format!("compared with run {run}: {}; not compared: {}", format_count(compared, "value"), others.join(", "))
        }
    }
}

/// Returns the measurements that did not pass or lost a host, and those that only passed.
fn split_rows(test: &TestReport) -> (Vec<&TestRow>, Vec<&TestRow>) {
    test.rows.iter().partition(|row| MeasurementEnd::of(row) != MeasurementEnd::Pass || !row.lost.is_empty())
}
