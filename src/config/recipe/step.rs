//! Reads a step: common keys, and exactly one resource.

use super::edges::EdgeReader;
use super::expr::read_expr;
use super::step_keys::STEP_KEYS;
use super::{during, verification};
use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{RecipeStep, SourceExpr, YamlData, YamlKey, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{DisruptionClass, StepGuard, StepScope};
use crate::resource::{self, GuardSupport, KindTraits, ProvidedItem};
use std::collections::BTreeSet;

pub(super) fn read_step(
    node: &YamlNode,
    recipe: &str,
    own: &BTreeSet<String>,
    cx: &mut LoadContext<'_>,
) -> Option<RecipeStep> {
    let fields = find_misplaced_fields(node);
    let kinds = resource::all_kinds().iter().map(|kind| kind.name);
    let known: Vec<&str> = STEP_KEYS.into_iter().chain(kinds).chain(fields.iter().copied()).collect();
    let table = YamlTable::open(node, "a step", &known, &mut cx.diags)?;
    let (name, span) = read_step_name(&table, cx)?;
    let edges = EdgeReader { recipe, own };
    let mistyped =
        matches!(&node.data, YamlData::Map(all) if all.iter().any(|(key, _)| !known.contains(&key.text.as_str())));
    let (kind, body) = read_resource(&table, &fields, (&name, span), mistyped, cx)?;
    let scope = read_scope(&table, kind, cx);
    let step = RecipeStep {
        when: read_expr(&table, "when", cx),
        otherwise_absent: read_otherwise(&table, cx),
        each: read_each(&table, cx),
        key: read_expr(&table, "key", cx),
        needs: edges.read_edges(table.get("needs"), true, cx),
        after: edges.read_edges(table.get("after"), false, cx),
        effective: verification::read_effective(&table, cx),
        during: during::read_during(&table, cx),
        restart_on: read_texts(&table, "restart_on", cx),
        provides: read_provides(&table, cx),
        exports: verification::read_exports(&table, scope, cx),
        disruption: read_disruption(&table, cx),
        scope,
        level: verification::read_level(&table, cx),
        timeout_s: table.get_limit("timeout", &mut cx.diags),
        retries: table.get_int("retries", 0, 10, &mut cx.diags).unwrap_or(0) as u32,
        at_once: table.get_int("at_once", 1, 1000, &mut cx.diags).map(|hosts| hosts as usize),
        guard: read_guard(&table, cx),
        long: table.get_bool("long", &mut cx.diags).unwrap_or(false),
        keep: table.get_bool("keep", &mut cx.diags).unwrap_or(false),
        kind,
        body,
        name,
        span,
    };
    report_step(&table, &step, cx);
    Some(step)
}

/// Reads `each`. One that is not an expression counts as an empty list: `item` exists in the step.
fn read_each(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<SourceExpr> {
    let node = table.get("each")?;
    let empty = SourceExpr { source: "[]".to_owned(), span: node.span };
    if let YamlData::Seq(_) | YamlData::Map(_) = node.data {
        let diag = Diag::error(DiagCode::WrongType, "`each` must be an expression in quotes, found a list or map");
        cx.push_diag(diag.with_span(node.span).hint("for example `each: \"['a', 'b']\"` or `each: params.names`"));
        return Some(empty);
    }
    Some(read_expr(table, "each", cx).unwrap_or(empty))
}

fn read_step_name(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<(String, Span)> {
    let node = table.require_value("name", &mut cx.diags)?;
    let name = yaml_table::expect_text(node, "name", &mut cx.diags)?;
    let fits = !name.trim().is_empty()
        && name.len() <= 100
        && name.trim() == name
        && !name.contains(|c: char| c.is_control() || "/@[]{}".contains(c));
    if !fits {
        let message = format!("`{}` is not a valid step name", scalar::shorten_text(&name));
        let diag = Diag::error(DiagCode::BadStep, message).with_span(node.span);
        cx.push_diag(diag.hint("use a short text without `/`, `@`, brackets and braces"));
        return None;
    }
    Some((name, node.span))
}

/// Returns fields of a step's kind that were written next to the kind instead of inside it.
fn find_misplaced_fields(node: &YamlNode) -> Vec<&'static str> {
    let YamlData::Map(entries) = &node.data else { return Vec::new() };
    let has = |name: &str| entries.iter().any(|(key, _)| key.text == name);
    let mut kinds = resource::all_kinds().iter().filter(|kind| has(kind.name));
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return Vec::new() };
    let own = |name: &str| STEP_KEYS.contains(&name) || resource::all_kinds().iter().any(|kind| kind.name == name);
    kind.fields.iter().map(|field| field.name).filter(|name| has(name) && !own(name)).collect()
}

/// Returns the body, with the fields that were written next to it moved inside: only their place is wrong, so their
/// values can still be checked.
fn gather_body(
    table: &YamlTable<'_>,
    kind: &'static str,
    beside: &[&str],
    cx: &mut LoadContext<'_>,
) -> Option<YamlNode> {
    for (key, _) in table.entries_named(beside) {
        let diag =
            Diag::error(DiagCode::UnknownKey, format!("unknown key `{}` in a step", key.text)).with_span(key.span);
        cx.push_diag(diag.hint(format!("move it inside `{kind}:`, indented below it or in its braces")));
    }
    let mut body = match (table.get(kind), table.entries_named(beside).next()) {
        (Some(node), _) => node.clone(),
        (None, Some((_, first))) => YamlNode { data: YamlData::Map(Vec::new()), ..first.clone() },
        (None, None) => return None,
    };
    if let YamlData::Map(entries) = &mut body.data {
        entries.extend(table.entries_named(beside).cloned());
    }
    Some(body)
}

/// Returns the kind and the tree of the one resource. If an unknown key was reported (`mistyped`), a missing resource
/// is not reported as well: most often the unknown key is the resource.
fn read_resource(
    table: &YamlTable<'_>,
    beside: &[&str],
    (name, span): (&str, Span),
    mistyped: bool,
    cx: &mut LoadContext<'_>,
) -> Option<(&'static str, YamlNode)> {
    let found: Vec<(&'static str, &YamlKey)> =
        resource::all_kinds().iter().filter_map(|kind| Some((kind.name, table.find_key(kind.name)?))).collect();
    match found.as_slice() {
        [(kind, key)] => match (diagnose_plain_body(table, kind), gather_body(table, kind, beside, cx)) {
            (Some(diag), _) => {
                cx.push_diag(diag);
                None
            }
            (None, Some(body)) => Some((kind, body)),
            (None, None) => {
                cx.push_diag(
                    Diag::error(DiagCode::NoResource, format!("`{kind}` of step `{name}` is empty"))
                        .with_span(key.span),
                );
                None
            }
        },
        [] if mistyped => None,
        [] => {
            let diag = Diag::error(DiagCode::NoResource, format!("step `{name}` has no resource")).with_span(span);
            cx.push_diag(diag.hint(format!("add one of {}", list_kinds(|_| true))));
            None
        }
        [(first, _), (second, key), ..] => {
            let diag =
                Diag::error(DiagCode::NoResource, format!("step `{name}` has two resources, `{first}` and `{second}`"))
                    .with_span(key.span);
            cx.push_diag(diag.hint("split it into two steps"));
            None
        }
    }
}

/// Returns the error for `service: nginx`, a resource without fields.
fn diagnose_plain_body(table: &YamlTable<'_>, name: &str) -> Option<Diag> {
    let node = table.get(name).filter(|node| !matches!(node.data, YamlData::Map(_) | YamlData::Null))?;
    let fields = resource::find_kind(name)?.fields;
    let of_list = fields.iter().find(|field| field.name == "names" && matches!(node.data, YamlData::Seq(_)));
    let first = of_list.or(fields.first())?;
    let diag = yaml_table::build_wrong_type_diag(node, &yaml_table::quote_key(name), "a map");
    Some(diag.hint(format!("write `{name}: {{ {}: … }}`", first.name)))
}

fn read_otherwise(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> bool {
    let Some(node) = table.get("otherwise") else { return false };
    match yaml_table::expect_text(node, "otherwise", &mut cx.diags).as_deref() {
        Some("absent") | None => {}
        Some(other) => cx.push_diag(
            Diag::error(DiagCode::BadValue, format!("`otherwise` must be `absent`, found `{other}`"))
                .with_span(node.span),
        ),
    }
    if table.get("when").is_none() {
        cx.push_diag(Diag::error(DiagCode::MissingKey, "`otherwise` needs `when`").with_span(node.span));
    }
    true
}

fn read_texts(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Vec<(String, Span)> {
    let items = table.get_items(key, &mut cx.diags);
    items.into_iter().filter_map(|node| Some((yaml_table::expect_text(node, key, &mut cx.diags)?, node.span))).collect()
}

fn read_provides(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<ProvidedItem> {
    let Some(node) = table.get("provides") else { return Vec::new() };
    let Some(table) =
        YamlTable::open(node, "`provides`", &["files", "units", "users", "packages", "cluster"], &mut cx.diags)
    else {
        return Vec::new();
    };
    let mut provided = Vec::new();
    if let Some(node) = table.get("cluster")
        && yaml_table::expect_bool(node, "cluster", &mut cx.diags) == Some(true)
    {
        provided.push(ProvidedItem::Cluster);
    }
    for (text, span) in read_texts(&table, "files", cx) {
        match scalar::normalize_host_path(&text) {
            Ok(path) => provided.push(ProvidedItem::Path(path)),
            Err(why) => {
                cx.push_diag(Diag::error(DiagCode::BadValue, format!("`files` {why}, found `{text}`")).with_span(span))
            }
        }
    }
    let makers = [ProvidedItem::Unit, ProvidedItem::User, ProvidedItem::Package];
    for (key, make) in ["units", "users", "packages"].into_iter().zip(makers) {
        for (text, span) in read_texts(&table, key, cx) {
            match scalar::is_name(&text) {
                true => provided.push(make(text)),
                false => {
                    let message = format!("`{key}` must contain only names, found `{text}`");
                    cx.push_diag(Diag::error(DiagCode::BadValue, message).with_span(span))
                }
            }
        }
    }
    provided
}

fn read_disruption(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<DisruptionClass> {
    let node = table.get("disruption")?;
    let text = yaml_table::expect_text(node, "disruption", &mut cx.diags)?;
    let class = DisruptionClass::parse(&text);
    if class.is_none() {
        let diag =
            Diag::error(DiagCode::BadValue, format!("`{text}` is not a valid disruption class")).with_span(node.span);
        cx.push_diag(diag.suggest_name(&text, ["D0", "D1", "D2", "D3"]));
    }
    class
}

fn read_guard(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> StepGuard {
    let Some(node) = table.get("guard") else { return StepGuard::Derived };
    match &node.data {
        YamlData::Scalar { text, .. } if text == "off" => StepGuard::Off,
        _ => table.get_limit("guard", &mut cx.diags).map_or(StepGuard::Derived, StepGuard::After),
    }
}

/// Reports a guard that could restore nothing, or not at the right time.
fn report_guard(table: &YamlTable<'_>, step: &RecipeStep, cx: &mut LoadContext<'_>) {
    let Some(key) = table.find_key("guard") else { return };
    let StepGuard::After(_) = step.guard else { return };
    let diag = |message: String| Diag::error(DiagCode::BadStep, message).with_span(key.span);
    let support = step.traits().guard;
    if support == GuardSupport::None && step.scope != StepScope::Cluster {
        let kinds = list_kinds(|traits| traits.guard != GuardSupport::None);
        let message = format!("`guard` is not supported by `{}`: the host cannot restore its state before", step.kind);
        cx.push_diag(diag(message).hint(format!("kinds that support it: {kinds}")));
    } else if support == GuardSupport::Inputs && step.restart_on.is_empty() {
        let message = format!("`guard` of `{}` needs `restart_on`: it restores what these steps changed", step.kind);
        cx.push_diag(diag(message));
    } else if step.long {
        cx.push_diag(diag("`guard` and `long` exclude each other".to_owned()));
    }
}

/// Reads the scope. Kinds of the cluster's API always have scope `cluster`, and no other kind supports it.
fn read_scope(table: &YamlTable<'_>, kind: &str, cx: &mut LoadContext<'_>) -> StepScope {
    let own = if resource::kind_traits(kind).in_cluster { StepScope::Cluster } else { StepScope::Host };
    let Some(node) = table.get("scope") else { return own };
    let text = yaml_table::expect_text(node, "scope", &mut cx.diags).unwrap_or_default();
    match (StepScope::parse(&text), own) {
        (None, _) => {
            let diag = Diag::error(DiagCode::BadScope, format!("`{text}` is not a valid scope")).with_span(node.span);
            cx.push_diag(diag.suggest_name(&text, StepScope::ALL.map(StepScope::name)));
            own
        }
        (Some(StepScope::Cluster), StepScope::Host) => {
            let diag =
                Diag::error(DiagCode::BadScope, format!("`{kind}` runs on hosts and does not support scope `cluster`"));
            let kinds = list_kinds(|traits| traits.in_cluster);
            cx.push_diag(diag.with_span(node.span).hint(format!("kinds that support scope `cluster`: {kinds}")));
            own
        }
        (Some(scope), StepScope::Cluster) if scope != StepScope::Cluster => {
            let message = format!("`{kind}` runs through the cluster's API and does not support scope `{text}`");
            let diag = Diag::error(DiagCode::BadScope, message);
            cx.push_diag(diag.with_span(node.span).hint("remove `scope`"));
            own
        }
        (Some(scope), _) => scope,
    }
}

/// Returns the names of the kinds with a trait: `` `manifest`, `job` ``.
fn list_kinds(has_trait: fn(&KindTraits) -> bool) -> String {
    let kinds = resource::all_kinds().iter().filter(|kind| has_trait(&kind.traits));
    kinds.map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(", ")
}

/// Keys that only steps on hosts support.
const HOST_STEP_KEYS: [&str; 8] =
    ["effective", "during", "restart_on", "provides", "export", "at_once", "guard", "long"];

/// Reports keys and values that a step of the cluster does not support.
fn report_cluster_step(table: &YamlTable<'_>, step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if step.scope != StepScope::Cluster {
        return;
    }
    for key in HOST_STEP_KEYS.into_iter().filter_map(|name| table.find_key(name)) {
        let message = format!("`{}` applies to hosts, but step `{}` has scope `cluster`", key.text, step.name);
        cx.push_diag(Diag::error(DiagCode::BadStep, message).with_span(key.span));
    }
    if let (Some(key), Some(DisruptionClass::D2 | DisruptionClass::D3)) =
        (table.find_key("disruption"), step.disruption)
    {
        let diag = Diag::error(DiagCode::BadValue, "a step of the cluster cannot take hosts out of service")
            .with_span(key.span);
        cx.push_diag(diag.hint("write `D0` or `D1`"));
    }
}

/// The kinds that support `restart_on`, the most usual first.
const RESTART_ON_KINDS: &str = "`service`, `reboot` and `command`";

/// Reports invalid combinations of keys.
fn report_step(table: &YamlTable<'_>, step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if let (Some(key), None) = (table.find_key("key"), &step.each) {
        cx.push_diag(Diag::error(DiagCode::BadStep, "`key` needs `each`").with_span(key.span));
    }
    if let (Some(key), true) = (table.find_key("long"), step.long && !step.traits().may_be_long) {
        let message =
            format!("`long` is supported by {}, not by `{}`", list_kinds(|traits| traits.may_be_long), step.kind);
        cx.push_diag(Diag::error(DiagCode::BadStep, message).with_span(key.span));
    }
    if let (Some(key), false) = (table.find_key("restart_on"), step.traits().has_restart_inputs) {
        let what = format!("`restart_on` is supported by {RESTART_ON_KINDS}, not by `{}`", step.kind);
        cx.push_diag(Diag::error(DiagCode::BadStep, what).with_span(key.span));
    }
    report_guard(table, step, cx);
    report_missing_trigger(step, cx);
    report_missing_check(step, cx);
    report_fleet(step, cx);
    report_cluster_step(table, step, cx);
}

/// Reports whether a kind that requires one of `fields` gets none.
fn lacks_all(step: &RecipeStep, fields: &[&str]) -> bool {
    !fields.is_empty() && !fields.iter().any(|field| has_key(&step.body, field))
}

fn has_key(body: &YamlNode, key: &str) -> bool {
    matches!(&body.data, YamlData::Map(entries) if entries.iter().any(|(k, node)| k.text == key && !matches!(node.data, YamlData::Null)))
}

/// Reports a reboot without a trigger: it would never happen.
fn report_missing_trigger(step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if step.restart_on.is_empty() && lacks_all(step, step.traits().trigger_fields) {
        let diag = Diag::error(DiagCode::BadStep, format!("nothing triggers the reboot of step `{}`", step.name));
        cx.push_diag(
            diag.with_span(step.span)
                .hint("list the steps that need the reboot in `restart_on`, or set `kernel` or `flag`"),
        );
    }
}

/// Reports a command that would run at every apply.
fn report_missing_check(step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if lacks_all(step, step.traits().check_fields) {
        let diag =
            Diag::error(DiagCode::CommandWithoutCheck, format!("the command of step `{}` has no `check`", step.name))
                .with_span(step.span);
        cx.push_diag(
            diag.hint("add a read-only `check` that exits 0 when no change is needed, or `creates` with a path"),
        );
    }
}

/// Reports a `fleet` step that changes something: it evaluates all hosts together and may only verify or publish.
fn report_fleet(step: &RecipeStep, cx: &mut LoadContext<'_>) {
    let may_change = step.traits().change_field.is_none_or(|field| has_key(&step.body, field));
    if step.scope == StepScope::Fleet && may_change {
        let diag = Diag::error(
            DiagCode::BadScope,
            format!("step `{}` has scope `fleet` and may only verify or publish", step.name),
        )
        .with_span(step.span);
        cx.push_diag(diag.hint("use a `command` with `check` and without `apply`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_on_message_lists_every_kind_that_supports_it() {
        for kind in resource::all_kinds() {
            let listed = RESTART_ON_KINDS.contains(&format!("`{}`", kind.name));
            assert_eq!(listed, kind.traits.has_restart_inputs, "{}", kind.name);
        }
    }
}
