//! Dependencies of changing steps that `--step` and `--skip` leave out: nothing observes them, so their state is unknown.

use super::HostWarning;
use super::host_context::HostContext;
use super::model::StepPlan;
use crate::config::Project;
use crate::graph::{DependencyKind, GraphEdge};
use crate::model::{HostName, StepId};
use std::collections::BTreeSet;

/// Maximum number of dependencies that the warning names.
const MAX_NAMED: usize = 6;

/// Returns the warning for a host with changes whose dependencies are not part of the run.
pub(super) fn warn_left_out_needs(case: &HostContext<'_>, steps: &[StepPlan]) -> Option<HostWarning> {
    let filter = case.ground.filter;
    if filter.is_empty() || case.ground.project.generated {
        return None;
    }
    let changing = steps.iter().filter(|step| step.will_run());
    let indexes = changing.filter_map(|step| case.ground.project.graph.find_step(&step.id.recipe, &step.id.step));
    let edges = indexes.flat_map(|index| case.graph.incoming_edges(index));
    let is_need = |edge: &&GraphEdge| match edge.why {
        DependencyKind::Needs => has_recipe(case.ground.project, &case.host.name, edge_recipe(case, edge)),
        DependencyKind::Barrier => {
            let project = case.ground.project;
            project.instances.keys().any(|host| has_recipe(project, host, edge_recipe(case, edge)))
        }
        _ => false,
    };
    let needed = edges.filter(is_need).map(|edge| case.graph.step_id(edge.from));
    let left_out = needed.filter(|id| !filter.admits_step(&id.recipe, &id.step));
    let names: BTreeSet<String> = left_out.map(|id| name_left_out(case, id)).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let mut listed: Vec<String> = names.into_iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    listed.extend((more > 0).then(|| format!("{more} more")));
    if listed.is_empty() {
        return None;
    }
    Some(HostWarning {
        why: format!("`--step` or `--skip` leaves out what its changes need: {}", listed.join(", ")).into(),
        hint: Some(
            "whether these match is not checked; a run without `--step` and `--skip` applies them first".to_owned(),
        ),
    })
}

fn edge_recipe<'c>(case: &'c HostContext<'_>, edge: &GraphEdge) -> &'c str {
    &case.graph.step_id(edge.from).recipe
}

/// Returns whether a recipe is applied to a host.
fn has_recipe(project: &Project, host: &HostName, recipe: &str) -> bool {
    project.instances.get(host).is_some_and(|all| all.iter().any(|own| own.recipe.name == recipe && !own.absent))
}

/// Returns the recipe if all of it is left out, else the step.
fn name_left_out(case: &HostContext<'_>, id: &StepId) -> String {
    let filter = case.ground.filter;
    let recipe = case.ground.project.recipes.get(&*id.recipe);
    match recipe.is_some_and(|recipe| recipe.steps.iter().any(|step| filter.admits_step(&recipe.name, &step.name))) {
        true => format!("{}/{}", id.recipe, id.step),
        false => id.recipe.to_string(),
    }
}
