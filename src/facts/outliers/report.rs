//! The hosts to compare, and the result of a comparison.

use crate::facts::Facts;
use crate::model::{HostName, UntrustedText, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Minimum number of hosts for a meaningful majority.
pub const MIN_CLASS_SIZE: usize = 3;

/// A host to be compared.
pub struct OutlierCandidate<'a> {
    /// The host's name in the inventory.
    pub host: &'a HostName,
    /// What the inventory applies to it: hosts with the same text are treated the same.
    pub declared: String,
    /// The inventory groups that contain it.
    pub groups: &'a [String],
    /// Its facts, also unknown ones.
    pub facts: &'a Facts,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutlierReport {
    /// Classes that were compared.
    pub classes: Vec<HostClass>,
    /// Values that differ from the majority of their class, rarest first.
    pub odd: Vec<FactOutlier>,
    /// Values without a majority, about which no statement is possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<UndecidedFact>,
    /// Values that hosts did not report: they count neither as outliers nor as equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownHostFact>,
    /// Hosts that were not compared, because their class has fewer than three hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<HostClass>,
    /// Number of compared values: one for each path in a fact and class.
    pub compared: usize,
}

/// A class of similar hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostClass {
    /// The hardware that they share: `SYS-821GE-TNHR, X13DEG-OAD, H100 SXM`.
    pub hardware: UntrustedText,
    /// The inventory groups that contain all of them.
    pub groups: Vec<String>,
    /// In inventory order.
    pub hosts: Vec<HostName>,
}

/// A path in a fact where some hosts of a class differ from its majority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FactOutlier {
    /// Index into `classes`.
    pub class: usize,
    /// The fact's name under `facts.`.
    pub fact: String,
    /// The path in the fact, starting with the fact's name: `driver.loaded`, `rdma[MT_0000000838].firmware`.
    pub path: UntrustedText,
    /// The value of the majority; null if it does not have the item.
    pub common: Value,
    /// Number of hosts with that value.
    pub hosts: usize,
    /// The other values, rarest first.
    pub odd: Vec<OutlierValue>,
    /// Number of hosts of the class whose value is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: usize,
}

/// A value of a minority of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutlierValue {
    /// The value; null if the host does not have the item.
    pub value: Value,
    /// The hosts with this value, in inventory order.
    pub hosts: Vec<HostName>,
}

/// A path in a fact without a majority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndecidedFact {
    /// Index into `classes`.
    pub class: usize,
    /// The path in the fact, starting with the fact's name.
    pub path: UntrustedText,
    /// Number of different values.
    pub values: usize,
    /// Number of hosts whose value is known.
    pub hosts: usize,
}

/// A value that hosts of a class did not report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownHostFact {
    /// Index into `classes`; absent if the hardware itself is unknown, so that the host belongs to no class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
    /// The path in the fact, starting with the fact's name; only the name if the whole fact is unknown.
    pub path: UntrustedText,
    /// The reason as a lowercase fragment.
    pub why: UntrustedText,
    /// The hosts that did not report it for this reason, in inventory order.
    pub hosts: Vec<HostName>,
}

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl FactOutlier {
    /// Returns the number of hosts that differ.
    pub fn count_differing(&self) -> usize {
        self.odd.iter().map(|odd| odd.hosts.len()).sum()
    }
}
