//! Rules, verification and effectiveness: expressions that hold, fail or cannot be told.

use super::Judged;
use crate::config::render::{Renderer, diagnose};
use crate::config::template::{Bindings, Eval, Expect, Form};
use crate::config::{Data, Expr, Need, Node, Project, Rule};
use crate::diag::Diag;
use std::collections::BTreeSet;

/// Judges a rule; mistakes of its expressions come along.
pub(super) fn rule(project: &Project, rule: &Rule, bindings: &Bindings) -> (Judged, Vec<Diag>) {
    let mut renderer = Renderer::new(&project.programs, &project.sources, bindings);
    let judged = match applies(&rule.when, &mut renderer) {
        Some(other) => other,
        None => match renderer.condition(&rule.require) {
            Some(Eval::Known { value: true, .. }) => Judged::Holds { reads: std::mem::take(&mut renderer.reads) },
            Some(Eval::Known { value: false, .. }) => Judged::Fails { reads: std::mem::take(&mut renderer.reads) },
            Some(Eval::Deferred(need)) => waiting(need),
            None => failed(&renderer.diags),
        },
    };
    (judged, renderer.diags)
}

/// Judges `when`, then `expect` or `check`.
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
        None => Judged::Unknown { why: "there is nothing to judge by".to_owned(), need: None },
    }
}

/// Returns the answer when `when` gives it already.
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
        _ => Judged::Unknown { why: "the check is not text".to_owned(), need: None },
    }
}

fn expect(project: &Project, expr: &Expr, bindings: &Bindings, mut earlier: BTreeSet<String>) -> Judged {
    let program = project.programs.get(&expr.source, Form::Expression);
    let result = program.as_ref().as_ref().map_err(Clone::clone).and_then(|program| program.expect(bindings));
    match result {
        Ok(Expect::Known { value, mut reads }) => {
            reads.append(&mut earlier);
            if value { Judged::Holds { reads } } else { Judged::Fails { reads } }
        }
        Ok(Expect::Unknown { why, need }) => Judged::Unknown { why, need },
        Err(error) => failed(&[diagnose(&error, &expr.source, expr.span, &project.sources)]),
    }
}

/// Renders a text.
///
/// # Errors
/// What it waits for; a mistake in it counts as a value that cannot be told.
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
    let why = diags.first().map_or_else(|| "it cannot be evaluated".to_owned(), |diag| diag.message.clone());
    Judged::Unknown { why, need: None }
}
