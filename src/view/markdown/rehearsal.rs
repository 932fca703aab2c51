//! A rehearsal as Markdown for a review comment.

use super::page::{MarkdownPage, prose_span};
use super::{MAX_VALUE_CHARS, NAME};
use crate::plan::{HostRehearsal, RehearsalReport, RehearsedResult, RehearsedStep};
use crate::view::format_duration;
use crate::view::rehearsal_lines::{describe_space, list_folded_lines, list_undeclared_lines, summarize_rehearsal};
use std::io::{self, Write};

/// Writes a rehearsal for a review.
pub fn write_rehearsal(report: &RehearsalReport, out: &mut dyn Write) -> io::Result<()> {
    let mut page = MarkdownPage::default();
    push_rehearsal(&mut page, report);
    out.write_all(page.finish("`--format json` is complete.").as_bytes())
}

/// Adds a rehearsal to a page.
fn push_rehearsal(page: &mut MarkdownPage, report: &RehearsalReport) {
    page.push_section("heading", &[format!("### forge rehearse: {}\n\n", summarize_rehearsal(report))]);
    for host in &report.hosts {
        let head = render_host_heading(host);
        page.push_section("host", &[head.clone() + &render_steps(host, true), head + &render_steps(host, false)]);
        for (kind, line) in list_undeclared_lines(host) {
            page.push_section(
                "finding",
                &[format!("- beyond the plan, {kind}: {}\n", prose_span(&line, MAX_VALUE_CHARS))],
            );
        }
        let folded: Vec<String> = list_folded_lines(host).iter().map(|line| prose_span(line, NAME)).collect();
        if !folded.is_empty() {
            page.push_section("count", &[format!("- not listed: {}\n", folded.join(", "))]);
        }
        let notes = host.notes.iter().map(|note| format!("- note: {}\n", prose_span(note.raw(), MAX_VALUE_CHARS)));
        page.push_section("note", &[notes.collect()]);
        if let Some(space) = host.space {
            page.push_section("note", &[format!("- memory of the view: {}\n", describe_space(space))]);
        }
        page.push_section("line", &["\n".to_owned()]);
    }
    let left_out = report.left_out.iter().map(|part| format!("- not rehearsed on any host: {part}\n"));
    page.push_section("note", &[left_out.collect()]);
}

fn render_host_heading(host: &HostRehearsal) -> String {
    let reason = match host.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", prose_span(host.reason.raw(), MAX_VALUE_CHARS)),
    };
    format!("**{}** {}{reason}\n\n", prose_span(host.host.as_str(), NAME), host.outcome.name())
}

/// Lists the steps; without `all`, only those that did not run as declared.
fn render_steps(host: &HostRehearsal, all: bool) -> String {
    let is_good = |step: &&RehearsedStep| {
        matches!(step.result, RehearsedResult::Changed | RehearsedResult::Pending | RehearsedResult::Unchanged)
    };
    let steps = host.steps.iter().filter(|step| all || !is_good(step)).map(render_step);
    let verify = host.verify.iter().map(|verify| {
        let word = if verify.unknown { "unknown" } else { "failed" };
        let name = prose_span(&format!("{}: {}", verify.recipe, verify.name), NAME);
        format!("- **{word}** verification {name}: {}\n", prose_span(verify.reason.raw(), MAX_VALUE_CHARS))
    });
    steps.chain(verify).collect()
}

fn render_step(step: &RehearsedStep) -> String {
    let word = match step.result {
        RehearsedResult::Changed => "ok",
        RehearsedResult::Pending => "ok, pending",
        RehearsedResult::Unchanged => "unchanged",
        RehearsedResult::Failed => "**failed**",
        RehearsedResult::NotRehearsed => "**not rehearsed**",
    };
    let only = if step.only_in_view { " (in the view only)" } else { "" };
    let reason = match step.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", prose_span(step.reason.raw(), MAX_VALUE_CHARS)),
    };
    let took = if step.took.is_zero() { String::new() } else { format!(" ({})", format_duration(step.took)) };
    format!("- {word} {}{only}{reason}{took}\n", prose_span(&step.id.to_string(), NAME))
}
