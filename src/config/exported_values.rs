//! Values that steps export, as far as they are known.

use crate::model::Value;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingExport {
    /// The run leaves the host out.
    NotInRun,
    /// The host did not answer.
    NoAnswer,
    /// The host answered and has no value: its step failed, was blocked, or printed nothing in this run.
    NoValue,
}
