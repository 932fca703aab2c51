//! The findings, worst first, each step once for all drifted hosts; then unknown steps, unreachable hosts and warnings.

use super::escape::{html_line, html_prose, html_truncated, html_value};
use super::page_data::PageData;
use crate::drift::{DriftFinding, FindingNovelty};
use crate::model::{HostName, UntrustedText};
use crate::view::drift::{DriftReportInput, finding_details, fold_hosts};
use crate::view::text::drift::entry::{DriftEntry, group_entries};
use crate::view::{escape, format_count, formatting};
use indexmap::IndexMap;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Maximum characters of a name, of a value, and of a list of hosts.
const MAX_NAME_CHARS: usize = 200;
const MAX_VALUE_CHARS: usize = 600;
const MAX_HOST_CHARS: usize = 4_000;
/// Maximum lines of a diff, and characters of each line.
const MAX_DIFF_LINES: usize = 200;
const MAX_LINE_CHARS: usize = 400;

/// Maximum bytes at the end of an element: the note about omitted details and the closing tag.
const MAX_ENDING_BYTES: usize = 100;

/// The list and the number of items that did not fit.
struct FindingElementList {
    text: String,
    room: usize,
    /// Bytes reserved for the heads of the remaining elements, so that details do not displace them.
    heads: usize,
    /// Number of omitted details, and of omitted elements (`left_out`).
    cut: usize,
    left_out: usize,
}

impl FindingElementList {
    /// Appends an element with as many details as fit. Reports whether its head fit.
    fn push_element(&mut self, item: &FindingElement<'_>) -> bool {
        self.heads -= item.head.len() + MAX_ENDING_BYTES;
        if self.text.len() + item.head.len() + MAX_ENDING_BYTES >= self.room {
            self.left_out += 1;
            return false;
        }
        self.text += &item.head;
        let before = self.cut;
        for detail in &item.details {
            // Parts after an omitted one are omitted too, because the JSON data refers to parts by their order.
            match self.cut == before && self.text.len() + detail.len() + MAX_ENDING_BYTES + self.heads < self.room {
                true => self.text += detail,
                false => self.cut += 1,
            }
        }
        if self.cut > before {
            self.text += &format!("<p>{} of other hosts omitted: the page is full.</p>", self.cut - before);
        }
        self.text += "</details>\n";
        true
    }
}

/// One element of the list, with its fields for the JSON data.
struct FindingElement<'a> {
    head: String,
    /// Details, each for the hosts that share it.
    details: Vec<String>,
    /// The hosts of each detail, or all hosts if there are no details.
    parts: Vec<Vec<&'a HostName>>,
    recipe: &'a str,
    severity: &'static str,
    cause: &'static str,
}

/// Returns all findings, unknown steps and unreachable hosts, in at most `room` bytes.
pub fn render_findings<'a>(told: &DriftReportInput<'a>, island: &mut PageData<'a>, room: usize) -> String {
    let items = collect_elements(told);
    let heads = items.iter().map(|item| item.head.len() + MAX_ENDING_BYTES).sum();
    let text = String::from("<section id=\"findings\"><h2>findings</h2>\n");
    let mut list = FindingElementList { text, room, heads, cut: 0, left_out: 0 };
    for item in &items {
        if list.push_element(item) {
            island.push(&item.parts, item.recipe, item.severity, item.cause);
        }
    }
    if told.drift.findings.is_empty() {
        list.text += "<p>No findings.</p>\n";
    }
    if list.cut + list.left_out > 0 {
        let cut = format!("{} omitted, {} not shown", format_count(list.cut, "detail"), list.left_out);
        list.text += &format!("<p class=\"notice\">The page is full: {cut}. The JSON report is complete.</p>\n");
    }
    list.text + &render_resolved_and_ignored(told) + "</section>\n"
}

