//! Reads recipes and stacks into [`Recipe`] and checks each part separately.

mod during;
mod edges;
mod judged;
pub(super) mod params;
mod step;

pub(super) use judged::{OBJECT, OBJECTS, VERIFY};
pub(super) use params::{KEY_TYPES, TYPES};
pub(super) use step::COMMON;

use super::cx::LoadContext;
use super::inventory::{is_identifier, is_label};
use super::table::{self, YamlTable};
use super::{FailurePattern, Recipe, RecipeRule, RecipeStep, SourceExpr, StackUse, YamlNode};
use crate::diag::{Code, Diag, Span};
use crate::model::BlockClass;
use camino::Utf8Path;
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys of a recipe.
pub(super) const KEYS: [&str; 11] =
    ["recipe", "summary", "params", "needs", "after", "during", "rules", "steps", "verify", "uses", "fails_as"];

/// Keys of a rule.
pub(super) const RULE: [&str; 5] = ["when", "require", "else", "class", "scope"];

/// Reads the root of a recipe's file. Returns `None` if it has no valid name.
pub(super) fn read(root: &YamlNode, path: &Utf8Path, cx: &mut LoadContext<'_>) -> Option<Recipe> {
    let table = YamlTable::open(root, "a recipe", &KEYS, &mut cx.diags)?;
    let (name, span) = name(&table, cx)?;
    let own = step_names(&table);
    let steps = steps(&table, &name, &own, cx);
    let edges = edges::EdgeReader { recipe: &name, own: &own };
    let is_read = |name: &&String| steps.iter().any(|step| step.name == **name);
    let recipe = Recipe {
        unread: own.iter().filter(|name| !is_read(name)).cloned().collect(),
        summary: table.text("summary", &mut cx.diags).unwrap_or_default(),
        path: path.to_owned(),
        params: params::read(table.get("params"), cx),
        needs: edges.read(table.get("needs"), true, cx),
        after: edges.read(table.get("after"), false, cx),
        during: during::read(&table, cx),
        rules: table.items("rules", &mut cx.diags).into_iter().filter_map(|node| rule(node, cx)).collect(),
        steps,
        verify: table.items("verify", &mut cx.diags).into_iter().filter_map(|node| judged::verify(node, cx)).collect(),
        uses: table.items("uses", &mut cx.diags).into_iter().filter_map(|node| uses(node, cx)).collect(),
        fails_as: table.items("fails_as", &mut cx.diags).into_iter().filter_map(|node| fails_as(node, cx)).collect(),
        name,
        span,
    };
    report_shape(&table, &recipe, cx);
    Some(recipe)
}

