//! What was found, worst first, each step once for all hosts on which it is not as declared; then what could not be told.

use super::escape::{line, prose, short, value};
use super::island::Island;
use crate::drift::{Finding, Standing};
use crate::model::{HostName, Untrusted};
use crate::view::drift::{Told, about, folded};
use crate::view::text::drift::entry::{Entry, entries};
use crate::view::{count, escape, words};
use indexmap::IndexMap;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Characters of a name, of a value, and of a list of hosts at most.
const NAME: usize = 200;
const VALUE: usize = 600;
const HOSTS: usize = 4_000;
/// Lines of a diff, and characters of each at most.
const LINES: usize = 200;
const LINE: usize = 400;

/// Bytes that end an element at most: what was left out of it, and its closing tag.
const ENDING: usize = 100;

/// The list as it grows, and what did not fit.
struct List {
    text: String,
    room: usize,
    /// Bytes of the elements that are still to come, without their detail: detail does not take their place.
    heads: usize,
    /// How many times detail was left out, and whole elements.
    cut: usize,
    left_out: usize,
}

impl List {
    /// Appends an element with as much of its detail as fits. Returns whether at least its head did.
    fn push(&mut self, item: &Item<'_>) -> bool {
        self.heads -= item.head.len() + ENDING;
        if self.text.len() + item.head.len() + ENDING >= self.room {
            self.left_out += 1;
            return false;
        }
        self.text += &item.head;
        let before = self.cut;
        for detail in &item.details {
            // What stands after a part that was left out is left out too: the island counts on their order.
            match self.cut == before && self.text.len() + detail.len() + ENDING + self.heads < self.room {
                true => self.text += detail,
                false => self.cut += 1,
            }
        }
        if self.cut > before {
            self.text += &format!("<p>{} of other hosts left out: the page is full.</p>", self.cut - before);
        }
        self.text += "</details>\n";
        true
    }
}

/// One element of the list, and what the island says of it.
struct Item<'a> {
    head: String,
    /// What is equal over hosts once: each for some of the hosts.
    details: Vec<String>,
    /// The hosts of each detail; of what has none, all hosts.
    parts: Vec<Vec<&'a HostName>>,
    recipe: &'a str,
    severity: &'static str,
    cause: &'static str,
}

/// Returns everything that is not as declared or not known, in at most `room` bytes.
pub fn findings<'a>(told: &Told<'a>, island: &mut Island<'a>, room: usize) -> String {
    let items = items(told);
    let heads = items.iter().map(|item| item.head.len() + ENDING).sum();
    let text = String::from("<section id=\"findings\"><h2>findings</h2>\n");
    let mut list = List { text, room, heads, cut: 0, left_out: 0 };
    for item in &items {
        if list.push(item) {
            island.push(&item.parts, item.recipe, item.severity, item.cause);
        }
    }
    if told.drift.findings.is_empty() {
        list.text += "<p>Nothing was found.</p>\n";
    }
    if list.cut + list.left_out > 0 {
        let cut = format!("{} left out, {} not shown", count(list.cut, "detail"), list.left_out);
        list.text += &format!("<p class=\"notice\">The page is full: {cut}. The JSON report has everything.</p>\n");
    }
    list.text + &past(told) + "</section>\n"
}

/// Returns all elements, worst first; then what is no finding.
fn items<'a>(told: &Told<'a>) -> Vec<Item<'a>> {
    let drift = told.drift;
    let mut steps: IndexMap<_, Vec<Entry<'a>>> = IndexMap::new();
    for entry in entries(&drift.findings) {
        let first = entry.first();
        let what = (&first.recipe, &first.step, first.aspect, &first.kind, &first.title);
        steps.entry((what, first.cause, first.severity)).or_default().push(entry);
    }
    let mut steps: Vec<_> = steps.into_values().collect();
    steps.sort_by_key(|entries| std::cmp::Reverse((entries[0].first().is_fault(), entries[0].first().severity)));
    let found = steps.iter().map(|entries| found(entries, told));
    let unknown = about::unknown(drift).into_iter().map(|(unsure, hosts)| {
        let what = about::name(&unsure.recipe, &unsure.step);
        let item = aside("unknown", &what, &unsure.reason, unsure.hint.as_deref(), hosts);
        Item { recipe: unsure.recipe.raw(), ..item }
    });
    let silent = about::unreachable(drift)
        .into_iter()
        .map(|(why, hosts)| aside("unreachable", "no answer", &why.why, why.hint.as_ref().map(Untrusted::raw), hosts));
    let doubts = about::warnings(drift).into_iter();
    let doubts = doubts.map(|(warning, hosts)| aside("warning", "", &warning.why, warning.hint.as_deref(), hosts));
    found.chain(unknown).chain(silent).chain(doubts).collect()
}

/// One step for all hosts on which it is not as declared for the same cause, however it differs there.
fn found<'a>(entries: &[Entry<'a>], told: &Told<'a>) -> Item<'a> {
    let first = entries[0].first();
    let mut hosts: Vec<&HostName> = entries.iter().flat_map(Entry::hosts).collect();
    let mut seen = HashSet::new();
    hosts.retain(|host| seen.insert(*host));
    Item {
        head: head(entries, &hosts, told.drift.no_history.is_none()),
        details: entries.iter().map(|entry| body(entry, &told.drift.time)).collect(),
        parts: entries.iter().map(Entry::hosts).collect(),
        recipe: first.recipe.raw(),
        severity: first.severity.name(),
        cause: first.cause.name(),
    }
}

