//! Facts: one file each. A fact is a snippet plus a pure parser.

use crate::model::Value;
use crate::probe::{FactSnippet, Observation, Output, Probe, Unknown};
use std::collections::BTreeMap;

/// A fact as the registry knows it.
pub struct Fact {
    /// The name under `facts.`: `os`, `kernel` …
    pub name: &'static str,
    pub doc: &'static str,
    pub snippet: FactSnippet,
    /// Reads the snippet's output. Lenient in form, never inventing a value.
    pub parse: fn(&Output) -> Result<Value, Unknown>,
}

/// What is known of one host, by the fact's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(pub BTreeMap<String, Result<Value, Unknown>>);

/// Every fact.
pub fn all() -> &'static [Fact] {
    &[]
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
