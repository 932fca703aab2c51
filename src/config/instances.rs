//! Turns entries of `apply:` into recipes on hosts: expands stacks, resolves parameters and shares equal instances.

use super::inventory::{ApplyEntry, HostVar, ResolvedInventory};
use super::load_context::LoadContext;
use super::project::find_accepted_reason;
use super::recipe::params::parse_param_value;
use super::template::{
    EvalOutcome, ProgramCache, TemplateBindings, TemplateForm, TemplateProgram, TemplateRoot, build_map, build_tree,
};
use super::template_list::collect_templates;
use super::tree_render::TreeRenderer;
use super::{
    Recipe, RecipeInstance, RecipeRule, SourceExpr, SourcedValue, StackInstance, StackUse, ValueSource, YamlData,
    YamlKey, YamlNode, scalar,
};
use crate::diag::{Diag, DiagCode, Span, did_you_mean};
use crate::model::{HostName, Value};
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Available recipes: those of the inventory and the built-in ones.
pub(super) type RecipeLibrary = IndexMap<String, Arc<Recipe>>;

/// Maximum number of uses after stacks are expanded. Recipes that each use the next one twice double the number per
/// level.
const MAX_USES: usize = 10_000;
/// Maximum nesting depth of stacks.
const MAX_LEVELS: usize = 32;

/// The applied recipes and their instances on hosts.
pub(super) struct AppliedRecipes {
    pub instances: IndexMap<HostName, Vec<Arc<RecipeInstance>>>,
    /// Applied recipes, without stacks, in order of their first declaration.
    pub recipes: IndexMap<String, Arc<Recipe>>,
}

/// Places every entry. Errors in values are reported once, regardless of how many hosts share them.
pub(super) fn place_entries(
    resolved: &ResolvedInventory,
    library: &RecipeLibrary,
    programs: &ProgramCache,
    broken: &HashSet<Span>,
    cx: &mut LoadContext<'_>,
) -> AppliedRecipes {
    let mut placing = RecipePlacer {
        resolved,
        library,
        programs,
        broken,
        applied: AppliedRecipes {
            instances: resolved.hosts.keys().map(|host| (host.clone(), Vec::new())).collect(),
            recipes: IndexMap::new(),
        },
        overlaps: IndexMap::new(),
        uses: 0,
    };
    for entry in &resolved.entries {
        placing.place_entry(entry, cx);
    }
    placing.report_overlaps(cx);
    placing.applied
}

/// A recipe that is applied twice, with both places.
type ApplyOverlap = (String, Span, Span);

struct RecipePlacer<'a> {
    resolved: &'a ResolvedInventory,
    library: &'a RecipeLibrary,
    programs: &'a ProgramCache,
    /// Templates whose errors are already reported.
    broken: &'a HashSet<Span>,
    applied: AppliedRecipes,
    overlaps: IndexMap<ApplyOverlap, Vec<HostName>>,
    uses: usize,
}

/// One recipe that is being placed on some hosts.
struct PlacementJob<'j> {
    recipe: &'j Arc<Recipe>,
    /// The place of the recipe's name in the entry.
    span: Span,
    absent: bool,
    /// The stack that uses it.
    stack: Option<&'j str>,
    hosts: Vec<usize>,
    with: &'j [(YamlKey, YamlNode)],
    /// The stack with its parameters per host, for the templates of `with`.
    outer: &'j [Arc<StackInstance>],
}

impl PlacementJob<'_> {
    fn value_source(&self) -> ValueSource {
        self.stack.map_or(ValueSource::With, |stack| ValueSource::Stack(stack.to_owned()))
    }

    fn outer_params(&self, at: usize) -> Option<&BTreeMap<String, SourcedValue>> {
        self.outer.get(at).map(|outer| outer.params.as_ref())
    }
}

