//! Acceptance tests as one self-contained HTML page without scripts, with the output of the programs.
//!
//! Architecture Invariant: text of hosts enters only through the escape functions, and the page's
//! Content-Security-Policy names the digest of its one style: nothing else is loaded or run.

use super::{
    MeasurementEnd, describe_comparison, describe_counts, describe_end, fold_host_names, name_measurement, name_test,
    split_rows,
};
use crate::engine::{AcceptanceReport, TestReport, TestRow};
use crate::view::drift::html::escape::{html_line, html_prose, html_truncated};
use crate::view::{escape, format_duration};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

const STYLE: &str = include_str!("page.css");
/// Maximum characters of a sentence.
const MAX_SENTENCE_CHARS: usize = 600;
/// Bytes of programs' output in a page. The JSON report has the rest.
const MAX_OUTPUT_BYTES: usize = 2_000_000;

/// Writes the page.
pub fn write_html(report: &AcceptanceReport, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n{}</head>\n<body>\n{}",
        render_head(report),
        render_top(report)
    )?;
    let mut room = MAX_OUTPUT_BYTES;
    report
        .tests
        .iter()
        .try_for_each(|test| out.write_all(render_test(&name_test(report, test), test, &mut room).as_bytes()))?;
    out.write_all(render_skipped(report).as_bytes())?;
    writeln!(out, "</body>\n</html>")
}

fn render_head(report: &AcceptanceReport) -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "<meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"referrer\" content=\"no-referrer\">
<link rel=\"icon\" href=\"data:,\">
<title>forge test: {}, {}</title>
<style>{STYLE}</style>
",
        html_line(&report.cluster),
        html_line(&report.run)
    )
}

fn render_top(report: &AcceptanceReport) -> String {
    let (word, class) = if report.is_accepted() { ("accepted", "pass") } else { ("not accepted", "bad") };
    let compared = |run: &String| html_line(&describe_comparison(run, report.count_compared()));
    let against = report.against.as_ref().map(|run| format!(" · {}", compared(run)));
    let mut top = format!(
        "<h1>forge test: {}: <span class=\"{class}\">{word}</span></h1>\n<p>{}</p>\n<p>set {} · run {} · took {}{}{}</p>\n",
        html_line(&report.cluster),
        html_line(&describe_counts(report)),
        html_line(&report.set),
        html_line(&report.run),
        format_duration(report.took),
        against.unwrap_or_default(),
        if report.interrupted { " · interrupted" } else { "" }
    );
    let sentence = |text: &str| html_prose(text, MAX_SENTENCE_CHARS);
    if !report.simulated.is_empty() {
        let hosts = html_truncated(&fold_host_names(&report.simulated), MAX_SENTENCE_CHARS);
        top += &format!("<p class=\"open\">Simulated, no real hardware: {hosts}</p>\n");
    }
    for fault in report.tests.iter().flat_map(|test| &test.faults) {
        let evidence: String = fault.evidence.iter().map(|line| format!("<li>{}</li>", sentence(line))).collect();
        top += &format!("<h2 class=\"bad\">bad: {}</h2>\n<ul>{evidence}</ul>\n", sentence(&fault.part));
    }
    for test in report.tests.iter().filter(|test| !test.suspects.is_empty()) {
        let suspects: String = test.suspects.iter().map(|part| format!("<li>{}</li>", sentence(part))).collect();
        top += &format!("<h2 class=\"open\">one of these is bad</h2>\n<ul>{suspects}</ul>\n");
    }
    top
}

fn render_test(name: &str, test: &TestReport, room: &mut usize) -> String {
    let (others, passed) = split_rows(test);
    let rows: String = others.iter().chain(&passed).map(|row| render_row(test, row, room)).collect();
    format!(
        "<h2>{}</h2>\n<p>{}</p>\n<table>\n{rows}</table>\n",
        html_line(name),
        html_prose(&test.about, MAX_SENTENCE_CHARS)
    )
}

fn render_row(test: &TestReport, row: &TestRow, room: &mut usize) -> String {
    let end = MeasurementEnd::of(row);
    let class = if end == MeasurementEnd::NotMeasured { "open" } else { end.word() };
    format!(
        "<tr><td class=\"{class}\">{}</td><td>{}</td><td>{}{}</td></tr>\n",
        end.word(),
        html_line(&name_measurement(test, row)),
        html_prose(&describe_end(test, row), MAX_SENTENCE_CHARS),
        render_outputs(row, room)
    )
}

/// Returns what the programs printed, folded; nothing once the page has no room for it.
fn render_outputs(row: &TestRow, room: &mut usize) -> String {
    let lines: Vec<String> =
        row.outputs.iter().flat_map(|output| escape::escape_block(output.raw())).map(|line| html_line(&line)).collect();
    let text = lines.join("\n");
    match (text.is_empty(), room.checked_sub(text.len())) {
        (true, _) => String::new(),
        (false, None) => "<p>output: see the JSON report</p>".to_owned(),
        (false, Some(rest)) => {
            *room = rest;
            format!("<details><summary>output</summary><pre>{text}</pre></details>")
        }
    }
}

fn render_skipped(report: &AcceptanceReport) -> String {
    let row = |(state, skipped): (&str, &crate::engine::SkippedHost)| {
        let (host, reason) = (html_line(skipped.host.as_str()), html_prose(skipped.reason.raw(), MAX_SENTENCE_CHARS));
        format!("<tr><td class=\"open\">{state}</td><td>{host}</td><td>{reason}</td></tr>\n")
    };
    let skipped = report.skipped.iter().map(|host| ("not tested", host));
    let rows: String = skipped.chain(report.list_unfinished_hosts()).map(row).collect();
    match rows.is_empty() {
        true => rows,
        false => format!("<h2>hosts</h2>\n<table>\n{rows}</table>\n"),
    }
}
