//! Parses `apply:`, the list of recipes and the hosts that they apply to.

use super::selector::SelectorUniverse;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span};

/// A parsed entry.
pub(in crate::config) struct RawApplyEntry {
    pub recipe: (String, Span),
    pub on: Option<(String, Span)>,
    pub with: Vec<(YamlKey, YamlNode)>,
    pub absent: bool,
}

impl RawApplyEntry {
    /// Builds an entry of a recipe without parameters for a selector; each has its place.
    pub fn of_hosts(recipe: (String, Span), on: (String, Span)) -> Self {
        Self { recipe, on: Some(on), with: Vec::new(), absent: false }
    }
}

/// An entry and the positions of its hosts, in inventory order.
pub(in crate::config) struct ApplyEntry {
    pub raw: RawApplyEntry,
    pub hosts: Vec<usize>,
}

pub(super) fn read_apply(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<RawApplyEntry> {
    table.get_items("apply", &mut cx.diags).into_iter().filter_map(|node| read_apply_entry(node, cx)).collect()
}

fn read_apply_entry(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RawApplyEntry> {
    let table = YamlTable::open(node, "an entry of `apply`", &["recipe", "on", "with", "ensure"], &mut cx.diags)?;
    let on = table.require_value("on", &mut cx.diags).and_then(|node| Some((read_selector(node, cx)?, node.span)));
    let with = yaml_table::expect_entries(table.get("with"), "with", &mut cx.diags).to_vec();
    let absent = read_absent(&table, cx);
    let recipe = table.require_value("recipe", &mut cx.diags)?;
    let name = yaml_table::expect_text(recipe, "recipe", &mut cx.diags)?;
    Some(RawApplyEntry { recipe: (name, recipe.span), on, with, absent })
}

/// Parses a selector, or a list of selectors joined by `,`.
fn read_selector(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    match &node.data {
        crate::config::YamlData::Seq(items) => {
            let texts: Vec<String> =
                items.iter().filter_map(|item| yaml_table::expect_text(item, "on", &mut cx.diags)).collect();
            Some(texts.join(","))
        }
        _ => yaml_table::expect_text(node, "on", &mut cx.diags),
    }
}

fn read_absent(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> bool {
    let Some(node) = table.get("ensure") else { return false };
    match yaml_table::expect_text(node, "ensure", &mut cx.diags).as_deref() {
        Some("absent") => true,
        Some("present") | None => false,
        Some(other) => {
            let diag =
                Diag::error(DiagCode::BadValue, format!("invalid value `{other}` for `ensure`")).with_span(node.span);
            cx.push_diag(diag.suggest_name(other, ["present", "absent"]));
            false
        }
    }
}

/// Selects the hosts of every entry. Drops entries with an invalid selector and reports them.
pub(super) fn select_entry_hosts(
    entries: Vec<RawApplyEntry>,
    universe: &SelectorUniverse<'_>,
    cx: &mut LoadContext<'_>,
) -> Vec<ApplyEntry> {
    let mut found = Vec::new();
    for raw in entries {
        let Some((text, span)) = &raw.on else { continue };
        match universe.select(text, Some(*span)) {
            Ok(hosts) => found.push(ApplyEntry { raw, hosts }),
            Err(diag) => cx.push_diag(*diag),
        }
    }
    found
}
