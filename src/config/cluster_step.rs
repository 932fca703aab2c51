//! Which steps run through the API of the cluster.

use super::{Recipe, RecipeEdge, RecipeStep};
use crate::model::StepScope;

/// Returns whether a step runs through the API.
pub(super) fn is_cluster_step(step: &RecipeStep) -> bool {
    step.scope == StepScope::Cluster
}

/// Returns whether a recipe has steps and all of them run through the API.
pub(super) fn is_cluster_only(recipe: &Recipe) -> bool {
    !recipe.steps.is_empty() && recipe.steps.iter().all(|step| is_cluster_step(step))
}

/// Returns the needs of the steps of a recipe that run through the cluster's API.
pub(super) fn iter_cluster_edges(recipe: &Recipe) -> impl Iterator<Item = &RecipeEdge> {
    let whole = recipe.needs.iter().filter(|_| is_cluster_only(recipe));
    whole.chain(recipe.steps.iter().filter(|step| is_cluster_step(step)).flat_map(|step| &step.needs))
}
