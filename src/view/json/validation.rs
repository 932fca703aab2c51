//! Diagnostics with their places as file, line and column.

use crate::diag::{Code, Diag, Severity, Sources, Span};
use crate::view::Validation;
use crate::view::validation::{CheckedInventory, Size};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct Body<'a> {
    inventories: Vec<Inventory<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Inventory<'a> {
    path: &'a str,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    declares: Option<Size>,
    diagnostics: Vec<Diagnostic<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Diagnostic<'a> {
    code: Code,
    severity: Severity,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<Place<'a>>,
    others: Vec<Place<'a>>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

/// Lines and columns from 1; columns count characters.
#[derive(Serialize, JsonSchema)]
struct Place<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
}

pub fn body(validation: &Validation) -> Body<'_> {
    Body { inventories: validation.inventories.iter().map(inventory).collect() }
}

fn inventory(checked: &CheckedInventory) -> Inventory<'_> {
    Inventory {
        path: checked.path.as_str(),
        valid: !checked.diags.has_errors(),
        declares: checked.size,
        diagnostics: checked.diags.0.iter().map(|diag| diagnostic(diag, &checked.sources)).collect(),
    }
}

fn diagnostic<'a>(diag: &'a Diag, sources: &'a Sources) -> Diagnostic<'a> {
    Diagnostic {
        code: diag.code,
        severity: diag.severity,
        message: &diag.message,
        place: diag.span.map(|span| place(span, diag.label.as_deref(), sources)),
        others: diag.others.iter().map(|(span, label)| place(*span, Some(label), sources)).collect(),
        notes: &diag.notes,
        hint: diag.hint.as_deref(),
    }
}

fn place<'a>(span: Span, label: Option<&'a str>, sources: &'a Sources) -> Place<'a> {
    let (line, column) = sources.line_col(span);
    Place { file: sources.path(span.file).as_str(), line, column, label }
}