/// Returns all elements: findings, worst first, then the others.
fn collect_elements<'a>(told: &DriftReportInput<'a>) -> Vec<FindingElement<'a>> {
    let drift = told.drift;
    let mut steps: IndexMap<_, Vec<DriftEntry<'a>>> = IndexMap::new();
    for entry in group_entries(&drift.findings) {
        let first = entry.first();
        let what = (&first.recipe, &first.step, first.aspect, &first.kind, &first.title);
        steps.entry((what, first.cause, first.severity)).or_default().push(entry);
    }
    let mut steps: Vec<_> = steps.into_values().collect();
    steps.sort_by_key(|entries| {
        std::cmp::Reverse((entries[0].first().is_hardware_fault(), entries[0].first().severity))
    });
    let found = steps.iter().map(|entries| finding_element(entries, told));
    let unknown = finding_details::group_unknown(drift).into_iter().map(|(unsure, hosts)| {
        let what = finding_details::format_step_name(&unsure.recipe, &unsure.step);
        let item = notice_element("unknown", &what, &unsure.reason, unsure.hint.as_deref(), hosts);
        FindingElement { recipe: unsure.recipe.raw(), ..item }
    });
    let silent = finding_details::group_unreachable_hosts(drift).into_iter().map(|(why, hosts)| {
        notice_element("unreachable", "no reply", &why.why, why.hint.as_ref().map(UntrustedText::raw), hosts)
    });
    let doubts = finding_details::group_warnings(drift).into_iter();
    let doubts =
        doubts.map(|(warning, hosts)| notice_element("warning", "", &warning.why, warning.hint.as_deref(), hosts));
    found.chain(unknown).chain(silent).chain(doubts).collect()
}

/// Returns one step for all hosts on which it drifted for the same cause, with the differences of each.
fn finding_element<'a>(entries: &[DriftEntry<'a>], told: &DriftReportInput<'a>) -> FindingElement<'a> {
    let first = entries[0].first();
    let mut hosts: Vec<&HostName> = entries.iter().flat_map(DriftEntry::hosts).collect();
    let mut seen = HashSet::new();
    hosts.retain(|host| seen.insert(*host));
    FindingElement {
        head: render_element_head(entries, &hosts, told.drift.no_history.is_none()),
        details: entries.iter().map(|entry| render_detail(entry, &told.drift.time)).collect(),
        parts: entries.iter().map(DriftEntry::hosts).collect(),
        recipe: first.recipe.raw(),
        severity: first.severity.name(),
        cause: first.cause.name(),
    }
}

