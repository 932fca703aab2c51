//! The odd one out: hosts that are alike, compared with the majority of them, even where nothing is declared.
//!
//! Hosts are alike that have the same hardware (maker's product and board, models of GPUs) and that the inventory treats the
//! same: the same entries of `apply`. A majority is more than half of all hosts of such a class, the ones that do not tell
//! included, and a class has at least three hosts. What is unknown is counted and never odd.

mod class;
mod vote;

use super::Facts;
use crate::model::{HostName, Untrusted, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewer hosts have no majority that would mean something.
pub const LEAST: usize = 3;

/// A host to be compared.
pub struct Candidate<'a> {
    pub host: &'a HostName,
    /// What the inventory does with it: hosts with the same text are treated the same.
    pub declared: String,
    /// Groups of the inventory that it is in.
    pub groups: &'a [String],
    pub facts: &'a Facts,
}

/// What a comparison came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outliers {
    /// Classes that were compared.
    pub classes: Vec<Class>,
    /// What differs from the majority of its class, rarest first.
    pub odd: Vec<Odd>,
    /// Values without a majority: nothing can be said of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<Undecided>,
    /// What hosts did not tell: never the same as odd, nor as equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Untold>,
    /// Hosts that were compared with nobody: fewer than three are like them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Class>,
    /// Values that were compared: one for each place in a fact and class.
    pub compared: usize,
}

/// Hosts that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Class {
    /// What hardware they have in common: `SYS-821GE-TNHR, X13DEG-OAD, H100 SXM`.
    pub hardware: Untrusted,
    /// Groups of the inventory that all of them are in.
    pub groups: Vec<String>,
    /// In inventory order.
    pub hosts: Vec<HostName>,
}

/// A place in a fact where some hosts of a class differ from its majority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Odd {
    /// Index into `classes`.
    pub class: usize,
    pub fact: String,
    /// Where in the fact, the fact's name first: `driver.loaded`, `rdma[MT_0000000838].firmware`.
    pub path: Untrusted,
    /// What the majority has; null where it has no such thing.
    pub common: Value,
    /// How many hosts have it.
    pub hosts: usize,
    /// The others, rarest first.
    pub odd: Vec<OddValue>,
    /// Hosts of the class that do not tell.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: usize,
}

/// What few hosts have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OddValue {
    pub value: Value,
    pub hosts: Vec<HostName>,
}

/// A place in a fact without a majority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Undecided {
    /// Index into `classes`.
    pub class: usize,
    pub path: Untrusted,
    /// How many different values there are, among how many hosts that tell.
    pub values: usize,
    pub hosts: usize,
}

/// What hosts of a class did not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Untold {
    /// Index into `classes`; absent where the hardware itself is unknown, so that the host is of no class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
    pub path: Untrusted,
    pub why: Untrusted,
    pub hosts: Vec<HostName>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Odd {
    /// Returns how many hosts differ.
    pub fn differing(&self) -> usize {
        self.odd.iter().map(|odd| odd.hosts.len()).sum()
    }
}

/// Returns the facts that a comparison reads.
pub fn facts() -> impl Iterator<Item = &'static str> {
    super::all().iter().filter(|fact| !fact.alike.is_empty()).map(|fact| fact.name)
}

/// Compares hosts, given in inventory order, with the majority of those that are like them.
pub fn find(hosts: &[Candidate<'_>]) -> Outliers {
    let sorted = class::classes(hosts);
    let mut outliers = Outliers { alone: sorted.alone, unknown: sorted.unknown, ..Outliers::default() };
    for (class, members) in sorted.classes {
        let index = outliers.classes.len();
        outliers.classes.push(class);
        vote::compare(index, &members, &mut outliers);
    }
    let Outliers { classes, odd, .. } = &mut outliers;
    // Ratios by cross-multiplication: few of many come before few of few. Equals stay in order of class and fact.
    odd.sort_by(|a, b| {
        let size = |odd: &Odd| classes[odd.class].hosts.len();
        (a.differing() * size(b)).cmp(&(b.differing() * size(a)))
    });
    outliers
}

#[cfg(test)]
mod tests;
