//! Evaluates the expressions of rules, verifications and `effective`: each passes, fails or could not be evaluated.

use super::expanded_step::ConditionOutcome;
use crate::config::template::{
    EvalOutcome, ExpectOutcome, TemplateBindings, TemplateForm, TemplateProgram, build_tree,
};
use crate::config::tree_render::{TreeRenderer, build_template_diag, find_pending_input};
use crate::config::{
    PendingInput, Project, RecipeRule, RecipeVerification, SourceExpr, VerifyTarget, YamlData, YamlNode, scalar,
};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::Value;
use crate::probe::ObjectsQuery;
use crate::script::{CheckTextFault, find_check_fault};
use std::collections::BTreeSet;

/// Evaluates a rule. Returns the errors of its expressions as well.
pub(super) fn evaluate_rule(
    project: &Project,
    rule: &RecipeRule,
    bindings: &TemplateBindings,
) -> (ConditionOutcome, Vec<Diag>) {
    let mut renderer = TreeRenderer::new(&project.programs, &project.sources, bindings);
    let judged = match evaluate_when(&rule.when, &mut renderer) {
        Some(other) => other,
        None => match renderer.evaluate_condition(&rule.require) {
            Some(EvalOutcome::Known { value: true, .. }) => {
                ConditionOutcome::Holds { reads: std::mem::take(&mut renderer.reads) }
            }
            Some(EvalOutcome::Known { value: false, .. }) => {
                ConditionOutcome::Fails { reads: std::mem::take(&mut renderer.reads), shown: None }
            }
            Some(EvalOutcome::Deferred(need)) => build_waiting_outcome(need),
            None => build_failed_outcome(&renderer.diags),
        },
    };
    (add_shown_values(project, &rule.shows, bindings, judged), renderer.diags)
}

/// Evaluates `when`, then `expect` or `check`.
pub(super) fn evaluate_condition(
    project: &Project,
    when: &Option<SourceExpr>,
    expect: &Option<SourceExpr>,
    check: &Option<YamlNode>,
    bindings: &TemplateBindings,
) -> ConditionOutcome {
    let mut renderer = TreeRenderer::new(&project.programs, &project.sources, bindings);
    if let Some(other) = evaluate_when(when, &mut renderer) {
        return other;
    }
    if let Some(check) = check {
        return self::render_check(check, &mut renderer);
    }
    match expect {
        Some(expect) => self::evaluate_expect(project, expect, bindings, renderer.reads),
        None => ConditionOutcome::Unknown { why: "neither `expect` nor `check` is set".to_owned(), need: None },
    }
}

/// Evaluates a verification that reads no objects of the cluster.
pub(super) fn evaluate_verify(
    project: &Project,
    verify: &RecipeVerification,
    bindings: &TemplateBindings,
) -> ConditionOutcome {
    let judged = evaluate_condition(project, &verify.when, &verify.expect, &verify.check, bindings);
    add_shown_values(project, &verify.shows, bindings, judged)
}

/// Returns the query for the objects that a verification reads.
///
/// # Errors
/// The result, if it does not depend on the objects.
pub(super) fn resolve_asked_objects(
    project: &Project,
    when: &Option<SourceExpr>,
    about: &VerifyTarget,
    bindings: &TemplateBindings,
) -> Result<ObjectsQuery, ConditionOutcome> {
    let mut renderer = TreeRenderer::new(&project.programs, &project.sources, bindings);
    if let Some(other) = evaluate_when(when, &mut renderer) {
        return Err(other);
    }
    let tree = renderer.render_tree(about.target_node());
    match (find_pending_input(&tree), renderer.diags.is_empty()) {
        (_, false) => return Err(build_failed_outcome(&renderer.diags)),
        (Some(need), _) => return Err(build_waiting_outcome(need)),
        (None, true) => {}
    }
    let value = scalar::node_to_value(&tree);
    let text = |key: &str| value.get(key).map(to_plain_text);
    let labels = value.get("labels").and_then(Value::as_object).into_iter().flatten();
    Ok(ObjectsQuery {
        api_version: text("api_version").unwrap_or_default(),
        kind: text("kind").unwrap_or_default(),
        namespace: text("namespace"),
        name: text("name"),
        labels: labels.map(|(key, value)| (key.clone(), to_plain_text(value))).collect(),
    })
}

/// Converts a scalar to text: a name may look like a number.
fn to_plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Evaluates a verification on the objects that were found. A missing field of an object is not an error: the
/// verification fails.
pub(super) fn evaluate_found_objects(
    project: &Project,
    verify: &RecipeVerification,
    mut bindings: TemplateBindings,
    found: &[Value],
) -> ConditionOutcome {
    match &verify.about {
        Some(VerifyTarget::One(_)) => bindings.object = found.first().map(|object| build_tree("object", object)),
        _ => bindings.objects = Some(build_tree("objects", &Value::Array(found.to_vec()))),
    }
    let Some(expr) = &verify.expect else { return evaluate_condition(project, &None, &None, &None, &bindings) };
    let program = project.programs.get(&expr.source, TemplateForm::Expression);
    let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.run_expectation(&bindings));
    let judged = match result {
        Err(error) if error.undefined => ConditionOutcome::Fails { reads: BTreeSet::new(), shown: Some(error.message) },
        // A condition on each object is vacuously true without objects, which must not count as passed.
        Ok(_) if found.is_empty() && program.as_ref().as_ref().is_ok_and(TemplateProgram::checks_each_element) => {
            ConditionOutcome::Fails { reads: BTreeSet::new(), shown: Some("no objects found".to_owned()) }
        }
        _ => evaluate_expect(project, expr, &bindings, BTreeSet::new()),
    };
    add_shown_values(project, &verify.shows, &bindings, judged)
}

