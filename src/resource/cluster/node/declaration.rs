//! The declaration of labels, annotations and taints of a node.

use crate::object::{NodeMark, NodeMarkChanges};
use crate::probe::Probe;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct NodeResource {
    pub(super) name: String,
    /// The declared labels, annotations and taints with their values.
    pub(super) marks: BTreeMap<NodeMark, String>,
    pub(super) absent: bool,
}

pub(super) fn node_probe(node: &str) -> Probe {
    NodeMarkChanges::node_id(node).to_probe()
}

impl NodeResource {
    pub(super) fn is_declared(&self, node: &str, mark: &NodeMark) -> bool {
        node == self.name && self.marks.contains_key(mark)
    }
}
