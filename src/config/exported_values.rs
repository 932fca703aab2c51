//! Values that steps export, as far as they are known.

use crate::model::Value;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Exported values by recipe and name.
pub type ExportedValues = BTreeMap<String, BTreeMap<String, ExportedValue>>;

/// An exported value, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum ExportedValue {
    /// The value of a `one` or `fleet` step; `None` until it exists.
    Single(Option<Value>),
    /// The values of a `host` step.
    ByHost {
        /// The values that exist, by host.
        known: BTreeMap<String, Value>,
        /// Hosts that export a value that does not exist yet.
        pending: BTreeSet<String>,
        /// Hosts that export a value, but not in this run.
        missing: MissingExports,
    },
}

/// Hosts whose exported value is not known in this run, with the reason.
pub type MissingExports = BTreeMap<String, MissingExport>;

/// Why the value that a host exports is not known in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingExport {
    /// The run leaves the host out.
    NotInRun,
    /// The host did not answer.
    NoAnswer,
    /// The host answered and has no value: its step failed, was blocked, or printed nothing in this run.
    NoValue,
    /// It contains a secret: recordings leave it out, and workers do not pass it on.
    Secret,
}

/// Lists the hosts whose value is missing, by reason, as the end of a sentence.
pub(in crate::config) fn describe_missing(missing: &MissingExports) -> String {
    let reasons = [
        (MissingExport::NotInRun, "not in this run"),
        (MissingExport::NoAnswer, "no answer"),
        (MissingExport::NoValue, "no value"),
        (MissingExport::Secret, "it contains a secret, which is not passed on"),
    ];
    let list_hosts = |(why, words): (MissingExport, &str)| {
        let hosts: Vec<&str> = missing.iter().filter(|(_, own)| **own == why).map(|(host, _)| host.as_str()).collect();
        if hosts.is_empty() { String::new() } else { format!("; {words}: {}", format_first_names(&hosts)) }
    };
    reasons.into_iter().map(list_hosts).collect()
}

/// Returns the first names and the number of the remaining ones.
pub fn format_first_names(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
