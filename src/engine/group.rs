//! Groups: consecutive steps of a host that share one round trip to look and one to act.

use super::run::Run;
use crate::config::Step;
use crate::graph::{StepIndex, Why};
use crate::model::Scope;
use crate::plan::{HostPlan, HostSeen};

/// Steps of one recipe that are looked at together and then carried out in one script.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Group {
    pub recipe: String,
    pub steps: Vec<StepIndex>,
}

/// Splits the steps of a host into groups, in order.
pub(super) fn groups(run: &Run<'_>, plan: &HostPlan, seen: &HostSeen) -> Vec<Group> {
    let shared = run.board.shared();
    let Some(case) = run.case(&shared, &plan.host, seen) else { return Vec::new() };
    let mut groups: Vec<Group> = Vec::new();
    let mut open = false;
    for (index, instance, step) in case.steps() {
        if !case.runs(index, step) {
            continue;
        }
        let name = &instance.recipe.name;
        let alone = !is_quiet(step) || waits_for_hosts(run, index) || rests_on_prediction(plan, run, index);
        match groups.last_mut().filter(|last| open && !alone && last.recipe == *name) {
            Some(last) => last.steps.push(index),
            None => groups.push(Group { recipe: name.clone(), steps: vec![index] }),
        }
        open = !alone && step.exports.is_empty();
    }
    groups
}

/// Whether looking at the step before its predecessors acted tells the truth about it.
fn is_quiet(step: &Step) -> bool {
    let judged_alone = matches!(step.kind, "file" | "directory" | "user" | "unit");
    judged_alone && !step.long && step.restart_on.is_empty() && step.scope == Scope::Host && step.effective.is_none()
}

fn waits_for_hosts(run: &Run<'_>, index: StepIndex) -> bool {
    let graph = &run.project.graph;
    graph.waits_for(index).any(|edge| matches!(edge.why, Why::Export | Why::Barrier))
}

fn rests_on_prediction(plan: &HostPlan, run: &Run<'_>, index: StepIndex) -> bool {
    let id = run.project.graph.step(index);
    plan.steps.iter().any(|s| s.id.recipe == id.recipe && s.id.step == id.step && s.envelope.is_some())
}
