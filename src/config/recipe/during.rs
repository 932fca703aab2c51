//! Reads `during`: requirements of a recipe on its host while another recipe changes there.

use crate::config::load_context::LoadContext;
use crate::config::scalar;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{DuringRequirement, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode};
use crate::resource::unit_name;

/// Parses `{ nvidia-driver: { stopped: [nvidia-fabricmanager], unloaded: [nvidia_peermem] } }`.
pub(super) fn read_during(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<DuringRequirement> {
    let entries = yaml_table::expect_entries(table.get("during"), "during", &mut cx.diags);
    entries.iter().filter_map(|(key, node)| read_during_entry(key, node, cx)).collect()
}

fn read_during_entry(key: &YamlKey, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<DuringRequirement> {
    let table = YamlTable::open(node, "an entry of `during`", &["stopped", "unloaded"], &mut cx.diags)?;
    let stopped = read_names(&table, "stopped", cx).iter().map(|name| unit_name(name)).collect();
    let unloaded = read_names(&table, "unloaded", cx).iter().map(|name| name.replace('-', "_")).collect();
    if table.get("stopped").is_none() && table.get("unloaded").is_none() {
        let diag = Diag::error(DiagCode::MissingKey, "an entry of `during` needs `stopped` or `unloaded`");
        cx.push_diag(diag.with_span(node.span));
    }
    Some(DuringRequirement { recipe: key.text.clone(), stopped, unloaded, span: key.span })
}

fn read_names(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for node in table.get_items(key, &mut cx.diags) {
        match yaml_table::expect_text(node, key, &mut cx.diags) {
            Some(name) if scalar::is_name(&name) => names.push(name),
            Some(name) => {
                let diag = Diag::error(DiagCode::BadValue, format!("`{key}` must contain only names, found `{name}`"));
                cx.push_diag(diag.with_span(node.span));
            }
            None => {}
        }
    }
    names
}
