//! Reads recipes and stacks into [`Recipe`] and checks each part separately.

mod during;
mod edges;
mod expr;
pub(super) mod params;
mod step;
mod step_keys;
mod supports;
mod verification;

pub(super) use params::{KEY_TYPES, PARAM_TYPES};
pub(super) use step_keys::STEP_KEYS;
pub(super) use verification::{OBJECT_KEYS, OBJECT_LIST_KEYS, VERIFY_KEYS};

use super::identifier::is_label;
use super::load_context::LoadContext;
use super::yaml_node::{OBJECT_FILE_HINT, find_object_key};
use super::yaml_table::{self, YamlTable};
use super::{FailurePattern, Recipe, RecipeRule, RecipeStep, StackUse, YamlNode};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::BlockClass;
use camino::Utf8Path;
use expr::read_expr;
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys of a recipe.
pub(super) const RECIPE_KEYS: [&str; 12] = [
    "recipe", "summary", "supports", "params", "needs", "after", "during", "rules", "steps", "verify", "uses",
    "fails_as",
];

/// Keys of a rule.
pub(super) const RULE_KEYS: [&str; 7] = ["when", "require", "else", "shows", "class", "scope", "accept"];

/// Reads the root of a recipe's file. Returns `None` if it has no valid name.
pub(super) fn read_recipe(root: &YamlNode, path: &Utf8Path, cx: &mut LoadContext<'_>) -> Option<Recipe> {
    if let Some(key) = find_object_key(root) {
        let message = "this file is an object of Kubernetes, not a recipe";
        cx.push_diag(Diag::error(DiagCode::UnknownKey, message).with_span(key.span).hint(OBJECT_FILE_HINT));
        return None;
    }
    let table = YamlTable::open(root, "a recipe", &RECIPE_KEYS, &mut cx.diags)?;
    let (name, span) = read_recipe_name(&table, cx)?;
    let own = collect_step_names(&table);
    let steps = read_steps(&table, &name, &own, cx);
    let edges = edges::EdgeReader { recipe: &name, own: &own };
    let is_read = |name: &&String| steps.iter().any(|step| step.name == **name);
    let recipe = Recipe {
        unread: own.iter().filter(|name| !is_read(name)).cloned().collect(),
        summary: table.get_text("summary", &mut cx.diags).unwrap_or_default(),
        path: path.to_owned(),
        params: params::read_params(table.get("params"), cx),
        needs: edges.read_edges(table.get("needs"), true, cx),
        after: edges.read_edges(table.get("after"), false, cx),
        during: during::read_during(&table, cx),
        rules: read_rules(&table, cx),
        steps,
        verify: table
            .get_items("verify", &mut cx.diags)
            .into_iter()
            .filter_map(|node| verification::read_verify(node, cx))
            .collect(),
        uses: table.get_items("uses", &mut cx.diags).into_iter().filter_map(|node| read_stack_use(node, cx)).collect(),
        fails_as: table
            .get_items("fails_as", &mut cx.diags)
            .into_iter()
            .filter_map(|node| read_fails_as(node, cx))
            .collect(),
        name,
        span,
    };
    report_recipe_shape(&table, &recipe, cx);
    report_unknown_reasons(&recipe, cx);
    Some(recipe)
}

