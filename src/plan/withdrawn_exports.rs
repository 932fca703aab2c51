//! Exported values whose step is to change: readers wait for the step instead of using the value before.

use super::cross_host::{CrossHostStatus, CrossHostView};
use super::cross_host_edges::{CrossHostEdges, StepTable};
use super::host_context::{HostContext, PlanContext, StepInstance};
use super::host_exports::{HostExports, exports_values, may_change};
use super::observed_host::ObservedHost;
use super::step_planner::StepPlanner;
use super::window::WindowScope;
use crate::model::{HostName, StepId};
use std::collections::BTreeSet;

/// A step that reads a withdrawn value may export one itself, and so on.
const MAX_PASSES: usize = 8;

/// Withdraws the values of steps that will change in this run. A step that is held back, blocked or unknown keeps its
/// value: it is what the host has, and this run does not change it. `published` was read from the complete observation;
/// `ground` is the context without its values.
pub fn withdraw_changing_exports(ground: PlanContext<'_>, seen: &[ObservedHost], published: &mut HostExports) {
    let exporting: BTreeSet<&str> = ground
        .project
        .recipes
        .values()
        .filter(|recipe| recipe.steps.iter().any(|step| step.exports.values().any(|export| export.read.is_some())))
        .map(|recipe| recipe.name.as_str())
        .collect();
    if exporting.is_empty() {
        return;
    }
    let members: BTreeSet<HostName> = seen.iter().map(|seen| seen.host.clone()).collect();
    let steps = StepTable::new(ground.project);
    for _ in 0..MAX_PASSES {
        let exports = published.to_exports();
        let ground = PlanContext { exports: &exports, ..ground };
        let (project, filter, chosen) = (ground.project, ground.filter, ground.chosen);
        let spans = CrossHostEdges { project, filter, chosen, members: &members, steps: &steps };
        let outside = CrossHostView::new_optimistic(spans, members.clone());
        let may_act = |seen: &&ObservedHost| seen.is_observed() && seen.account.is_none();
        let mut is_withdrawn = false;
        for seen in seen.iter().filter(may_act) {
            let Some(case) = HostContext::new(ground, &seen.host, seen) else { continue };
            if !case.instances().iter().any(|own| exporting.contains(own.recipe.name.as_str())) {
                continue;
            }
            is_withdrawn |= withdraw_on_host(&case, &outside, published);
        }
        if !is_withdrawn {
            return;
        }
    }
}

fn withdraw_on_host(case: &HostContext<'_>, outside: &CrossHostView<'_>, published: &mut HostExports) -> bool {
    let turns = case.expand_local_steps();
    // A step that matches keeps its value, although an earlier step may change that: in most runs it does not.
    let differing: Vec<&StepInstance<'_>> =
        turns.iter().filter(|turn| exports_values(turn) && may_change(case, turn, &turns)).collect();
    if differing.is_empty() {
        return false;
    }
    let scope = WindowScope::from_policy(case.ground.policy, case.seen);
    let planner = StepPlanner::new(case, &turns, outside, None, &scope);
    let planned = planner.plan_steps(&mut CrossHostStatus::default());
    let changing: BTreeSet<&StepId> = planned.iter().filter(|step| step.will_run()).map(|step| &step.id).collect();
    let own = differing.into_iter().filter(|turn| changing.contains(&turn.expanded.id));
    own.fold(false, |is_withdrawn, turn| published.withdraw_values(turn, &case.host.name) | is_withdrawn)
}
