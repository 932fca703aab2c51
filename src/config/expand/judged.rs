//! Evaluates the expressions of rules, verifications and `effective`: each passes, fails or could not be evaluated.

use super::Judged;
use crate::config::render::{Renderer, diagnose, first_need};
use crate::config::template::{Bindings, Eval, Expect, Form, Program, tree};
use crate::config::{About, Data, Expr, Need, Node, Project, Rule, Verify, scalar};
use crate::diag::Diag;
use crate::model::Value;
use crate::probe::ObjectsAsked;
use std::collections::BTreeSet;

/// Evaluates a rule. Returns the errors of its expressions as well.
pub(super) fn rule(project: &Project, rule: &Rule, bindings: &Bindings) -> (Judged, Vec<Diag>) {
    let mut renderer = Renderer::new(&project.programs, &project.sources, bindings);
    let judged = match applies(&rule.when, &mut renderer) {
        Some(other) => other,
        None => match renderer.condition(&rule.require) {
            Some(Eval::Known { value: true, .. }) => Judged::Holds { reads: std::mem::take(&mut renderer.reads) },
            Some(Eval::Known { value: false, .. }) => {
                Judged::Fails { reads: std::mem::take(&mut renderer.reads), shown: None }
            }
            Some(Eval::Deferred(need)) => waiting(need),
            None => failed(&renderer.diags),
        },
    };
    (judged, renderer.diags)
}

/// Evaluates `when`, then `expect` or `check`.
pub(super) fn judge(
    project: &Project,
    when: &Option<Expr>,
    expect: &Option<Expr>,
    check: &Option<Node>,
    bindings: &Bindings,
) -> Judged {
    let mut renderer = Renderer::new(&project.programs, &project.sources, bindings);
    if let Some(other) = applies(when, &mut renderer) {
        return other;
    }
    if let Some(check) = check {
        return self::check(check, &mut renderer);
    }
    match expect {
        Some(expect) => self::expect(project, expect, bindings, renderer.reads),
        None => Judged::Unknown { why: "neither `expect` nor `check` is set".to_owned(), need: None },
    }
}

/// Evaluates a verification that reads no objects of the cluster.
pub(super) fn verify(project: &Project, verify: &Verify, bindings: &Bindings) -> Judged {
    let judged = judge(project, &verify.when, &verify.expect, &verify.check, bindings);
    with_values(project, verify, bindings, judged)
}

/// Returns the query for the objects that a verification reads.
///
/// # Errors
/// The result, if it does not depend on the objects.
pub(super) fn asked(
    project: &Project,
    when: &Option<Expr>,
    about: &About,
    bindings: &Bindings,
) -> Result<ObjectsAsked, Judged> {
    let mut renderer = Renderer::new(&project.programs, &project.sources, bindings);
    if let Some(other) = applies(when, &mut renderer) {
        return Err(other);
    }
    let tree = renderer.tree(about.node());
    match (first_need(&tree), renderer.diags.is_empty()) {
        (_, false) => return Err(failed(&renderer.diags)),
        (Some(need), _) => return Err(waiting(need)),
        (None, true) => {}
    }
    let value = scalar::value(&tree);
    let text = |key: &str| value.get(key).map(plain);
    let labels = value.get("labels").and_then(Value::as_object).into_iter().flatten();
    Ok(ObjectsAsked {
        api_version: text("api_version").unwrap_or_default(),
        kind: text("kind").unwrap_or_default(),
        namespace: text("namespace"),
        name: text("name"),
        labels: labels.map(|(key, value)| (key.clone(), plain(value))).collect(),
    })
}

