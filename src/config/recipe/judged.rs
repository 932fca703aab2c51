//! Reads the parts of a recipe that evaluate or publish values: `verify`, `effective` and `export`.

use super::{expr, identifier};
use crate::config::cx::LoadContext;
use crate::config::table::{self, YamlTable};
use crate::config::{RecipeVerification, StepActivation, StepExport, VerifyTarget, YamlKey, YamlNode};
use crate::diag::{Code, Diag};
use crate::model::{StepScope, VerifyLevel};
use indexmap::IndexMap;

const WAYS: [&str; 5] = ["first-load", "reload", "restart", "login", "reboot"];

/// Keys of an entry of `verify`.
pub(in crate::config) const VERIFY: [&str; 10] =
    ["name", "scope", "when", "object", "objects", "expect", "check", "shows", "within", "level"];

/// Keys that select one object, and keys that select several.
pub(in crate::config) const OBJECT: [&str; 4] = ["api_version", "kind", "namespace", "name"];
pub(in crate::config) const OBJECTS: [&str; 4] = ["api_version", "kind", "namespace", "labels"];

pub(super) fn verify(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RecipeVerification> {
    let table = YamlTable::open(node, "an entry of `verify`", &VERIFY, &mut cx.diags)?;
    let (when, expect) = (expr(&table, "when", cx), expr(&table, "expect", cx));
    let check = script(&table, cx);
    let level = level(&table, cx);
    let about = about(&table, cx);
    let said = of_cluster(&table, "an entry of `verify`", cx);
    one_of_two(&table, node, "an entry of `verify`", cx);
    report_realm(&table, said, about.is_some(), cx);
    let shows = table.get("shows").and_then(|node| Some((table::text(node, "shows", &mut cx.diags)?, node.span)));
    let within_s = table.limit("within", &mut cx.diags);
    let of_cluster = said.unwrap_or(about.is_some());
    let name = table.require("name", &mut cx.diags)?;
    let span = name.span;
    let name = table::text(name, "name", &mut cx.diags)?;
    Some(RecipeVerification { name, of_cluster, when, about, expect, check, shows, within_s, level, span })
}

/// Returns whether `scope` is `cluster` or `host`; `None` if it is not set.
pub(super) fn of_cluster(table: &YamlTable<'_>, what: &str, cx: &mut LoadContext<'_>) -> Option<bool> {
    let node = table.get("scope")?;
    let text = table::text(node, "scope", &mut cx.diags)?;
    match StepScope::parse(&text) {
        Some(StepScope::Cluster) => Some(true),
        Some(StepScope::Host) => Some(false),
        _ => {
            let diag = Diag::error(Code::BadScope, format!("`{text}` is not a valid scope of {what}")).at(node.span);
            cx.push(diag.hint("write `host` to evaluate it on each host, or `cluster` to evaluate it on the cluster"));
            None
        }
    }
}

/// Reads `object` or `objects`. Their values may contain templates.
fn about(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<VerifyTarget> {
    if let (Some(_), Some(key)) = (table.key("object"), table.key("objects")) {
        cx.push(Diag::error(Code::Exclusive, "`object` and `objects` exclude each other").at(key.span));
    }
    let one = table.get("object").and_then(|node| {
        let inner = YamlTable::open(node, "`object`", &OBJECT, &mut cx.diags)?;
        named(&inner, &["api_version", "kind", "name"], cx).then(|| VerifyTarget::One(node.clone()))
    });
    one.or_else(|| {
        let node = table.get("objects")?;
        let inner = YamlTable::open(node, "`objects`", &OBJECTS, &mut cx.diags)?;
        named(&inner, &["api_version", "kind"], cx).then(|| VerifyTarget::All(node.clone()))
    })
}

/// Reports invalid selectors of objects. Returns whether the `needed` keys are present.
fn named(inner: &YamlTable<'_>, needed: &[&str], cx: &mut LoadContext<'_>) -> bool {
    let whole = needed.iter().filter(|key| inner.require(key, &mut cx.diags).is_none()).count() == 0;
    for key in ["api_version", "kind", "namespace", "name"] {
        inner.text(key, &mut cx.diags);
    }
    for (key, label) in table::entries(inner.get("labels"), "labels", &mut cx.diags) {
        table::text(label, &key.text, &mut cx.diags);
    }
    whole
}

/// Reports keys that the scope does not support.
fn report_realm(table: &YamlTable<'_>, said: Option<bool>, about: bool, cx: &mut LoadContext<'_>) {
    let of_cluster = said.unwrap_or(about);
    if let (Some(key), Some(false)) = (table.key("object").or(table.key("objects")), said) {
        let message = format!("`{}` requires scope `cluster`", key.text);
        cx.push(Diag::error(Code::BadScope, message).at(key.span).hint("remove `scope`"));
    }
    if let (Some(key), true) = (table.key("check"), of_cluster) {
        let diag = Diag::error(Code::BadScope, "`check` does not support scope `cluster`").at(key.span);
        cx.push(diag.hint("use `expect` with facts of the cluster or with an `object`"));
    }
    if let (Some(key), false) = (table.key("within"), of_cluster) {
        let diag = Diag::error(Code::BadScope, "`within` requires scope `cluster`").at(key.span);
        cx.push(diag.hint("on hosts, use a `wait_for` step"));
    }
}

fn one_of_two(table: &YamlTable<'_>, node: &YamlNode, what: &str, cx: &mut LoadContext<'_>) {
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

/// Reads a read-only command, which stays a tree until it is rendered.
fn script(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<YamlNode> {
    let node = table.get("check")?;
    table::text(node, "check", &mut cx.diags)?;
    Some(node.clone())
}

pub(super) fn level(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> VerifyLevel {
    let Some(node) = table.get("level") else { return VerifyLevel::default() };
    let text = table::text(node, "level", &mut cx.diags).unwrap_or_default();
    VerifyLevel::parse(&text).unwrap_or_else(|| {
        let diag = Diag::error(Code::BadValue, format!("`{text}` is not a valid level")).at(node.span);
        cx.push(diag.suggest(&text, ["L0", "L1", "L2", "L3", "L4", "L5"]));
        VerifyLevel::default()
    })
}

pub(super) fn effective(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<StepActivation> {
    let node = table.get("effective")?;
    let table = YamlTable::open(node, "`effective`", &["by", "expect", "check"], &mut cx.diags)?;
    let mut by = Vec::new();
    for node in table.items("by", &mut cx.diags) {
        let Some(text) = table::text(node, "by", &mut cx.diags) else { continue };
        if !WAYS.contains(&text.as_str()) {
            let diag = Diag::error(Code::BadValue, format!("`{text}` is not a valid value of `by`")).at(node.span);
            cx.push(diag.suggest(&text, WAYS));
        }
        by.push(text);
    }
    one_of_two(&table, node, "`effective`", cx);
    Some(StepActivation { by, expect: expr(&table, "expect", cx), check: script(&table, cx), span: node.span })
}

pub(super) fn exports(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> IndexMap<String, StepExport> {
    let entries = table::entries(table.get("export"), "export", &mut cx.diags);
    let mut exports = IndexMap::new();
    for (key, node) in entries {
        if !identifier(&key.text, "an export", key.span, cx) {
            continue;
        }
        let Some(table) = YamlTable::open(node, "an export", &["read", "stdout", "value", "secret"], &mut cx.diags)
        else {
            continue;
        };
        exports.insert(key.text.clone(), export(key, &table, cx));
    }
    exports
}

fn export(key: &YamlKey, table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> StepExport {
    let (read, value) = (table.text("read", &mut cx.diags), expr(table, "value", cx));
    let stdout = table.bool("stdout", &mut cx.diags).unwrap_or(false);
    if [read.is_some(), stdout, table.get("value").is_some()].iter().filter(|said| **said).count() != 1 {
        let message = "an export needs exactly one of `read`, `value` and `stdout: true`";
        let hint = "`read` is a read-only command whose output is the value; `value` is an expression over facts; `stdout` uses the output of the step";
        cx.push(Diag::error(Code::Exclusive, message).at(key.span).hint(hint));
    }
    let secret = table.bool("secret", &mut cx.diags).unwrap_or(false);
    if let (Some(key), true) = (table.key("value"), secret) {
        cx.push(Diag::error(Code::Exclusive, "an export with `value` cannot be secret").at(key.span));
    }
    StepExport { name: key.text.clone(), read, stdout, value, secret, span: key.span }
}