/// Adds the values that the author wants to show if the condition is false.
fn add_shown_values(
    project: &Project,
    shows: &Option<(String, Span)>,
    bindings: &TemplateBindings,
    judged: ConditionOutcome,
) -> ConditionOutcome {
    let (ConditionOutcome::Fails { reads, shown: None }, Some((source, _))) = (&judged, shows) else {
        return judged;
    };
    let shown = match render_text(project, source, bindings) {
        Ok(shown) => shown.trim().to_owned(),
        Err(need) => format!("the values to show could not be evaluated: {}", need.describe()),
    };
    ConditionOutcome::Fails { reads: reads.clone(), shown: Some(shown) }
}

/// Returns the result if `when` already decides it.
fn evaluate_when(when: &Option<SourceExpr>, renderer: &mut TreeRenderer<'_>) -> Option<ConditionOutcome> {
    match renderer.evaluate_condition(when.as_ref()?) {
        Some(EvalOutcome::Known { value: true, .. }) => None,
        Some(EvalOutcome::Known { value: false, .. }) => Some(ConditionOutcome::NotApplicable),
        Some(EvalOutcome::Deferred(need)) => Some(build_waiting_outcome(need)),
        None => Some(build_failed_outcome(&renderer.diags)),
    }
}

fn render_check(check: &YamlNode, renderer: &mut TreeRenderer<'_>) -> ConditionOutcome {
    match (renderer.render_tree(check).data, renderer.diags.is_empty()) {
        (_, false) => build_failed_outcome(&renderer.diags),
        (YamlData::Scalar { text, .. }, _) => match find_check_fault(&text) {
            Some(fault) => build_failed_outcome(&[build_check_fault_diag(fault, check)]),
            None => ConditionOutcome::Check { script: text },
        },
        (YamlData::Unknown(need), _) => build_waiting_outcome(need),
        _ => ConditionOutcome::Unknown { why: "`check` is not text".to_owned(), need: None },
    }
}

fn build_check_fault_diag(fault: CheckTextFault, check: &YamlNode) -> Diag {
    Diag::error(DiagCode::BadValue, format!("`check` {}", fault.describe())).with_span(check.span).hint(fault.hint())
}

/// Returns the errors of a condition that do not depend on a host's state. A false or pending `when` hides the others.
pub(super) fn find_condition_mistakes(
    project: &Project,
    when: &Option<SourceExpr>,
    expect: &Option<SourceExpr>,
    check: &Option<YamlNode>,
    bindings: &TemplateBindings,
) -> Vec<Diag> {
    let mut renderer = TreeRenderer::new(&project.programs, &project.sources, bindings);
    if evaluate_when(when, &mut renderer).is_some() {
        return renderer.diags;
    }
    if let Some(check) = check
        && let YamlData::Scalar { text, .. } = renderer.render_tree(check).data
    {
        let fault = find_check_fault(&text).map(|fault| build_check_fault_diag(fault, check));
        renderer.diags.extend(fault);
    }
    if let Some(expr) = expect {
        let program = project.programs.get(&expr.source, TemplateForm::Expression);
        if let Ok(program) = program.as_ref()
            && let Err(error) = program.run_expectation(bindings)
        {
            renderer.diags.push(build_template_diag(&error, &expr.source, expr.span, &project.sources));
        }
    }
    renderer.diags
}

fn evaluate_expect(
    project: &Project,
    expr: &SourceExpr,
    bindings: &TemplateBindings,
    mut earlier: BTreeSet<String>,
) -> ConditionOutcome {
    let program = project.programs.get(&expr.source, TemplateForm::Expression);
    let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.run_expectation(bindings));
    match result {
        Ok(ExpectOutcome::Known { value, mut reads }) => {
            reads.append(&mut earlier);
            if value { ConditionOutcome::Holds { reads } } else { ConditionOutcome::Fails { reads, shown: None } }
        }
        Ok(ExpectOutcome::Unknown { why, need }) => ConditionOutcome::Unknown { why, need },
        Err(error) => build_failed_outcome(&[build_template_diag(&error, &expr.source, expr.span, &project.sources)]),
    }
}

/// Renders a text.
///
/// # Errors
/// The value that it waits for. An error in the template counts as a value that could not be read.
pub(super) fn render_text(project: &Project, text: &str, bindings: &TemplateBindings) -> Result<String, PendingInput> {
    let program = project.programs.get(text, TemplateForm::Template);
    let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.run(bindings));
    match result {
        Ok(EvalOutcome::Known { value, .. }) => Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        Ok(EvalOutcome::Deferred(need)) => Err(need),
        Err(error) => Err(PendingInput::UnknownFact { path: "export".to_owned(), why: error.message }),
    }
}

fn build_waiting_outcome(need: PendingInput) -> ConditionOutcome {
    ConditionOutcome::Unknown { why: need.describe(), need: Some(need) }
}

fn build_failed_outcome(diags: &[Diag]) -> ConditionOutcome {
    let why = diags.first().map_or_else(|| "it could not be evaluated".to_owned(), |diag| diag.message.clone());
    ConditionOutcome::Unknown { why, need: None }
}
