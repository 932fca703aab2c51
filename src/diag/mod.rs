//! Diagnostics: errors in input files, with location and hint.

mod code;
mod render;
mod source;
mod suggest;

pub use code::DiagCode;
pub use render::{escape_control, render_diag};
pub use source::{FileId, SourceMap, Span};
pub use suggest::{did_you_mean, find_slip};

use schemars::JsonSchema;
use serde::Serialize;

/// Severity of a diagnostic. Only errors stop forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiagSeverity {
    /// The input is invalid: forge stops.
    Error,
    /// The input is usable, but probably not intended: forge continues.
    Warning,
}

/// One error: a lowercase message without a full stop, its location, and a hint on how to fix it.
#[derive(Clone, Debug, Serialize)]
pub struct Diag {
    /// The stable code, such as `F0104`, whose page `forge explain` prints.
    pub code: DiagCode,
    /// Whether this stops forge.
    pub severity: DiagSeverity,
    /// The error as a lowercase fragment without a full stop; the code's page explains it further.
    pub message: String,
    /// The location, if known.
    pub span: Option<Span>,
    /// The text under the caret.
    pub label: Option<String>,
    /// Further locations, each with its label (the other definition, the next edge of a cycle).
    pub others: Vec<(Span, String)>,
    /// Further facts that help to understand the error, each a lowercase fragment; empty if there are none.
    pub notes: Vec<String>,
    /// How to fix it; `None` if no fix is known.
    pub hint: Option<String>,
    /// The resource field concerned, for callers that know where fields were declared.
    #[serde(skip)]
    pub field: Option<&'static str>,
    /// Secrets in plain text: every excerpt of the load that contains one shows `***` instead.
    #[serde(skip)]
    pub hidden: Vec<Span>,
}

impl Diag {
    /// Builds an error that has only a code and a message; the other methods add its location and hint.
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
            hidden: Vec::new(),
        }
    }

    /// Builds a warning that has only a code and a message, like [`error`](Self::error).
    pub fn warning(code: DiagCode, message: impl Into<String>) -> Self {
        Self { severity: DiagSeverity::Warning, ..Self::error(code, message) }
    }

    /// Sets the location in an input file.
    pub fn with_span(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Sets the text under the caret.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the resource field concerned.
    pub fn with_field(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// Hides a secret in plain text from the excerpts of all diagnostics of the load.
    pub fn hiding(mut self, secret: Span) -> Self {
        self.hidden.push(secret);
        self
    }

    /// Adds a further location with its label, such as the other definition of a name.
    pub fn with_other_span(mut self, span: Span, label: impl Into<String>) -> Self {
        self.others.push((span, label.into()));
        self
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets the advice on how to fix it; replaces an earlier one.
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
    /// Adds a diagnostic at the end.
    pub fn push(&mut self, diag: Diag) {
        self.0.push(diag);
    }

    /// Reports whether at least one diagnostic is an error; warnings do not count.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == DiagSeverity::Error)
    }

    /// Returns the number of errors, without warnings.
    pub fn count_errors(&self) -> usize {
        self.0.iter().filter(|d| d.severity == DiagSeverity::Error).count()
    }
}
