//! `node`: labels, annotations and taints of a node of the cluster.

mod assessment;
mod declaration;
mod node_diff;
pub(in crate::resource) mod restore;
mod validation;

use crate::diag::Diag;
use crate::model::{UndoEffect, Value};
use crate::object::{NodeMark, NodeMarkChanges};
use crate::probe::{Observation, Probe};
use crate::resource::shared::support::{bad_value, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource,
};
use declaration::{NodeResource, node_probe};
use node_diff::NodeDiff;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "node",
    summary: "Labels, annotations and taints of a node of the cluster.",
    example: include_str!("../../examples/node.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), not on a host. A node registers
itself: forge never creates a node, and a missing node blocks the step. With `each`, one step declares many nodes;
several steps may declare different labels of one node.

**Compared** is each declared label, annotation and taint separately. Those that differ are set; if the API knows who
set the previous value, the plan says so. Everything else on the node belongs to other writers and stays: the scheduler,
the kubelet, the GPU operator and node feature discovery all write there. A patch therefore contains only declared
entries. The list of taints is a single value to the API: forge writes it as it was read with only the declared taints
changed, and reads it again if the node changed in the meantime.

**Entries that the step declared before** and that no step declares any more are removed; `ensure: absent` removes all of
them. A label or an annotation is removed if forge set its current value, according to the API's managed fields; a taint
is removed if it has the declared value.

**Rejected** are keys under `forge/`, which hold forge's own notes; taints under `node.kubernetes.io/`, which follow the
state of the node; and the label `nvidia.com/gpu.deploy.operands`, which forge itself sets while it drains a node for a
driver and restores afterwards. Declaring that label here would bring the operator's pods back during the drain. Secrets
are rejected, because everyone who can read nodes can read them.

**Disruption** is D1 if the step adds a taint with the effect `NoExecute`, which evicts pods, otherwise D0.",
    fields: FIELDS,
    build,
    traits: KindTraits { explains_secrets: true, claim_probe: Some(claim_probe), ..KindTraits::IN_CLUSTER },
};

/// Returns the probe of the node that a recorded label, annotation or taint belongs to.
fn claim_probe(name: &str) -> Option<Probe> {
    Some(NodeMarkChanges::node_id(&NodeMark::from_record_key(name)?.0).to_probe())
}

const FIELDS: &[FieldSpec] = &[
    FieldSpec::required("name", FieldType::Name, "Name of the node in the cluster."),
    FieldSpec::optional("labels", FieldType::Map(&FieldType::Text), "Labels of the node."),
    FieldSpec::optional("annotations", FieldType::Map(&FieldType::Text), "Annotations of the node."),
    FieldSpec::optional(
        "taints",
        FieldType::Map(&FieldType::Any),
        "Taints of the node, by key: an effect (`NoSchedule`, `PreferNoSchedule`, `NoExecute`), \
         `{ effect: …, value: … }`, or a list of these.",
    ),
];

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    validation::check_node_name(&name)?;
    let mut marks = BTreeMap::new();
    for (key, value) in fields.get_text_map("labels").unwrap_or_default() {
        validation::check_label(&key, &value).map_err(|diag| diag.with_field("labels"))?;
        marks.insert(NodeMark::Label(key), value);
    }
    for (key, value) in fields.get_text_map("annotations").unwrap_or_default() {
        validation::check_annotation(&key, &value).map_err(|diag| diag.with_field("annotations"))?;
        marks.insert(NodeMark::Annotation(key), value);
    }
    for (key, value) in fields.get_table("taints").into_iter().flatten() {
        validation::parse_taints(key, value)?.into_iter().try_for_each(|(mark, value)| {
            match marks.insert(mark, value) {
                Some(_) => Err(bad_value(format!("taint `{key}` has a duplicate effect")).with_field("taints")),
                None => Ok(()),
            }
        })?;
    }
    if marks.is_empty() {
        return Err(
            bad_value("the node needs labels, annotations or taints").hint("set `labels`, `annotations` or `taints`")
        );
    }
    Ok(Box::new(NodeResource { name, marks, absent }))
}

