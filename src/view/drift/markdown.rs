//! Drift as Markdown for a comment, an issue or a chat: equal findings once, diffs in collapsed sections.
//!
//! Architecture Invariant: the page never exceeds the limit of a comment, and no text of a host acts as markup, as in
//! the page of a plan.

use super::{DriftReportInput, about, folded};
use crate::drift::{DriftCause, DriftFinding, FindingSeverity};
use crate::facts::outliers::FactOutlier;
use crate::model::{HostName, UntrustedText};
use crate::view::markdown::page::{MarkdownPage, block, code, prose, span};
use crate::view::text::drift::entry::{DriftEntry, entries};
use crate::view::{count, odd, took, words};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum characters of a name.
const NAME: usize = 80;
/// Maximum characters of a value or a reason.
const VALUE: usize = 300;

/// Writes the whole page, worst first.
pub fn markdown(told: &DriftReportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut page = MarkdownPage::default();
    page.part("heading", &[heading(told)]);
    page.part("summary", &[summary(told)]);
    let mut entries = entries(&told.drift.findings);
    entries.sort_by_key(|entry| std::cmp::Reverse((entry.first().is_fault(), entry.first().severity)));
    entries.iter().for_each(|entry| page.part("finding", &[finding(entry, told, true), finding(entry, told, false)]));
    about::unknown(told.drift).iter().for_each(|(unsure, on)| {
        let name = span(&about::name(&unsure.recipe, &unsure.step), NAME);
        page.part("unknown", &[aside("unknown", &name, &unsure.reason, on)]);
    });
    about::unreachable(told.drift).iter().for_each(|(why, on)| {
        page.part("unreachable group", &[aside("unreachable", "", &why.why, on)]);
    });
    about::warnings(told.drift).iter().for_each(|(warning, on)| {
        page.part("warning", &[aside("warning", "", &warning.why, on)]);
    });
    if let Some(outliers) = &told.drift.outliers {
        let (word, rest) = odd::closing(outliers);
        page.part("summary", &[format!("**{word}** {rest}\n\n")]);
        outliers.odd.iter().for_each(|one| page.part("odd value", &[odd_one(one)]));
    }
    out.write_all(page.finish("The JSON report is complete.").as_bytes())
}

fn heading(told: &DriftReportInput<'_>) -> String {
    let counts = told.drift.counts();
    let hosts = words::places_of(told.drift.hosts.iter().map(|host| &host.host));
    let open = words::counts(&[(counts.unknown, "unknown (?)"), (counts.unreachable, "unreachable")]);
    let open = if open.is_empty() { open } else { format!("; {open}") };
    match counts.findings {
        0 if open.is_empty() => format!("### forge drift: none on {hosts}\n\n"),
        0 => format!("### forge drift: no findings on {hosts}{open}\n\n"),
        some => {
            let on = words::of_places(told.drift, &counts);
            format!("### forge drift: {} on {on}{open}\n\n", count(some, "finding"))
        }
    }
}

fn summary(told: &DriftReportInput<'_>) -> String {
    let (drift, counts) = (told.drift, told.drift.counts());
    let mut lines = String::new();
    if !drift.simulated.is_empty() {
        let names: Vec<&HostName> = drift.simulated.iter().collect();
        lines += &format!("> **Simulated, no real hardware:** {}\n\n", span(&folded(&names), NAME));
    }
    if counts.findings > 0 {
        let severities = FindingSeverity::WORST_FIRST.map(FindingSeverity::name);
        let (severities, causes) = (
            told_by(&counts.by_severity, &severities),
            told_by(&counts.by_cause, &DriftCause::ALL.map(DriftCause::name)),
        );
        lines += &format!("By severity: {severities}. By cause: {causes}.\n\n");
    }
    let rest = [(counts.settled, "unchanged"), (counts.ignored, "ignored"), (counts.resolved, "resolved")];
    let rest = words::counts(&rest);
    lines += &format!("{}{} in {}.\n\n", rest, if rest.is_empty() { "Checked" } else { "; checked" }, took(drift.took));
    let (cluster, inventory) = (span(&drift.cluster, NAME), span(&drift.inventory, NAME));
    let (time, run) = (span(&drift.time, NAME), span(&drift.run, NAME));
    lines += &format!("Cluster {cluster}, declared in {inventory}; {time}, run {run}\n\n");
    lines
}

