//! Facts as a table: one line per value, hosts that share it folded.

use super::sections::unreachable_group;
use super::{TextWriter, group};
use crate::model::{HostName, Value};
use crate::plan::{HostReachability, ObservedHost, UnreachableReason};
use crate::view::style::{BAD, DIM, HEAD, UNKNOWN, paint};
use crate::view::{count, escape, fold, words};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Longer values are cut in the table. The JSON output has the complete value.
const VALUE_CHARS: usize = 100;
/// Maximum width of the value column. Hosts of longer values are not aligned.
const COLUMN_CHARS: usize = 40;
/// Longer lists and maps are shown as their number of entries, unless `-v` is given.
const FEW: usize = 6;

/// Rows of one fact: path below the fact and value, with the hosts.
type FactRows<'a> = IndexMap<(String, FactCell), Vec<&'a HostName>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FactCell {
    Known(String),
    Unknown(String),
}

/// Writes every fact of every host, then the unreachable hosts.
pub fn write(text: &TextWriter, seen: &[ObservedHost], out: &mut dyn Write) -> io::Result<()> {
    super::simulated(seen.iter().filter(|host| host.simulated).map(|host| &host.host), out)?;
    let names: BTreeSet<&String> = seen.iter().flat_map(|host| host.facts.0.keys()).collect();
    for name in names {
        fact(name, &rows(name, seen, text.verbose > 0), seen.len(), out)?;
    }
    unreachable(seen, out)?;
    closing(seen, out)
}

fn rows<'a>(name: &str, seen: &'a [ObservedHost], all: bool) -> FactRows<'a> {
    let mut rows = FactRows::new();
    for host in seen {
        let cells = match host.facts.0.get(name) {
            None => continue,
            Some(Ok(value)) => flatten(value, all),
            Some(Err(unknown)) => vec![(String::new(), FactCell::Unknown(format!("unknown: {}", said(unknown))))],
        };
        for cell in cells {
            rows.entry(cell).or_default().push(&host.host);
        }
    }
    rows.sort_by(|(path, _), _, (other, _), _| path.cmp(other));
    rows
}

fn said(unknown: &crate::probe::UnansweredReason) -> String {
    match &unknown.said {
        Some(said) if !said.is_empty() => {
            format!("{}: {}", escape::line(&unknown.why), escape::short(said.raw(), VALUE_CHARS))
        }
        _ => escape::line(&unknown.why).into_owned(),
    }
}

/// Returns a row for each entry of a map (one level), or one row for any other value.
fn flatten(value: &Value, all: bool) -> Vec<(String, FactCell)> {
    match value {
        Value::Object(map) if !map.is_empty() && (all || map.len() <= 2 * FEW) => {
            map.iter().map(|(key, value)| (escape::line(key).into_owned(), cell(value, all))).collect()
        }
        value => vec![(String::new(), cell(value, all))],
    }
}

fn cell(value: &Value, all: bool) -> FactCell {
    match crate::facts::why_unknown(value) {
        Some(why) => FactCell::Unknown(format!("unknown: {}", escape::short(why, VALUE_CHARS))),
        None => FactCell::Known(show(value, all)),
    }
}

fn show(value: &Value, all: bool) -> String {
    match value {
        Value::String(text) => escape::short(text, VALUE_CHARS),
        Value::Array(items) if !all && (items.len() > FEW || items.iter().any(Value::is_object)) => {
            entries(items.len(), value)
        }
        Value::Object(map) if !all && map.len() > FEW => entries(map.len(), value),
        value if all => escape::line(&value.to_string()).into_owned(),
        value => escape::short(&value.to_string(), VALUE_CHARS),
    }
}

/// Returns the number of entries of a value, and how many parts of it are unknown.
fn entries(number: usize, value: &Value) -> String {
    match untold(value) {
        0 => count(number, "entry"),
        parts => format!("{}, {parts} unknown", count(number, "entry")),
    }
}

/// Counts the unknown parts of a value.
fn untold(value: &Value) -> usize {
    match value {
        part if crate::facts::why_unknown(part).is_some() => 1,
        Value::Object(map) => map.values().map(untold).sum(),
        Value::Array(items) => items.iter().map(untold).sum(),
        _ => 0,
    }
}

fn fact(name: &str, rows: &FactRows<'_>, total: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", paint(HEAD, escape::line(name)))?;
    let paths = width(rows.keys().map(|(path, _)| path.as_str()));
    let values = width(rows.keys().map(|(_, cell)| cell.text())).min(COLUMN_CHARS);
    for ((path, cell), hosts) in rows {
        let path = match paths {
            0 => String::new(),
            width => format!("{path:<width$}  "),
        };
        let value = cell.padded(if hosts.len() == total { 0 } else { values });
        writeln!(out, "  {path}{value}{}", paint(DIM, which(hosts, total)))?;
    }
    Ok(())
}

fn width<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

impl FactCell {
    fn text(&self) -> &str {
        match self {
            Self::Known(text) | Self::Unknown(text) => text,
        }
    }

    fn padded(&self, width: usize) -> String {
        let text = format!("{:<width$}", self.text());
        match self {
            Self::Known(_) => text,
            Self::Unknown(_) => paint(UNKNOWN, text).to_string(),
        }
    }
}

/// Returns the hosts of a row, or nothing if it applies to all hosts.
fn which(hosts: &[&HostName], total: usize) -> String {
    match hosts.len() == total {
        true => String::new(),
        false => format!("  {}", escape::line(&fold::fold(hosts.iter().map(|host| host.as_str())))),
    }
}

pub(super) fn unreachable(seen: &[ObservedHost], out: &mut dyn Write) -> io::Result<()> {
    let silent = seen.iter().filter_map(|host| Some((&host.host, why(host)?)));
    let groups = group::silent(silent);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(HEAD, "unreachable"))?;
    groups.iter().try_for_each(|(why, hosts)| unreachable_group(why, hosts, out))
}

fn why(host: &ObservedHost) -> Option<&UnreachableReason> {
    match &host.reach {
        HostReachability::Observed => None,
        HostReachability::Unreachable(why) => Some(why),
    }
}

fn closing(seen: &[ObservedHost], out: &mut dyn Write) -> io::Result<()> {
    let silent = seen.iter().filter(|host| !host.is_observed()).count();
    let facts = || seen.iter().flat_map(|host| host.facts.0.values());
    let missing = facts().filter(|fact| fact.is_err()).count();
    let partly = facts().filter_map(|fact| fact.as_ref().ok()).filter(|value| untold(value) > 0).count();
    let mut line = format!("facts: {}", words::places_of(seen.iter().map(|seen| &seen.host)));
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
