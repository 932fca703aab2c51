//! The description of a fact of hosts.

use super::comparison_rules::ComparisonRule;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};

/// The part of a fact that has the `fields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactShape {
    /// The fact itself.
    Map,
    /// Each entry of a list.
    List,
    /// Each value of a map whose keys are names that the host defines.
    ByName,
    /// None: the fact is a single value, or the host defines its contents.
    Value,
}

/// A fact, as registered.
pub struct Fact {
    /// The name under `facts.`: `os`, `kernel` …
    pub name: &'static str,
    /// One sentence: meaning and source.
    pub doc: &'static str,
    /// The part that has the `fields`.
    pub shape: FactShape,
    /// Meaning, unit and source of each field. Empty if the fact is a single value.
    pub fields: &'static [(&'static str, &'static str)],
    /// The files and commands that it reads if they exist: a simulated host must provide them.
    pub reads: &'static [&'static str],
    /// The parts that should be equal on similar hosts; empty for facts that identify hosts, and for counters.
    pub alike: &'static [ComparisonRule],
    /// The shell code that reads it on a host.
    pub snippet: FactSnippet,
    /// Parses the snippet's output: lenient about the format, but never invents a value.
    pub parse: fn(&ProbeOutput) -> Result<Value, UnansweredReason>,
}
