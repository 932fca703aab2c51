//! Parses `drift:`.

use super::notify;
use crate::config::drift::{DriftIgnoreKind, DriftIgnoreRule, DriftPolicy, KEEP_DAYS, OutlierMode};
use crate::config::load_context::LoadContext;
use crate::config::name_pattern::NamePattern;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{YamlNode, scalar};
use crate::diag::{Diag, DiagCode};
use jiff::civil::Date;

/// Keys of `drift`.
pub(in crate::config) const KEYS: [&str; 6] = ["ignore", "keep", "unconfined", "outliers", "notify", "first_seen"];
/// Keys of an entry of `ignore`.
pub(in crate::config) const IGNORE_KEYS: [&str; 4] = ["path", "step", "why", "until"];

pub(super) fn read_drift_policy(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<DriftPolicy> {
    let table = YamlTable::open(node, "`drift`", &KEYS, &mut cx.diags)?;
    let items = table.get_items("ignore", &mut cx.diags);
    let recipients = table.get_items("notify", &mut cx.diags);
    Some(DriftPolicy {
        notify: notify::read_recipients(recipients, cx),
        ignore: items.into_iter().filter_map(|node| read_ignore_rule(node, cx)).collect(),
        // At most ten years, which fits in a `u32`.
        keep_days: table.get_int("keep", 1, 3650, &mut cx.diags).map_or(KEEP_DAYS, |days| days as u32),
        first_seen_on_host: table.get("first_seen").is_some_and(|node| read_first_seen_on_host(node, cx)),
        outliers: table.get("outliers").and_then(|node| read_outlier_mode(node, cx)),
        unconfined: table.get_bool("unconfined", &mut cx.diags).unwrap_or(false),
    })
}

fn read_first_seen_on_host(node: &YamlNode, cx: &mut LoadContext<'_>) -> bool {
    let text = yaml_table::expect_text(node, "first_seen", &mut cx.diags);
    if let Some(text) = text.as_ref().filter(|text| !matches!(text.as_str(), "host" | "controller")) {
        let message = format!("`first_seen` must be `controller` or `host`, found `{}`", scalar::shorten_text(text));
        let hint =
            "with `host`, drift writes a file on each host that records when its current findings were first seen";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint(hint));
    }
    text.as_deref() == Some("host")
}

fn read_outlier_mode(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<OutlierMode> {
    let text = yaml_table::expect_text(node, "outliers", &mut cx.diags)?;
    let mode = text.parse().ok();
    if mode.is_none() {
        let message = format!("`outliers` must be `show` or `count`, found `{}`", scalar::shorten_text(&text));
        let hint = "`show` reports outliers among hosts of the same kind; `count` also exits 2 if there are any";
        cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(node.span).hint(hint));
    }
    mode
}

fn read_ignore_rule(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<DriftIgnoreRule> {
    let table = YamlTable::open(node, "an entry of `ignore`", &IGNORE_KEYS, &mut cx.diags)?;
    let what = read_ignore_target(&table, cx);
    let why = table.require_value("why", &mut cx.diags).and_then(|node| read_reason(node, cx));
    let until = table.require_value("until", &mut cx.diags).and_then(|node| read_expiry_date(node, cx));
    let ((what, text), why, until) = (what?, why?, until?);
    let pattern = NamePattern::new(&text);
    Some(DriftIgnoreRule { what, text, why, until, span: node.span, pattern })
}

fn read_ignore_target(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<(DriftIgnoreKind, String)> {
    let (path, step) = (table.get_text("path", &mut cx.diags), table.get_text("step", &mut cx.diags));
    match (path, step) {
        (Some(path), None) if path.starts_with('/') => Some((DriftIgnoreKind::Path, path)),
        (Some(path), None) => {
            let found = scalar::shorten_text(&path);
            let diag = Diag::error(DiagCode::BadValue, format!("`path` must begin with `/`, found `{found}`"));
            cx.push_diag(diag.with_span(table.span));
            None
        }
        (None, Some(step)) => Some((DriftIgnoreKind::Step, step)),
        (Some(_), Some(_)) => {
            let diag = Diag::error(DiagCode::Exclusive, "an entry of `ignore` has either `path` or `step`, not both");
            cx.push_diag(diag.with_span(table.span).hint("write two entries"));
            None
        }
        (None, None) => {
            let diag = Diag::error(DiagCode::MissingKey, "an entry of `ignore` needs `path` or `step`");
            cx.push_diag(diag.with_span(table.span));
            None
        }
    }
}

fn read_reason(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<String> {
    let text = yaml_table::expect_text(node, "why", &mut cx.diags)?;
    if text.trim().is_empty() {
        let diag = Diag::error(DiagCode::BadValue, "`why` is empty").with_span(node.span);
        cx.push_diag(diag.hint("state why drift ignores this: the report shows the reason"));
        return None;
    }
    Some(text)
}

fn read_expiry_date(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<Date> {
    let text = yaml_table::expect_text(node, "until", &mut cx.diags)?;
    let date = text.parse::<Date>().ok();
    if date.is_none() {
        let diag =
            Diag::error(DiagCode::BadValue, format!("`until` must be a date, found `{}`", scalar::shorten_text(&text)));
        cx.push_diag(
            diag.with_span(node.span).hint("write it like `2027-01-31`: the last day on which the entry applies"),
        );
    }
    date
}
