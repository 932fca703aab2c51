//! Reads a step: common keys, and exactly one resource.

use super::edges::EdgeReader;
use super::{during, expr, judged};
use crate::config::cx::LoadContext;
use crate::config::scalar;
use crate::config::table::{self, YamlTable};
use crate::config::{RecipeStep, YamlData, YamlKey, YamlNode};
use crate::diag::{Code, Diag, Span};
use crate::model::{DisruptionClass, StepScope};
use crate::resource::{self, ProvidedItem};
use std::collections::BTreeSet;

/// Keys that every step supports in addition to its resource.
pub(in crate::config) const COMMON: [&str; 18] = [
    "name",
    "when",
    "otherwise",
    "each",
    "key",
    "needs",
    "after",
    "effective",
    "during",
    "restart_on",
    "provides",
    "export",
    "disruption",
    "scope",
    "level",
    "timeout",
    "retries",
    "long",
];

pub(super) fn read(
    node: &YamlNode,
    recipe: &str,
    own: &BTreeSet<String>,
    cx: &mut LoadContext<'_>,
) -> Option<RecipeStep> {
    let fields = fields_beside(node);
    let kinds = resource::kinds().iter().map(|kind| kind.name);
    let known: Vec<&str> = COMMON.into_iter().chain(kinds).chain(fields.iter().copied()).collect();
    let table = YamlTable::open(node, "a step", &known, &mut cx.diags)?;
    let (name, span) = name(&table, cx)?;
    let edges = EdgeReader { recipe, own };
    let mistyped =
        matches!(&node.data, YamlData::Map(all) if all.iter().any(|(key, _)| !known.contains(&key.text.as_str())));
    let (kind, body) = resource(&table, &fields, (&name, span), mistyped, cx)?;
    let step = RecipeStep {
        when: expr(&table, "when", cx),
        otherwise_absent: otherwise(&table, cx),
        each: expr(&table, "each", cx),
        key: expr(&table, "key", cx),
        needs: edges.read(table.get("needs"), true, cx),
        after: edges.read(table.get("after"), false, cx),
        effective: judged::effective(&table, cx),
        during: during::read(&table, cx),
        restart_on: texts(&table, "restart_on", cx),
        provides: provides(&table, cx),
        exports: judged::exports(&table, cx),
        disruption: disruption(&table, cx),
        scope: scope(&table, kind, cx),
        level: judged::level(&table, cx),
        timeout_s: table.limit("timeout", &mut cx.diags),
        retries: table.int("retries", 0, 10, &mut cx.diags).unwrap_or(0) as u32,
        long: table.bool("long", &mut cx.diags).unwrap_or(false),
        kind,
        body,
        name,
        span,
    };
    report(&table, &step, cx);
    Some(step)
}

fn name(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<(String, Span)> {
    let node = table.require("name", &mut cx.diags)?;
    let name = table::text(node, "name", &mut cx.diags)?;
    let fits = !name.trim().is_empty()
        && name.len() <= 100
        && name.trim() == name
        && !name.contains(|c: char| c.is_control() || "/@[]{}".contains(c));
    if !fits {
        let message = format!("`{}` is not a valid step name", scalar::shorten(&name));
        let diag = Diag::error(Code::BadStep, message).at(node.span);
        cx.push(diag.hint("use a short text without `/`, `@`, brackets and braces"));
        return None;
    }
    Some((name, node.span))
}

/// Returns fields of a step's kind that were written next to the kind instead of inside it.
fn fields_beside(node: &YamlNode) -> Vec<&'static str> {
    let YamlData::Map(entries) = &node.data else { return Vec::new() };
    let has = |name: &str| entries.iter().any(|(key, _)| key.text == name);
    let mut kinds = resource::kinds().iter().filter(|kind| has(kind.name));
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return Vec::new() };
    let own = |name: &str| COMMON.contains(&name) || resource::kinds().iter().any(|kind| kind.name == name);
    kind.fields.iter().map(|field| field.name).filter(|name| has(name) && !own(name)).collect()
}

/// Returns the body, with the fields that were written next to it moved inside: only their place is wrong, so their
/// values can still be checked.
fn gathered(table: &YamlTable<'_>, kind: &'static str, beside: &[&str], cx: &mut LoadContext<'_>) -> Option<YamlNode> {
    for (key, _) in table.of(beside) {
        let diag = Diag::error(Code::UnknownKey, format!("unknown key `{}` in a step", key.text)).at(key.span);
        cx.push(diag.hint(format!("move it inside `{kind}:`, indented below it or in its braces")));
    }
    let mut body = match (table.get(kind), table.of(beside).next()) {
        (Some(node), _) => node.clone(),
        (None, Some((_, first))) => YamlNode { data: YamlData::Map(Vec::new()), ..first.clone() },
        (None, None) => return None,
    };
    if let YamlData::Map(entries) = &mut body.data {
        entries.extend(table.of(beside).cloned());
    }
    Some(body)
}

