//! How the entries of nodes differ, the calls that change them, and how that is undone.

use crate::model::{DisruptionClass, UndoDeclaration, UndoEffect, Value};
use crate::object::{ClusterCall, NodeMark, NodeMarkChanges};
use crate::resource::{AttributeChange, ResourceDiff, ValueChange};
use serde::Serialize;
use serde_json::{Map, json};

/// The kind that restores entries of a node.
pub(super) const RESTORING_KIND: &str = "restore_node";

/// How the entries of nodes differ: those of the declared node first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct NodeDiff {
    nodes: Vec<NodeMarksDiff>,
}

/// How the entries of one node differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NodeMarksDiff {
    node: String,
    /// The uid of the node as it was read; empty if it does not exist yet.
    uid: String,
    /// The entries that are set (`to`) or removed (no `to`), with their values.
    marks: Vec<(NodeMark, ValueChange<String>)>,
}

impl NodeMarksDiff {
    pub(super) fn new(node: &str, uid: &str) -> Self {
        Self { node: node.to_owned(), uid: uid.to_owned(), marks: Vec::new() }
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    pub(super) fn marks(&self) -> &[(NodeMark, ValueChange<String>)] {
        &self.marks
    }

    pub(super) fn push_mark(&mut self, mark: NodeMark, change: ValueChange<String>) {
        self.marks.push((mark, change));
    }

    pub(super) fn set_marks(&self) -> impl Iterator<Item = &NodeMark> {
        self.marks.iter().filter(|(_, change)| change.to.is_some()).map(|(mark, _)| mark)
    }

    pub(super) fn removed_marks(&self) -> impl Iterator<Item = &NodeMark> {
        self.marks.iter().filter(|(_, change)| change.to.is_none()).map(|(mark, _)| mark)
    }

    fn to_changes(&self) -> NodeMarkChanges {
        let set = self.marks.iter().filter_map(|(mark, change)| Some((mark.clone(), change.to.clone()?)));
        NodeMarkChanges {
            node: self.node.clone(),
            uid: self.uid.clone(),
            set: set.collect(),
            take: self.removed_marks().cloned().collect(),
        }
    }
}

impl ResourceDiff for NodeDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let render = |(mark, change): &(NodeMark, ValueChange<String>)| {
            let text = |value: &Option<String>| value.as_deref().map(|value| format_value(mark, value));
            AttributeChange::new(&mark.to_string(), text(&change.from).as_deref(), text(&change.to).as_deref())
                .mark_inner()
        };
        self.nodes.iter().flat_map(|node| &node.marks).map(render).collect()
    }
}

impl NodeDiff {
    /// Returns one call for each node.
    pub(super) fn build_calls(&self) -> Vec<ClusterCall> {
        self.nodes.iter().map(|node| ClusterCall::Mark(Box::new(node.to_changes()))).collect()
    }

    pub(super) fn nodes(&self) -> &[NodeMarksDiff] {
        &self.nodes
    }

    /// Returns the differences of one node.
    pub(super) fn of_node(node: NodeMarksDiff) -> Self {
        Self { nodes: vec![node] }
    }

    /// Returns how the changes are undone: each node gets the former values of exactly the changed entries.
    pub(super) fn undo_effect(&self) -> UndoEffect {
        UndoEffect::declare(self.nodes.iter().rev().map(declare_former_node).collect())
    }

    pub(super) fn push(&mut self, node: NodeMarksDiff) {
        if !node.marks.is_empty() {
            self.nodes.push(node);
        }
    }

    /// Returns the disruption class: a `NoExecute` taint evicts pods.
    pub(super) fn disruption(&self) -> DisruptionClass {
        let evicts = |mark: &NodeMark| matches!(mark, NodeMark::Taint { effect, .. } if effect == "NoExecute");
        match self.nodes.iter().flat_map(NodeMarksDiff::set_marks).any(evicts) {
            true => DisruptionClass::D1,
            false => DisruptionClass::D0,
        }
    }
}

/// Declares the state of a node before these changes.
fn declare_former_node(node: &NodeMarksDiff) -> UndoDeclaration {
    let mut marks = Map::new();
    for (mark, change) in &node.marks {
        let values = [("before", &change.from), ("after", &change.to)];
        let known = values.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?))));
        marks.insert(mark.to_string(), Value::Object(known.collect()));
    }
    UndoDeclaration::present(RESTORING_KIND, json!({ "name": node.node, "uid": node.uid, "marks": marks }))
}

/// Returns a value for display. An empty text is shown as `""`; a taint usually has no value.
fn format_value(mark: &NodeMark, value: &str) -> String {
    match (mark, value) {
        (NodeMark::Taint { .. }, "") => "present".to_owned(),
        (_, "") => "\"\"".to_owned(),
        (_, value) => value.to_owned(),
    }
}
