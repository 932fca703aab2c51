//! Groups: consecutive steps of a host that share one round trip for observation and one for actions.

use super::run_context::ApplyContext;
use crate::config::RecipeStep;
use crate::graph::{DependencyKind, Graph, GraphEdge, StepIndex};
use crate::model::StepScope;
use crate::plan::{HostPlan, ObservedHost, StepPlan, StepStage};
use crate::resource::EffectReach;

/// Steps of one recipe that are observed together and run in one script.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HostStepGroup {
    pub recipe: String,
    pub steps: Vec<StepIndex>,
}

/// Splits the steps of a host into groups, in order.
pub(super) fn split_into_groups(run: &ApplyContext<'_>, plan: &HostPlan, seen: &ObservedHost) -> Vec<HostStepGroup> {
    let shared = run.board.shared_values();
    let Some(case) = run.host_context(&shared, &plan.host, seen) else { return Vec::new() };
    let mut groups: Vec<HostStepGroup> = Vec::new();
    let mut open = false;
    for (index, instance, step) in case.list_steps() {
        if !case.runs_here(index, instance, step) {
            continue;
        }
        let name = &instance.recipe.name;
        let alone = !can_share_observation(step) || needs_own_script(plan, run, index);
        let same_stage = |last: &HostStepGroup| {
            last.steps.iter().all(|first| find_step_stage(plan, run, *first) == find_step_stage(plan, run, index))
        };
        let fits = |last: &HostStepGroup| {
            last.recipe == *name && same_stage(last) && has_no_extra_dependency(case.graph, index, &last.steps)
        };
        match groups.last_mut().filter(|last| open && !alone && fits(last)) {
            Some(last) => last.steps.push(index),
            None => groups.push(HostStepGroup { recipe: name.clone(), steps: vec![index] }),
        }
        open = !alone && step.exports.is_empty();
    }
    groups
}

/// Reports whether a step can be evaluated correctly before its predecessors have acted.
fn can_share_observation(step: &RecipeStep) -> bool {
    is_fully_described(step)
        && !step.long
        && step.restart_on.is_empty()
        && step.scope == StepScope::Host
        && step.effective.is_none()
}

/// Reports whether a step's effects are limited to its resource.
pub(super) fn is_fully_described(step: &RecipeStep) -> bool {
    step.traits().reach == EffectReach::Resource
}

/// Reports whether a step waits only for steps that the first of `group` waits for too. A group waits as a whole, so a
/// later step's dependency could otherwise wait for an earlier step of the same group.
fn has_no_extra_dependency(graph: &Graph, step: StepIndex, group: &[StepIndex]) -> bool {
    let Some(first) = group.first() else { return true };
    let same = |edge: &GraphEdge| {
        let mut others = graph.incoming_edges(*first);
        others.any(|other| (other.from, other.phase, other.why) == (edge.from, edge.phase, edge.why))
    };
    let inside = |edge: &GraphEdge| edge.why == DependencyKind::Order && group.contains(&edge.from);
    graph.incoming_edges(step).all(|edge| inside(edge) || same(edge))
}

fn find_step_stage(plan: &HostPlan, run: &ApplyContext<'_>, index: StepIndex) -> Option<StepStage> {
    let id = run.project.graph.step_id(index);
    plan.steps.iter().find(|s| s.id.recipe == id.recipe && s.id.step == id.step).map(|step| step.stage)
}

/// Reports whether a step depends on a prediction, or has a guard: what follows a guarded change waits for its
/// confirmation.
fn needs_own_script(plan: &HostPlan, run: &ApplyContext<'_>, index: StepIndex) -> bool {
    let id = run.project.graph.step_id(index);
    let own = |step: &&StepPlan| step.id.recipe == id.recipe && step.id.step == id.step;
    plan.steps.iter().filter(own).any(|step| step.envelope.is_some() || step.guard_s.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::{FileId, Span};
    use crate::graph::{DependencyLink, GraphEndpoint, GraphStep};
    use crate::model::StepPhase;

    #[test]
    fn step_with_an_extra_dependency_starts_a_new_group() {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let step = |recipe: &str, step: &str| GraphStep { recipe: recipe.into(), step: step.into(), span };
        let end =
            |recipe: &str, step: Option<&str>| GraphEndpoint { recipe: recipe.into(), step: step.map(str::to_owned) };
        let link = |to, from, why| DependencyLink { from, phase: StepPhase::Effective, to, why, span };
        let steps = [step("base", "x"), step("r", "1"), step("key", "y"), step("r", "2"), step("r", "3")];
        let links = [
            link(end("r", None), end("base", None), DependencyKind::Needs),
            link(end("r", Some("3")), end("key", None), DependencyKind::Needs),
        ];
        let graph = Graph::build(&steps, &links).unwrap();
        let at = |recipe, step| graph.find_step(recipe, step).unwrap();
        assert!(has_no_extra_dependency(&graph, at("r", "2"), &[at("r", "1")]));
        assert!(!has_no_extra_dependency(&graph, at("r", "3"), &[at("r", "1"), at("r", "2")]));
    }
}
