//! A recipe that another one needs.

use crate::diag::Span;

/// A recipe that another recipe needs on the same host, with the place of the declaration.
pub(super) struct RecipeRequirement {
    pub recipe: String,
    pub span: Span,
    /// Label of the place: why it is needed.
    pub label: &'static str,
}