impl RecipePlacer<'_> {
    fn place_entry(&mut self, entry: &ApplyEntry, cx: &mut LoadContext<'_>) {
        let (name, span) = &entry.raw.recipe;
        let Some(recipe) = self.library.get(name) else {
            cx.push_diag(build_unknown_recipe_diag(name, *span, self.library, cx.options.embedded));
            return;
        };
        let job = PlacementJob {
            recipe,
            span: *span,
            absent: entry.raw.absent,
            stack: None,
            hosts: entry.hosts.clone(),
            with: &entry.raw.with,
            outer: &[],
        };
        self.place_job(&job, &mut Vec::new(), cx);
    }

    fn place_job(&mut self, job: &PlacementJob<'_>, path: &mut Vec<String>, cx: &mut LoadContext<'_>) {
        report_unknown_params(job, cx);
        let params = self.resolve_params(job, cx);
        if job.recipe.uses.is_empty() {
            return self.create_instances(job, &params);
        }
        self.check_stack_rules(job, &params, cx);
        path.push(job.recipe.name.clone());
        for used in &job.recipe.uses {
            self.place_used_recipe(job, used, &params, path, cx);
        }
        path.pop();
    }

    fn place_used_recipe(
        &mut self,
        job: &PlacementJob<'_>,
        used: &StackUse,
        params: &[Arc<BTreeMap<String, SourcedValue>>],
        path: &mut Vec<String>,
        cx: &mut LoadContext<'_>,
    ) {
        // `statics` reports unknown names and cycles, for recipes that are not used as well.
        let Some(recipe) = self.library.get(&used.recipe).filter(|recipe| !path.contains(&recipe.name)) else { return };
        if !self.count_use(used, path, cx) {
            return;
        }
        let mut hosts = Vec::new();
        let mut outer = Vec::new();
        let mut shared = HashMap::new();
        for (at, (host, params)) in job.hosts.iter().zip(params).enumerate() {
            if self.is_used(used, *host, params, cx) {
                hosts.push(*host);
                let through = job.outer.get(at);
                let key = (Arc::as_ptr(params) as usize, through.map(|outer| Arc::as_ptr(outer) as usize));
                let new = || {
                    Arc::new(StackInstance {
                        stack: job.recipe.clone(),
                        params: params.clone(),
                        outer: through.cloned(),
                    })
                };
                outer.push(shared.entry(key).or_insert_with(new).clone());
            }
        }
        let with: Vec<(YamlKey, YamlNode)> = used
            .with
            .iter()
            .map(|(name, (node, span))| (YamlKey { text: name.clone(), span: *span }, node.clone()))
            .collect();
        let inner = PlacementJob {
            recipe,
            span: job.span,
            absent: job.absent,
            stack: Some(&job.recipe.name),
            hosts,
            with: &with,
            outer: &outer,
        };
        self.place_job(&inner, path, cx);
    }

    /// Counts a use and reports the first one above the limit.
    fn count_use(&mut self, used: &StackUse, path: &[String], cx: &mut LoadContext<'_>) -> bool {
        let before = self.uses;
        let deep = path.len() > MAX_LEVELS;
        self.uses = if deep { MAX_USES + 1 } else { before + 1 };
        if before <= MAX_USES && self.uses > MAX_USES {
            let message = match deep {
                true => format!("recipes use each other more than {MAX_LEVELS} levels deep"),
                false => format!("recipes use each other more than {MAX_USES} times"),
            };
            let diag = Diag::error(DiagCode::BadValue, message).with_span(used.span);
            cx.push_diag(diag.hint("use the recipes that have steps directly"));
        }
        self.uses <= MAX_USES
    }

    fn is_used(
        &self,
        used: &StackUse,
        host: usize,
        params: &BTreeMap<String, SourcedValue>,
        cx: &mut LoadContext<'_>,
    ) -> bool {
        used.when.as_ref().is_none_or(|when| self.evaluate_stack_expr(when, host, params, cx) == Some(true))
    }

    /// Reports each rule of a stack that a host breaks. These rules read no facts.
    fn check_stack_rules(
        &self,
        job: &PlacementJob<'_>,
        params: &[Arc<BTreeMap<String, SourcedValue>>],
        cx: &mut LoadContext<'_>,
    ) {
        if job.absent {
            return;
        }
        for (host, params) in job.hosts.iter().zip(params) {
            for rule in &job.recipe.rules {
                let mut evaluate = |expr| self.evaluate_stack_expr(expr, *host, params, cx);
                let applies = rule.when.as_ref().is_none_or(|when| evaluate(when) == Some(true));
                if applies && evaluate(&rule.require) == Some(false) {
                    let accepted = find_accepted_reason(params, rule);
                    cx.push_diag(build_failed_rule_diag(rule, accepted, job.span, &job.recipe.name));
                }
            }
        }
    }

    /// Evaluates an expression of a stack. Returns `None` if it has an error, or reads a parameter without a value.
    fn evaluate_stack_expr(
        &self,
        expr: &SourceExpr,
        host: usize,
        params: &BTreeMap<String, SourcedValue>,
        cx: &mut LoadContext<'_>,
    ) -> Option<bool> {
        let text = (expr.source.as_str(), TemplateForm::Expression, expr.span);
        if self.broken.contains(&expr.span) || self.lacks_params(&[text], params) {
            return None;
        }
        let bindings = self.build_bindings(host, Some(params));
        let mut renderer = TreeRenderer::new(self.programs, &cx.sources, &bindings);
        let result = renderer.evaluate_condition(expr);
        let diags = renderer.diags;
        diags.into_iter().for_each(|diag| cx.push_diag(diag));
        match result {
            Some(EvalOutcome::Known { value, .. }) => Some(value),
            _ => None,
        }
    }

    /// Returns the parameters of each host of the job. Hosts with equal values and origins share them.
    fn resolve_params(
        &self,
        job: &PlacementJob<'_>,
        cx: &mut LoadContext<'_>,
    ) -> Vec<Arc<BTreeMap<String, SourcedValue>>> {
        let templates = job.with.iter().any(|(_, node)| has_template(node));
        let mut shared: HashMap<Vec<usize>, Arc<BTreeMap<String, SourcedValue>>> = HashMap::new();
        let mut equal: HashMap<String, Arc<BTreeMap<String, SourcedValue>>> = HashMap::new();
        let mut all = Vec::with_capacity(job.hosts.len());
        for (at, host) in job.hosts.iter().enumerate() {
            let key = (!templates).then(|| self.fingerprint_vars(job.recipe, *host));
            if let Some(params) = key.as_ref().and_then(|key| shared.get(key)) {
                all.push(params.clone());
                continue;
            }
            let params = self.resolve_host_params(job, at, *host, cx);
            // The origin of a value counts too: `explain` shows it.
            let origins = params.values().map(|p| (&p.value, p.span, p.from.to_string())).collect::<Vec<_>>();
            let text = serde_json::to_string(&origins).unwrap_or_default();
            let params = equal.entry(text).or_insert_with(|| Arc::new(params)).clone();
            key.map(|key| shared.insert(key, params.clone()));
            all.push(params);
        }
        all
    }

    /// Returns the variables of a host that the recipe's parameters use, by identity.
    fn fingerprint_vars(&self, recipe: &Recipe, host: usize) -> Vec<usize> {
        let vars = &self.resolved.vars[host];
        recipe
            .params
            .keys()
            .map(|name| vars.get(name).map_or(0, |var| std::rc::Rc::as_ptr(&var.node) as usize))
            .collect()
    }

    fn resolve_host_params(
        &self,
        job: &PlacementJob<'_>,
        at: usize,
        host: usize,
        cx: &mut LoadContext<'_>,
    ) -> BTreeMap<String, SourcedValue> {
        let (with, failed) = self.render_with(job, at, host, cx);
        let vars = &self.resolved.vars[host];
        let mut params = BTreeMap::new();
        for param in job.recipe.params.values().filter(|param| !failed.contains(param.name.as_str())) {
            let given = with.iter().find(|(key, node)| key.text == param.name && !matches!(node.data, YamlData::Null));
            let found = match (given, vars.get(&param.name)) {
                (Some((_, node)), _) => Some((node, job.value_source())),
                (None, Some(HostVar { node, from })) => Some((node.as_ref(), ValueSource::clone(from))),
                (None, None) => None,
            };
            let value = match found {
                Some((node, from)) => match parse_param_value(&param.ty, node, &param.name, cx) {
                    // A secret that cannot be read is already reported.
                    Ok(Value::Null) => continue,
                    Ok(value) => SourcedValue { value, span: Some(node.span), from },
                    Err(diag) => {
                        cx.push_diag(diag.with_other_span(param.span, format!("declared in `{}`", job.recipe.name)));
                        continue;
                    }
                },
                None => match &param.default {
                    Some(value) => {
                        SourcedValue { value: value.clone(), span: Some(param.span), from: ValueSource::RecipeDefault }
                    }
                    None if param.unread => continue,
                    None => {
                        if !is_misspelled_in(job, &param.name) {
                            cx.push_diag(build_missing_param_diag(job, param));
                        }
                        continue;
                    }
                },
            };
            params.insert(param.name.clone(), value);
        }
        params
    }

    /// Renders `with`. The second part of the result names the parameters with errors.
    fn render_with<'j>(
        &self,
        job: &PlacementJob<'j>,
        at: usize,
        host: usize,
        cx: &mut LoadContext<'_>,
    ) -> (Vec<(YamlKey, YamlNode)>, HashSet<&'j str>) {
        let bindings = self.build_bindings(host, job.outer_params(at));
        let mut renderer = TreeRenderer::new(self.programs, &cx.sources, &bindings);
        let mut failed = HashSet::new();
        let mut with = Vec::with_capacity(job.with.len());
        for (key, node) in job.with {
            let before = renderer.diags.len();
            let mut texts = Vec::new();
            collect_templates(node, &mut texts);
            let follows = is_broken(node, self.broken)
                || job.outer_params(at).is_some_and(|outer| self.lacks_params(&texts, outer));
            if !follows {
                with.push((key.clone(), renderer.render_tree(node)));
            }
            if follows || renderer.diags.len() > before {
                failed.insert(key.text.as_str());
            }
        }
        let diags = renderer.diags;
        diags.into_iter().for_each(|diag| cx.push_diag(diag));
        (with, failed)
    }

    /// Returns whether templates read parameters for which a stack has no value. Missing values and unknown names are
    /// reported elsewhere.
    fn lacks_params(&self, texts: &[(&str, TemplateForm, Span)], outer: &BTreeMap<String, SourcedValue>) -> bool {
        texts.iter().any(|(text, form, _)| {
            let program = self.programs.get(text, *form);
            let mut reads =
                program.iter().flat_map(TemplateProgram::reads).filter(|read| read.root == TemplateRoot::Params);
            reads.any(|read| read.path.first().is_some_and(|name| !outer.contains_key(name)))
        })
    }

    fn build_bindings(&self, host: usize, params: Option<&BTreeMap<String, SourcedValue>>) -> TemplateBindings {
        let Some((_, host)) = self.resolved.hosts.get_index(host) else { return TemplateBindings::default() };
        TemplateBindings {
            params: params.map(|params| build_sourced_tree("params", params)),
            vars: Some(build_sourced_tree("vars", &host.vars)),
            host: Some(build_host_tree(host)),
            ..TemplateBindings::default()
        }
    }

    fn create_instances(&mut self, job: &PlacementJob<'_>, params: &[Arc<BTreeMap<String, SourcedValue>>]) {
        let name = |at: &usize| self.resolved.hosts.get_index(*at).map(|(name, _)| name.clone());
        let selection: Arc<Vec<HostName>> = Arc::new(job.hosts.iter().filter_map(name).collect());
        let mut shared: HashMap<(usize, Option<usize>), Arc<RecipeInstance>> = HashMap::new();
        for (at, (host, params)) in selection.iter().zip(params).enumerate() {
            let through = job.outer.get(at);
            let key = (Arc::as_ptr(params) as usize, through.map(|outer| Arc::as_ptr(outer) as usize));
            let instance = shared.entry(key).or_insert_with(|| {
                Arc::new(RecipeInstance {
                    recipe: job.recipe.clone(),
                    absent: job.absent,
                    params: BTreeMap::clone(params),
                    span: job.span,
                    selection: selection.clone(),
                    stack: job.stack.map(str::to_owned),
                    through: through.cloned(),
                })
            });
            self.insert_instance(host, instance.clone());
        }
        if !job.hosts.is_empty() {
            self.applied.recipes.entry(job.recipe.name.clone()).or_insert_with(|| job.recipe.clone());
        }
    }

    fn insert_instance(&mut self, host: &HostName, instance: Arc<RecipeInstance>) {
        let Some(own) = self.applied.instances.get_mut(host) else { return };
        match own.iter().find(|other| other.recipe.name == instance.recipe.name) {
            Some(first) => {
                let key = (instance.recipe.name.clone(), first.span, instance.span);
                self.overlaps.entry(key).or_default().push(host.clone());
            }
            None => own.push(instance),
        }
    }

    fn report_overlaps(&mut self, cx: &mut LoadContext<'_>) {
        for ((recipe, first, again), hosts) in std::mem::take(&mut self.overlaps) {
            let message = format!("recipe `{recipe}` is applied twice to {}", format_host_names(&hosts));
            let diag = Diag::error(DiagCode::EntryOverlap, message)
                .with_span(again)
                .label("applied again here")
                .with_other_span(first, "first applied here");
            cx.push_diag(diag.hint("make the selectors disjoint: `on: gpu:!canary`"));
        }
    }
}