fn name(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<(String, Span)> {
    let node = table.require("recipe", &mut cx.diags)?;
    let name = table::text(node, "recipe", &mut cx.diags)?;
    match is_label(&name) {
        true => Some((name, node.span)),
        false => {
            let diag = Diag::error(Code::BadValue, format!("`{name}` is not a valid recipe name")).at(node.span);
            cx.push(diag.hint("use letters, digits, `.`, `_` and `-`, starting with a letter or digit"));
            None
        }
    }
}

/// Reports a stack with steps or verification, and a recipe without any of `steps`, `verify` and `uses`.
fn report_shape(table: &YamlTable<'_>, recipe: &Recipe, cx: &mut LoadContext<'_>) {
    if let (false, Some(key)) = (recipe.uses.is_empty(), table.key("steps").or(table.key("verify"))) {
        let diag = Diag::error(Code::Exclusive, "a stack cannot have `steps` or `verify`").at(key.span);
        cx.push(match table.key("uses") {
            Some(uses) => diag.also(uses.span, "`uses` makes it a stack"),
            None => diag,
        });
    }
    if ["steps", "verify", "uses"].iter().all(|key| table.get(key).is_none()) {
        cx.push(
            Diag::error(Code::MissingKey, format!("recipe `{}` needs `steps`, `verify` or `uses`", recipe.name))
                .at(recipe.span),
        );
    }
}

/// Returns the names of the steps, for edges that name a step without its recipe.
fn step_names(table: &YamlTable<'_>) -> BTreeSet<String> {
    let Some(YamlNode { data: super::YamlData::Seq(items), .. }) = table.get("steps") else {
        return BTreeSet::new();
    };
    let name = |node: &YamlNode| match &node.data {
        super::YamlData::Map(entries) => {
            entries.iter().find(|(key, _)| key.text == "name").and_then(|(_, node)| match &node.data {
                super::YamlData::Scalar { text, .. } => Some(text.clone()),
                _ => None,
            })
        }
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

fn steps(
    table: &YamlTable<'_>,
    recipe: &str,
    own: &BTreeSet<String>,
    cx: &mut LoadContext<'_>,
) -> Vec<Arc<RecipeStep>> {
    let mut seen: IndexMap<String, Span> = IndexMap::new();
    let mut steps = Vec::new();
    for node in table.items("steps", &mut cx.diags) {
        let Some(step) = step::read(node, recipe, own, cx) else { continue };
        match seen.get(&step.name) {
            Some(first) => {
                let diag = Diag::error(Code::Duplicate, format!("step `{}` is defined twice", step.name)).at(step.span);
                cx.push(diag.label("defined again here").also(*first, "first defined here"));
            }
            None => {
                seen.insert(step.name.clone(), step.span);
                steps.push(Arc::new(step));
            }
        }
    }
    steps
}

fn rule(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RecipeRule> {
    let table = YamlTable::open(node, "a rule", &RULE, &mut cx.diags)?;
    let of_cluster = judged::of_cluster(&table, "a rule", cx).unwrap_or(false);
    let when = expr(&table, "when", cx);
    let otherwise = table.require("else", &mut cx.diags).and_then(|node| table::text(node, "else", &mut cx.diags));
    if let (Some(text), Some(node)) = (&otherwise, table.get("else"))
        && crate::config::scalar::is_template(text)
    {
        let diag = Diag::error(Code::BadValue, "`else` is plain text and cannot contain a template").at(node.span);
        cx.push(diag.hint("write it without values: the message names the host"));
    }
    table.require("require", &mut cx.diags)?;
    let require = expr(&table, "require", cx)?;
    let class = class(&table, cx);
    Some(RecipeRule { of_cluster, when, require, otherwise: otherwise.unwrap_or_default(), class, span: node.span })
}

/// The class of a rule that does not block.
const WARNING: &str = "warning";

/// Reads why a host that breaks the rule is blocked; `None` if the rule only warns.
fn class(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<BlockClass> {
    const CLASSES: [BlockClass; 3] = [BlockClass::Rule, BlockClass::Hardware, BlockClass::Host];
    let Some(node) = table.get("class") else { return Some(BlockClass::Rule) };
    let text = table::text(node, "class", &mut cx.diags).unwrap_or_default();
    if text == WARNING {
        return None;
    }
    let known = CLASSES.into_iter().find(|class| class.name() == text);
    known.or_else(|| {
        let diag = Diag::error(Code::BadValue, format!("`{text}` is not a valid class of a rule")).at(node.span);
        cx.push(diag.suggest(&text, CLASSES.map(BlockClass::name).into_iter().chain([WARNING])));
        Some(BlockClass::Rule)
    })
}

fn fails_as(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<FailurePattern> {
    let table = YamlTable::open(node, "an entry of `fails_as`", &["text", "cause"], &mut cx.diags)?;
    let (text, cause) = (table.require("text", &mut cx.diags), table.require("cause", &mut cx.diags));
    let (text, cause) = (table::text(text?, "text", &mut cx.diags)?, table::text(cause?, "cause", &mut cx.diags)?);
    if text.split('…').all(|part| part.trim().is_empty()) || text.contains('\n') {
        cx.push(Diag::error(Code::BadValue, "`text` must be a part of one line").at(node.span));
        return None;
    }
    Some(FailurePattern { text, cause, span: node.span })
}

fn uses(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<StackUse> {
    let table = YamlTable::open(node, "an entry of `uses`", &["recipe", "when", "with"], &mut cx.diags)?;
    let when = expr(&table, "when", cx);
    let with = table::entries(table.get("with"), "with", &mut cx.diags);
    let with = with.iter().map(|(key, node)| (key.text.clone(), (node.clone(), key.span))).collect();
    let recipe = table.require("recipe", &mut cx.diags)?;
    Some(StackUse { recipe: table::text(recipe, "recipe", &mut cx.diags)?, span: recipe.span, when, with })
}

/// Reads an expression. It is compiled together with all others, once every name is known.
fn expr(table: &YamlTable<'_>, key: &str, cx: &mut LoadContext<'_>) -> Option<SourceExpr> {
    let node = table.get(key)?;
    let source = table::text(node, key, &mut cx.diags)?;
    if source.trim_start().starts_with("{{") {
        let diag = Diag::error(Code::BadTemplate, format!("`{key}` is already an expression")).at(node.span);
        cx.push(diag.hint("remove `{{` and `}}`"));
        return None;
    }
    Some(SourceExpr { source, span: node.span })
}

/// Reports a name that is not an identifier: templates could not read it with a dot.
fn identifier(name: &str, what: &str, span: Span, cx: &mut LoadContext<'_>) -> bool {
    let fits = is_identifier(name);
    if !fits {
        let diag = Diag::error(Code::BadValue, format!("`{name}` is not a valid name of {what}")).at(span);
        cx.push(diag.hint("use letters, digits and `_`, not starting with a digit"));
    }
    fits
}
