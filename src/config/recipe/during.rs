//! Reads `during`: requirements of a recipe on its host while another recipe changes there.

use crate::config::cx::Cx;
use crate::config::scalar;
use crate::config::table::{self, Table};
use crate::config::{During, Key, Node};
use crate::diag::{Code, Diag};
use crate::resource::unit_name;

/// Parses `{ nvidia-driver: { stopped: [nvidia-fabricmanager], unloaded: [nvidia_peermem] } }`.
pub(super) fn read(table: &Table<'_>, cx: &mut Cx<'_>) -> Vec<During> {
    let entries = table::entries(table.get("during"), "during", &mut cx.diags);
    entries.iter().filter_map(|(key, node)| one(key, node, cx)).collect()
}

fn one(key: &Key, node: &Node, cx: &mut Cx<'_>) -> Option<During> {
    let table = Table::open(node, "an entry of `during`", &["stopped", "unloaded"], &mut cx.diags)?;
    let stopped = names(&table, "stopped", cx).iter().map(|name| unit_name(name)).collect();
    let unloaded = names(&table, "unloaded", cx).iter().map(|name| name.replace('-', "_")).collect();
    if table.get("stopped").is_none() && table.get("unloaded").is_none() {
        let diag = Diag::error(Code::MissingKey, "an entry of `during` needs `stopped` or `unloaded`");
        cx.push(diag.at(node.span));
    }
    Some(During { recipe: key.text.clone(), stopped, unloaded, span: key.span })
}

fn names(table: &Table<'_>, key: &str, cx: &mut Cx<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for node in table.items(key, &mut cx.diags) {
        match table::text(node, key, &mut cx.diags) {
            Some(name) if scalar::is_name(&name) => names.push(name),
            Some(name) => {
                let diag = Diag::error(Code::BadValue, format!("`{key}` must contain only names, found `{name}`"));
                cx.push(diag.at(node.span));
            }
            None => {}
        }
    }
    names
}
