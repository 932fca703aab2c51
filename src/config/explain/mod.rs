//! Explains where values and steps come from, as data for the output writers: a value with the values that it
//! overrides, a step with its inputs.

mod step;
mod value;

pub use step::{RenderedStep, StepExplanation, StepInput, explain_step};
pub use value::{ValueExplanation, ValueName, ValueOrigin, explain_value};

use crate::model::HostName;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

/// An explanation and the hosts that share it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SharedByHosts<T> {
    /// The hosts for which the explanation is the same, in the order of the inventory.
    pub hosts: Vec<HostName>,
    /// The explanation. In JSON its fields are fields of this object.
    #[serde(flatten)]
    pub what: T,
}

/// Groups hosts by equal explanations.
fn group_equal_hosts<T: Serialize>(each: impl IntoIterator<Item = (HostName, T)>) -> Vec<SharedByHosts<T>> {
    let mut groups: IndexMap<String, SharedByHosts<T>> = IndexMap::new();
    for (host, what) in each {
        // These values contain only text and lists of text, so serialization cannot fail.
        let key = serde_json::to_string(&what).unwrap_or_default();
        groups.entry(key).or_insert_with(|| SharedByHosts { hosts: Vec::new(), what }).hosts.push(host);
    }
    groups.into_values().collect()
}
