//! Drift as Markdown for a comment, an issue or a chat: equal findings once, diffs in collapsed sections.
//!
//! Architecture Invariant: the page never exceeds the limit of a comment, and no text of a host acts as markup, as in
//! the page of a plan.

use super::{DriftReportInput, finding_details, fold_hosts};
use crate::drift::{DriftCause, DriftFinding, FindingSeverity};
use crate::facts::outliers::FactOutlier;
use crate::model::{HostName, UntrustedText};
use crate::view::markdown::page::{MarkdownPage, code_block, code_span, html_code, prose_span};
use crate::view::markdown::{format_check_output, render_recordings};
use crate::view::text::drift::entry::{DriftEntry, group_entries};
use crate::view::{format_count, format_duration, formatting, outlier_text};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum characters of a name.
const MAX_NAME_CHARS: usize = 80;
/// Maximum characters of a value or a reason.
const MAX_VALUE_CHARS: usize = 300;

/// Writes the whole page, worst first.
pub fn write_markdown(told: &DriftReportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut page = MarkdownPage::default();
    page.push_section("heading", &[render_heading(told)]);
    page.push_section("recordings", &[render_recordings(&told.list_recordings())]);
    page.push_section("summary", &[render_summary(told)]);
    let mut entries = group_entries(&told.drift.findings);
    entries.sort_by_key(|entry| std::cmp::Reverse((entry.first().is_hardware_fault(), entry.first().severity)));
    entries.iter().for_each(|entry| {
        page.push_section("finding", &[render_finding(entry, told, true), render_finding(entry, told, false)])
    });
    finding_details::group_unknown(told.drift).iter().for_each(|(unsure, on)| {
        let name = code_span(&finding_details::format_step_name(&unsure.recipe, &unsure.step), MAX_NAME_CHARS);
        page.push_section("unknown", &[notice_line("unknown", &name, &unsure.reason, on)]);
    });
    finding_details::group_unreachable_hosts(told.drift).iter().for_each(|(why, on)| {
        page.push_section("unreachable group", &[notice_line("unreachable", "", &why.why, on)]);
    });
    finding_details::group_warnings(told.drift).iter().for_each(|(warning, on)| {
        page.push_section("warning", &[notice_line("warning", "", &warning.why, on)]);
    });
    if let Some(outliers) = &told.drift.outliers {
        let (word, rest) = outlier_text::summarize_outliers(outliers);
        page.push_section("summary", &[format!("**{word}** {rest}\n\n")]);
        outliers.odd.iter().for_each(|one| page.push_section("odd value", &[render_outlier(one)]));
    }
    out.write_all(page.finish("The JSON report is complete.").as_bytes())
}

fn render_heading(told: &DriftReportInput<'_>) -> String {
    let counts = told.drift.count_findings();
    let hosts = formatting::summarize_hosts(told.drift.hosts.iter().map(|host| &host.host));
    let open = formatting::join_counts(&[(counts.unknown, "unknown (?)"), (counts.unreachable, "unreachable")]);
    let open = if open.is_empty() { open } else { format!("; {open}") };
    match counts.findings {
        0 if open.is_empty() => format!("### forge drift: none on {hosts}\n\n"),
        0 => match formatting::summarize_answers(told.drift.hosts.iter().map(|host| (&host.host, &host.reach))) {
            Some(observed) => format!("### forge drift: no findings on {observed}{open}\n\n"),
            None => format!("### forge drift: no host answered{open}\n\n"),
        },
        some => {
            let on = formatting::format_drifted_hosts(told.drift, &counts);
            format!("### forge drift: {} on {on}{open}\n\n", format_count(some, "finding"))
        }
    }
}

fn render_summary(told: &DriftReportInput<'_>) -> String {
    let (drift, counts) = (told.drift, told.drift.count_findings());
    let mut lines = String::new();
    if !drift.simulated.is_empty() {
        let names: Vec<&HostName> = drift.simulated.iter().collect();
        lines += &format!("> **Simulated, no real hardware:** {}\n\n", code_span(&fold_hosts(&names), MAX_NAME_CHARS));
    }
    if counts.findings > 0 {
        let severities = FindingSeverity::WORST_FIRST.map(FindingSeverity::name);
        let (severities, causes) = (
            join_counts_by_name(&counts.by_severity, &severities),
            join_counts_by_name(&counts.by_cause, &DriftCause::ALL.map(DriftCause::name)),
        );
        lines += &format!("By severity: {severities}. By cause: {causes}.\n\n");
    }
    let rest = [
        (counts.settled, "unchanged"),
        (counts.follow, "waiting for another step"),
        (counts.ignored, "ignored"),
        (counts.resolved, "resolved"),
    ];
    let rest = formatting::join_counts(&rest);
    lines += &format!(
        "{}{} in {}.\n\n",
        rest,
        if rest.is_empty() { "Checked" } else { "; checked" },
        format_duration(drift.took)
    );
    let (cluster, inventory) = (code_span(&drift.cluster, MAX_NAME_CHARS), code_span(&drift.inventory, MAX_NAME_CHARS));
    let (time, run) = (code_span(&drift.time, MAX_NAME_CHARS), code_span(&drift.run, MAX_NAME_CHARS));
    lines += &format!("Cluster {cluster}, declared in {inventory}; {time}, run {run}\n\n");
    lines
}

