//! Formats outlier facts. Nothing is escaped here: each writer escapes for its own grammar.

use super::{fold, format_count, formatting};
use crate::facts::outliers::{FactOutlier, MIN_CLASS_SIZE, OutlierReport};
use crate::model::{HostName, Value};
use std::collections::BTreeSet;

/// Longer lists are shown as their number of entries.
const MAX_LISTED_ENTRIES: usize = 5;

/// Formats a value.
pub fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) if list.len() > MAX_LISTED_ENTRIES => format_count(list.len(), "entry"),
        Value::Array(list) => list.iter().map(format_scalar).collect::<Vec<_>>().join(", "),
        value => format_scalar(value),
    }
}

/// Formats an outlier. For two lists, shows only the missing and the additional entries.
pub fn format_odd_value(common: &Value, odd: &Value) -> String {
    describe_list_difference(common, odd).unwrap_or_else(|| format_value(odd))
}

/// Returns hosts folded to ranges: `gpu[03:05]`.
pub fn fold_hosts(hosts: &[HostName]) -> String {
    fold::fold_names(hosts.iter().map(|host| host.as_str()))
}

/// Returns how many hosts have the common value, and on how many it is unknown: `4 hosts; unknown on 1`.
pub fn format_majority(odd: &FactOutlier) -> String {
    match odd.unknown {
        0 => format_count(odd.hosts, "host"),
        some => format!("{}; unknown on {some}", format_count(odd.hosts, "host")),
    }
}

/// Returns the number of compared hosts.
pub fn count_compared_hosts(outliers: &OutlierReport) -> usize {
    outliers.classes.iter().map(|class| class.hosts.len()).sum()
}

/// Returns the summary line of a comparison: its first word and the rest, including values that could not be compared.
pub fn summarize_outliers(outliers: &OutlierReport) -> (&'static str, String) {
    let values = format_count(outliers.compared, "value");
    let odd: BTreeSet<&HostName> =
        outliers.odd.iter().flat_map(|odd| &odd.odd).flat_map(|value| &value.hosts).collect();
    let facts: BTreeSet<&str> = outliers.unknown.iter().map(|untold| untold.path.raw()).collect();
    let open = formatting::join_counts(&[
        (outliers.undecided.len(), "without a majority"),
        (facts.len(), "unknown on some hosts"),
    ]);
    let open = if open.is_empty() { open } else { format!("; {open}") };
    match (outliers.odd.len(), count_compared_hosts(outliers)) {
        (_, 0) => ("outliers:", format!("nothing compared, fewer than {MIN_CLASS_SIZE} similar hosts{open}")),
        (0, hosts) => ("no outliers:", format!("{hosts} hosts, {values} compared{open}")),
        (some, hosts) => {
            let which = format!("{some} of {values} on {} of {}", odd.len(), format_count(hosts, "host"));
            ("outliers:", format!("{which} {}{open}", if some == 1 { "differs" } else { "differ" }))
        }
    }
}

fn describe_list_difference(common: &Value, odd: &Value) -> Option<String> {
    let (Value::Array(common), Value::Array(odd)) = (common, odd) else { return None };
    let only = |these: &[Value], others: &[Value]| -> Vec<String> {
        these.iter().filter(|value| !others.contains(value)).map(format_scalar).collect()
    };
    let (without, with) = (only(common, odd), only(odd, common));
    let part = |word: &str, list: &[String]| (!list.is_empty()).then(|| format!("{word} {}", list.join(", ")));
    let parts: Vec<String> = [part("without", &without), part("with", &with)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn format_scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
