//! Rules that warn: a declaration that is possible on a host but not advisable.

use super::HostWarning;
use super::host_context::HostContext;
use super::step_planner::format_rule_locations;
use crate::config::{ConditionOutcome, RecipeInstance, RecipeRule};
use std::sync::Arc;

/// Returns the warnings of rules that read facts of the host, and which of these rules could not be evaluated. Rules
/// that need no facts already warn when the inventory is loaded.
pub(super) fn collect_rule_warnings(case: &HostContext<'_>) -> Vec<HostWarning> {
    let instances = case.ground.project.instances.get(&case.host.name).into_iter().flatten();
    let applied = instances.filter(|instance| !instance.absent);
    let rules = applied.flat_map(|instance| instance.recipe.rules.iter().map(move |rule| (instance, rule)));
    let advising = rules.filter(|(_, rule)| rule.class.is_none());
    advising.filter_map(|(instance, rule)| assess_warning_rule(case, instance, rule)).collect()
}

fn assess_warning_rule(
    case: &HostContext<'_>,
    instance: &Arc<RecipeInstance>,
    rule: &RecipeRule,
) -> Option<HostWarning> {
    let says = match case.ground.expander.evaluate_rule(case.host, instance, rule, &case.known_values()) {
        ConditionOutcome::Fails { reads, .. } if !reads.is_empty() => rule.otherwise.clone(),
        ConditionOutcome::Unknown { why, .. } => format!("a warning rule could not be evaluated: {why}"),
        _ => return None,
    };
    let why = format!("{says} ({})", format_rule_locations(case.ground.project, instance, rule)).into();
    Some(HostWarning { why, hint: None })
}