/// Returns the kind and the tree of the one resource. If an unknown key was reported (`mistyped`), a missing resource
/// is not reported as well: most often the unknown key is the resource.
fn resource(
    table: &YamlTable<'_>,
    beside: &[&str],
    (name, span): (&str, Span),
    mistyped: bool,
    cx: &mut LoadContext<'_>,
) -> Option<(&'static str, YamlNode)> {
    let found: Vec<(&'static str, &YamlKey)> =
        resource::kinds().iter().filter_map(|kind| Some((kind.name, table.key(kind.name)?))).collect();
    match found.as_slice() {
        [(kind, key)] => match gathered(table, kind, beside, cx) {
            Some(body) => Some((kind, body)),
            None => {
                cx.push(Diag::error(Code::NoResource, format!("`{kind}` of step `{name}` is empty")).at(key.span));
                None
            }
        },
        [] if mistyped => None,
        [] => {
            let diag = Diag::error(Code::NoResource, format!("step `{name}` has no resource")).at(span);
            let kinds: Vec<String> = resource::kinds().iter().map(|kind| format!("`{}`", kind.name)).collect();
            cx.push(diag.hint(format!("add one of {}", kinds.join(", "))));
            None
        }
        [(first, _), (second, key), ..] => {
            let diag =
                Diag::error(Code::NoResource, format!("step `{name}` has two resources, `{first}` and `{second}`"))
                    .at(key.span);
            cx.push(diag.hint("split it into two steps"));
            None
        }
    }
}

fn otherwise(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> bool {
    let Some(node) = table.get("otherwise") else { return false };
    match table::text(node, "otherwise", &mut cx.diags).as_deref() {
        Some("absent") | None => {}
        Some(other) => {
            cx.push(Diag::error(Code::BadValue, format!("`otherwise` must be `absent`, found `{other}`")).at(node.span))
        }
    }
    if table.get("when").is_none() {
        cx.push(Diag::error(Code::MissingKey, "`otherwise` needs `when`").at(node.span));
    }
    true
}

fn texts(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Vec<(String, Span)> {
    let items = table.items(key, &mut cx.diags);
    items.into_iter().filter_map(|node| Some((table::text(node, key, &mut cx.diags)?, node.span))).collect()
}

fn provides(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<ProvidedItem> {
    let Some(node) = table.get("provides") else { return Vec::new() };
    let Some(table) = YamlTable::open(node, "`provides`", &["files", "units", "users", "packages"], &mut cx.diags)
    else {
        return Vec::new();
    };
    let mut provided = Vec::new();
    for (text, span) in texts(&table, "files", cx) {
        match scalar::host_path(&text) {
            Ok(path) => provided.push(ProvidedItem::Path(path)),
            Err(why) => cx.push(Diag::error(Code::BadValue, format!("`files` {why}, found `{text}`")).at(span)),
        }
    }
    let makers = [ProvidedItem::Unit, ProvidedItem::User, ProvidedItem::Package];
    for (key, make) in ["units", "users", "packages"].into_iter().zip(makers) {
        for (text, span) in texts(&table, key, cx) {
            match scalar::is_name(&text) {
                true => provided.push(make(text)),
                false => {
                    let message = format!("`{key}` must contain only names, found `{text}`");
                    cx.push(Diag::error(Code::BadValue, message).at(span))
                }
            }
        }
    }
    provided
}

fn disruption(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<DisruptionClass> {
    let node = table.get("disruption")?;
    let text = table::text(node, "disruption", &mut cx.diags)?;
    let class = DisruptionClass::parse(&text);
    if class.is_none() {
        let diag = Diag::error(Code::BadValue, format!("`{text}` is not a valid disruption class")).at(node.span);
        cx.push(diag.suggest(&text, ["D0", "D1", "D2", "D3"]));
    }
    class
}

/// Reads the scope. Kinds of the cluster's API always have scope `cluster`, and no other kind supports it.
fn scope(table: &YamlTable<'_>, kind: &str, cx: &mut LoadContext<'_>) -> StepScope {
    let own = if resource::is_of_cluster(kind) { StepScope::Cluster } else { StepScope::Host };
    let Some(node) = table.get("scope") else { return own };
    let text = table::text(node, "scope", &mut cx.diags).unwrap_or_default();
    match (StepScope::parse(&text), own) {
        (None, _) => {
            let diag = Diag::error(Code::BadScope, format!("`{text}` is not a valid scope")).at(node.span);
            cx.push(diag.suggest(&text, StepScope::ALL.map(StepScope::name)));
            own
        }
        (Some(StepScope::Cluster), StepScope::Host) => {
            let diag =
                Diag::error(Code::BadScope, format!("`{kind}` runs on hosts and does not support scope `cluster`"));
            let kinds: Vec<String> = resource::OF_CLUSTER.iter().map(|kind| format!("`{kind}`")).collect();
            cx.push(diag.at(node.span).hint(format!("kinds that support scope `cluster`: {}", kinds.join(", "))));
            own
        }
        (Some(scope), StepScope::Cluster) if scope != StepScope::Cluster => {
            let message = format!("`{kind}` runs through the cluster's API and does not support scope `{text}`");
            let diag = Diag::error(Code::BadScope, message);
            cx.push(diag.at(node.span).hint("remove `scope`"));
            own
        }
        (Some(scope), _) => scope,
    }
}

/// Keys that only steps on hosts support.
const OF_HOSTS: [&str; 6] = ["effective", "during", "restart_on", "provides", "export", "long"];

/// Reports keys and values that a step of the cluster does not support.
fn report_cluster(table: &YamlTable<'_>, step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if step.scope != StepScope::Cluster {
        return;
    }
    for key in OF_HOSTS.into_iter().filter_map(|name| table.key(name)) {
        let message = format!("`{}` applies to hosts, but step `{}` has scope `cluster`", key.text, step.name);
        cx.push(Diag::error(Code::BadStep, message).at(key.span));
    }
    if let (Some(key), Some(DisruptionClass::D2 | DisruptionClass::D3)) = (table.key("disruption"), step.disruption) {
        let diag = Diag::error(Code::BadValue, "a step of the cluster cannot take hosts out of service").at(key.span);
        cx.push(diag.hint("write `D0` or `D1`"));
    }
}

/// Reports invalid combinations of keys.
fn report(table: &YamlTable<'_>, step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if let (Some(key), None) = (table.key("key"), &step.each) {
        cx.push(Diag::error(Code::BadStep, "`key` needs `each`").at(key.span));
    }
    if let (Some(key), true) = (table.key("long"), step.long && step.kind != "command") {
        let message = format!("`long` is supported by `command`, not by `{}`", step.kind);
        cx.push(Diag::error(Code::BadStep, message).at(key.span));
    }
    if let (Some(key), false) = (table.key("restart_on"), matches!(step.kind, "service" | "reboot" | "command")) {
        let what = format!("`restart_on` is supported by `service`, `reboot` and `command`, not by `{}`", step.kind);
        cx.push(Diag::error(Code::BadStep, what).at(key.span));
    }
    report_reboot(step, cx);
    report_command(step, cx);
    report_fleet(step, cx);
    report_cluster(table, step, cx);
}

fn has(body: &YamlNode, key: &str) -> bool {
    matches!(&body.data, YamlData::Map(entries) if entries.iter().any(|(k, node)| k.text == key && !matches!(node.data, YamlData::Null)))
}

/// Reports a reboot without a trigger: it would never happen.
fn report_reboot(step: &RecipeStep, cx: &mut LoadContext<'_>) {
    let asked = !step.restart_on.is_empty() || has(&step.body, "kernel") || has(&step.body, "flag");
    if step.kind == "reboot" && !asked {
        let diag = Diag::error(Code::BadStep, format!("nothing triggers the reboot of step `{}`", step.name));
        cx.push(
            diag.at(step.span).hint("list the steps that need the reboot in `restart_on`, or set `kernel` or `flag`"),
        );
    }
}

fn report_command(step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if step.kind == "command" && !has(&step.body, "check") && !has(&step.body, "creates") {
        let diag =
            Diag::error(Code::CommandWithoutCheck, format!("the command of step `{}` has no `check`", step.name))
                .at(step.span);
        cx.push(diag.hint("add a read-only `check` that exits 0 when no change is needed, or `creates` with a path"));
    }
}

/// Reports a `fleet` step that changes something: it evaluates all hosts together and may only verify or publish.
fn report_fleet(step: &RecipeStep, cx: &mut LoadContext<'_>) {
    if step.scope == StepScope::Fleet && (step.kind != "command" || has(&step.body, "apply")) {
        let diag = Diag::error(
            Code::BadScope,
            format!("step `{}` has scope `fleet` and may only verify or publish", step.name),
        )
        .at(step.span);
        cx.push(diag.hint("use a `command` with `check` and without `apply`"));
    }
}
