//! Parses `undo:`.

use crate::config::YamlNode;
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::YamlTable;
use crate::model::UndoRetention;

/// Keys of `undo`.
pub(in crate::config) const KEYS: [&str; 2] = ["runs", "days"];

pub(super) fn read_undo_retention(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<UndoRetention> {
    let table = YamlTable::open(node, "`undo`", &KEYS, &mut cx.diags)?;
    // Both limits fit in a `u32`.
    let runs = table.get_int("runs", 1, 1000, &mut cx.diags).map(|runs| runs as u32);
    let days = table.get_int("days", 1, 3650, &mut cx.diags).map(|days| days as u32);
    Some(UndoRetention { runs: runs.unwrap_or(UndoRetention::default().runs), days })
}
