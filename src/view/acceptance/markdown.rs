//! Acceptance tests as Markdown for a comment, an issue or a chat: bad parts first, passed measurements as one line.

use super::{
    MeasurementEnd, describe_comparison, describe_counts, describe_end, describe_range, fold_host_names,
    name_measurement, name_test, split_rows,
};
use crate::engine::{AcceptanceReport, FabricFault, TestReport, TestRow};
use crate::view::markdown::page::{MarkdownPage, code_span, prose_span};
use crate::view::{format_count, format_duration};
use std::io::{self, Write};

/// Maximum characters of a name.
const MAX_NAME_CHARS: usize = 120;
/// Maximum characters of a reason.
const MAX_REASON_CHARS: usize = 300;

/// Writes the whole page, worst first.
pub fn write_markdown(report: &AcceptanceReport, out: &mut dyn Write) -> io::Result<()> {
    let mut page = MarkdownPage::default();
    let word = if report.is_accepted() { "accepted" } else { "not accepted" };
    page.push_section("heading", &[format!("### forge test: {word}, {}\n\n", describe_counts(report))]);
    if !report.simulated.is_empty() {
        let hosts = code_span(&fold_host_names(&report.simulated), MAX_NAME_CHARS);
        page.push_section("notice", &[format!("> **Simulated, no real hardware:** {hosts}\n\n")]);
    }
    page.push_section("summary", &[render_summary(report)]);
    let parts = report.tests.iter().flat_map(|test| &test.faults);
    parts.for_each(|fault| page.push_section("bad part", &[render_fault(fault)]));
    report.tests.iter().filter(|test| !test.suspects.is_empty()).for_each(|test| {
        let suspects: Vec<String> = test.suspects.iter().map(|part| prose_span(part, MAX_NAME_CHARS)).collect();
        page.push_section("suspect", &[format!("- **one of these is bad** {}\n", suspects.join(", "))]);
    });
    report.tests.iter().for_each(|test| push_test(&name_test(report, test), test, &mut page));
    let skipped = report.skipped.iter().map(|host| ("not tested", host));
    for (state, skipped) in skipped.chain(report.list_unfinished_hosts()) {
        let host = code_span(skipped.host.as_str(), MAX_NAME_CHARS);
        let reason = prose_span(skipped.reason.raw(), MAX_REASON_CHARS);
        page.push_section("host", &[format!("- **{state}** {host}: {reason}\n")]);
    }
    out.write_all(page.finish("The JSON report is complete.").as_bytes())
}

fn render_summary(report: &AcceptanceReport) -> String {
    let compared = |run: &String| describe_comparison(&code_span(run, MAX_NAME_CHARS), report.count_compared());
    let against = report.against.as_ref().map(|run| format!(", {}", compared(run)));
    let interrupted = if report.interrupted { " **Interrupted.**" } else { "" };
    format!(
        "Set {} on cluster {}, run {}, {}{}.{interrupted}\n\n",
        code_span(&report.set, MAX_NAME_CHARS),
        code_span(&report.cluster, MAX_NAME_CHARS),
        code_span(&report.run, MAX_NAME_CHARS),
        format_duration(report.took),
        against.unwrap_or_default()
    )
}

fn render_fault(fault: &FabricFault) -> String {
    let evidence: Vec<String> = fault.evidence.iter().map(|line| prose_span(line, MAX_REASON_CHARS)).collect();
    format!("- **bad** {} (slow: {})\n", prose_span(&fault.part, MAX_NAME_CHARS), evidence.join(", "))
}

fn push_test(name: &str, test: &TestReport, page: &mut MarkdownPage) {
    let about = prose_span(&test.about, MAX_REASON_CHARS);
    page.push_section("test", &[format!("\n#### {}\n\n{about}\n\n", code_span(name, MAX_NAME_CHARS))]);
    let (others, passed) = split_rows(test);
    others.iter().for_each(|row| page.push_section("measurement", &[render_row(test, row)]));
    match passed.as_slice() {
        [] => {}
        [row] => page.push_section("measurement", &[render_row(test, row)]),
        rows => {
            let range = prose_span(&describe_range(test, rows), MAX_REASON_CHARS);
            page.push_section("summary", &[format!("- pass: {}, {range}\n", format_count(rows.len(), "measurement"))]);
        }
    }
}

fn render_row(test: &TestReport, row: &TestRow) -> String {
    let end = MeasurementEnd::of(row);
    let word = if end == MeasurementEnd::Pass { end.word().to_owned() } else { format!("**{}**", end.word()) };
    let name = code_span(&name_measurement(test, row), MAX_NAME_CHARS);
    format!("- {word} {name}: {}\n", prose_span(&describe_end(test, row), MAX_REASON_CHARS))
}
