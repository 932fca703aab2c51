//! `restore_node`: labels, annotations and taints of a node as they were before a run.

use super::assessment::{describe_setter, find_node_info, find_setter, join_limited};
use super::declaration::node_probe;
use super::node_diff::{NodeDiff, NodeMarksDiff, RESTORING_KIND};
use crate::diag::Diag;
use crate::model::{BlockClass, UndoEffect, Value};
use crate::object::{NodeMark, ObjectInfo};
use crate::probe::{Observation, Probe};
use crate::resource::shared::support::{bad_value, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, Assessment, AssessmentContext, DeclaredResource, FieldSpec, FieldType, FieldValues, ProvidedItem, Resource,
    ResourceKind, TypedResource, ValueChange,
};
use serde_json::{Map, json};
use std::collections::BTreeMap;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: RESTORING_KIND,
    summary: "Labels, annotations and taints of a node as they were before a run.",
    example: include_str!("../../examples/restore_node.yaml"),
    doc: "\
`forge undo` declares this kind; recipes rarely need it. Before a run changes a node, it notes the values of exactly
those labels, annotations and taints that it changes.

**Compares** each of them with its value before the run. **A change** sets that value, or removes an entry that did not
exist. Everything else on the node stays.

**Blocked** is a node with an entry that has neither its value before the run nor the value that the run set: it was
changed after the run. So is a node that does not exist, or that was deleted and registered again.

**Removal** of the recipe changes nothing.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "Name of the node in the cluster."),
        FieldSpec::required("uid", FieldType::Line, "The `uid` of the node."),
        FieldSpec::required(
            "marks",
            FieldType::Map(&FieldType::Table(MARK_FIELDS)),
            "The entries that the run changed: `label KEY`, `annotation KEY` and `taint KEY:EFFECT`.",
        ),
        FieldSpec::optional(
            "overwrite",
            FieldType::Bool,
            "Whether entries that were changed after the run are restored, too. Default `false`.",
        ),
    ],
    build,
    traits: KindTraits::IN_CLUSTER,
};

const MARK_FIELDS: &[FieldSpec] = &[
    FieldSpec::optional("before", FieldType::Text, "The value before the run. Default: the entry did not exist."),
    FieldSpec::optional("after", FieldType::Text, "The value that the run set. Default: the run removed the entry."),
];

#[derive(Debug)]
struct NodeRestoration {
    name: String,
    uid: String,
    /// `from` is the value that the run set, `to` the one before it.
    marks: BTreeMap<NodeMark, ValueChange<String>>,
    overwrite: bool,
    /// The recipe itself is being removed.
    idle: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?.to_owned();
    super::validation::check_node_name(&name)?;
    let mut marks = BTreeMap::new();
    for (written, values) in fields.get_table("marks").into_iter().flatten() {
        let mark = NodeMark::parse(written).ok_or_else(|| {
            bad_value(format!("`{written}` names no entry of a node"))
                .hint("write `label KEY`, `annotation KEY` or `taint KEY:EFFECT`")
        })?;
        super::validation::check_restored_key(&mark)?;
        let text = |key: &str| values.get(key).and_then(Value::as_str).map(str::to_owned);
        marks.insert(mark, ValueChange { from: text("after"), to: text("before") });
    }
    let uid = required_text(fields, "uid")?.to_owned();
    let overwrite = fields.get_bool("overwrite").unwrap_or(false);
    Ok(Box::new(NodeRestoration { name, uid, marks, overwrite, idle: absent }))
}

impl NodeRestoration {
    /// Compares the entries with both of their values. Entries with another value are returned as text.
    fn compare_marks(&self, info: &ObjectInfo) -> (NodeMarksDiff, Map<String, Value>, Vec<String>) {
        let live = info.live.as_ref().unwrap_or(&Value::Null);
        let (mut diff, mut basis, mut moved) = (NodeMarksDiff::new(&self.name, &info.uid), Map::new(), Vec::new());
        for (mark, values) in &self.marks {
            let there = mark.value_on_node(live);
            basis.insert(mark.record_key(&self.name), json!(there));
            if there == values.to {
                continue;
            }
            if there != values.from && !self.overwrite {
                let by = find_setter(info, mark).map(|known| describe_setter((mark, known)));
                let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
                moved.push(format!("{mark} of node {} was changed after the run{by}", self.name));
            }
            diff.push_mark(mark.clone(), ValueChange { from: there, to: values.to.clone() });
        }
        (diff, basis, moved)
    }
}

impl DeclaredResource for NodeRestoration {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        if self.idle { Vec::new() } else { vec![node_probe(&self.name)] }
    }

    fn desired_value(&self) -> Value {
        let marks: BTreeMap<String, &Option<String>> =
            self.marks.iter().map(|(mark, values)| (mark.to_string(), &values.to)).collect();
        json!({ "node": self.name, "marks": marks })
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        self.marks.keys().map(|mark| (super::KIND.name, mark.record_key(&self.name))).collect()
    }
}

impl TypedResource for NodeRestoration {
    type Diff = NodeDiff;

