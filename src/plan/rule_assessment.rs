//! Evaluates the rules of a recipe on a host: a broken rule blocks every step of the recipe there.

use super::assessment::unknown_assessment;
use super::host_context::HostContext;
use crate::config::{ConditionOutcome, Project, RecipeInstance, RecipeRule};
use crate::model::Value;
use crate::resource::Assessment;
use std::sync::Arc;

/// Returns the judgement of all steps of a recipe here if one of its rules fails or could not be evaluated.
pub fn assess_rules(case: &HostContext<'_>, instance: &Arc<RecipeInstance>) -> Option<Assessment> {
    if instance.absent {
        return None;
    }
    let judge = |rule| case.ground.expander.evaluate_rule(case.host, instance, rule, &case.known_values());
    let mut open = None;
    let strict = instance.recipe.rules.iter().filter(|rule| instance.find_accepted_reason(rule).is_none());
    for (rule, class) in strict.filter_map(|rule| Some((rule, rule.class?))) {
        match judge(rule) {
            ConditionOutcome::Fails { shown, .. } => {
                let places = format_rule_locations(case.ground.project, instance, rule);
                let reason = format!("{} ({places})", describe_broken_rule(rule, shown.as_deref()));
                return Some(Assessment::blocked(class, reason, Value::Null));
            }
            // A rule about a cluster that does not exist yet is evaluated when it does.
            ConditionOutcome::Unknown { .. } if case.seen.missing.is_some() => {}
            ConditionOutcome::Unknown { why, .. } => {
                let places = || format_rule_locations(case.ground.project, instance, rule);
                open.get_or_insert_with(|| {
                    unknown_assessment(&format!("a rule could not be evaluated: {why} ({})", places()))
                });
            }
            ConditionOutcome::Holds { .. } | ConditionOutcome::NotApplicable | ConditionOutcome::Check { .. } => {}
        }
    }
    open
}

/// Returns where a rule is declared, and where the inventory applies its recipe.
pub fn format_rule_locations(project: &Project, instance: &RecipeInstance, rule: &RecipeRule) -> String {
    let place = |span| project.sources.format_location(span);
    format!("rule at {}, applied at {}", place(rule.require.span), place(instance.span))
}

/// Returns the message of a broken rule, with the values that it shows.
pub(super) fn describe_broken_rule(rule: &RecipeRule, shown: Option<&str>) -> String {
    match shown {
        None | Some("") => rule.otherwise.clone(),
        Some(shown) => format!("{shown}: {}", rule.otherwise),
    }
}
