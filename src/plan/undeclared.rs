//! Steps that a host has records of and that its cluster does not declare any more. A removal is said, never implied.

use super::case::{Case, Turn};
use crate::config::State;
use crate::model::{Untrusted, Value};
use std::collections::BTreeSet;

/// Returns the steps recorded for this cluster that are not declared here any more.
pub(super) fn undeclared(case: &Case<'_>, turns: &[Turn<'_>]) -> Vec<Untrusted> {
    if case.seen.records.is_empty() {
        return Vec::new();
    }
    let declared: BTreeSet<String> = turns.iter().map(|turn| turn.expanded.id.to_string()).collect();
    let own = |step: &String| case.seen.record(&case.ground.project.cluster, step).is_some_and(|r| !removed(r));
    let steps = case.seen.records.keys();
    let gone = steps.filter(|step| own(step) && !declared.contains(*step) && !known(case, turns, step));
    gone.map(|step| step.as_str().into()).collect()
}

/// Whether the record says that a thing was taken away: nothing is left to tell. Records of before said so in the
/// value only.
pub(super) fn removed(record: &Value) -> bool {
    let says = |value: &Value| value.get("absent").and_then(Value::as_bool) == Some(true);
    says(record) || record.get("value").is_some_and(says)
}

/// Whether a step is still declared though it has no such turn now: the filter leaves it out, it runs on another
/// host, or its turns are not known yet.
fn known(case: &Case<'_>, turns: &[Turn<'_>], record: &str) -> bool {
    let mut steps = case.instances().iter().flat_map(|i| i.recipe.steps.iter().map(move |step| (&i.recipe, step)));
    steps.any(|(recipe, step)| {
        let Some(key) = record.strip_prefix(&format!("{}/{}", recipe.name, step.name)) else { return false };
        match &step.each {
            None => key.is_empty(),
            Some(_) => key.starts_with('[') && !turns_are_known(turns, &recipe.name, &step.name),
        }
    })
}

fn turns_are_known(turns: &[Turn<'_>], recipe: &str, step: &str) -> bool {
    let mut own = turns.iter().filter(|t| *t.expanded.id.recipe == *recipe && *t.expanded.id.step == *step).peekable();
    own.peek().is_some() && own.all(|turn| !matches!(turn.expanded.state, State::Deferred(_) | State::Invalid(_)))
}