fn odd_one(one: &FactOutlier) -> String {
    let values: Vec<String> = one
        .odd
        .iter()
        .map(|value| {
            let (told, hosts) = (odd::told(&one.common, &value.value), odd::folded(&value.hosts));
            format!("{} on {}", span(&told, VALUE), span(&hosts, NAME))
        })
        .collect();
    let (path, common) = (span(one.path.raw(), NAME), span(&odd::show(&one.common), VALUE));
    format!("- **outlier** {path}: {}; {common} on {}\n\n", values.join("; "), odd::having(one))
}

/// Returns the counts by name, in the order of `names`.
fn told_by(counts: &BTreeMap<String, usize>, names: &[&str]) -> String {
    let parts: Vec<(usize, &str)> = names.iter().map(|name| (counts.get(*name).copied().unwrap_or(0), *name)).collect();
    words::counts(&parts)
}

/// Returns one step for all hosts on which it is equal, with collapsed details if `whole`, else as one line.
fn finding(entry: &DriftEntry<'_>, told: &DriftReportInput<'_>, whole: bool) -> String {
    match whole {
        true => format!(
            "<details><summary>{}</summary>\n\n{}\n</details>\n\n",
            head(entry, &code, ["<strong>", "</strong>"]),
            body(entry, &told.drift.time)
        ),
        false => format!("- {}\n\n", head(entry, &span, ["**", "**"])),
    }
}

/// Returns the head of a finding. `quote` quotes for the grammar at its place.
fn head(entry: &DriftEntry<'_>, quote: &dyn Fn(&str, usize) -> String, strong: [&str; 2]) -> String {
    let (first, hosts) = (entry.first(), entry.hosts());
    let severity = format!("{}{}{}", strong[0], first.severity.name(), strong[1]);
    let on = format!("{}: {}", words::places_of(hosts.iter().copied()), quote(&folded(&hosts), NAME));
    format!("{severity} {}, {} on {on}", quote(&about::what(first), NAME), first.cause.meaning())
}

fn body(entry: &DriftEntry<'_>, now: &str) -> String {
    let first = entry.first();
    let firsts: Vec<&DriftFinding> = entry.attributes().iter().map(|findings| findings[0]).collect();
    let name = about::name(&first.recipe, &first.step);
    let mut out = format!("{}: {}\n\n", span(&name, NAME), prose(&about::why(&firsts), VALUE));
    firsts.iter().for_each(|finding| attribute(finding, &mut out));
    let all: Vec<&DriftFinding> = entry.all().collect();
    for (label, text) in about::rows(&all, now) {
        // Writing to a `String` cannot fail.
        let _ =
            writeln!(out, "- {label}: {}", if label == about::WHO { span(&text, VALUE) } else { prose(&text, VALUE) });
    }
    out
}

fn attribute(finding: &DriftFinding, out: &mut String) {
    let value = about::value(finding);
    let Some(name) = finding.attribute.as_deref().filter(|_| !matches!(value, about::AttributeDifference::Said)) else {
        return;
    };
    let name = span(name, NAME);
    let shown = about::pair(&value, |text| span(text, VALUE));
    // Writing to a `String` cannot fail.
    let _ = match value {
        about::AttributeDifference::Diff { diff, .. } => writeln!(out, "- {name}: {shown}\n\n{}", block("diff", diff)),
        _ => writeln!(out, "- {name}: {shown}"),
    };
}

/// Returns one line about an unknown step, an unreachable host or a warning.
fn aside(what: &str, name: &str, why: &UntrustedText, on: &[&HostName]) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" {name}") };
    let hosts = format!("{}: {}", words::places_of(on.iter().copied()), span(&folded(on), NAME));
    format!("- **{what}**{name}: {} on {hosts}\n\n", prose(why.raw(), VALUE))
}
