//! Lists the templates of steps, rules and verifications.

use super::template::TemplateForm;
use super::{RecipeRule, RecipeStep, RecipeVerification, VerifyTarget, YamlData, YamlNode, scalar};
use crate::diag::Span;

/// Returns every template of a step with its form and place.
pub(super) fn list_step_templates(step: &RecipeStep) -> Vec<(&str, TemplateForm, Span)> {
    let mut texts = Vec::new();
    let exprs = step.when.iter().chain(&step.each).chain(&step.key);
    let exprs = exprs.chain(step.effective.iter().flat_map(|e| &e.expect));
    let exprs = exprs.chain(step.exports.values().flat_map(|export| &export.value));
    texts.extend(exprs.map(|expr| (expr.source.as_str(), TemplateForm::Expression, expr.span)));
    collect_templates(&step.body, &mut texts);
    step.effective.iter().flat_map(|e| &e.check).for_each(|node| collect_templates(node, &mut texts));
    texts.extend(
        step.exports.values().filter_map(|export| Some((export.read.as_deref()?, TemplateForm::Template, export.span))),
    );
    texts
}

/// Returns every template of a rule with its form and place.
pub(super) fn list_rule_templates(rule: &RecipeRule) -> impl Iterator<Item = (&str, TemplateForm, Span)> {
    let exprs = rule.when.iter().chain([&rule.require]);
    let exprs = exprs.map(|expr| (expr.source.as_str(), TemplateForm::Expression, expr.span));
    exprs.chain(rule.shows.iter().map(|(text, span)| (text.as_str(), TemplateForm::Template, *span)))
}

/// Returns every template of a verification with its form and place.
pub(super) fn list_verify_templates(verify: &RecipeVerification) -> Vec<(&str, TemplateForm, Span)> {
    let exprs = verify.when.iter().chain(&verify.expect);
    let mut texts: Vec<_> = exprs.map(|expr| (expr.source.as_str(), TemplateForm::Expression, expr.span)).collect();
    verify
        .check
        .iter()
        .chain(verify.about.iter().map(VerifyTarget::target_node))
        .for_each(|node| collect_templates(node, &mut texts));
    texts.extend(verify.shows.iter().map(|(text, span)| (text.as_str(), TemplateForm::Template, *span)));
    texts
}

/// Collects the templates of a tree.
pub(super) fn collect_templates<'n>(node: &'n YamlNode, into: &mut Vec<(&'n str, TemplateForm, Span)>) {
    match &node.data {
        YamlData::Scalar { text, .. } if scalar::is_template(text) => {
            into.push((text, TemplateForm::Template, node.span))
        }
        YamlData::Seq(items) => items.iter().for_each(|item| collect_templates(item, into)),
        YamlData::Map(entries) => entries.iter().for_each(|(_, node)| collect_templates(node, into)),
        _ => {}
    }
}
