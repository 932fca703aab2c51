//! Rules that warn: what is possible on a host, and not advisable.

use super::Warning;
use super::case::Case;
use super::walk::places;
use crate::config::{Instance, Judged, Rule};
use std::sync::Arc;

/// Returns what rules warn of that read facts of the host; what needs none is told when the inventory is loaded.
pub(super) fn advice(case: &Case<'_>) -> Vec<Warning> {
    let instances = case.ground.project.instances.get(&case.host.name).into_iter().flatten();
    let applied = instances.filter(|instance| !instance.absent);
    let rules = applied.flat_map(|instance| instance.recipe.rules.iter().map(move |rule| (instance, rule)));
    rules
        .filter(|(instance, rule)| rule.class.is_none() && fails(case, instance, rule))
        .map(|(instance, rule)| {
            let places = places(case.ground.project, instance, rule);
            Warning { why: format!("{} ({places})", rule.otherwise).into(), hint: None }
        })
        .collect()
}

fn fails(case: &Case<'_>, instance: &Arc<Instance>, rule: &Rule) -> bool {
    let judged = case.ground.expander.rule(case.host, instance, rule, &case.known());
    matches!(judged, Judged::Fails { reads } if !reads.is_empty())
}
