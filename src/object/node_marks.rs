//! Labels, annotations and taints of a node: each is set and removed individually, and all others stay.
//!
//! Architecture Invariant: many programs write to a node. Its taints are one list in the API, so a change rewrites the
//! list as it was read, with only the intended taints changed, and only if the node still has that version.

use super::ObjectId;
use crate::model::Value;
use serde::{Serialize, Serializer};
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The label that makes the GPU operator remove its pods from a node. Drains set and restore it.
pub const OPERANDS_LABEL: &str = "nvidia.com/gpu.deploy.operands";

/// One label, annotation or taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeMark {
    /// The key of a label.
    Label(String),
    /// The key of an annotation.
    Annotation(String),
    /// A node has at most one taint of a key and an effect.
    Taint {
        /// The key of the taint.
        key: String,
        /// The effect of the taint: `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
        effect: String,
    },
}

/// `label team`, `taint spare:NoSchedule`.
impl fmt::Display for NodeMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key) => write!(f, "label {key}"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::Taint { key, effect } => write!(f, "taint {key}:{effect}"),
        }
    }
}

impl Serialize for NodeMark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl NodeMark {
    /// Parses the displayed form.
    pub fn parse(text: &str) -> Option<Self> {
        let (what, key) = text.split_once(' ')?;
        Some(match what {
            "label" => Self::Label(key.to_owned()),
            "annotation" => Self::Annotation(key.to_owned()),
            "taint" => {
                let (key, effect) = key.split_once(':')?;
                Self::Taint { key: key.to_owned(), effect: effect.to_owned() }
            }
            _ => return None,
        })
    }

    /// Returns the name of the mark in records: `gpu-1 label team`.
    pub fn record_key(&self, node: &str) -> String {
        format!("{node} {self}")
    }

    /// Parses the name from [`record_key`](Self::record_key) into the node and the mark.
    pub fn from_record_key(claim: &str) -> Option<(String, Self)> {
        let (node, mark) = claim.split_once(' ')?;
        Some((node.to_owned(), Self::parse(mark)?))
    }

    /// Returns its value on a node; empty text for a taint without a value.
    pub fn value_on_node(&self, node: &Value) -> Option<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match self {
            Self::Label(key) => node.pointer("/metadata/labels")?.get(key).map(text),
            Self::Annotation(key) => node.pointer("/metadata/annotations")?.get(key).map(text),
            Self::Taint { .. } => {
                let found = node_taints(node).iter().find(|taint| self.matches_taint(taint))?;
                Some(found.get("value").map(text).unwrap_or_default())
            }
        }
    }

    fn matches_taint(&self, taint: &Value) -> bool {
        matches!(self, Self::Taint { key, effect } if taint["key"] == **key && taint["effect"] == **effect)
    }
}

fn node_taints(node: &Value) -> &[Value] {
    node.pointer("/spec/taints").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Changes to the marks of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeMarkChanges {
    /// The name of the node.
    pub node: String,
    /// The uid of the node as it was read.
    pub uid: String,
    /// Marks to set, each with its value; empty text for a taint without a value.
    pub set: BTreeMap<NodeMark, String>,
    /// Marks to remove.
    pub take: BTreeSet<NodeMark>,
}

impl NodeMarkChanges {
    /// Returns the name of a node's object.
    pub fn node_id(node: &str) -> ObjectId {
        ObjectId { api_version: "v1".to_owned(), kind: "Node".to_owned(), namespace: None, name: node.to_owned() }
    }

    /// Returns a description of the changes, for people.
    pub fn describe_changes(&self) -> String {
        let list = |marks: Vec<String>| marks.join(", ");
        let set = list(self.set.keys().map(NodeMark::to_string).collect());
        let take = list(self.take.iter().map(NodeMark::to_string).collect());
        match (set.is_empty(), take.is_empty()) {
            (_, true) => format!("set on node {}: {set}", self.node),
            (true, _) => format!("remove from node {}: {take}", self.node),
            _ => format!("set on node {}: {set}; remove: {take}", self.node),
        }
    }

    /// Returns the merge patch for a node as it was read.
    pub(crate) fn build_patch(&self, node: &Value) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), node["metadata"]["resourceVersion"].clone());
        for (mark, value) in self.iter_changes() {
            let (part, key) = match mark {
                NodeMark::Label(key) => ("labels", key),
                NodeMark::Annotation(key) => ("annotations", key),
                NodeMark::Taint { .. } => continue,
            };
            metadata.entry(part).or_insert_with(|| json!({}))[key.as_str()] = json!(value);
        }
        let mut patch = json!({ "metadata": metadata });
        if let Some(taints) = self.patch_taints(node) {
            patch["spec"] = json!({ "taints": taints });
        }
        patch
    }

    fn iter_changes(&self) -> impl Iterator<Item = (&NodeMark, Option<&String>)> {
        self.set.iter().map(|(mark, value)| (mark, Some(value))).chain(self.take.iter().map(|mark| (mark, None)))
    }

    /// Returns the complete list of taints if a taint changes. All other taints keep their value and position.
    fn patch_taints(&self, node: &Value) -> Option<Value> {
        let wishes: Vec<_> = self.iter_changes().filter(|(mark, _)| matches!(mark, NodeMark::Taint { .. })).collect();
        if wishes.is_empty() {
            return None;
        }
        let mut list = node_taints(node).to_vec();
        for (mark, value) in wishes {
            let wanted = value.and_then(|value| build_taint(mark, value));
            match (list.iter().position(|taint| mark.matches_taint(taint)), wanted) {
                (Some(at), Some(wanted)) => list[at] = wanted,
                (Some(at), None) => drop(list.remove(at)),
                (None, wanted) => list.extend(wanted),
            }
        }
        Some(if list.is_empty() { Value::Null } else { Value::Array(list) })
    }
}