/// Converts a scalar to text: a name may look like a number.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Evaluates a verification on the objects that were found. A missing field of an object is not an error: the
/// verification fails.
pub(super) fn found(project: &Project, verify: &Verify, mut bindings: Bindings, found: &[Value]) -> Judged {
    match &verify.about {
        Some(About::One(_)) => bindings.object = found.first().map(|object| tree("object", object)),
        _ => bindings.objects = Some(tree("objects", &Value::Array(found.to_vec()))),
    }
    let Some(expr) = &verify.expect else { return judge(project, &None, &None, &None, &bindings) };
    let program = project.programs.get(&expr.source, Form::Expression);
    let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.expect(&bindings));
    let judged = match result {
        Err(error) if error.undefined => Judged::Fails { reads: BTreeSet::new(), shown: Some(error.message) },
        // A condition on each object is vacuously true without objects, which must not count as passed.
        Ok(_) if found.is_empty() && program.as_ref().as_ref().is_ok_and(Program::maps) => {
            Judged::Fails { reads: BTreeSet::new(), shown: Some("no objects found".to_owned()) }
        }
        _ => expect(project, expr, &bindings, BTreeSet::new()),
    };
    with_values(project, verify, &bindings, judged)
}

/// Adds the values that the author wants to show if the verification fails.
fn with_values(project: &Project, verify: &Verify, bindings: &Bindings, judged: Judged) -> Judged {
    let (Judged::Fails { reads, shown: None }, Some((source, _))) = (&judged, &verify.shows) else { return judged };
    let shown = match text(project, source, bindings) {
        Ok(shown) => shown.trim().to_owned(),
        Err(need) => format!("the values to show could not be evaluated: {}", need.describe()),
    };
    Judged::Fails { reads: reads.clone(), shown: Some(shown) }
}

/// Returns the result if `when` already decides it.
fn applies(when: &Option<Expr>, renderer: &mut Renderer<'_>) -> Option<Judged> {
    match renderer.condition(when.as_ref()?) {
        Some(Eval::Known { value: true, .. }) => None,
        Some(Eval::Known { value: false, .. }) => Some(Judged::NotApplicable),
        Some(Eval::Deferred(need)) => Some(waiting(need)),
        None => Some(failed(&renderer.diags)),
    }
}

fn check(check: &Node, renderer: &mut Renderer<'_>) -> Judged {
    match (renderer.tree(check).data, renderer.diags.is_empty()) {
        (_, false) => failed(&renderer.diags),
        (Data::Scalar { text, .. }, _) => Judged::Check { script: text },
        (Data::Unknown(need), _) => waiting(need),
        _ => Judged::Unknown { why: "`check` is not text".to_owned(), need: None },
    }
}

fn expect(project: &Project, expr: &Expr, bindings: &Bindings, mut earlier: BTreeSet<String>) -> Judged {
    let program = project.programs.get(&expr.source, Form::Expression);
    let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.expect(bindings));
    match result {
        Ok(Expect::Known { value, mut reads }) => {
            reads.append(&mut earlier);
            if value { Judged::Holds { reads } } else { Judged::Fails { reads, shown: None } }
        }
        Ok(Expect::Unknown { why, need }) => Judged::Unknown { why, need },
        Err(error) => failed(&[diagnose(&error, &expr.source, expr.span, &project.sources)]),
    }
}

/// Renders a text.
///
/// # Errors
/// The value that it waits for. An error in the template counts as a value that could not be read.
pub(super) fn text(project: &Project, text: &str, bindings: &Bindings) -> Result<String, Need> {
    let program = project.programs.get(text, Form::Template);
    let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.run(bindings));
    match result {
        Ok(Eval::Known { value, .. }) => Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        Ok(Eval::Deferred(need)) => Err(need),
        Err(error) => Err(Need::UnknownFact { path: "export".to_owned(), why: error.message }),
    }
}

fn waiting(need: Need) -> Judged {
    Judged::Unknown { why: need.describe(), need: Some(need) }
}

fn failed(diags: &[Diag]) -> Judged {
    let why = diags.first().map_or_else(|| "it could not be evaluated".to_owned(), |diag| diag.message.clone());
    Judged::Unknown { why, need: None }
}
