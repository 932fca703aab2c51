//! Steps that cannot run, grouped by cause. Every step is named, and steps times hosts adds up to the plan's counts.

use super::group;
use crate::model::{HostName, StepId};
use crate::plan::{Plan, StepPlan};
use crate::view::escape;
use indexmap::IndexMap;

/// Line width of a list of steps. Ids are never cut.
const MAX_LINE_COLUMNS: usize = 100;

/// Steps that share a cause, and the hosts on which exactly these steps have it.
pub struct CauseGroup<'a> {
    /// In plan order. Never empty.
    pub steps: Vec<&'a StepPlan>,
    pub hosts: Vec<&'a HostName>,
}

/// The fields that steps of one group share: reason, hint and why they are held back.
type StepCause<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// Returns the steps selected by `keep`, grouped by cause, in plan order.
pub fn group_by_cause<'a>(plan: &'a Plan, keep: impl Fn(&StepPlan) -> bool) -> Vec<CauseGroup<'a>> {
    let mut groups: IndexMap<(StepCause<'a>, Vec<StepLabel<'a>>), CauseGroup<'a>> = IndexMap::new();
    for host in &plan.hosts {
        let mut causes: IndexMap<StepCause<'a>, Vec<&'a StepPlan>> = IndexMap::new();
        host.steps
            .iter()
            .filter(|step| keep(step))
            .for_each(|step| causes.entry(step_cause(step)).or_default().push(step));
        for (cause, steps) in causes {
            let new = |steps| CauseGroup { steps, hosts: Vec::new() };
            groups.entry((cause, step_labels(&steps))).or_insert_with(|| new(steps)).hosts.push(&host.host);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    if groups.is_empty() {
        return groups;
    }
    let order = group::merge_step_order(&plan.hosts);
    groups.sort_by_key(|group| group.steps.first().and_then(|step| order.get(&step.id)));
    groups
}

fn step_cause(step: &StepPlan) -> StepCause<'_> {
    (step.reason.raw(), step.hint.as_deref(), step.held.as_deref())
}

/// The id of a step. A group of one step also has its kind and title.
type StepLabel<'a> = (&'a StepId, Option<(&'a str, &'a str)>);

fn step_labels<'a>(steps: &[&'a StepPlan]) -> Vec<StepLabel<'a>> {
    let alone = steps.len() == 1;
    steps.iter().map(|step| (&step.id, alone.then_some((&*step.kind, step.title.raw())))).collect()
}

/// Returns the ids of steps as lines of at most [`MAX_LINE_COLUMNS`] columns. A longer id has a line of its own.
pub fn wrap_step_ids(steps: &[&StepPlan]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let comma = if at + 1 < steps.len() { "," } else { "" };
        let id = format!("{}{comma}", escape::escape_line(&step.id.to_string()));
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + id.chars().count() <= MAX_LINE_COLUMNS => {
                line.push(' ');
                line.push_str(&id);
            }
            _ => lines.push(id),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