fn build_taint(mark: &NodeMark, value: &str) -> Option<Value> {
    let NodeMark::Taint { key, effect } = mark else { return None };
    let mut taint = json!({ "key": key, "effect": effect });
    if !value.is_empty() {
        taint["value"] = json!(value);
    }
    Some(taint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_taint() -> NodeMark {
        NodeMark::Taint { key: "spare".to_owned(), effect: "NoSchedule".to_owned() }
    }

    #[test]
    fn mark_round_trips_through_its_text() {
        for text in ["label team", "annotation a/b", "taint nvidia.com/gpu:NoExecute"] {
            let mark = NodeMark::parse(text).unwrap();
            assert_eq!(mark.to_string(), text);
            assert_eq!(NodeMark::from_record_key(&mark.record_key("gpu-1")), Some(("gpu-1".to_owned(), mark)));
        }
        assert_eq!(NodeMark::parse("team"), None);
        assert_eq!(NodeMark::parse("taint spare"), None);
    }

    #[test]
    fn taints_of_other_managers_are_preserved() {
        let unreachable = json!({ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-22T07:00:00Z" });
        let other = json!({ "key": "spare", "effect": "NoExecute", "value": "x" });
        let node = json!({ "metadata": { "resourceVersion": "7" }, "spec": { "taints": [unreachable, other] } });
        let set = NodeMarkChanges { set: [(sample_taint(), "rack-2".to_owned())].into(), ..NodeMarkChanges::default() };
        let own = json!({ "key": "spare", "effect": "NoSchedule", "value": "rack-2" });
        assert_eq!(
            set.build_patch(&node),
            json!({ "metadata": { "resourceVersion": "7" }, "spec": { "taints": [unreachable, other, own] } })
        );
        let node = json!({ "metadata": { "resourceVersion": "8" }, "spec": { "taints": [own, unreachable] } });
        assert_eq!(sample_taint().value_on_node(&node).as_deref(), Some("rack-2"));
        let take = NodeMarkChanges { take: [sample_taint()].into(), ..NodeMarkChanges::default() };
        assert_eq!(take.build_patch(&node)["spec"], json!({ "taints": [unreachable] }));
        let only = json!({ "metadata": {}, "spec": { "taints": [own] } });
        assert_eq!(take.build_patch(&only)["spec"], json!({ "taints": null }));
    }

    #[test]
    fn patch_contains_only_the_changed_marks() {
        let node = json!({ "metadata": { "resourceVersion": "7", "labels": { "a": "1" }, "annotations": { "forge/cordoned": "{}" } } });
        let marks = NodeMarkChanges {
            set: [(NodeMark::Label("team".to_owned()), "ml".to_owned())].into(),
            take: [NodeMark::Annotation("old".to_owned())].into(),
            ..NodeMarkChanges::default()
        };
        let metadata = json!({ "resourceVersion": "7", "labels": { "team": "ml" }, "annotations": { "old": null } });
        assert_eq!(marks.build_patch(&node), json!({ "metadata": metadata }));
    }
}
