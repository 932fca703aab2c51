//! Reads expressions and names of a recipe.

use crate::config::SourceExpr;
use crate::config::identifier::is_identifier;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::diag::{Diag, DiagCode, Span};

/// Reads an expression. It is compiled together with all others, once every name is known.
pub(super) fn read_expr(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<SourceExpr> {
    let node = table.get(key)?;
    let source = yaml_table::expect_text(node, key, &mut cx.diags)?;
    if source.trim_start().starts_with("{{") {
        let diag = Diag::error(DiagCode::BadTemplate, format!("`{key}` is already an expression")).with_span(node.span);
        cx.push_diag(diag.hint("remove `{{` and `}}`"));
        return None;
    }
    Some(SourceExpr { source, span: node.span })
}

/// Reports a name that is not an identifier: templates could not read it with a dot.
pub(super) fn check_identifier(name: &str, what: &str, span: Span, cx: &mut LoadContext<'_>) -> bool {
    let fits = is_identifier(name);
    if !fits {
        let diag = Diag::error(DiagCode::BadValue, format!("`{name}` is not a valid name of {what}")).with_span(span);
        cx.push_diag(diag.hint("use letters, digits and `_`, not starting with a digit"));
    }
    fits
}