/// Returns the head of an element. Omits the standing without a history, because every finding would be new.
fn render_element_head(entries: &[DriftEntry<'_>], hosts: &[&HostName], has_history: bool) -> String {
    let first = entries[0].first();
    let severity = first.severity.name();
    let standing = if has_history { standing_mark(entries) } else { "" };
    format!(
        "<details class=\"e {severity}\"><summary><b>{severity}</b> <strong>{}</strong> <code>{}</code> {}{standing} <small>{}</small></summary>\n",
        html_truncated(&finding_details::describe_subject(first), MAX_NAME_CHARS),
        html_truncated(&finding_details::format_step_name(&first.recipe, &first.step), MAX_NAME_CHARS),
        html_line(first.cause.describe()),
        format_hosts(hosts, 120),
    )
}

/// Returns whether an element is flapping, new or changed on at least one host.
fn standing_mark(entries: &[DriftEntry<'_>]) -> &'static str {
    let all = || entries.iter().flat_map(DriftEntry::iter_findings);
    let any = |standing| all().any(|finding| finding.standing == standing);
    match () {
        () if any(FindingNovelty::Again) || all().any(|finding| finding.times > 1) => " <i>flapping</i>",
        () if any(FindingNovelty::New) => " <i>new</i>",
        () if any(FindingNovelty::Changed) => " <i>changed</i>",
        () => "",
    }
}

fn format_hosts(hosts: &[&HostName], limit: usize) -> String {
    format!("{}: {}", formatting::summarize_hosts(hosts.iter().copied()), html_truncated(&fold_hosts(hosts), limit))
}

fn render_detail(entry: &DriftEntry<'_>, now: &str) -> String {
    let firsts: Vec<&DriftFinding> = entry.attributes().iter().map(|findings| findings[0]).collect();
    let mut out =
        format!("<div class=\"v\"><p>{}</p>\n", html_prose(&finding_details::explain_cause(&firsts), MAX_VALUE_CHARS));
    firsts.iter().for_each(|finding| push_attribute(finding, &mut out));
    if let Some(printed) = entry.check_output() {
        out += &format!("<p>{}</p>\n", printed.head(|host| html_value(host, MAX_NAME_CHARS)));
        push_lines(printed.text, |_| "span", &mut out);
    }
    out += "<dl>";
    let all: Vec<&DriftFinding> = entry.iter_findings().collect();
    for (label, text) in finding_details::list_details(&all, now) {
        out += &format!("<dt>{}</dt><dd>{}</dd>", html_line(label), html_prose(&text, MAX_VALUE_CHARS));
    }
    out + &format!("<dt>on</dt><dd class=\"on\">{}</dd></dl></div>\n", format_hosts(&entry.hosts(), MAX_HOST_CHARS))
}

fn push_attribute(finding: &DriftFinding, out: &mut String) {
    let differs = finding_details::attribute_difference(finding);
    let Some(name) =
        finding.attribute.as_deref().filter(|_| !matches!(differs, finding_details::AttributeDifference::Said))
    else {
        return;
    };
    // Values are in `<code>`, the rest of the sentence is plain text.
    let shown = finding_details::describe_difference(&differs, |text| html_value(text, MAX_VALUE_CHARS));
    *out += &format!("<p>{}: {shown}</p>\n", html_value(name, MAX_NAME_CHARS));
    if let finding_details::AttributeDifference::Diff { diff: text, .. } = differs {
        push_diff(text, out);
    }
}

fn push_diff(text: &str, out: &mut String) {
    let element = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "ins",
        Some(b'-') => "del",
        _ => "span",
    };
    push_lines(text, element, out);
}

/// Writes the first lines of a text, each in the element that `element` returns for it.
fn push_lines(text: &str, element: impl Fn(&str) -> &'static str, out: &mut String) {
    *out += "<pre>";
    let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    for text in lines.iter().copied().take(MAX_DIFF_LINES) {
        let element = element(text);
        let shown = html_truncated(&text.replace('\t', "    "), MAX_LINE_CHARS);
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "<{element}>{shown}</{element}>");
    }
    if lines.len() > MAX_DIFF_LINES {
        let _ = writeln!(out, "<span>({} more lines)</span>", lines.len() - MAX_DIFF_LINES);
    }
    *out += "</pre>\n";
}

/// Returns an unknown step, unreachable hosts or a warning in the same form as a finding.
fn notice_element<'a>(
    class: &'static str,
    what: &str,
    why: &UntrustedText,
    hint: Option<&str>,
    hosts: Vec<&'a HostName>,
) -> FindingElement<'a> {
    let hint =
        hint.map_or_else(String::new, |hint| format!("<dt>hint</dt><dd>{}</dd>", html_prose(hint, MAX_VALUE_CHARS)));
    let head = format!(
        "<details class=\"e {class}\"><summary><b>{class}</b> <strong>{}</strong> {} <small>{}</small></summary>\n<dl>{hint}<dt>on</dt><dd class=\"on\">{}</dd></dl>",
        html_truncated(what, MAX_NAME_CHARS),
        html_prose(why.raw(), MAX_VALUE_CHARS),
        format_hosts(&hosts, 120),
        format_hosts(&hosts, MAX_HOST_CHARS),
    );
    FindingElement { head, details: Vec::new(), parts: vec![hosts], recipe: "", severity: class, cause: "" }
}

/// Returns the resolved and the ignored findings.
fn render_resolved_and_ignored(told: &DriftReportInput<'_>) -> String {
    let mut out = String::new();
    if !told.drift.resolved.is_empty() {
        out += &format!("<h2>resolved</h2>\n<ul>{}</ul>\n", list_resolved(told));
    }
    if !told.drift.ignored.is_empty() {
        out += "<h2>ignored</h2>\n<ul>";
        for entry in &told.drift.ignored {
            let (what, why, until) = (
                html_truncated(&entry.what, MAX_NAME_CHARS),
                html_prose(&entry.why, MAX_VALUE_CHARS),
                html_line(&entry.until),
            );
            let (head, place) = (if entry.expired { "expired after" } else { "until" }, html_line(&entry.place));
            out += &format!("<li><code>{what}</code> {head} {until}: {} ({why}; {place})</li>", entry.count);
        }
        out += "</ul>\n";
    }
    out
}

fn list_resolved(told: &DriftReportInput<'_>) -> String {
    let all = told.drift.resolved.iter().map(|known| (&known.host, known));
    let groups = crate::view::text::group::group_equal(all, |known| (&known.recipe, &known.step, &known.attribute));
    let item = |(known, hosts): &(&crate::drift::KnownFinding, Vec<&HostName>)| {
        let name = finding_details::format_step_name(&known.recipe, &known.step);
        let attribute =
            known.attribute.as_ref().map_or_else(String::new, |name| format!(": {}", escape::escape_line(name)));
        format!(
            "<li><code>{}</code> <small>{}</small></li>",
            html_truncated(&format!("{name}{attribute}"), MAX_NAME_CHARS),
            format_hosts(hosts, 400)
        )
    };
    groups.values().map(item).collect()
}
