//! Evaluates the labels, annotations and taints of a node: which ones to set, and which ones to remove.

use super::{NodeResource, node_probe};
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::object::{ClusterCall, NodeMark, NodeMarkChanges};
use crate::object::{FieldManager, ObjectInfo, ObjectState};
use crate::probe::{Observation, UnansweredReason};
use crate::resource::cluster::object::recorded_claims;
use crate::resource::shared::support::{join_words, object_state};
use crate::resource::{Assessment, AssessmentContext, AttributeChange};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Maximum number of entries to list by name.
const MAX_LISTED: usize = 4;

/// Findings about all nodes so far.
#[derive(Default)]
struct NodeFindings {
    changes: Vec<AttributeChange>,
    /// Entries that differ, as text.
    differing: Vec<String>,
    /// Managers that set the differing entries.
    by: Vec<String>,
    /// Entries to remove, by node.
    going: BTreeMap<String, Vec<String>>,
    notes: Vec<String>,
    marks: Vec<NodeMarkChanges>,
    basis: Map<String, Value>,
}

pub(super) fn assess_node(own: &NodeResource, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment {
    try_assess_node(own, seen, cx).unwrap_or_else(|why| Assessment::unknown(&why))
}

fn try_assess_node(
    own: &NodeResource,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Result<Assessment, UnansweredReason> {
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
    let claims = recorded_claims(record, super::KIND.name);
    let marks = claims.iter().filter_map(|claim| NodeMark::from_record_key(claim));
    marks.filter(|(node, mark)| !own.is_declared(node, mark)).collect()
}

/// Returns the node; `None` if it does not exist.
fn find_node_info<'s>(seen: &'s Observation, node: &str) -> Result<Option<&'s ObjectInfo>, UnansweredReason> {
    match object_state(seen, &node_probe(node))? {
        ObjectState::Known(info) if info.live.is_some() => Ok(Some(info)),
        ObjectState::Known(_) => Ok(None),
        ObjectState::Unserved => Err(UnansweredReason::new("the API serves no nodes")),
    }
}

/// Evaluates a missing node. A node registers itself, and an earlier step may make its host join.
fn assess_missing(own: &NodeResource, cx: &AssessmentContext<'_>) -> Assessment {
    let reason = format!("node {} does not exist", own.name);
    let basis = json!({ &own.name: null });
    if cx.predicted.is_some_and(|predicted| predicted.after.is_some()) {
        let changes = own
            .marks
            .iter()
            .map(|(mark, value)| AttributeChange::new(&mark.to_string(), None, Some(&format_value(mark, value))));
        let changes: Vec<AttributeChange> = changes.collect();
        let marks = NodeMarkChanges { node: own.name.clone(), set: own.marks.clone(), ..NodeMarkChanges::default() };
        let calls = vec![ClusterCall::Mark(Box::new(marks))];
        let judgement = Assessment::change(format!("{reason} yet"), changes, marks_disruption(own.marks.keys()), basis);
        return Assessment { calls, ..judgement.mark_predicted() };
    }
    Assessment::blocked(BlockClass::Declaration, reason, basis)
        .hint("let its host join the cluster first, or fix the name")
}

/// Returns the disruption class: a `NoExecute` taint evicts pods.
fn marks_disruption<'m>(set: impl IntoIterator<Item = &'m NodeMark>) -> DisruptionClass {
    let evicts = |mark: &NodeMark| matches!(mark, NodeMark::Taint { effect, .. } if effect == "NoExecute");
    if set.into_iter().any(evicts) { DisruptionClass::D1 } else { DisruptionClass::D0 }
}

impl NodeFindings {
    fn record_basis(&mut self, node: &str, mark: &NodeMark, value: Option<&str>) {
        self.basis.insert(mark.record_key(node), json!(value));
    }

