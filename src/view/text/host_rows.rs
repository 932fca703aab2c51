//! One row per host of a report: outcome, counts, duration and reason.

use crate::engine::{HostReport, RunReport, StepResult, VerifyReport, VerifyResult};
use crate::model::HostOutcome;
use crate::view::style::{BAD, CHANGE, DIM, GOOD, paint};
use crate::view::{escape, format_duration, formatting};
use anstyle::Style;
use std::io::{self, Write};

const REASON_CHARS: usize = 100;

/// Writes the rows in the order of the report, in columns.
pub fn write_rows(report: &RunReport, out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<_> = report.hosts.iter().map(|host| escape::escape_line(host.host.as_str())).collect();
    let counts: Vec<_> = report.hosts.iter().map(format_counts).collect();
    let names_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let counts_width = counts.iter().map(|counts| counts.chars().count()).max().unwrap_or(0);
    for ((host, name), counts) in report.hosts.iter().zip(&names).zip(&counts) {
        let outcome = paint(outcome_style(host.outcome), format!("{:<11}", host.outcome.name()));
        let row =
            format!("{name:<names_width$}  {outcome}  {counts:<counts_width$}  {:>7}", format_duration(host.took));
        writeln!(out, "{row}{}", format_reason(host))?;
    }
    match report.hosts.is_empty() {
        true => Ok(()),
        false => writeln!(out),
    }
}

fn format_reason(host: &HostReport) -> String {
    match host.outcome {
        // Steps or verifications already explain the outcome. Without any, the reason is needed.
        HostOutcome::Ok | HostOutcome::Changed if !host.steps.is_empty() || !host.verify.is_empty() => String::new(),
        _ if host.reason.is_empty() => String::new(),
        _ => format!("  {}", paint(DIM, escape::escape_cut_at_word(host.reason.raw(), REASON_CHARS))),
    }
}

/// Counts the steps of a host, or its verifications if it has no steps.
fn format_counts(host: &HostReport) -> String {
    let of = |test: fn(&StepResult) -> bool| host.steps.iter().filter(|step| test(&step.result)).count();
    let counts = formatting::join_counts(&[
        (of(|r| matches!(r, StepResult::Failed { .. })), "failed"),
        (of(|r| matches!(r, StepResult::Changed)), "changed"),
        (of(|r| matches!(r, StepResult::AlreadyOk { .. })), "ok"),
        (of(|r| matches!(r, StepResult::Stale { .. })), "stale"),
        (of(|r| matches!(r, StepResult::Blocked { .. })), "blocked"),
        (of(|r| matches!(r, StepResult::Unknown { .. })), "unknown"),
        (of(|r| matches!(r, StepResult::Pending { .. })), "pending"),
        (of(|r| matches!(r, StepResult::Held { .. })), "held back"),
        (of(|r| matches!(r, StepResult::Skipped { .. })), "skipped"),
        (of(|r| matches!(r, StepResult::Cancelled)), "cancelled"),
        (host.not_undone.len(), "not undone"),
    ]);
    match counts.is_empty() {
        true => count_verifications(&host.verify),
        false => counts,
    }
}

/// Counts verifications by their result.
pub fn count_verifications<'v>(verify: impl IntoIterator<Item = &'v VerifyReport> + Clone) -> String {
    let of = |test: fn(&VerifyResult) -> bool| verify.clone().into_iter().filter(|v| test(&v.result)).count();
    formatting::join_counts(&[
        (of(|r| matches!(r, VerifyResult::Held)), "passed"),
        (of(|r| matches!(r, VerifyResult::Failed { .. })), "failed"),
        (of(|r| matches!(r, VerifyResult::Unknown { .. })), "unknown"),
        (of(|r| matches!(r, VerifyResult::Skipped { .. })), "skipped"),
    ])
}

fn outcome_style(outcome: HostOutcome) -> Style {
    match outcome {
        HostOutcome::Ok => GOOD,
        HostOutcome::Changed | HostOutcome::Pending | HostOutcome::Unknown => CHANGE,
        HostOutcome::Skipped | HostOutcome::Cancelled | HostOutcome::Running => DIM,
        _ => BAD,
    }
}
