//! Facts as a table: one line per value, hosts that share it folded.

use super::plan_sections::write_unreachable_group;
use super::{TextWriter, group};
use crate::model::{HostName, Value};
use crate::plan::{HostReachability, ObservedHost, UnreachableReason};
use crate::view::style::{BAD, DIM, HEAD, UNKNOWN, paint};
use crate::view::{escape, fold, format_count, formatting};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Longer values are cut in the table. The JSON output has the complete value.
const VALUE_CHARS: usize = 100;
/// Maximum width of the value column. Hosts of longer values are not aligned.
const COLUMN_CHARS: usize = 40;
/// Longer lists and maps are shown as their number of entries, unless `-v` is given.
const MAX_LISTED_ENTRIES: usize = 6;

/// Rows of one fact: path below the fact and value, with the hosts.
type FactRows<'a> = IndexMap<(String, FactCell), Vec<&'a HostName>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FactCell {
    Known(String),
    Unknown(String),
}

/// Writes every fact of every host, then the unreachable hosts.
pub fn write_facts(text: &TextWriter, seen: &[ObservedHost], out: &mut dyn Write) -> io::Result<()> {
    super::shared_lines::write_simulated(seen.iter().filter(|host| host.simulated).map(|host| &host.host), out)?;
    let names: BTreeSet<&str> = seen.iter().flat_map(|host| host.facts.0.keys()).collect();
    for name in names {
        write_fact(name, &collect_rows(name, seen, text.verbose > 0), seen.len(), out)?;
    }
    write_unreachable(seen, out)?;
    write_closing(seen, out)
}

fn collect_rows<'a>(name: &str, seen: &'a [ObservedHost], all: bool) -> FactRows<'a> {
    let mut rows = FactRows::new();
    for host in seen {
        let cells = match host.facts.0.get(name) {
            None => continue,
            Some(Ok(value)) => flatten_value(value, all),
            Some(Err(unknown)) => {
                vec![(String::new(), FactCell::Unknown(format!("unknown: {}", describe_unknown(unknown))))]
            }
        };
        for cell in cells {
            rows.entry(cell).or_default().push(&host.host);
        }
    }
    rows.sort_by(|(path, _), _, (other, _), _| path.cmp(other));
    rows
}

fn describe_unknown(unknown: &crate::probe::UnansweredReason) -> String {
    match &unknown.said {
        Some(said) if !said.is_empty() => {
            format!("{}: {}", escape::escape_line(&unknown.why), escape::escape_truncated(said.raw(), VALUE_CHARS))
        }
        _ => escape::escape_line(&unknown.why).into_owned(),
    }
}

/// Returns a row for each entry of a map (one level), or one row for any other value.
fn flatten_value(value: &Value, all: bool) -> Vec<(String, FactCell)> {
    match value {
        Value::Object(map) if !map.is_empty() && (all || map.len() <= 2 * MAX_LISTED_ENTRIES) => {
            map.iter().map(|(key, value)| (escape::escape_line(key).into_owned(), fact_cell(value, all))).collect()
        }
        value => vec![(String::new(), fact_cell(value, all))],
    }
}

fn fact_cell(value: &Value, all: bool) -> FactCell {
    match crate::facts::unknown_reason(value) {
        Some(why) => FactCell::Unknown(format!("unknown: {}", escape::escape_truncated(why, VALUE_CHARS))),
        None => FactCell::Known(format_value(value, all)),
    }
}

fn format_value(value: &Value, all: bool) -> String {
    match value {
        Value::String(text) => escape::escape_truncated(text, VALUE_CHARS),
        Value::Array(items) if !all && (items.len() > MAX_LISTED_ENTRIES || items.iter().any(Value::is_object)) => {
            format_entry_count(items.len(), value)
        }
        Value::Object(map) if !all && map.len() > MAX_LISTED_ENTRIES => format_entry_count(map.len(), value),
        value if all => escape::escape_line(&value.to_string()).into_owned(),
        value => escape::escape_truncated(&value.to_string(), VALUE_CHARS),
    }
}

/// Returns the number of entries of a value, and how many parts of it are unknown.
fn format_entry_count(number: usize, value: &Value) -> String {
    match count_unknown(value) {
        0 => format_count(number, "entry"),
        parts => format!("{}, {parts} unknown", format_count(number, "entry")),
    }
}

/// Counts the unknown parts of a value.
fn count_unknown(value: &Value) -> usize {
    match value {
        part if crate::facts::unknown_reason(part).is_some() => 1,
        Value::Object(map) => map.values().map(count_unknown).sum(),
        Value::Array(items) => items.iter().map(count_unknown).sum(),
        _ => 0,
    }
}

fn write_fact(name: &str, rows: &FactRows<'_>, total: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", paint(HEAD, escape::escape_line(name)))?;
    let paths = max_width(rows.keys().map(|(path, _)| path.as_str()));
    let values = max_width(rows.keys().map(|(_, cell)| cell.text())).min(COLUMN_CHARS);
    for ((path, cell), hosts) in rows {
        let path = match paths {
            0 => String::new(),
            width => format!("{path:<width$}  "),
        };
        let value = cell.pad_to(if hosts.len() == total { 0 } else { values });
        writeln!(out, "  {path}{value}{}", paint(DIM, format_host_suffix(hosts, total)))?;
    }
    Ok(())
}

fn max_width<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

impl FactCell {
    fn text(&self) -> &str {
        match self {
            Self::Known(text) | Self::Unknown(text) => text,
        }
    }

    fn pad_to(&self, width: usize) -> String {
        let text = format!("{:<width$}", self.text());
        match self {
            Self::Known(_) => text,
            Self::Unknown(_) => paint(UNKNOWN, text).to_string(),
        }
    }
}

/// Returns the hosts of a row, or nothing if it applies to all hosts.
fn format_host_suffix(hosts: &[&HostName], total: usize) -> String {
    match hosts.len() == total {
        true => String::new(),
        false => format!("  {}", escape::escape_line(&fold::fold_names(hosts.iter().map(|host| host.as_str())))),
    }
}

pub(super) fn write_unreachable(seen: &[ObservedHost], out: &mut dyn Write) -> io::Result<()> {
    let silent = seen.iter().filter_map(|host| Some((&host.host, unreachable_reason(host)?)));
    let groups = group::group_unreachable(silent);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "unreachable"))?;
    groups.iter().try_for_each(|(why, hosts)| write_unreachable_group(why, hosts, out))
}

fn unreachable_reason(host: &ObservedHost) -> Option<&UnreachableReason> {
    match &host.reach {
        HostReachability::Observed => None,
        HostReachability::Unreachable(why) => Some(why),
    }
}

fn write_closing(seen: &[ObservedHost], out: &mut dyn Write) -> io::Result<()> {
    let silent = seen.iter().filter(|host| !host.is_observed()).count();
    let facts = || seen.iter().flat_map(|host| host.facts.0.values());
    let missing = facts().filter(|fact| fact.is_err()).count();
    let partly = facts().filter_map(|fact| fact.as_ref().ok()).filter(|value| count_unknown(value) > 0).count();
    let mut line = format!("facts: {}", formatting::summarize_hosts(seen.iter().map(|seen| &seen.host)));
    if silent > 0 {
        line.push_str(&format!(", {} unreachable", paint(BAD, silent)));
    }
    if missing > 0 {
        line.push_str(&format!(", {} unknown", paint(UNKNOWN, missing)));
    }
    if partly > 0 {
        line.push_str(&format!(", {} partly unknown", paint(UNKNOWN, partly)));
    }
    writeln!(out, "\n{line}")
}