fn read_recipe_name(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<(String, Span)> {
    let node = table.require_value("recipe", &mut cx.diags)?;
    let name = yaml_table::expect_text(node, "recipe", &mut cx.diags)?;
    match is_label(&name) {
        true => Some((name, node.span)),
        false => {
            let diag =
                Diag::error(DiagCode::BadValue, format!("`{name}` is not a valid recipe name")).with_span(node.span);
            cx.push_diag(diag.hint("use letters, digits, `.`, `_` and `-`, starting with a letter or digit"));
            None
        }
    }
}

/// Reports a stack with a key of recipes that have steps, and a recipe without any of `steps`, `verify` and `uses`.
fn report_recipe_shape(table: &YamlTable<'_>, recipe: &Recipe, cx: &mut LoadContext<'_>) {
    if let (false, Some(key)) = (recipe.uses.is_empty(), table.find_key("steps").or(table.find_key("verify"))) {
        let diag = Diag::error(DiagCode::Exclusive, "a stack cannot have `steps` or `verify`").with_span(key.span);
        cx.push_diag(match table.find_key("uses") {
            Some(uses) => diag.with_other_span(uses.span, "`uses` makes it a stack"),
            None => diag,
        });
    }
    let inner = ["supports", "needs", "after", "during", "fails_as"];
    for key in inner.iter().filter(|_| !recipe.uses.is_empty()).filter_map(|key| table.find_key(key)) {
        let diag = Diag::error(DiagCode::Exclusive, format!("a stack cannot have `{}`", key.text)).with_span(key.span);
        cx.push_diag(diag.hint("declare it in the recipes that the stack uses"));
    }
    if ["steps", "verify", "uses"].iter().all(|key| table.get(key).is_none()) {
        cx.push_diag(
            Diag::error(DiagCode::MissingKey, format!("recipe `{}` needs `steps`, `verify` or `uses`", recipe.name))
                .with_span(recipe.span),
        );
    } else if let Some(key) = find_empty_steps(table, recipe) {
        let what = format!("recipe `{}` has no steps, verification or rules: it does nothing", recipe.name);
        cx.push_diag(Diag::warning(DiagCode::MissingKey, what).with_span(key.span));
    }
}

/// Returns the key of an empty list of steps in a recipe that has nothing else.
fn find_empty_steps<'t>(table: &'t YamlTable<'_>, recipe: &Recipe) -> Option<&'t super::YamlKey> {
    let key = table.find_key("steps")?;
    let is_empty = match table.get("steps").map(|node| &node.data) {
        Some(super::YamlData::Seq(items)) => items.is_empty(),
        Some(super::YamlData::Null) => true,
        _ => false,
    };
    let has_more = ["verify", "uses", "rules", "supports"].iter().any(|key| table.get(key).is_some());
    (is_empty && !has_more && recipe.steps.is_empty()).then_some(key)
}

/// Reports rules whose `accept` is not a text parameter.
fn report_unknown_reasons(recipe: &Recipe, cx: &mut LoadContext<'_>) {
    for rule in &recipe.rules {
        let Some(name) = &rule.accept else { continue };
        if !recipe.params.get(name).is_some_and(|param| param.ty == super::ParamType::Text) {
            let diag =
                Diag::error(DiagCode::BadValue, format!("`accept: {name}` is not a text parameter of the recipe"));
            cx.push_diag(diag.with_span(rule.span).hint("declare it in `params`: its value is the reason"));
        }
    }
}

/// Returns the names of the steps, for edges that name a step without its recipe.
fn collect_step_names(table: &YamlTable<'_>) -> BTreeSet<String> {
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

fn read_steps(
    table: &YamlTable<'_>,
    recipe: &str,
    own: &BTreeSet<String>,
    cx: &mut LoadContext<'_>,
) -> Vec<Arc<RecipeStep>> {
    let mut seen: IndexMap<String, Span> = IndexMap::new();
    let mut steps = Vec::new();
    for node in table.get_items("steps", &mut cx.diags) {
        let Some(step) = step::read_step(node, recipe, own, cx) else { continue };
        match seen.get(&step.name) {
            Some(first) => {
                let diag = Diag::error(DiagCode::Duplicate, format!("step `{}` is defined twice", step.name))
                    .with_span(step.span);
                cx.push_diag(diag.label("defined again here").with_other_span(*first, "first defined here"));
            }
            None => {
                seen.insert(step.name.clone(), step.span);
                steps.push(Arc::new(step));
            }
        }
    }
    steps
}

/// Reads `supports` and `rules`. The distribution comes first: nothing else about the host matters on a wrong one.
fn read_rules(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<RecipeRule> {
    // Stacks cannot have it, which is reported elsewhere.
    let supports = if table.get("uses").is_none() { supports::read_supports(table, cx) } else { None };
    let rules = table.get_items("rules", &mut cx.diags);
    supports.into_iter().chain(rules.into_iter().filter_map(|node| read_rule(node, cx))).collect()
}

fn read_rule(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RecipeRule> {
    let table = YamlTable::open(node, "a rule", &RULE_KEYS, &mut cx.diags)?;
    let of_cluster = verification::read_cluster_scope(&table, "a rule", cx).unwrap_or(false);
    let when = read_expr(&table, "when", cx);
    let otherwise = table
        .require_value("else", &mut cx.diags)
        .and_then(|node| yaml_table::expect_text(node, "else", &mut cx.diags));
    if let (Some(text), Some(node)) = (&otherwise, table.get("else"))
        && crate::config::scalar::is_template(text)
    {
        let diag =
            Diag::error(DiagCode::BadValue, "`else` is plain text and cannot contain a template").with_span(node.span);
        cx.push_diag(diag.hint("write it without values, and add the values that matter with `shows`"));
    }
    table.require_value("require", &mut cx.diags)?;
    let require = read_expr(&table, "require", cx)?;
    let shows = verification::read_shows(&table, cx);
    let class = read_rule_class(&table, cx);
    let accept = table.get("accept").and_then(|node| yaml_table::expect_text(node, "accept", &mut cx.diags));
    let otherwise = otherwise.unwrap_or_default();
    Some(RecipeRule { of_cluster, when, require, otherwise, shows, class, accept, span: node.span })
}

/// The class of a rule that does not block.
const WARNING_CLASS: &str = "warning";

/// Reads why a host that breaks the rule is blocked; `None` if the rule only warns.
fn read_rule_class(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<BlockClass> {
    const CLASSES: [BlockClass; 3] = [BlockClass::Rule, BlockClass::Hardware, BlockClass::Host];
    let Some(node) = table.get("class") else { return Some(BlockClass::Rule) };
    let text = yaml_table::expect_text(node, "class", &mut cx.diags).unwrap_or_default();
    if text == WARNING_CLASS {
        return None;
    }
    let known = CLASSES.into_iter().find(|class| class.name() == text);
    known.or_else(|| {
        let diag =
            Diag::error(DiagCode::BadValue, format!("`{text}` is not a valid class of a rule")).with_span(node.span);
        cx.push_diag(diag.suggest_name(&text, CLASSES.map(BlockClass::name).into_iter().chain([WARNING_CLASS])));
        Some(BlockClass::Rule)
    })
}

fn read_fails_as(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<FailurePattern> {
    let table = YamlTable::open(node, "an entry of `fails_as`", &["text", "cause"], &mut cx.diags)?;
    let (text, cause) = (table.require_value("text", &mut cx.diags), table.require_value("cause", &mut cx.diags));
    let (text, cause) = (
        yaml_table::expect_text(text?, "text", &mut cx.diags)?,
        yaml_table::expect_text(cause?, "cause", &mut cx.diags)?,
    );
    if text.split('…').all(|part| part.trim().is_empty()) || text.contains('\n') {
        cx.push_diag(Diag::error(DiagCode::BadValue, "`text` must be a part of one line").with_span(node.span));
        return None;
    }
    Some(FailurePattern { text, cause, span: node.span })
}

fn read_stack_use(node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<StackUse> {
    let table = YamlTable::open(node, "an entry of `uses`", &["recipe", "when", "with"], &mut cx.diags)?;
    let when = read_expr(&table, "when", cx);
    let with = yaml_table::expect_entries(table.get("with"), "with", &mut cx.diags);
    let with = with.iter().map(|(key, node)| (key.text.clone(), (node.clone(), key.span))).collect();
    let recipe = table.require_value("recipe", &mut cx.diags)?;
    Some(StackUse { recipe: yaml_table::expect_text(recipe, "recipe", &mut cx.diags)?, span: recipe.span, when, with })
}
