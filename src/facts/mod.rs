//! Facts: one file each. A fact is a snippet plus a pure parser.
//!
//! Architecture Invariant: a fact is never invented. A tool that is missing, a permission that lacks or an
//! answer in another form makes the fact unknown, with the reason. Null inside a fact means that the host
//! has no such thing.

mod boot;
mod cpu;
mod disk;
mod identity;
mod kernel;
mod memory;
mod network;
mod os;
mod packages;
mod pci;
mod read;
mod reboot;
mod time;
mod tools;
mod units;
mod virtualization;

use crate::model::Value;
use crate::probe::{FactSnippet, Observation, Output, Probe, Unknown};
use std::collections::BTreeMap;

/// A fact as the registry knows it.
pub struct Fact {
    /// The name under `facts.`: `os`, `kernel` …
    pub name: &'static str,
    /// One sentence: what it is and where it is read.
    pub doc: &'static str,
    /// Meaning, unit and source of each field: of the map, or of each entry where the fact is a list or a map
    /// by name. Empty where the fact is one value.
    pub fields: &'static [(&'static str, &'static str)],
    pub snippet: FactSnippet,
    /// Reads the snippet's output. Lenient in form, never inventing a value.
    pub parse: fn(&Output) -> Result<Value, Unknown>,
}

/// What is known of one host, by the fact's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(pub BTreeMap<String, Result<Value, Unknown>>);

/// Every fact, in the order of the reference. Those that touch filesystems stand after those that do not.
static ALL: [Fact; 15] = [
    os::FACT,
    kernel::FACT,
    boot::FACT,
    identity::FACT,
    cpu::FACT,
    memory::FACT,
    pci::FACT,
    reboot::FACT,
    tools::FACT,
    virtualization::FACT,
    network::FACT,
    time::FACT,
    disk::FACT,
    packages::FACT,
    units::FACT,
];

/// Returns every fact, in the order of the reference.
pub fn all() -> &'static [Fact] {
    &ALL
}

/// Returns the snippets of all facts, for [`compile`](crate::probe::compile).
pub fn snippets() -> Vec<FactSnippet> {
    ALL.iter().map(|fact| fact.snippet).collect()
}

/// Returns the questions behind all facts.
pub fn probes() -> impl Iterator<Item = Probe> {
    ALL.iter().map(|fact| Probe::Fact { name: fact.name.to_owned() })
}

impl Facts {
    /// Parses what an observation holds of facts.
    pub fn from_observation(seen: &Observation) -> Self {
        let mut facts = BTreeMap::new();
        for fact in all() {
            let probe = Probe::Fact { name: fact.name.to_owned() };
            if !seen.has(&probe) {
                continue;
            }
            let value = match seen.get(&probe) {
                Ok(crate::probe::Reading::Output(output)) => (fact.parse)(output),
                Ok(_) => Err(Unknown::new("answered with something else")),
                Err(unknown) => Err(unknown),
            };
            facts.insert(fact.name.to_owned(), value);
        }
        Self(facts)
    }
}

#[cfg(test)]
mod tests;
