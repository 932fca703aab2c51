//! Evaluates the labels, annotations and taints of a node: which ones to set, and which ones to remove.

use super::declaration::{NodeResource, node_probe};
use super::node_diff::{NodeDiff, NodeMarksDiff};
use crate::model::{BlockClass, Value};
use crate::object::{FieldManager, FieldPath, NodeMark, ObjectInfo, ObjectState};
use crate::probe::{Observation, UnansweredReason};
use crate::resource::cluster::object::recorded_claims;
use crate::resource::shared::support::{join_words, object_state};
use crate::resource::{Assessment, AssessmentContext, DeclaredResource, ValueChange};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Maximum number of entries to list by name.
const MAX_LISTED: usize = 4;

/// Findings about all nodes so far.
#[derive(Default)]
struct NodeFindings {
    diff: NodeDiff,
    /// Managers that set the differing entries.
    by: Vec<String>,
    notes: Vec<String>,
    basis: Map<String, Value>,
}

pub(super) fn assess_node(own: &NodeResource, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<NodeDiff> {
    try_assess_node(own, seen, cx).unwrap_or_else(|why| Assessment::unknown(&why))
}

fn try_assess_node(
    own: &NodeResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Assessment<NodeDiff>, UnansweredReason> {
    let mut found = NodeFindings::default();
    match (find_node_info(seen, &own.name)?, own.absent) {
        (None, false) => return Ok(assess_missing(own, cx)),
        (None, true) => drop(found.basis.insert(own.name.clone(), Value::Null)),
        (Some(info), false) => found.add_presence(own, info),
        (Some(info), true) => {
            found.add_removal(&own.name, info, own.marks.iter().map(|(mark, value)| (mark, Some(value))))
        }
    }
    let mut before: BTreeMap<String, Vec<NodeMark>> = BTreeMap::new();
    for (node, mark) in cx.record.map(|record| obsolete_marks(own, record)).unwrap_or_default() {
        if cx.is_declared_elsewhere(own.kind(), &mark.record_key(&node)) {
            continue;
        }
        before.entry(node).or_default().push(mark);
    }
    for (node, marks) in before {
        if let Some(info) = find_node_info(seen, &node)? {
            found.add_removal(&node, info, marks.iter().map(|mark| (mark, None)));
        }
    }
    Ok(found.into_assessment(own))
}

/// Returns the entries that the record names and the step no longer declares.
pub(super) fn obsolete_marks(own: &NodeResource, record: &Value) -> Vec<(String, NodeMark)> {
    let claims = recorded_claims(record, own.kind());
    let marks = claims.iter().filter_map(|claim| NodeMark::from_record_key(claim));
    marks.filter(|(node, mark)| !own.is_declared(node, mark)).collect()
}

/// Returns the node; `None` if it does not exist.
pub(super) fn find_node_info<'s>(
    seen: &'s Observation,
    node: &str,
) -> Result<Option<&'s ObjectInfo>, UnansweredReason> {
    match object_state(seen, &node_probe(node))? {
        ObjectState::Known(info) if info.live.is_some() => Ok(Some(info)),
        ObjectState::Known(_) => Ok(None),
        ObjectState::Unserved => Err(UnansweredReason::new("the API serves no nodes")),
    }
}

/// Evaluates a missing node. A node registers itself, and an earlier step may make its host join.
fn assess_missing(own: &NodeResource, cx: &AssessmentContext<'_>) -> Assessment<NodeDiff> {
    let reason = format!("node {} does not exist", own.name);
    let basis = json!({ &own.name: null });
    if cx.predicted.is_some_and(|predicted| predicted.after.is_some()) {
        let mut node = NodeMarksDiff::new(&own.name, "");
        own.marks.iter().for_each(|(mark, value)| node.push_mark(mark.clone(), ValueChange::create(value.clone())));
        let diff = NodeDiff::of_node(node);
        let disruption = diff.disruption();
        return Assessment::differs(format!("{reason} yet"), diff, disruption, basis).mark_predicted();
    }
    Assessment::blocked(BlockClass::Declaration, reason, basis)
        .host_hint("let its host join the cluster first, or fix the name")
}

impl NodeFindings {
    fn record_basis(&mut self, node: &str, mark: &NodeMark, value: Option<&str>) {
        self.basis.insert(mark.record_key(node), json!(value));
    }

    fn add_presence(&mut self, own: &NodeResource, info: &ObjectInfo) {
        let live = info.live.as_ref().unwrap_or(&Value::Null);
        let mut node = NodeMarksDiff::new(&own.name, &info.uid);
        for (mark, value) in &own.marks {
            let there = mark.value_on_node(live);
            self.record_basis(&own.name, mark, there.as_deref());
            if there.as_ref() == Some(value) {
                continue;
            }
            self.by.extend(there.as_ref().and_then(|_| Some((mark, find_setter(info, mark)?))).map(describe_setter));
            node.push_mark(mark.clone(), ValueChange { from: there, to: Some(value.clone()) });
        }
        self.diff.push(node);
    }

