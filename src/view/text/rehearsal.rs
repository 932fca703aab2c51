//! The text of a rehearsal: per host its steps, what changed beyond the plan, and what was not rehearsed.

use crate::model::{HostOutcome, UntrustedText};
use crate::plan::{HostRehearsal, RehearsalReport, RehearsedResult, RehearsedStep};
use crate::view::rehearsal_lines::{describe_space, list_folded_lines, list_undeclared_lines, summarize_rehearsal};
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::{escape, format_duration};
use std::io::{self, Write};

/// Maximum lines of one kind of finding. More are counted.
const MAX_LINES: usize = 50;

/// Writes a rehearsal.
pub fn write_rehearsal(report: &RehearsalReport, out: &mut dyn Write) -> io::Result<()> {
    for host in &report.hosts {
        write_host(host, out)?;
        writeln!(out)?;
    }
    if !report.left_out.is_empty() {
        writeln!(out, "not rehearsed on any host:")?;
        report.left_out.iter().try_for_each(|part| writeln!(out, "  {}", escape::escape_line(part)))?;
    }
    writeln!(out, "{} ({})", summarize_rehearsal(report), format_duration(report.took))
}

fn write_host(host: &HostRehearsal, out: &mut dyn Write) -> io::Result<()> {
    let name = paint(HEAD, format!("{}:", escape::escape_line(host.host.as_str())));
    let reason = match (host.reason.is_empty(), host.steps.is_empty() && host.outcome == HostOutcome::Ok) {
        (false, _) => format!(": {}", escape::escape_untrusted(&host.reason)),
        (true, true) => ": the plan has no changes".to_owned(),
        (true, false) => String::new(),
    };
    let word = match host.outcome {
        HostOutcome::Changed => "rehearsed",
        HostOutcome::Unknown if host.steps.iter().all(|step| step.result == RehearsedResult::NotRehearsed) => {
            "not rehearsed"
        }
        HostOutcome::Unknown
            if host.verify.is_empty() && host.steps.iter().all(|step| step.result != RehearsedResult::NotRehearsed) =>
        {
            "not certain"
        }
        HostOutcome::Unknown => "rehearsed in part",
        outcome => outcome.name(),
    };
    writeln!(out, "{name} {}{reason}", paint(outcome_style(host.outcome), word))?;
    if let Some(hint) = &host.hint {
        writeln!(out, "    hint: {}", escape::escape_untrusted(hint))?;
    }
    host.steps.iter().try_for_each(|step| write_step(step, out))?;
    for verify in &host.verify {
        let word = if verify.unknown { "unknown" } else { "failed" };
        let reason = escape::escape_untrusted(&verify.reason);
        let name = format!("{}: {}", verify.recipe, verify.name);
        writeln!(out, "  {} verification `{}`: {reason}", paint(BAD, word), escape::escape_line(&name))?;
    }
    write_undeclared(host, out)?;
    host.notes.iter().try_for_each(|note| writeln!(out, "  note: {}", escape::escape_untrusted(note)))?;
    match host.space {
        Some(space) => writeln!(out, "  {}", paint(DIM, format!("memory of the view: {}", describe_space(space)))),
        None => Ok(()),
    }
}

fn outcome_style(outcome: HostOutcome) -> anstyle::Style {
    match outcome {
        HostOutcome::Ok | HostOutcome::Changed => GOOD,
        HostOutcome::Unknown => UNKNOWN,
        _ => BAD,
    }
}

fn write_step(step: &RehearsedStep, out: &mut dyn Write) -> io::Result<()> {
    let (style, word) = match step.result {
        RehearsedResult::Changed => (GOOD, "ok"),
        RehearsedResult::Pending => (GOOD, "ok, pending"),
        RehearsedResult::Unchanged => (GOOD, "unchanged"),
        RehearsedResult::Failed => (BAD, "failed"),
        RehearsedResult::NotRehearsed => (UNKNOWN, "not rehearsed"),
    };
    let only = if step.only_in_view { " (in the view only)" } else { "" };
    let took = if step.took.is_zero() { String::new() } else { format!(" ({})", format_duration(step.took)) };
    let reason =
        if step.reason.is_empty() { String::new() } else { format!(": {}", escape::escape_untrusted(&step.reason)) };
    let id = step.id.to_string();
    let id = escape::escape_line(&id);
    writeln!(out, "  {} {id}{only}{reason}{}", paint(style, word), paint(DIM, took))?;
    write_output(&step.output, out)
}

fn write_output(output: &UntrustedText, out: &mut dyn Write) -> io::Result<()> {
    output.raw().lines().try_for_each(|line| writeln!(out, "    | {}", escape::escape_line(line)))
}

fn write_undeclared(host: &HostRehearsal, out: &mut dyn Write) -> io::Result<()> {
    let lines = list_undeclared_lines(host);
    if !lines.is_empty() {
        writeln!(out, "  {}", paint(UNKNOWN, "beyond the plan:"))?;
    }
    for of_kind in lines.chunk_by(|(kind, _), (other, _)| kind == other) {
        for (kind, line) in of_kind.iter().take(MAX_LINES) {
            writeln!(out, "    {kind:<8} {}", escape::escape_line(line))?;
        }
        if let Some((kind, _)) = of_kind.get(MAX_LINES) {
            writeln!(out, "    {kind:<8} and {} more: see `--format json`", of_kind.len() - MAX_LINES)?;
        }
    }
    let folded = list_folded_lines(host);
    if folded.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {}", paint(DIM, format!("not listed: {}", escape::escape_line(&folded.join(", ")))))
}
