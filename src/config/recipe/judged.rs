//! Parts of a recipe that judge: `verify`, `effective`; and `export`, which publishes.

use super::{expr, identifier};
use crate::config::cx::Cx;
use crate::config::table::{self, Table};
use crate::config::{Effective, Export, Key, Node, Verify};
use crate::diag::{Code, Diag};
use crate::model::Level;
use indexmap::IndexMap;

const WAYS: [&str; 5] = ["first-load", "reload", "restart", "login", "reboot"];

pub(super) fn verify(node: &Node, cx: &mut Cx<'_>) -> Option<Verify> {
    let table =
        Table::open(node, "an entry of `verify`", &["name", "when", "expect", "check", "level"], &mut cx.diags)?;
    let (when, expect) = (expr(&table, "when", cx), expr(&table, "expect", cx));
    let check = script(&table, cx);
    let level = level(&table, cx);
    one_of_two(&table, node, "an entry of `verify`", cx);
    let name = table.require("name", &mut cx.diags)?;
    Some(Verify { name: table::text(name, "name", &mut cx.diags)?, when, expect, check, level, span: name.span })
}

fn one_of_two(table: &Table<'_>, node: &Node, what: &str, cx: &mut Cx<'_>) {
    match (table.get("expect"), table.get("check")) {
        (Some(_), Some(check)) => {
            cx.push(Diag::error(Code::Exclusive, "`expect` and `check` exclude each other").at(check.span))
        }
        (None, None) => {
            cx.push(Diag::error(Code::MissingKey, format!("{what} needs `expect` or `check`")).at(node.span))
        }
        _ => {}
    }
}

/// Reads a read-only command, kept as a tree until it is rendered.
fn script(table: &Table<'_>, cx: &mut Cx<'_>) -> Option<Node> {
    let node = table.get("check")?;
    table::text(node, "check", &mut cx.diags)?;
    Some(node.clone())
}

pub(super) fn level(table: &Table<'_>, cx: &mut Cx<'_>) -> Level {
    let Some(node) = table.get("level") else { return Level::default() };
    let text = table::text(node, "level", &mut cx.diags).unwrap_or_default();
    Level::parse(&text).unwrap_or_else(|| {
        let diag = Diag::error(Code::BadValue, format!("`{text}` is not a level")).at(node.span);
        cx.push(diag.suggest(&text, ["L0", "L1", "L2", "L3", "L4", "L5"]));
        Level::default()
    })
}

pub(super) fn effective(table: &Table<'_>, cx: &mut Cx<'_>) -> Option<Effective> {
    let node = table.get("effective")?;
    let table = Table::open(node, "`effective`", &["by", "expect", "check"], &mut cx.diags)?;
    let mut by = Vec::new();
    for node in table.items("by", &mut cx.diags) {
        let Some(text) = table::text(node, "by", &mut cx.diags) else { continue };
        if !WAYS.contains(&text.as_str()) {
            let diag = Diag::error(Code::BadValue, format!("nothing becomes effective by `{text}`")).at(node.span);
            cx.push(diag.suggest(&text, WAYS));
        }
        by.push(text);
    }
    one_of_two(&table, node, "`effective`", cx);
    Some(Effective { by, expect: expr(&table, "expect", cx), check: script(&table, cx), span: node.span })
}

pub(super) fn exports(table: &Table<'_>, cx: &mut Cx<'_>) -> IndexMap<String, Export> {
    let entries = table::entries(table.get("export"), "export", &mut cx.diags);
    let mut exports = IndexMap::new();
    for (key, node) in entries {
        if !identifier(&key.text, "an export", key.span, cx) {
            continue;
        }
        let Some(table) = Table::open(node, "an export", &["read", "stdout", "value", "secret"], &mut cx.diags) else {
            continue;
        };
        exports.insert(key.text.clone(), export(key, &table, cx));
    }
    exports
}

fn export(key: &Key, table: &Table<'_>, cx: &mut Cx<'_>) -> Export {
    let (read, value) = (table.text("read", &mut cx.diags), expr(table, "value", cx));
    let stdout = table.bool("stdout", &mut cx.diags).unwrap_or(false);
    if [read.is_some(), stdout, table.get("value").is_some()].iter().filter(|said| **said).count() != 1 {
        let message = "an export needs either `read`, `value` or `stdout: true`";
        let hint = "`read` is a read-only command whose output is the value; `value` is an expression over facts; `stdout` takes what the step prints";
        cx.push(Diag::error(Code::Exclusive, message).at(key.span).hint(hint));
    }
    let secret = table.bool("secret", &mut cx.diags).unwrap_or(false);
    if let (Some(key), true) = (table.key("value"), secret) {
        cx.push(Diag::error(Code::Exclusive, "a `value` of facts is no secret").at(key.span));
    }
    Export { name: key.text.clone(), read, stdout, value, secret, span: key.span }
}