fn render_outlier(one: &FactOutlier) -> String {
    let values: Vec<String> = one
        .odd
        .iter()
        .map(|value| {
            let (told, hosts) =
                (outlier_text::format_odd_value(&one.common, &value.value), outlier_text::fold_hosts(&value.hosts));
            format!("{} on {}", code_span(&told, MAX_VALUE_CHARS), code_span(&hosts, MAX_NAME_CHARS))
        })
        .collect();
    let (path, common) = (
        code_span(one.path.raw(), MAX_NAME_CHARS),
        code_span(&outlier_text::format_value(&one.common), MAX_VALUE_CHARS),
    );
    format!("- **outlier** {path}: {}; {common} on {}\n\n", values.join("; "), outlier_text::format_majority(one))
}

/// Returns the counts by name, in the order of `names`.
fn join_counts_by_name(counts: &BTreeMap<String, usize>, names: &[&str]) -> String {
    let parts: Vec<(usize, &str)> = names.iter().map(|name| (counts.get(*name).copied().unwrap_or(0), *name)).collect();
    formatting::join_counts(&parts)
}

/// Returns one step for all hosts on which it is equal, with collapsed details if `whole`, else as one line.
fn render_finding(entry: &DriftEntry<'_>, told: &DriftReportInput<'_>, whole: bool) -> String {
    match whole {
        true => format!(
            "<details><summary>{}</summary>\n\n{}\n</details>\n\n",
            render_finding_head(entry, &html_code, ["<strong>", "</strong>"]),
            render_finding_body(entry, &told.drift.time)
        ),
        false => format!("- {}\n\n", render_finding_head(entry, &code_span, ["**", "**"])),
    }
}

/// Returns the head of a finding. `quote` quotes for the grammar at its place.
fn render_finding_head(entry: &DriftEntry<'_>, quote: &dyn Fn(&str, usize) -> String, strong: [&str; 2]) -> String {
    let (first, hosts) = (entry.first(), entry.hosts());
    let severity = format!("{}{}{}", strong[0], first.severity.name(), strong[1]);
    let on = format!(
        "{}: {}",
        formatting::summarize_hosts(hosts.iter().copied()),
        quote(&fold_hosts(&hosts), MAX_NAME_CHARS)
    );
    format!(
        "{severity} {}, {} on {on}",
        quote(&finding_details::describe_subject(first), MAX_NAME_CHARS),
        first.cause.describe()
    )
}

fn render_finding_body(entry: &DriftEntry<'_>, now: &str) -> String {
    let first = entry.first();
    let firsts: Vec<&DriftFinding> = entry.attributes().iter().map(|findings| findings[0]).collect();
    let name = finding_details::format_step_name(&first.recipe, &first.step);
    let mut out = format!(
        "{}: {}\n\n",
        code_span(&name, MAX_NAME_CHARS),
        prose_span(&finding_details::explain_cause(&firsts), MAX_VALUE_CHARS)
    );
    firsts.iter().for_each(|finding| push_attribute(finding, &mut out));
    if let Some(printed) = entry.check_output() {
        out += &format_check_output(&printed);
    }
    let all: Vec<&DriftFinding> = entry.iter_findings().collect();
    for (label, text) in finding_details::list_details(&all, now) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            out,
            "- {label}: {}",
            if label == finding_details::SOURCE_LABEL {
                code_span(&text, MAX_VALUE_CHARS)
            } else {
                prose_span(&text, MAX_VALUE_CHARS)
            }
        );
    }
    out
}

fn push_attribute(finding: &DriftFinding, out: &mut String) {
    let value = finding_details::attribute_difference(finding);
    let Some(name) =
        finding.attribute.as_deref().filter(|_| !matches!(value, finding_details::AttributeDifference::Said))
    else {
        return;
    };
    let name = code_span(name, MAX_NAME_CHARS);
    let shown = finding_details::describe_difference(&value, |text| code_span(text, MAX_VALUE_CHARS));
    // Writing to a `String` cannot fail.
    let _ = match value {
        finding_details::AttributeDifference::Diff { diff, .. } => {
            writeln!(out, "- {name}: {shown}\n\n{}", code_block("diff", diff))
        }
        _ => writeln!(out, "- {name}: {shown}"),
    };
}

/// Returns one line about an unknown step, an unreachable host or a warning.
fn notice_line(what: &str, name: &str, why: &UntrustedText, on: &[&HostName]) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" {name}") };
    let hosts =
        format!("{}: {}", formatting::summarize_hosts(on.iter().copied()), code_span(&fold_hosts(on), MAX_NAME_CHARS));
    format!("- **{what}**{name}: {} on {hosts}\n\n", prose_span(why.raw(), MAX_VALUE_CHARS))
}
