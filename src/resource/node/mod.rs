//! `node`: labels, annotations and taints of a node of the cluster.

mod judge;
mod names;

use super::support::{bad_value, required};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::kube::{Mark, Marks};
use crate::model::Value;
use crate::probe::{Observation, Probe};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const KIND: Kind = Kind {
    name: "node",
    summary: "Labels, annotations and taints of a node of the cluster.",
    example: include_str!("../examples/node.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), on no host. A node joins by itself: one that is not there is never made, and
the step is blocked. With `each`, one step speaks of many nodes; several steps may speak of one node, each of its own labels.

**Compared** is each declared label, annotation and taint by itself. What differs is set, and a plan says who set it otherwise, where the
API knows. Everything else that the node carries is somebody else's and stays: the scheduler, the kubelet, the GPU operator, node
feature discovery and people all write there. So a patch names only what is declared, and the list of taints, which is one value to the API, is
written as it was read but for the declared ones, if nobody changed the node meanwhile; else it is read anew.

**What the step declared before** and does not any more is taken out, as `ensure: absent` takes out all of it: a label or an annotation if
forge set it as it is now, by the API's account of who set what; a taint if it has the declared value.

**Refused** are keys under `forge/`, which hold forge's own notes; taints under `node.kubernetes.io/`, which follow the state of the node;
and the label `nvidia.com/gpu.deploy.operands`: forge itself sets it while it drains a node for a driver, and gives it back. Declared
here too, it would bring the operator's pods back in the midst of that. A secret is refused: whoever may read nodes reads it.

**Disruption** is D1 where a taint with the effect `NoExecute` comes, by which pods leave the node, else D0.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("name", Type::Name, "Name of the node, as the cluster has it."),
    Field::optional("labels", Type::Map(&Type::Text), "Labels it has."),
    Field::optional("annotations", Type::Map(&Type::Text), "Annotations it has."),
    Field::optional(
        "taints",
        Type::Map(&Type::Any),
        "Taints it has, by key: an effect (`NoSchedule`, `PreferNoSchedule`, `NoExecute`), or `{ effect: …, value: … }`, or a list of such.",
    ),
];

#[derive(Debug)]
struct Node {
    name: String,
    /// What it is to carry, with the value.
    marks: BTreeMap<Mark, String>,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required(fields, "name")?.to_owned();
    names::node(&name)?;
    let mut marks = BTreeMap::new();
    for (key, value) in fields.map("labels").unwrap_or_default() {
        names::label(&key, &value)?;
        marks.insert(Mark::Label(key), value);
    }
    for (key, value) in fields.map("annotations").unwrap_or_default() {
        names::annotation(&key, &value)?;
        marks.insert(Mark::Annotation(key), value);
    }
    for (key, value) in fields.table("taints").into_iter().flatten() {
        names::taints(key, value)?.into_iter().try_for_each(|(mark, value)| match marks.insert(mark, value) {
            Some(_) => Err(bad_value(format!("taint `{key}` has an effect twice"))),
            None => Ok(()),
        })?;
    }
    if marks.is_empty() {
        return Err(bad_value("nothing is declared of the node").hint("give `labels`, `annotations` or `taints`"));
    }
    Ok(Box::new(Node { name, marks, absent }))
}

fn probe(node: &str) -> Probe {
    Marks::id(node).probe()
}

impl Node {
    fn is_own(&self, node: &str, mark: &Mark) -> bool {
        node == self.name && self.marks.contains_key(mark)
    }
}

impl Resource for Node {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        vec![probe(&self.name)]
    }

    fn former(&self, record: &Value) -> Vec<Probe> {
        let nodes: BTreeSet<String> = judge::gone(self, record).into_iter().map(|(node, _)| node).collect();
        nodes.iter().map(|node| probe(node)).collect()
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        judge::judge(self, seen, cx)
    }

    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action::default()
    }

    fn desired(&self) -> Value {
        let marks: BTreeMap<String, &String> =
            self.marks.iter().map(|(mark, value)| (mark.to_string(), value)).collect();
        let mut desired = json!({ "node": self.name, "marks": marks });
        if self.absent {
            desired["absent"] = json!(true);
        }
        desired
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        self.marks.keys().map(|mark| (KIND.name, mark.claim(&self.name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &Value) -> String {
        let known = |key: &String| FIELDS.iter().find(|field| field.name == key).unwrap().name;
        let fields = Fields(fields.as_object().unwrap().iter().map(|(k, v)| (known(k), v.clone())).collect());
        build(&fields, false).unwrap_err().message
    }

    #[test]
    fn what_is_not_a_steps_to_set_is_refused() {
        let with = |part: &str, value: Value| {
            let mut fields = json!({ "name": "gpu-1" });
            fields[part] = value;
            refused(&fields)
        };
        assert_eq!(refused(&json!({ "name": "gpu-1" })), "nothing is declared of the node");
        assert_eq!(refused(&json!({ "name": "Gpu_1", "labels": { "a": "b" } })), "`Gpu_1` cannot name a node");
        assert_eq!(
            with("annotations", json!({ "forge/cordoned": "x" })),
            "`forge/cordoned` is one of forge's own notes"
        );
        assert_eq!(
            with("labels", json!({ "nvidia.com/gpu.deploy.operands": "true" })),
            "`nvidia.com/gpu.deploy.operands` is what a drain sets and gives back"
        );
        assert_eq!(
            with("taints", json!({ "node.kubernetes.io/unschedulable": "NoSchedule" })),
            "taint `node.kubernetes.io/unschedulable` follows the state of the node"
        );
        assert_eq!(with("labels", json!({ "a": "b c" })), "`b c` cannot be the value of label `a`");
        assert_eq!(with("labels", json!({ "a/b/c": "x" })), "`a/b/c` cannot name a label");
        assert_eq!(with("taints", json!({ "spare": "Never" })), "`Never` is no effect of a taint");
        assert_eq!(
            with("taints", json!({ "spare": { "effect": "NoSchedule", "color": "x" } })),
            "taint `spare` knows no `color`"
        );
        assert_eq!(with("taints", json!({ "spare": ["NoExecute", "NoExecute"] })), "taint `spare` has an effect twice");
    }

    #[test]
    fn a_taint_is_an_effect_or_more() {
        let taints = json!({ "a": "NoSchedule", "b": { "effect": "NoExecute", "value": "x" }, "c": ["NoSchedule", "NoExecute"] });
        let fields = Fields([("name", json!("gpu-1")), ("taints", taints)].into_iter().collect());
        let names: Vec<String> = build(&fields, false).unwrap().claims().into_iter().map(|(_, name)| name).collect();
        let expected =
            ["a:NoSchedule", "b:NoExecute", "c:NoExecute", "c:NoSchedule"].map(|t| format!("gpu-1 taint {t}"));
        assert_eq!(names, expected);
    }
}
