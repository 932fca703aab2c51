//! Reports what is wrong with a recipe on a host before anything about the host is known.

use super::expand::{ExpandedStep, ExpansionInputs, ExpansionState, StepExpander};
use super::instances::build_failed_rule_diag;
use super::template_list::{list_step_templates, list_verify_templates};
use super::{ConditionOutcome, Host, RecipeInstance, RecipeRule, RecipeStep, RecipeVerification};
use crate::diag::{Diag, DiagCode, DiagList, Span};
use crate::script::{CheckTextFault, find_check_fault};
use std::collections::HashSet;
use std::sync::Arc;

/// Adds the place where the recipe is applied: its own text is valid, but the values of that entry are not.
pub(super) fn add_applied_at(diag: &Diag, instance: &RecipeInstance) -> Diag {
    let known = diag.span == Some(instance.span) || diag.others.iter().any(|(span, _)| *span == instance.span);
    match known {
        true => diag.clone(),
        false => diag.clone().with_other_span(instance.span, "applied here"),
    }
}

/// The checks of the recipes of one host.
pub(super) struct DeclarationChecks<'c, 'p> {
    pub expander: &'c StepExpander<'p>,
    pub host: &'c Host,
    /// The places of templates that already have an error.
    pub broken: &'c HashSet<Span>,
    pub known: &'c ExpansionInputs<'c>,
}

impl DeclarationChecks<'_, '_> {
    /// Reports rules that are broken whatever the state of the host.
    pub fn check_rules(&self, instance: &Arc<RecipeInstance>, diags: &mut DiagList) {
        if instance.absent {
            return;
        }
        let whole =
            |rule: &&RecipeRule| rule.when.iter().chain([&rule.require]).all(|expr| !self.broken.contains(&expr.span));
        for rule in instance.recipe.rules.iter().filter(whole) {
            let (judged, mistakes) = self.expander.evaluate_rule_with_diags(self.host, instance, rule, self.known);
            mistakes.into_iter().for_each(|diag| diags.push(diag));
            if matches!(judged, ConditionOutcome::Fails { .. }) {
                let accepted = instance.find_accepted_reason(rule);
                diags.push(build_failed_rule_diag(rule, accepted, instance.span, &instance.recipe.name));
            }
        }
    }

    /// Reports errors of verifications that do not depend on the state of the host.
    pub fn check_verifications(&self, instance: &Arc<RecipeInstance>, diags: &mut DiagList) {
        let is_whole = |verify: &&RecipeVerification| {
            list_verify_templates(verify).iter().all(|(_, _, span)| !self.broken.contains(span))
        };
        for verify in instance.recipe.verify.iter().filter(|_| !instance.absent).filter(is_whole) {
            let found = self.expander.find_verify_mistakes(self.host, instance, verify, self.known);
            diags.0.extend(found.iter().map(|diag| add_applied_at(diag, instance)));
        }
    }

    /// Reports secrets in the commands that read the exports of a step.
    pub fn check_export_scripts(&self, instance: &Arc<RecipeInstance>, step: &RecipeStep, diags: &mut DiagList) {
        if instance.absent {
            return;
        }
        for (export, read) in step.exports.values().filter_map(|export| Some((export, export.read.as_deref()?))) {
            let script = self.expander.render_export_command(self.host, instance, read, self.known);
            let fault = script.ok().and_then(|script| find_check_fault(&script));
            if let Some(fault) = fault.filter(|fault| *fault == CheckTextFault::Secret) {
                let message = format!("`read` of the export `{}` {}", export.name, fault.describe());
                let diag = Diag::error(DiagCode::BadValue, message).with_span(export.span);
                diags.push(add_applied_at(&diag.hint(fault.hint()), instance));
            }
        }
    }

    /// Reports errors of the `effective` part of a step that do not depend on the state of the host.
    pub fn check_effective(
        &self,
        (instance, step): (&Arc<RecipeInstance>, &Arc<RecipeStep>),
        turn: &ExpandedStep,
        diags: &mut DiagList,
    ) {
        let is_broken = list_step_templates(step).iter().any(|(_, _, span)| self.broken.contains(span));
        if !is_broken && !instance.absent && matches!(turn.state, ExpansionState::Resource(_)) {
            let found = self.expander.find_effective_mistakes(self.host, instance, step, &turn.id, self.known);
            diags.0.extend(found.iter().map(|diag| add_applied_at(diag, instance)));
        }
    }
}