/// Returns the error, or the warning, for a rule that an entry breaks. With a declared reason it is a warning.
pub(super) fn build_failed_rule_diag(rule: &RecipeRule, accepted: Option<&str>, applied: Span, recipe: &str) -> Diag {
    let (diag, says) = match (rule.class, accepted) {
        (Some(_), Some(reason)) => {
            (Diag::warning(DiagCode::RuleFailed, format!("{}; accepted: {reason}", rule.otherwise)), "accepted rule of")
        }
        (Some(_), None) => (Diag::error(DiagCode::RuleFailed, rule.otherwise.clone()), "required by"),
        (None, _) => (Diag::warning(DiagCode::RuleFailed, rule.otherwise.clone()), "recommended by"),
    };
    diag.with_span(applied).with_other_span(rule.require.span, format!("{says} `{recipe}`"))
}

/// Lists a few hosts and the number of the others.
pub(super) fn format_host_names(hosts: &[HostName]) -> String {
    const FEW: usize = 3;
    let mut shown: Vec<String> = hosts.iter().take(FEW).map(|host| format!("`{host}`")).collect();
    if hosts.len() > FEW {
        shown.push(format!("{} more", hosts.len() - FEW));
    }
    match shown.split_last() {
        Some((last, [])) => format!("host {last}"),
        Some((last, rest)) => format!("hosts {} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Returns the error for an unknown recipe. Suggests a similar name, including built-in recipes that were not read.
pub(super) fn build_unknown_recipe_diag(
    name: &str,
    span: Span,
    library: &RecipeLibrary,
    built_in: &[(&str, &str)],
) -> Diag {
    let diag = Diag::error(DiagCode::UnknownRecipe, format!("recipe `{name}` not found")).with_span(span);
    let known = library.keys().map(String::as_str).chain(built_in.iter().map(|(name, _)| *name));
    match diag.suggest_name(name, known) {
        diag if diag.hint.is_none() && library.is_empty() => {
            diag.hint("put recipes into `recipes/` next to the inventory, one per file")
        }
        diag if diag.hint.is_none() => {
            let own = library.keys().filter(|name| built_in.iter().all(|(known, _)| known != name));
            let own: Vec<String> = own.map(|name| format!("`{name}`")).collect();
            match own.len() {
                0 | 6.. => {
                    diag.hint("`forge recipes` lists all recipes; each file in `recipes/` names its own with `recipe:`")
                }
                _ => diag.hint(format!("the files in `recipes/` declare {}, by their key `recipe`", own.join(", "))),
            }
        }
        diag => diag,
    }
}

fn report_unknown_params(job: &PlacementJob<'_>, cx: &mut LoadContext<'_>) {
    // `statics` checks the parameters that a stack passes.
    if job.stack.is_some() {
        return;
    }
    for (key, _) in job.with.iter().filter(|(key, _)| !job.recipe.params.contains_key(&key.text)) {
        cx.push_diag(build_unknown_param_diag(key, job.recipe));
    }
}

pub(super) fn build_unknown_param_diag(key: &YamlKey, recipe: &Recipe) -> Diag {
    let diag = Diag::error(DiagCode::UnknownParam, format!("recipe `{}` has no parameter `{}`", recipe.name, key.text))
        .with_span(key.span);
    match recipe.params.is_empty() {
        true => diag.hint("the recipe has no parameters"),
        false => diag.suggest_name(&key.text, recipe.params.keys().map(String::as_str)),
    }
}

/// Returns whether an entry has an unknown parameter that most likely means `name`: its error says so, and one is enough.
fn is_misspelled_in(job: &PlacementJob<'_>, name: &str) -> bool {
    let params = || job.recipe.params.keys().map(String::as_str);
    let mut unknown = job.with.iter().filter(|(key, _)| !job.recipe.params.contains_key(&key.text));
    unknown.any(|(key, _)| did_you_mean(&key.text, params()) == Some(name))
}

fn build_missing_param_diag(job: &PlacementJob<'_>, param: &super::RecipeParam) -> Diag {
    let message = match job.stack {
        Some(stack) => format!("stack `{stack}` does not pass parameter `{}` of `{}`", param.name, job.recipe.name),
        None => format!("parameter `{}` of `{}` is required", param.name, job.recipe.name),
    };
    Diag::error(DiagCode::MissingParam, message)
        .with_span(job.span)
        .with_other_span(param.span, "declared here, without a default")
}

/// Reports whether the check of templates found an error in a value.
pub(super) fn is_broken(node: &YamlNode, broken: &HashSet<Span>) -> bool {
    match &node.data {
        YamlData::Scalar { .. } => broken.contains(&node.span),
        YamlData::Seq(items) => items.iter().any(|item| is_broken(item, broken)),
        YamlData::Map(entries) => entries.iter().any(|(_, node)| is_broken(node, broken)),
        _ => false,
    }
}

fn has_template(node: &YamlNode) -> bool {
    match &node.data {
        YamlData::Scalar { text, .. } => scalar::is_template(text),
        YamlData::Seq(items) => items.iter().any(has_template),
        YamlData::Map(entries) => entries.iter().any(|(_, node)| has_template(node)),
        _ => false,
    }
}

/// Builds the template tree of values with origins.
pub(super) fn build_sourced_tree(name: &str, values: &BTreeMap<String, SourcedValue>) -> minijinja::Value {
    build_map(
        name,
        values.iter().map(|(key, sourced)| (key.clone(), build_tree(&format!("{name}.{key}"), &sourced.value))),
    )
}

/// Builds `host` for templates.
pub(super) fn build_host_tree(host: &super::Host) -> minijinja::Value {
    let groups: Vec<_> = host.groups.iter().map(|group| minijinja::Value::from(group.as_str())).collect();
    let entries = [
        ("name", host.name.as_str().into()),
        ("address", host.connect.address.as_str().into()),
        ("groups", groups.into()),
    ];
    build_map("host", entries.map(|(name, value)| (name.to_owned(), value)))
}
