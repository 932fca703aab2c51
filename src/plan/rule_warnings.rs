//! Rules that warn: a declaration that is possible on a host but not advisable.

use super::HostWarning;
use super::host_context::HostContext;
use super::rule_assessment::{describe_broken_rule, format_rule_locations};
use crate::config::{ConditionOutcome, RecipeInstance, RecipeRule};
use std::sync::Arc;

/// Returns the warnings of rules that read facts of the host, and which of these rules could not be evaluated. Rules
/// that need no facts already warn when the inventory is loaded.
pub(super) fn collect_rule_warnings(case: &HostContext<'_>) -> Vec<HostWarning> {
    list_rules(case)
        .filter(|(instance, rule)| rule.class.is_none() && instance.find_accepted_reason(rule).is_none())
        .filter_map(|(instance, rule)| assess_warning_rule(case, instance, rule))
        .collect()
}

/// Returns the broken rules that the inventory accepts, each with the declared reason.
pub(super) fn collect_accepted_rules(case: &HostContext<'_>) -> Vec<HostWarning> {
    let accepted = list_rules(case).filter_map(|(instance, rule)| {
        let reason = instance.find_accepted_reason(rule)?;
        let says = match case.ground.expander.evaluate_rule(case.host, instance, rule, &case.known_values()) {
            ConditionOutcome::Fails { shown, .. } => describe_broken_rule(rule, shown.as_deref()),
            ConditionOutcome::Unknown { why, .. } => format!("a rule could not be evaluated: {why}"),
            _ => return None,
        };
        let says = format!("{says}; accepted: {reason}");
        Some(build_warning(case, instance, rule, &says))
    });
    accepted.collect()
}

/// Returns the rules of the recipes that are applied to the host.
fn list_rules<'c>(case: &HostContext<'c>) -> impl Iterator<Item = (&'c Arc<RecipeInstance>, &'c RecipeRule)> {
    let instances = case.ground.project.instances.get(&case.host.name).into_iter().flatten();
    let applied = instances.filter(|instance| !instance.absent);
    applied.flat_map(|instance| instance.recipe.rules.iter().map(move |rule| (instance, rule)))
}

fn assess_warning_rule(
    case: &HostContext<'_>,
    instance: &Arc<RecipeInstance>,
    rule: &RecipeRule,
) -> Option<HostWarning> {
    let says = match case.ground.expander.evaluate_rule(case.host, instance, rule, &case.known_values()) {
        ConditionOutcome::Fails { reads, shown } if !reads.is_empty() => describe_broken_rule(rule, shown.as_deref()),
        ConditionOutcome::Unknown { why, .. } => format!("a warning rule could not be evaluated: {why}"),
        _ => return None,
    };
    Some(build_warning(case, instance, rule, &says))
}

fn build_warning(case: &HostContext<'_>, instance: &Arc<RecipeInstance>, rule: &RecipeRule, says: &str) -> HostWarning {
    let why = format!("{says} ({})", format_rule_locations(case.ground.project, instance, rule)).into();
    HostWarning { why, hint: None }
}