    /// Removes entries that forge set; entries that another manager set stay. The API records one manager for the whole
    /// list of taints, so a taint counts as forge's if it has the declared value, where one is declared.
    fn add_removal<'m>(
        &mut self,
        node: &str,
        info: &ObjectInfo,
        marks: impl Iterator<Item = (&'m NodeMark, Option<&'m String>)>,
    ) {
        let live = info.live.as_ref().unwrap_or(&Value::Null);
        let mut diff = NodeMarksDiff::new(node, &info.uid);
        for (mark, declared) in marks {
            let there = mark.value_on_node(live);
            let own = match mark {
                NodeMark::Taint { .. } => declared.is_none_or(|value| there.as_ref() == Some(value)),
                _ => info.managers.iter().any(|known| known.manager == "forge" && manages_mark(known, mark)),
            };
            self.basis.insert(mark.record_key(node), json!({ "value": there, "own": own }));
            let Some(there) = there else { continue };
            if !own {
                self.notes.push(format!("{mark} of node {node} stays: another manager set it"));
                continue;
            }
            diff.push_mark(mark.clone(), ValueChange { from: Some(there), to: None });
        }
        self.diff.push(diff);
    }

    fn describe_differing(&self, own: &NodeResource) -> Option<String> {
        let differing: Vec<String> =
            self.diff.nodes().iter().flat_map(NodeMarksDiff::set_marks).map(NodeMark::to_string).collect();
        let verb = if differing.len() == 1 { "differs" } else { "differ" };
        let by =
            if self.by.is_empty() { String::new() } else { format!(": {}; forge takes it over", self.by.join(", ")) };
        (!differing.is_empty()).then(|| format!("{} of node {} {verb}{by}", join_limited(&differing), own.name))
    }

    /// Returns a reason for each node of which entries are removed, by name.
    fn describe_removals(&self, own: &NodeResource) -> Vec<String> {
        let mut going: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for node in self.diff.nodes() {
            let removed: Vec<String> = node.removed_marks().map(NodeMark::to_string).collect();
            if !removed.is_empty() {
                going.entry(node.node()).or_default().extend(removed);
            }
        }
        let why = if own.absent { "to be removed" } else { "no longer declared" };
        let describe = |(node, marks): (&str, Vec<String>)| {
            let verb = if marks.len() == 1 { "is" } else { "are" };
            format!("{} of node {node} {verb} {why}", join_limited(&marks))
        };
        going.into_iter().map(describe).collect()
    }

    fn into_assessment(self, own: &NodeResource) -> Assessment<NodeDiff> {
        let mut reasons: Vec<String> = self.describe_differing(own).into_iter().collect();
        reasons.extend(self.describe_removals(own));
        let basis = Value::Object(self.basis);
        if reasons.is_empty() {
            let settled = match own.absent {
                true => format!("node {} has nothing of this step to remove", own.name),
                false => format!("node {} matches", own.name),
            };
            let all: Vec<String> = std::iter::once(settled).chain(self.notes).collect();
            return Assessment::ok(all.join("; "), basis);
        }
        reasons.extend(self.notes);
        let disruption = self.diff.disruption();
        Assessment::differs(reasons.join("; "), self.diff, disruption, basis)
    }
}

pub(super) fn join_limited(things: &[String]) -> String {
    match things.len() > MAX_LISTED {
        true => join_words(&[&things[..MAX_LISTED], &[format!("{} more", things.len() - MAX_LISTED)]].concat()),
        false => join_words(things),
    }
}

/// Returns the manager that set a mark last.
pub(super) fn find_setter<'i>(info: &'i ObjectInfo, mark: &NodeMark) -> Option<&'i FieldManager> {
    info.managers.iter().filter(|known| manages_mark(known, mark)).max_by(|a, b| a.time.cmp(&b.time))
}

pub(super) fn describe_setter((mark, known): (&NodeMark, &FieldManager)) -> String {
    let at = if known.time.is_empty() { String::new() } else { format!(" at {}", known.time) };
    format!("`{}` set {mark}{at}", known.manager)
}

/// Reports whether a manager's field paths include the mark.
fn manages_mark(known: &FieldManager, mark: &NodeMark) -> bool {
    let field = match mark {
        NodeMark::Label(key) => FieldPath::from_keys(&["metadata", "labels", key]),
        NodeMark::Annotation(key) => FieldPath::from_keys(&["metadata", "annotations", key]),
        NodeMark::Taint { .. } => FieldPath::from_keys(&["spec", "taints"]),
    };
    known.fields.contains(&field.to_string())
}
