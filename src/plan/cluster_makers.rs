//! The steps of hosts that create the cluster, as far as they have not run yet.

use super::ObservedHost;
use super::assessment::{StepPredictions, assess_step};
use super::host_context::{HostContext, PlanContext, StepInstance};
use super::missing_cluster::ClusterMaker;
use crate::config::ExpansionState;
use crate::model::StepVerdict;
use crate::resource::ProvidedItem;

/// Returns the steps that create the cluster and have not done so yet, as observed. A step that matches has created it.
pub fn list_pending_makers(ground: PlanContext<'_>, seen: &[ObservedHost]) -> Vec<ClusterMaker> {
    let mut makers = Vec::new();
    let mut steps = ground.project.recipes.values().flat_map(|recipe| &recipe.steps);
    if !steps.any(|step| step.provides.contains(&ProvidedItem::Cluster)) {
        return makers;
    }
    for seen in seen.iter().filter(|seen| seen.is_observed() && !seen.host.is_cluster()) {
        let Some(case) = HostContext::new(ground, &seen.host, seen) else { continue };
        if !case.list_steps().iter().any(|(_, _, step)| step.provides.contains(&ProvidedItem::Cluster)) {
            continue;
        }
        let turns = case.expand_local_steps();
        let pending = turns.iter().filter(|turn| is_pending_maker(&case, turn, &turns));
        makers.extend(pending.map(|turn| ClusterMaker { step: turn.expanded.id.clone(), host: seen.host.clone() }));
    }
    makers
}

fn is_pending_maker(case: &HostContext<'_>, turn: &StepInstance<'_>, turns: &[StepInstance<'_>]) -> bool {
    if turn.expanded.absent || !turn.step.provides.contains(&ProvidedItem::Cluster) {
        return false;
    }
    // A value that the step waits for does not exist, so the step cannot have run with it.
    matches!(turn.expanded.state, ExpansionState::Deferred(_))
        || assess_step(case, turn, turns, &StepPredictions::default()).judgement.verdict == StepVerdict::Change
}
