//! Diagnostics with their places as file, line and column.

use crate::diag::{Diag, DiagCode, DiagSeverity, SourceMap, Span};
use crate::view::ValidationResult;
use crate::view::validation::{CheckedInventory, InventorySize};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct ValidationBody<'a> {
    inventories: Vec<InventoryDiagnostics<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct InventoryDiagnostics<'a> {
    path: &'a str,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    declares: Option<InventorySize>,
    diagnostics: Vec<DiagnosticBody<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct DiagnosticBody<'a> {
    code: DiagCode,
    severity: DiagSeverity,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<DiagnosticLocation<'a>>,
    others: Vec<DiagnosticLocation<'a>>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

/// Lines and columns from 1; columns count characters.
#[derive(Serialize, JsonSchema)]
struct DiagnosticLocation<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
}

pub fn validation_body(validation: &ValidationResult) -> ValidationBody<'_> {
    ValidationBody { inventories: validation.inventories.iter().map(inventory_diagnostics).collect() }
}

fn inventory_diagnostics(checked: &CheckedInventory) -> InventoryDiagnostics<'_> {
    InventoryDiagnostics {
        path: checked.path.as_str(),
        valid: !checked.diags.has_errors(),
        declares: checked.size,
        diagnostics: checked.diags.0.iter().map(|diag| diagnostic_body(diag, &checked.sources)).collect(),
    }
}

fn diagnostic_body<'a>(diag: &'a Diag, sources: &'a SourceMap) -> DiagnosticBody<'a> {
    DiagnosticBody {
        code: diag.code,
        severity: diag.severity,
        message: &diag.message,
        place: diag.span.map(|span| diagnostic_location(span, diag.label.as_deref(), sources)),
        others: diag.others.iter().map(|(span, label)| diagnostic_location(*span, Some(label), sources)).collect(),
        notes: &diag.notes,
        hint: diag.hint.as_deref(),
    }
}

fn diagnostic_location<'a>(span: Span, label: Option<&'a str>, sources: &'a SourceMap) -> DiagnosticLocation<'a> {
    let (line, column) = sources.line_col(span);
    DiagnosticLocation { file: sources.path(span.file).as_str(), line, column, label }
}
