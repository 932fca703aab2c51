//! Where things come from, as values for writers: a value with the losers, a step with its inputs.

mod step;
mod value;

pub use step::{Input, Rendered, StepPage, explain_step};
pub use value::{Origin, ValueName, ValuePage, explain_value};

use crate::model::HostName;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

/// Something that is equal on some hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OnHosts<T> {
    pub hosts: Vec<HostName>,
    #[serde(flatten)]
    pub what: T,
}

/// Puts hosts together for which the same is said.
fn folded<T: Serialize>(each: impl IntoIterator<Item = (HostName, T)>) -> Vec<OnHosts<T>> {
    let mut groups: IndexMap<String, OnHosts<T>> = IndexMap::new();
    for (host, what) in each {
        // Values for writers are text and lists of text: they always serialize.
        let key = serde_json::to_string(&what).unwrap_or_default();
        groups.entry(key).or_insert_with(|| OnHosts { hosts: Vec::new(), what }).hosts.push(host);
    }
    groups.into_values().collect()
}