/// Returns an element up to what it folds in. Without a history everything would be new.
fn head(entries: &[Entry<'_>], hosts: &[&HostName], has_history: bool) -> String {
    let first = entries[0].first();
    let severity = first.severity.name();
    let standing = if has_history { standing(entries) } else { "" };
    format!(
        "<details class=\"e {severity}\"><summary><b>{severity}</b> <strong>{}</strong> <code>{}</code> {}{standing} <small>{}</small></summary>\n",
        short(&about::what(first), NAME),
        short(&about::name(&first.recipe, &first.step), NAME),
        line(first.cause.meaning()),
        on(hosts, 120),
    )
}

/// Returns what is new about an element on at least one host.
fn standing(entries: &[Entry<'_>]) -> &'static str {
    let all = || entries.iter().flat_map(Entry::all);
    let any = |standing| all().any(|finding| finding.standing == standing);
    match () {
        () if any(Standing::Again) || all().any(|finding| finding.times > 1) => " <i>flapping</i>",
        () if any(Standing::New) => " <i>new</i>",
        () if any(Standing::Changed) => " <i>changed</i>",
        () => "",
    }
}

fn on(hosts: &[&HostName], limit: usize) -> String {
    format!("{}: {}", words::places_of(hosts.iter().copied()), short(&folded(hosts), limit))
}

fn body(entry: &Entry<'_>, now: &str) -> String {
    let firsts: Vec<&Finding> = entry.attributes().iter().map(|findings| findings[0]).collect();
    let mut out = format!("<div class=\"v\"><p>{}</p>\n", prose(&about::why(&firsts), VALUE));
    firsts.iter().for_each(|finding| attribute(finding, &mut out));
    out += "<dl>";
    let all: Vec<&Finding> = entry.all().collect();
    for (label, text) in about::rows(&all, now) {
        out += &format!("<dt>{}</dt><dd>{}</dd>", line(label), prose(&text, VALUE));
    }
    out + &format!("<dt>on</dt><dd class=\"on\">{}</dd></dl></div>\n", on(&entry.hosts(), HOSTS))
}

fn attribute(finding: &Finding, out: &mut String) {
    let differs = about::value(finding);
    let Some(name) = finding.attribute.as_deref().filter(|_| !matches!(differs, about::Value::Said)) else { return };
    // Values stand in code, which is ours: all else of the sentence is plain.
    let shown = about::pair(&differs, |text| value(text, VALUE));
    *out += &format!("<p>{}: {shown}</p>\n", value(name, NAME));
    if let about::Value::Diff { diff: text, .. } = differs {
        diff(text, out);
    }
}

fn diff(text: &str, out: &mut String) {
    *out += "<pre>";
    let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    for text in lines.iter().take(LINES) {
        let element = match text.as_bytes().first() {
            Some(b'+') => "ins",
            Some(b'-') => "del",
            _ => "span",
        };
        let shown = short(&text.replace('\t', "    "), LINE);
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "<{element}>{shown}</{element}>");
    }
    if lines.len() > LINES {
        let _ = writeln!(out, "<span>({} more lines)</span>", lines.len() - LINES);
    }
    *out += "</pre>\n";
}

/// What is no finding, in the same form.
fn aside<'a>(
    class: &'static str,
    what: &str,
    why: &Untrusted,
    hint: Option<&str>,
    hosts: Vec<&'a HostName>,
) -> Item<'a> {
    let hint = hint.map_or_else(String::new, |hint| format!("<dt>hint</dt><dd>{}</dd>", prose(hint, VALUE)));
    let head = format!(
        "<details class=\"e {class}\"><summary><b>{class}</b> <strong>{}</strong> {} <small>{}</small></summary>\n<dl>{hint}<dt>on</dt><dd class=\"on\">{}</dd></dl>",
        short(what, NAME),
        prose(why.raw(), VALUE),
        on(&hosts, 120),
        on(&hosts, HOSTS),
    );
    Item { head, details: Vec::new(), parts: vec![hosts], recipe: "", severity: class, cause: "" }
}

/// Returns what was put right since the last run, and what is passed over.
fn past(told: &Told<'_>) -> String {
    let mut out = String::new();
    if !told.drift.resolved.is_empty() {
        out += &format!("<h2>resolved</h2>\n<ul>{}</ul>\n", resolved(told));
    }
    if !told.drift.ignored.is_empty() {
        out += "<h2>ignored</h2>\n<ul>";
        for entry in &told.drift.ignored {
            let (what, why, until) = (short(&entry.what, NAME), prose(&entry.why, VALUE), line(&entry.until));
            let (head, place) = (if entry.expired { "its last day was" } else { "until" }, line(&entry.place));
            out += &format!("<li><code>{what}</code> {head} {until}: {} ({why}; {place})</li>", entry.count);
        }
        out += "</ul>\n";
    }
    out
}

fn resolved(told: &Told<'_>) -> String {
    let all = told.drift.resolved.iter().map(|known| (&known.host, known));
    let groups = crate::view::text::group::equal(all, |known| (&known.recipe, &known.step, &known.attribute));
    let item = |(known, hosts): &(&crate::drift::Known, Vec<&HostName>)| {
        let name = about::name(&known.recipe, &known.step);
        let attribute = known.attribute.as_ref().map_or_else(String::new, |name| format!(": {}", escape::line(name)));
        format!(
            "<li><code>{}</code> <small>{}</small></li>",
            short(&format!("{name}{attribute}"), NAME),
            on(hosts, 400)
        )
    };
    groups.values().map(item).collect()
}