    fn diff(&self, seen: &Observation, _cx: &AssessmentContext<'_>) -> Assessment<NodeDiff> {
        if self.idle {
            return Assessment::ok("a restored node stays as it is", Value::Null);
        }
        let basis = json!({ &self.name: null });
        let info = match find_node_info(seen, &self.name) {
            Err(why) => return Assessment::unknown(&why),
            Ok(None) => {
                let reason = format!("node {} was deleted after the run", self.name);
                return Assessment::blocked(BlockClass::Host, reason, basis);
            }
            Ok(Some(info)) => info,
        };
        if info.uid != self.uid {
            let reason = format!("node {} was deleted after the run and registered again", self.name);
            return Assessment::blocked(BlockClass::Host, reason, basis);
        }
        let (diff, basis, moved) = self.compare_marks(info);
        let basis = Value::Object(basis);
        if !moved.is_empty() {
            return Assessment::blocked(BlockClass::Host, moved.join("; "), basis);
        }
        if diff.marks().is_empty() {
            return Assessment::ok(format!("node {} is as before the run", self.name), basis);
        }
        let differing: Vec<String> = diff.marks().iter().map(|(mark, _)| mark.to_string()).collect();
        let verb = if differing.len() == 1 { "differs" } else { "differ" };
        let reason = format!("{} of node {} {verb} from before the run", join_limited(&differing), self.name);
        let diff = NodeDiff::of_node(diff);
        let disruption = diff.disruption();
        Assessment::differs(reason, diff, disruption, basis)
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
    use crate::model::UndoDeclaration;
    use crate::object::{NodeMarkChanges, ObjectState};
    use crate::probe::ProbeReading;
    use crate::resource::Resource;
    use proptest::prelude::*;

    const MARKS: [&str; 4] = ["label a", "annotation b/c", "taint spare:NoSchedule", "taint spare:NoExecute"];

    /// Returns a node with the marks that have a value.
    fn node(values: &[Option<&str>]) -> Value {
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "n", "labels": { "theirs": "x" }, "annotations": { "theirs": "x" } },
            "spec": { "taints": [{ "key": "theirs", "effect": "NoSchedule" }] },
        });
        let set = MARKS.iter().zip(values).filter_map(|(mark, value)| Some((NodeMark::parse(mark)?, (*value)?.into())));
        apply_patch(&mut node, &NodeMarkChanges { set: set.collect(), ..NodeMarkChanges::default() });
        node
    }

    /// Applies the merge patch of changes, as the API does.
    fn apply_patch(node: &mut Value, changes: &NodeMarkChanges) {
        let patch = changes.build_patch(node);
        for part in ["labels", "annotations"] {
            for (key, value) in patch["metadata"][part].as_object().into_iter().flatten() {
                match value {
                    Value::Null => drop(node["metadata"][part].as_object_mut().unwrap().shift_remove(key)),
                    value => node["metadata"][part][key] = value.clone(),
                }
            }
        }
        if let Some(taints) = patch["spec"].get("taints") {
            node["spec"]["taints"] = taints.clone();
        }
    }

    fn seen(node: &Value) -> Observation {
        let info = ObjectInfo { live: Some(node.clone()), uid: "u".into(), ..ObjectInfo::default() };
        let mut seen = Observation::default();
        seen.insert(node_probe("n"), Ok(ProbeReading::Object(ObjectState::Known(Box::new(info)))));
        seen
    }

    fn context() -> AssessmentContext<'static> {
        AssessmentContext { run: "r", ..AssessmentContext::default() }
    }

    /// Assesses a resource and carries out its calls on the node. Returns how that is undone.
    fn carry_out(resource: &dyn Resource, node: &mut Value) -> UndoEffect {
        let judgement = resource.assess(&seen(node), &context());
        let effect = resource.undo_effect(&judgement);
        if let Action::Calls(calls) = resource.render_action(&judgement, &context()) {
            for call in calls {
                let crate::object::ClusterCall::Mark(changes) = call else { panic!("{call:?}") };
                apply_patch(node, &changes);
            }
        }
        effect
    }

    fn build_declared(declared: &UndoDeclaration) -> Box<dyn Resource> {
        build(&crate::resource::undo_kinds::collect_fields(&KIND, &declared.fields), false).unwrap()
    }

    fn sorted(mut node: Value) -> Value {
        if let Some(taints) = node["spec"]["taints"].as_array_mut() {
            taints.sort_by_key(Value::to_string);
        }
        for part in ["labels", "annotations"] {
            node["metadata"][part].as_object_mut().unwrap().sort_keys();
        }
        node
    }

    proptest! {
        #[test]
        fn undo_of_a_change_restores_the_node_and_its_undo_the_change(
            before in proptest::collection::vec(proptest::option::of("[a-z]{0,2}"), 4),
            after in proptest::collection::vec(proptest::option::of("[a-z]{0,2}"), 4),
        ) {
            let texts = |values: &[Option<String>]| node(&values.iter().map(Option::as_deref).collect::<Vec<_>>());
            let (first, wanted) = (texts(&before), texts(&after));
            let marks: Map<String, Value> = MARKS.iter().zip(before.iter().zip(&after)).map(|(mark, (from, to))| {
                ((*mark).to_owned(), json!({ "before": to, "after": from }))
            }).collect();
            let fields = json!({ "name": "n", "uid": "u", "marks": marks });
            let change = build_declared(&UndoDeclaration::present(KIND.name, fields));
            let mut node = first.clone();
            if first == wanted {
                return Ok(());
            }
            let effect = carry_out(change.as_ref(), &mut node);
            prop_assert_eq!(sorted(node.clone()), sorted(wanted.clone()));
            let undone = carry_out(build_declared(&effect.steps[0]).as_ref(), &mut node);
            prop_assert_eq!(sorted(node.clone()), sorted(first));
            carry_out(build_declared(&undone.steps[0]).as_ref(), &mut node);
            prop_assert_eq!(sorted(node), sorted(wanted));
        }
    }
}
