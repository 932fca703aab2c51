//! Reads `vars` of hosts and groups.

use crate::config::identifier::{check_literal, is_identifier};
use crate::config::load_context::LoadContext;
use crate::config::{YamlKey, YamlNode, yaml_table};
use crate::diag::{Diag, DiagCode, Span};
use indexmap::IndexMap;
use std::rc::Rc;

/// Variables by name, each with the location of its name and its value.
pub(crate) type RawVars = IndexMap<String, (Span, Rc<YamlNode>)>;

pub(super) fn read_vars(node: Option<&YamlNode>, cx: &mut LoadContext<'_>) -> Rc<RawVars> {
    let entries = yaml_table::expect_entries(node, "vars", &mut cx.diags);
    Rc::new(entries.iter().filter_map(|(key, node)| read_var(key, node, cx)).collect())
}

pub(super) fn read_var(
    key: &YamlKey,
    node: &YamlNode,
    cx: &mut LoadContext<'_>,
) -> Option<(String, (Span, Rc<YamlNode>))> {
    if !is_identifier(&key.text) {
        let diag =
            Diag::error(DiagCode::BadValue, format!("`{}` is not a valid variable name", key.text)).with_span(key.span);
        cx.push_diag(diag.hint("use letters, digits and `_`, not starting with a digit"));
        return None;
    }
    check_literal(node, "a variable", cx);
    Some((key.text.clone(), (key.span, Rc::new(node.clone()))))
}
