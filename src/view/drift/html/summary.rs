//! The top of the page: the run and the counts of findings.

use super::escape::{html_line, html_truncated};
use crate::drift::FindingSeverity;
use crate::model::HostName;
use crate::view::drift::{DriftReportInput, fold_hosts, is_conclusive};
use crate::view::{format_count, format_duration, formatting};
use std::fmt::Write as _;

/// Returns the heading and the notices.
pub fn render_header(told: &DriftReportInput<'_>) -> String {
    let drift = told.drift;
    let mut out = format!(
        "<header><h1>forge drift: {}</h1><button id=\"theme\" type=\"button\" hidden>dark</button>\n<p>{} · {} · run {} · forge {} · took {}</p></header>\n",
        html_line(&drift.cluster),
        html_line(&drift.time),
        html_line(&drift.inventory),
        html_line(&drift.run),
        html_line(&drift.forge),
        format_duration(drift.took)
    );
    let mut notice = |text: String| out += &format!("<p class=\"notice\">{text}</p>\n");
    let recordings = told.list_recordings();
    if !recordings.is_empty() {
        let names = recordings.join(", ");
        notice(format!("From recorded answers; no host was contacted: {}", html_truncated(&names, 1000)));
    }
    if !drift.simulated.is_empty() {
        let names: Vec<&HostName> = drift.simulated.iter().collect();
        notice(format!("Simulated, no real hardware: {}", html_truncated(&fold_hosts(&names), 400)));
    }
    if !is_conclusive(told.exit) {
        notice(format!("Incomplete result: {} (exit code {}).", told.exit.meaning(), told.exit.code()));
    }
    if let Some(why) = &drift.no_history {
        notice(format!("No history, so all findings are reported as new: {}", html_line(why)));
    }
    out
}

/// Returns a tile for each count.
pub fn render_tiles(told: &DriftReportInput<'_>) -> String {
    let counts = told.drift.count_findings();
    let mut tiles = vec![("hosts", counts.hosts, "hosts"), ("drifted", counts.drifted, "drifted")];
    for severity in FindingSeverity::WORST_FIRST {
        tiles.push((severity.name(), counts.by_severity.get(severity.name()).copied().unwrap_or(0), severity.name()));
    }
    tiles.extend([
        ("unknown", counts.unknown, "unknown"),
        ("unreachable", counts.unreachable, "unreachable"),
        ("good", counts.settled, "unchanged"),
        ("follow", counts.follow, "waiting for another step"),
        ("resolved", counts.resolved, "resolved"),
        ("ignored", counts.ignored, "ignored"),
    ]);
    let all = formatting::summarize_hosts(told.drift.hosts.iter().map(|host| &host.host));
    let mut out = String::from("<section id=\"summary\"><h2>");
    out += &match counts.findings {
        0 if is_conclusive(told.exit) => format!("no drift on {all}"),
        0 => match formatting::summarize_answers(told.drift.hosts.iter().map(|host| (&host.host, &host.reach))) {
            Some(observed) => format!("no findings on {observed}"),
            None => "no host answered".to_owned(),
        },
        some => {
            format!("{} on {}", format_count(some, "finding"), formatting::format_drifted_hosts(told.drift, &counts))
        }
    };
    out += "</h2><dl>";
    for (class, number, word) in tiles {
        let zero = if number == 0 { " zero" } else { "" };
        // Writing to a `String` cannot fail.
        let _ = write!(out, "<div class=\"{class}{zero}\"><dt>{word}</dt><dd>{number}</dd></div>");
    }
    out + "</dl></section>\n"
}
