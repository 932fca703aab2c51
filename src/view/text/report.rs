//! Reports: problems first, then one row per host, then the summary and the next command.

use super::{TextWriter, host_rows, plan_sections, problems};
use crate::acceptance::TestVerdict;
use crate::engine::{RunReport, StepResult, VerifyResult};
use crate::model::{ExitCode, HostOutcome};
use crate::view::fold::fold_names;
use crate::view::style::{BAD, GOOD, paint};
use crate::view::{escape, format_count, format_duration, formatting};
use std::io::{self, Write};

/// Writes the whole report.
pub fn write_report(text: &TextWriter, report: &RunReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    super::shared_lines::write_simulated(&report.simulated, out)?;
    problems::write_problems(report, out)?;
    write_left_behind(report, out)?;
    let accepted = report.hosts.iter().flat_map(|host| host.accepted.iter().map(move |rule| (rule, &host.host)));
    plan_sections::write_accepted_rules(accepted, out)?;
    host_rows::write_rows(report, out)?;
    write_budget_stop(report, out)?;
    writeln!(out, "{}", closing_line(report, exit))?;
    write_next_step(text, report, exit, out)
}

/// Lists done, not done and failed hosts of a run that the limits of the rollout stopped. The run can continue without a
/// rollback.
fn write_budget_stop(report: &RunReport, out: &mut dyn Write) -> io::Result<()> {
    if !report.budget_spent {
        return Ok(());
    }
    let parts: [(&str, &[HostOutcome]); 6] = [
        ("done", &[HostOutcome::Ok, HostOutcome::Changed]),
        ("done, but waiting for a reload or reboot", &[HostOutcome::Pending]),
        ("not done", &[HostOutcome::Cancelled, HostOutcome::Skipped, HostOutcome::Unknown]),
        ("failed", &[HostOutcome::Failed]),
        ("blocked, stale or locked", &[HostOutcome::Blocked, HostOutcome::Stale, HostOutcome::Locked]),
        ("unreachable", &[HostOutcome::Unreachable]),
    ];
    for (head, outcomes) in parts {
        let hosts = report.hosts.iter().filter(|host| outcomes.contains(&host.outcome));
        let names = fold_names(hosts.map(|host| host.host.as_str()));
        if !names.is_empty() {
            writeln!(out, "{head}: {}", escape::escape_line(&names))?;
        }
    }
    writeln!(out)
}

fn write_left_behind(report: &RunReport, out: &mut dyn Write) -> io::Result<()> {
    let hosts = report.hosts.iter().flat_map(|host| host.undeclared.iter().map(|left| (left, &host.host)));
    plan_sections::write_left_behind(hosts, out)
}

/// Returns the summary line: result, hosts, steps, verifications and duration.
fn closing_line(report: &RunReport, exit: ExitCode) -> String {
    let outcomes: Vec<_> =
        HostOutcome::ALL.iter().map(|outcome| (report.count_hosts(*outcome), outcome.name())).collect();
    let hosts = format!(
        "{}: {}",
        formatting::summarize_hosts(report.hosts.iter().map(|host| &host.host)),
        formatting::join_counts(&outcomes)
    );
    let mut parts = vec![hosts.trim_end_matches(": ").to_owned()];
    parts.extend(format_changed_steps(report));
    parts.extend(format_not_undone(report));
    parts.extend(format_verifications(report));
    parts.extend(format_return_tests(report));
    parts.extend(report.budget_spent.then(|| "stopped by the limits of the rollout".to_owned()));
    let (style, word) = ending_word(report, exit);
    format!("{} {} ({})", paint(style, format!("{word}:")), parts.join("; "), format_duration(report.took))
}