impl DeclaredResource for NodeResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        vec![node_probe(&self.name)]
    }

    fn obsolete_probes(&self, record: &Value) -> Vec<Probe> {
        let nodes: BTreeSet<String> =
            assessment::obsolete_marks(self, record).into_iter().map(|(node, _)| node).collect();
        nodes.iter().map(|node| node_probe(node)).collect()
    }

    fn desired_value(&self) -> Value {
        let marks: BTreeMap<String, &String> =
            self.marks.iter().map(|(mark, value)| (mark.to_string(), value)).collect();
        let mut desired = json!({ "node": self.name, "marks": marks });
        if self.absent {
            desired["absent"] = json!(true);
        }
        desired
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        self.marks.keys().map(|mark| (KIND.name, mark.record_key(&self.name))).collect()
    }
}

impl TypedResource for NodeResource {
    type Diff = NodeDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<NodeDiff> {
        assessment::assess_node(self, seen, cx)
    }

    fn act(&self, diff: &NodeDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Calls(diff.build_calls())
    }

    fn undo(&self, diff: &NodeDiff) -> UndoEffect {
        diff.undo_effect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &Value) -> String {
        let known = |key: &String| FIELDS.iter().find(|field| field.name == key).unwrap().name;
        let fields = FieldValues(fields.as_object().unwrap().iter().map(|(k, v)| (known(k), v.clone())).collect());
        build(&fields, false).unwrap_err().message
    }

    #[test]
    fn reserved_and_invalid_node_fields_are_rejected() {
        let with = |part: &str, value: Value| {
            let mut fields = json!({ "name": "gpu-1" });
            fields[part] = value;
            build_error(&fields)
        };
        assert_eq!(build_error(&json!({ "name": "gpu-1" })), "the node needs labels, annotations or taints");
        assert_eq!(
            build_error(&json!({ "name": "Gpu_1", "labels": { "a": "b" } })),
            "`Gpu_1` is not a valid node name"
        );
        assert_eq!(
            with("annotations", json!({ "forge/cordoned": "x" })),
            "`forge/cordoned` is reserved for forge's own notes"
        );
        assert_eq!(
            with("labels", json!({ "nvidia.com/gpu.deploy.operands": "true" })),
            "`nvidia.com/gpu.deploy.operands` is reserved: drains set and restore it"
        );
        assert_eq!(
            with("taints", json!({ "node.kubernetes.io/unschedulable": "NoSchedule" })),
            "taint `node.kubernetes.io/unschedulable` is managed by Kubernetes: it follows the state of the node"
        );
        assert_eq!(with("labels", json!({ "a": "b c" })), "`b c` is not a valid value of label `a`");
        assert_eq!(with("labels", json!({ "a/b/c": "x" })), "`a/b/c` is not a valid label key");
        assert_eq!(with("taints", json!({ "spare": "Never" })), "`Never` is not a valid taint effect");
        assert_eq!(
            with("taints", json!({ "spare": { "effect": "NoSchedule", "color": "x" } })),
            "taint `spare` has unknown key `color`"
        );
        assert_eq!(
            with("taints", json!({ "spare": ["NoExecute", "NoExecute"] })),
            "taint `spare` has a duplicate effect"
        );
    }

    #[test]
    fn taint_accepts_one_or_more_effects() {
        let taints = json!({ "a": "NoSchedule", "b": { "effect": "NoExecute", "value": "x" }, "c": ["NoSchedule", "NoExecute"] });
        let fields = FieldValues([("name", json!("gpu-1")), ("taints", taints)].into_iter().collect());
        let names: Vec<String> =
            build(&fields, false).unwrap().exclusive_claims().into_iter().map(|(_, name)| name).collect();
        let expected =
            ["a:NoSchedule", "b:NoExecute", "c:NoExecute", "c:NoSchedule"].map(|t| format!("gpu-1 taint {t}"));
        assert_eq!(names, expected);
    }
}
