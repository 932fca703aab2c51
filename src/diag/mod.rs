//! Diagnostics: errors in input files, with location and hint.

mod code;
mod render;
mod source;
mod suggest;

pub use code::DiagCode;
pub use render::{escape_control, render_diag};
pub use source::{FileId, SourceMap, Span};
pub use suggest::did_you_mean;

use schemars::JsonSchema;
use serde::Serialize;

/// Severity of a diagnostic. Only errors stop forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiagSeverity {
    Error,
    Warning,
}

/// One error: a lowercase message without a full stop, its location, and a hint on how to fix it.
#[derive(Clone, Debug, Serialize)]
pub struct Diag {
    pub code: DiagCode,
    pub severity: DiagSeverity,
    pub message: String,
    /// The location, if known.
    pub span: Option<Span>,
    /// The text under the caret.
    pub label: Option<String>,
    /// Further locations, each with its label (the other definition, the next edge of a cycle).
    pub others: Vec<(Span, String)>,
    pub notes: Vec<String>,
    pub hint: Option<String>,
    /// The resource field concerned, for callers that know where fields were declared.
    #[serde(skip)]
    pub field: Option<&'static str>,
}

impl Diag {
    pub fn error(code: DiagCode, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: DiagSeverity::Error,
            message: message.into(),
            span: None,
            label: None,
            others: Vec::new(),
            notes: Vec::new(),
            hint: None,
            field: None,
        }
    }

    pub fn warning(code: DiagCode, message: impl Into<String>) -> Self {
        Self { severity: DiagSeverity::Warning, ..Self::error(code, message) }
    }

    pub fn with_span(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the resource field concerned.
    pub fn with_field(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    pub fn with_other_span(mut self, span: Span, label: impl Into<String>) -> Self {
        self.others.push((span, label.into()));
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds "did you mean" if one of `known` is near `typed`, else lists `known` if there are few.
    pub fn suggest_name<'a>(self, typed: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match suggest::format_name_hint(typed, known) {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
}

/// All diagnostics of a load, in the order of detection.
#[derive(Clone, Debug, Default)]
pub struct DiagList(pub Vec<Diag>);

impl DiagList {
    pub fn push(&mut self, diag: Diag) {
        self.0.push(diag);
    }

    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == DiagSeverity::Error)
    }

    pub fn count_errors(&self) -> usize {
        self.0.iter().filter(|d| d.severity == DiagSeverity::Error).count()
    }
}
