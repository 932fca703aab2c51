//! Reads the parts of a recipe that evaluate or publish values: `verify`, `effective` and `export`.

use super::expr::{check_identifier, read_expr};
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{RecipeVerification, StepActivation, StepExport, VerifyTarget, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{StepScope, VerifyLevel};
use indexmap::IndexMap;

const ACTIVATION_WAYS: [&str; 5] = ["first-load", "reload", "restart", "login", "reboot"];

/// Keys of an entry of `verify`.
pub(in crate::config) const VERIFY_KEYS: [&str; 11] =
    ["name", "scope", "when", "object", "objects", "expect", "check", "shows", "within", "settle", "level"];

/// Keys that select one object, and keys that select several.
pub(in crate::config) const OBJECT_KEYS: [&str; 4] = ["api_version", "kind", "namespace", "name"];
pub(in crate::config) const OBJECT_LIST_KEYS: [&str; 4] = ["api_version", "kind", "namespace", "labels"];

pub(super) fn read_verify(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RecipeVerification> {
    let table = YamlTable::open(node, "an entry of `verify`", &VERIFY_KEYS, &mut cx.diags)?;
    let (when, expect) = (read_expr(&table, "when", cx), read_expr(&table, "expect", cx));
    let check = read_check_script(&table, cx);
    let level = read_level(&table, cx);
    let about = read_verify_target(&table, cx);
    let said = read_cluster_scope(&table, "an entry of `verify`", cx);
    report_expect_or_check(&table, node, "an entry of `verify`", cx);
    report_scope_mismatch(&table, said, about.is_some(), cx);
    report_check_with_shows(&table, cx);
    let shows = read_shows(&table, cx);
    let within_s = table.get_limit("within", &mut cx.diags);
    let settle_s = table.get_limit("settle", &mut cx.diags);
    let of_cluster = said.unwrap_or(about.is_some());
    let name = table.require_value("name", &mut cx.diags)?;
    let span = name.span;
    let name = yaml_table::expect_text(name, "name", &mut cx.diags)?;
    Some(RecipeVerification { name, of_cluster, when, about, expect, check, shows, within_s, settle_s, level, span })
}

/// Returns whether `scope` is `cluster` or `host`; `None` if it is not set.
pub(super) fn read_cluster_scope(table: &YamlTable<'_>, what: &str, cx: &mut LoadContext<'_>) -> Option<bool> {
    let node = table.get("scope")?;
    let text = yaml_table::expect_text(node, "scope", &mut cx.diags)?;
    match StepScope::parse(&text) {
        Some(StepScope::Cluster) => Some(true),
        Some(StepScope::Host) => Some(false),
        _ => {
            let diag = Diag::error(DiagCode::BadScope, format!("`{text}` is not a valid scope of {what}"))
                .with_span(node.span);
            cx.push_diag(
                diag.hint("write `host` to evaluate it on each host, or `cluster` to evaluate it on the cluster"),
            );
            None
        }
    }
}

/// Reads `object` or `objects`. Their values may contain templates.
fn read_verify_target(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<VerifyTarget> {
    if let (Some(_), Some(key)) = (table.find_key("object"), table.find_key("objects")) {
        cx.push_diag(Diag::error(DiagCode::Exclusive, "`object` and `objects` exclude each other").with_span(key.span));
    }
    let one = table.get("object").and_then(|node| {
        let inner = YamlTable::open(node, "`object`", &OBJECT_KEYS, &mut cx.diags)?;
        check_object_keys(&inner, &["api_version", "kind", "name"], cx).then(|| VerifyTarget::One(node.clone()))
    });
    one.or_else(|| {
        let node = table.get("objects")?;
        let inner = YamlTable::open(node, "`objects`", &OBJECT_LIST_KEYS, &mut cx.diags)?;
        check_object_keys(&inner, &["api_version", "kind"], cx).then(|| VerifyTarget::All(node.clone()))
    })
}

/// Reports invalid selectors of objects. Returns whether the `needed` keys are present.
fn check_object_keys(inner: &YamlTable<'_>, needed: &[&str], cx: &mut LoadContext<'_>) -> bool {
    let whole = needed.iter().filter(|key| inner.require_value(key, &mut cx.diags).is_none()).count() == 0;
    for key in ["api_version", "kind", "namespace", "name"] {
        inner.get_text(key, &mut cx.diags);
    }
    for (key, label) in yaml_table::expect_entries(inner.get("labels"), "labels", &mut cx.diags) {
        yaml_table::expect_text(label, &key.text, &mut cx.diags);
    }
    whole
}

/// Reports keys that the scope does not support.
fn report_scope_mismatch(table: &YamlTable<'_>, said: Option<bool>, about: bool, cx: &mut LoadContext<'_>) {
    let of_cluster = said.unwrap_or(about);
    if let (Some(key), Some(false)) = (table.find_key("object").or(table.find_key("objects")), said) {
        let message = format!("`{}` requires scope `cluster`", key.text);
        cx.push_diag(Diag::error(DiagCode::BadScope, message).with_span(key.span).hint("remove `scope`"));
    }
    if let (Some(key), true) = (table.find_key("check"), of_cluster) {
        let diag = Diag::error(DiagCode::BadScope, "`check` does not support scope `cluster`").with_span(key.span);
        cx.push_diag(diag.hint("use `expect` with facts of the cluster or with an `object`"));
    }
    for name in ["within", "settle"] {
        if let (Some(key), false) = (table.find_key(name), of_cluster) {
            let message = format!("`{name}` requires scope `cluster`");
            let diag = Diag::error(DiagCode::BadScope, message).with_span(key.span);
            cx.push_diag(diag.hint("on hosts, use a `wait_for` step"));
        }
    }
}

fn report_expect_or_check(table: &YamlTable<'_>, node: &YamlNode, what: &str, cx: &mut LoadContext<'_>) {
    match (table.get("expect"), table.get("check")) {
        (Some(_), Some(check)) => cx.push_diag(
            Diag::error(DiagCode::Exclusive, "`expect` and `check` exclude each other").with_span(check.span),
        ),
        (None, None) => cx.push_diag(
            Diag::error(DiagCode::MissingKey, format!("{what} needs `expect` or `check`")).with_span(node.span),
        ),
        _ => {}
    }
}

/// Reads the template of the values to show if a condition is false.
pub(super) fn read_shows(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<(String, Span)> {
    let node = table.get("shows")?;
    Some((yaml_table::expect_text(node, "shows", &mut cx.diags)?, node.span))
}

/// Rejects values to show next to a command, whose output is shown already.
fn report_check_with_shows(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) {
    if let (Some(_), Some(key)) = (table.get("check"), table.find_key("shows")) {
        let diag = Diag::error(DiagCode::Exclusive, "`check` and `shows` exclude each other").with_span(key.span);
        cx.push_diag(diag.hint("print the values in the command: its standard error is shown if it fails"));
    }
}

/// Reads a read-only command, which stays a tree until it is rendered.
fn read_check_script(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<YamlNode> {
    let node = table.get("check")?;
    yaml_table::expect_text(node, "check", &mut cx.diags)?;
    Some(node.clone())
}

pub(super) fn read_level(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> VerifyLevel {
    let Some(node) = table.get("level") else { return VerifyLevel::default() };
    let text = yaml_table::expect_text(node, "level", &mut cx.diags).unwrap_or_default();
    VerifyLevel::parse(&text).unwrap_or_else(|| {
        let diag = Diag::error(DiagCode::BadValue, format!("`{text}` is not a valid level")).with_span(node.span);
        cx.push_diag(diag.suggest_name(&text, ["L0", "L1", "L2", "L3", "L4", "L5"]));
        VerifyLevel::default()
    })
}

pub(super) fn read_effective(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<StepActivation> {
    let node = table.get("effective")?;
    let table = YamlTable::open(node, "`effective`", &["by", "expect", "check"], &mut cx.diags)?;
    let mut by = Vec::new();
    for node in table.get_items("by", &mut cx.diags) {
        let Some(text) = yaml_table::expect_text(node, "by", &mut cx.diags) else { continue };
        if !ACTIVATION_WAYS.contains(&text.as_str()) {
            let diag =
                Diag::error(DiagCode::BadValue, format!("`{text}` is not a valid value of `by`")).with_span(node.span);
            cx.push_diag(diag.suggest_name(&text, ACTIVATION_WAYS));
        }
        by.push(text);
    }
    report_expect_or_check(&table, node, "`effective`", cx);
    Some(StepActivation {
        by,
        expect: read_expr(&table, "expect", cx),
        check: read_check_script(&table, cx),
        span: node.span,
    })
}

pub(super) fn read_exports(
    table: &YamlTable<'_>,
    scope: StepScope,
    cx: &mut LoadContext<'_>,
) -> IndexMap<String, StepExport> {
    let entries = yaml_table::expect_entries(table.get("export"), "export", &mut cx.diags);
    let mut exports = IndexMap::new();
    for (key, node) in entries {
        if !check_identifier(&key.text, "an export", key.span, cx) {
            continue;
        }
        const KEYS: [&str; 5] = ["read", "stdout", "value", "secret", "partial"];
        let Some(table) = YamlTable::open(node, "an export", &KEYS, &mut cx.diags) else { continue };
        if let (Some(partial), true) = (table.find_key("partial"), scope != StepScope::Host) {
            let message = "`partial` needs a step of scope `host`: another one exports a single value";
            cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(partial.span));
        }
        exports.insert(key.text.clone(), read_export(key, &table, cx));
    }
    exports
}

fn read_export(key: &YamlKey, table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> StepExport {
    let (read, value) = (table.get_text("read", &mut cx.diags), read_expr(table, "value", cx));
    let stdout = table.get_bool("stdout", &mut cx.diags).unwrap_or(false);
    if [read.is_some(), stdout, table.get("value").is_some()].iter().filter(|said| **said).count() != 1 {
        let message = "an export needs exactly one of `read`, `value` and `stdout: true`";
        let hint = "`read` is a read-only command whose output is the value; `value` is an expression over facts; `stdout` uses the output of the step";
        cx.push_diag(Diag::error(DiagCode::Exclusive, message).with_span(key.span).hint(hint));
    }
    let secret = table.get_bool("secret", &mut cx.diags).unwrap_or(false);
    if let (Some(key), true) = (table.find_key("value"), secret) {
        cx.push_diag(Diag::error(DiagCode::Exclusive, "an export with `value` cannot be secret").with_span(key.span));
    }
    let partial = table.get_bool("partial", &mut cx.diags).unwrap_or(false);
    StepExport { name: key.text.clone(), read, stdout, value, secret, partial, span: key.span }
}