fn ending_word(report: &RunReport, exit: ExitCode) -> (anstyle::Style, &'static str) {
    match (exit, report.verb.as_str()) {
        (ExitCode::Done, "verify") => (GOOD, "verified"),
        (ExitCode::Done, _) => (GOOD, "applied"),
        _ if report.interrupted => (BAD, "interrupted"),
        (_, "verify") => (BAD, "not verified"),
        _ => (BAD, "not all applied"),
    }
}

/// Returns the number of changes that an undo leaves, if there are any.
pub fn format_not_undone(report: &RunReport) -> Option<String> {
    let left = report.count_not_undone();
    (left > 0).then(|| format!("{} not undone", format_count(left, "change")))
}

fn format_changed_steps(report: &RunReport) -> Option<String> {
    let of = |test: fn(&StepResult) -> bool| {
        report.hosts.iter().flat_map(|host| &host.steps).filter(|step| test(&step.result)).count()
    };
    let changed = of(|result| matches!(result, StepResult::Changed));
    (changed > 0).then(|| format!("{} changed", format_count(changed, "step")))
}

fn format_verifications(report: &RunReport) -> Option<String> {
    let counts = host_rows::count_verifications(report.hosts.iter().flat_map(|host| &host.verify));
    (!counts.is_empty()).then(|| format!("verifications: {counts}"))
}

/// Returns `tests before return: 12 passed, 1 failed`, if hosts were tested.
fn format_return_tests(report: &RunReport) -> Option<String> {
    let of = |test: fn(&TestVerdict) -> bool| {
        report.hosts.iter().flat_map(|host| &host.return_tests).filter(|result| test(&result.verdict)).count()
    };
    let counts = formatting::join_counts(&[
        (of(|verdict| matches!(verdict, TestVerdict::Pass { .. })), "passed"),
        (of(|verdict| matches!(verdict, TestVerdict::Fail { .. })), "failed"),
        (of(|verdict| matches!(verdict, TestVerdict::NotMeasured { .. })), "not measured"),
    ]);
    (!counts.is_empty()).then(|| format!("tests before return: {counts}"))
}

/// Returns `fix the failed verification `web: page answers` (recipes/web.yaml:30:5)`, with the number of others.
fn describe_failed_check(report: &RunReport) -> Option<String> {
    let all = report.hosts.iter().flat_map(|host| &host.verify);
    // A plan shows what steps would change, so verifications of steps are not named here.
    let failed = all.filter(|verify| matches!(verify.result, VerifyResult::Failed { .. }) && !verify.of_step);
    let mut names: Vec<(&str, &str, &str)> =
        failed.map(|verify| (&*verify.recipe, &*verify.name, &*verify.place)).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let (recipe, name, place) = names.first()?;
    let place = if place.is_empty() { String::new() } else { format!(" ({})", escape::escape_line(place)) };
    let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
    Some(format!(
        "fix the failed verification `{}: {}`{place}{more}",
        escape::escape_line(recipe),
        escape::escape_line(name)
    ))
}

/// Suggests the next command for the exit code.
fn write_next_step(text: &TextWriter, report: &RunReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    if let Some(check) =
        describe_failed_check(report).filter(|_| exit == ExitCode::VerifyFailed && text.target.is_some())
    {
        return writeln!(out, "next: {check}");
    }
    match (exit, report.verb.as_str()) {
        (ExitCode::Done, _) => Ok(()),
        (_, "apply") if report.interrupted => text.write_resume_command(out),
        (ExitCode::Stale, _) => text.write_next_command("plan", out),
        (ExitCode::VerifyFailed, "apply") => text.write_next_command("verify", out),
        // Pending, blocked and unknown steps stay so until their cause is removed, which a plan shows.
        (ExitCode::Pending | ExitCode::Unknown, _) => text.write_next_command("plan", out),
        (ExitCode::HostsFailed, _) if report.count_hosts(HostOutcome::Failed) == 0 => {
            text.write_next_command("plan", out)
        }
        (_, "verify") => text.write_next_command("plan", out),
        _ => text.write_next_command("apply", out),
    }
}