    fn add_presence(&mut self, own: &NodeResource, info: &ObjectInfo) {
        let live = info.live.as_ref().unwrap_or(&Value::Null);
        let mut set = BTreeMap::new();
        for (mark, value) in &own.marks {
            let there = mark.value_on_node(live);
            self.record_basis(&own.name, mark, there.as_deref());
            if there.as_ref() == Some(value) {
                continue;
            }
            let shown_there = there.as_deref().map(|value| format_value(mark, value));
            self.changes.push(AttributeChange::new(
                &mark.to_string(),
                shown_there.as_deref(),
                Some(&format_value(mark, value)),
            ));
            self.differing.push(mark.to_string());
            self.by.extend(there.as_ref().and_then(|_| Some((mark, find_setter(info, mark)?))).map(describe_setter));
            set.insert(mark.clone(), value.clone());
        }
        if !set.is_empty() {
            self.marks.push(NodeMarkChanges {
                node: own.name.clone(),
                uid: info.uid.clone(),
                set,
                ..NodeMarkChanges::default()
            });
        }
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
        let mut take = NodeMarkChanges { node: node.to_owned(), uid: info.uid.clone(), ..NodeMarkChanges::default() };
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
            self.changes.push(AttributeChange::new(&mark.to_string(), Some(&format_value(mark, &there)), None));
            self.going.entry(node.to_owned()).or_default().push(mark.to_string());
            take.take.insert(mark.clone());
        }
        if !take.take.is_empty() {
            self.marks.push(take);
        }
    }

    fn into_assessment(self, own: &NodeResource) -> Assessment {
        let basis = Value::Object(self.basis);
        let mut reasons = Vec::new();
        if !self.differing.is_empty() {
            let verb = if self.differing.len() == 1 { "differs" } else { "differ" };
            let by = if self.by.is_empty() {
                String::new()
            } else {
                format!(": {}; forge takes it over", self.by.join(", "))
            };
            reasons.push(format!("{} of node {} {verb}{by}", join_limited(&self.differing), own.name));
        }
        for (node, going) in &self.going {
            let why = if own.absent { "to be removed" } else { "no longer declared" };
            let verb = if going.len() == 1 { "is" } else { "are" };
            reasons.push(format!("{} of node {node} {verb} {why}", join_limited(going)));
        }
        if reasons.is_empty() {
            let settled = match own.absent {
                true => format!("node {} has nothing of this step to remove", own.name),
                false => format!("node {} matches", own.name),
            };
            let all: Vec<String> = std::iter::once(settled).chain(self.notes).collect();
            return Assessment::ok(all.join("; "), basis);
        }
        reasons.extend(self.notes);
        let disruption = marks_disruption(self.marks.iter().flat_map(|marks| marks.set.keys()));
        let calls = self.marks.into_iter().map(|marks| ClusterCall::Mark(Box::new(marks))).collect();
        Assessment { calls, ..Assessment::change(reasons.join("; "), self.changes, disruption, basis) }
    }
}

fn join_limited(things: &[String]) -> String {
    match things.len() > MAX_LISTED {
        true => join_words(&[&things[..MAX_LISTED], &[format!("{} more", things.len() - MAX_LISTED)]].concat()),
        false => join_words(things),
    }
}

/// Returns a value for display. An empty text is shown as `""`; a taint usually has no value.
fn format_value(mark: &NodeMark, value: &str) -> String {
    match (mark, value) {
        (NodeMark::Taint { .. }, "") => "present".to_owned(),
        (_, "") => "\"\"".to_owned(),
        (_, value) => value.to_owned(),
    }
}

/// Returns the manager that set a mark last.
fn find_setter<'i>(info: &'i ObjectInfo, mark: &NodeMark) -> Option<&'i FieldManager> {
    info.managers.iter().filter(|known| manages_mark(known, mark)).max_by(|a, b| a.time.cmp(&b.time))
}

fn describe_setter((mark, known): (&NodeMark, &FieldManager)) -> String {
    let at = if known.time.is_empty() { String::new() } else { format!(" at {}", known.time) };
    format!("`{}` set {mark}{at}", known.manager)
}

/// Reports whether a manager's field paths include the mark.
fn manages_mark(known: &FieldManager, mark: &NodeMark) -> bool {
    let field = match mark {
        NodeMark::Label(key) => metadata_path("labels", key),
        NodeMark::Annotation(key) => metadata_path("annotations", key),
        NodeMark::Taint { .. } => ".spec.taints".to_owned(),
    };
    known.fields.contains(&field)
}

fn metadata_path(part: &str, key: &str) -> String {
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain { format!(".metadata.{part}.{key}") } else { format!(".metadata.{part}[{key}]") }
}
