//! The cluster's API as a member of the project, next to the hosts: which steps run there, and with which parameters.
//!
//! Steps of scope `cluster` run once, through the API. A recipe with such steps, rules or verifications is therefore
//! split into two instances: one on its hosts and one on the API, each with its own parts.

use super::cluster_step::{is_cluster_step, iter_cluster_edges};
use super::instances::RecipeLibrary;
use super::template::{ProgramCache, TemplateForm, TemplateProgram, TemplateRead, TemplateRoot};
use super::template_list::collect_templates;
use super::{ConnectSettings, Host, Project, Recipe, RecipeInstance, RecipeRule, RecipeStep, RecipeVerification};
use crate::diag::{Diag, DiagCode, DiagList, SourceMap, Span};
use crate::model::HostName;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

fn has_cluster_parts(recipe: &Recipe) -> bool {
    iter_cluster_parts(recipe).next().is_some()
}

/// Returns the parts of a recipe that run on the API.
fn iter_cluster_parts(recipe: &Recipe) -> impl Iterator<Item = ClusterPart<'_>> {
    let steps = recipe.steps.iter().filter(|step| is_cluster_step(step));
    let rules = recipe.rules.iter().filter(|rule| rule.of_cluster);
    let verify = recipe.verify.iter().filter(|verify| verify.of_cluster);
    steps.map(|step| step_to_part(step)).chain(rules.map(rule_to_part)).chain(verify.map(verify_to_part))
}

/// A step, rule or verification of the cluster, with its name for messages, its place and its templates.
struct ClusterPart<'r> {
    name: String,
    span: Span,
    texts: Vec<(&'r str, TemplateForm, Span)>,
}

fn step_to_part(step: &RecipeStep) -> ClusterPart<'_> {
    ClusterPart { name: format!("step `{}`", step.name), span: step.span, texts: collect_step_templates(step) }
}

fn rule_to_part(rule: &RecipeRule) -> ClusterPart<'_> {
    let texts = super::template_list::list_rule_templates(rule).collect();
    ClusterPart { name: "a rule of the cluster".to_owned(), span: rule.span, texts }
}

fn verify_to_part(verify: &RecipeVerification) -> ClusterPart<'_> {
    ClusterPart {
        name: format!("verification `{}`", verify.name),
        span: verify.span,
        texts: super::template_list::list_verify_templates(verify),
    }
}

/// Adds the API to the hosts if a recipe has parts for it. `named` is whether the inventory declares the API: if that
/// declaration is invalid, its error is already reported, and a missing API is not reported as well.
pub(super) fn add_cluster_member(project: &mut Project, named: bool, diags: &mut DiagList) {
    let recipes: Vec<Arc<Recipe>> =
        project.recipes.values().filter(|recipe| has_cluster_parts(recipe)).cloned().collect();
    let Some(first) = recipes.first() else { return };
    if project.kubernetes.is_none() && !named {
        report_missing_api(project, &recipes, diags);
        return;
    }
    let host = create_cluster_host(first.span);
    let mut own = Vec::new();
    for recipe in &recipes {
        own.extend(create_cluster_instance(project, recipe, diags));
        remove_cluster_steps(project, recipe);
    }
    let absent: BTreeSet<&str> = own.iter().filter(|own| own.absent).map(|own| own.recipe.name.as_str()).collect();
    if !absent.is_empty() {
        project.removals.insert(host.name.clone(), Arc::new(project.graph.for_removal(&absent)));
    }
    project.instances.insert(host.name.clone(), own);
    project.hosts.insert(host.name.clone(), host);
}

fn create_cluster_host(span: Span) -> Host {
    Host {
        name: HostName::cluster_api(),
        connect: ConnectSettings::default(),
        vars: BTreeMap::new(),
        groups: Vec::new(),
        span,
    }
}

/// Reports the missing declaration of the API once, at the first entry that applies one of `recipes`.
fn report_missing_api(project: &Project, recipes: &[Arc<Recipe>], diags: &mut DiagList) {
    let entry_of = |recipe: &Arc<Recipe>| {
        let all = project.instances.values().flatten().filter(|own| own.recipe.name == recipe.name);
        all.map(|own| own.span).min().unwrap_or(recipe.span)
    };
    let Some(first) = recipes.iter().min_by_key(|recipe| entry_of(recipe)) else { return };
    let Some(part) = iter_cluster_parts(first).next() else { return };
    let names: Vec<String> = recipes.iter().map(|recipe| format!("`{}`", recipe.name)).collect();
    let what = match names.as_slice() {
        [name] => format!("recipe {name} uses"),
        names => format!("recipes {} use", names.join(", ")),
    };
    let label = format!("{} runs through the API", part.name);
    let diag = Diag::error(DiagCode::BadScope, format!("{what} the cluster's API, but the inventory declares none"));
    let hint = "declare it: `kubernetes: { kubeconfig: ~/.kube/config, context: NAME }`";
    diags.push(diag.with_span(entry_of(first)).with_other_span(part.span, label).hint(hint));
}

/// Returns the API's single instance of a recipe. If the recipe is applied to some hosts and removed from others, the
/// API's instance is applied.
fn create_cluster_instance(
    project: &Project,
    recipe: &Arc<Recipe>,
    diags: &mut DiagList,
) -> Option<Arc<RecipeInstance>> {
    let all = project.instances.values().flatten().filter(|own| own.recipe.name == recipe.name);
    let mut distinct: Vec<&Arc<RecipeInstance>> = Vec::new();
    all.for_each(|own| {
        if !distinct.iter().any(|known| Arc::ptr_eq(known, own)) {
            distinct.push(own);
        }
    });
    if distinct.iter().any(|own| !own.absent) {
        distinct.retain(|own| !own.absent);
    }
    let (first, rest) = distinct.split_first()?;
    let read = collect_cluster_params(recipe, &project.programs);
    rest.iter().for_each(|other| report_differing_params(recipe, first, other, &read, diags));
    let selected: BTreeSet<&HostName> = distinct.iter().flat_map(|own| own.selection.iter()).collect();
    let same = |name: &String| rest.iter().all(|own| get_param_value(own, name) == get_param_value(first, name));
    // Parameters that differ and are read are already reported. They are kept to avoid follow-up errors.
    let kept = |name: &&String| same(name) || read.contains(*name);
    let names: BTreeSet<String> = first.params.keys().filter(kept).cloned().collect();
    Some(Arc::new(RecipeInstance {
        recipe: Arc::new(extract_recipe_part(recipe, true, &names)),
        absent: first.absent,
        params: first
            .params
            .iter()
            .filter(|(name, _)| names.contains(*name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect(),
        span: first.span,
        selection: Arc::new(project.hosts.keys().filter(|host| selected.contains(host)).cloned().collect()),
        stack: first.stack.clone(),
        through: first.through.clone(),
    }))
}

fn get_param_value<'i>(instance: &'i RecipeInstance, name: &str) -> Option<&'i crate::model::Value> {
    instance.params.get(name).map(|param| &param.value)
}

fn report_differing_params(
    recipe: &Recipe,
    first: &RecipeInstance,
    other: &RecipeInstance,
    read: &BTreeSet<String>,
    diags: &mut DiagList,
) {
    for name in read.iter().filter(|name| get_param_value(first, name) != get_param_value(other, name)) {
        let message = format!("`{name}` of `{}` differs between hosts, but steps of the cluster read it", recipe.name);
        let place =
            |instance: &RecipeInstance| instance.params.get(name).and_then(|param| param.span).unwrap_or(instance.span);
        let diag = Diag::error(DiagCode::EntryOverlap, message).with_span(place(other)).label("one value here");
        diags.push(
            diag.with_other_span(place(first), "a different value here").hint("set the same value for all hosts"),
        );
    }
}

/// Returns the parameters that the recipe's parts for the cluster read.
fn collect_cluster_params(recipe: &Recipe, programs: &ProgramCache) -> BTreeSet<String> {
    let mut read = BTreeSet::new();
    for part in iter_cluster_parts(recipe) {
        for (text, form, _) in part.texts {
            let program = programs.get(text, form);
            let reads =
                program.iter().flat_map(TemplateProgram::reads).filter(|read| read.root == TemplateRoot::Params);
            read.extend(
                reads.filter_map(|read| read.path.first()).filter(|name| recipe.params.contains_key(*name)).cloned(),
            );
        }
    }
    read
}

fn collect_step_templates(step: &RecipeStep) -> Vec<(&str, TemplateForm, Span)> {
    let exprs = step.when.iter().chain(&step.each).chain(&step.key);
    let mut texts: Vec<_> = exprs.map(|expr| (expr.source.as_str(), TemplateForm::Expression, expr.span)).collect();
    collect_templates(&step.body, &mut texts);
    texts
}

/// Removes the parts for the cluster from the instances on hosts.
fn remove_cluster_steps(project: &mut Project, recipe: &Arc<Recipe>) {
    let names = recipe.params.keys().cloned().collect();
    let view = Arc::new(extract_recipe_part(recipe, false, &names));
    let mut shared: HashMap<usize, Arc<RecipeInstance>> = HashMap::new();
    for own in project.instances.values_mut().flatten().filter(|own| own.recipe.name == recipe.name) {
        let new = shared.entry(Arc::as_ptr(own) as usize).or_insert_with(|| {
            Arc::new(RecipeInstance {
                recipe: view.clone(),
                absent: own.absent,
                params: own.params.clone(),
                span: own.span,
                selection: own.selection.clone(),
                stack: own.stack.clone(),
                through: own.through.clone(),
            })
        });
        *own = new.clone();
    }
}

/// Returns the part of a recipe that runs through the API, or the part that runs on hosts.
fn extract_recipe_part(recipe: &Recipe, of_cluster: bool, params: &BTreeSet<String>) -> Recipe {
    let on_hosts = !of_cluster;
    Recipe {
        name: recipe.name.clone(),
        summary: recipe.summary.clone(),
        path: recipe.path.clone(),
        span: recipe.span,
        params: recipe
            .params
            .iter()
            .filter(|(name, _)| params.contains(*name))
            .map(|(n, p)| (n.clone(), p.clone()))
            .collect(),
        needs: recipe.needs.clone(),
        after: recipe.after.clone(),
        during: if on_hosts { recipe.during.clone() } else { Vec::new() },
        rules: recipe.rules.iter().filter(|rule| rule.of_cluster == of_cluster).cloned().collect(),
        steps: recipe.steps.iter().filter(|step| is_cluster_step(step) == of_cluster).cloned().collect(),
        unread: recipe.unread.clone(),
        verify: recipe.verify.iter().filter(|verify| verify.of_cluster == of_cluster).cloned().collect(),
        uses: Vec::new(),
        fails_as: recipe.fails_as.clone(),
    }
}

/// Reports templates in parts for the cluster that read values that only hosts have.
pub(super) fn check_cluster_names(recipe: &Recipe, programs: &ProgramCache, sources: &SourceMap, diags: &mut DiagList) {
    for part in iter_cluster_parts(recipe) {
        for (text, form, span) in &part.texts {
            let program = programs.get(text, *form);
            for read in program.iter().flat_map(TemplateProgram::reads) {
                if let Some(diag) = diagnose_host_read(read, &part.name) {
                    diags.push(diag.with_span(super::tree_render::locate_range(&read.range, text, *span, sources)));
                }
            }
        }
    }
}

fn diagnose_host_read(read: &TemplateRead, part: &str) -> Option<Diag> {
    const HINT: &str = "read parameters, `hosts`, or exports of steps on hosts";
    let root = match read.root {
        TemplateRoot::Host => "host",
        TemplateRoot::Facts if read.path.first().is_none_or(|name| !crate::facts::is_cluster_fact(name)) => "facts",
        TemplateRoot::Vars => "vars",
        _ => return None,
    };
    let own: Vec<String> = crate::facts::cluster_facts().iter().map(|fact| format!("`facts.{}`", fact.name)).collect();
    let hint = match root {
        "facts" => format!("facts of the cluster are {}; otherwise {HINT}", own.join(" and ")),
        _ => HINT.to_owned(),
    };
    let message = format!("`{root}` is available only on hosts, but {part} runs on the cluster");
    Some(Diag::error(DiagCode::UnknownName, message).hint(hint))
}

/// Reports steps of the cluster that need a recipe which is not applied to any host.
pub(super) fn check_cluster_needs(
    recipes: &indexmap::IndexMap<String, Arc<Recipe>>,
    library: &RecipeLibrary,
    diags: &mut DiagList,
) {
    for recipe in recipes.values().filter(|recipe| has_cluster_parts(recipe)) {
        for edge in iter_cluster_edges(recipe).filter(|edge| !edge.optional && !recipes.contains_key(&edge.recipe)) {
            if library.get(&edge.recipe).is_some_and(|other| other.uses.is_empty()) {
                let message = format!("`{}` needs `{}`, which is not applied to any host", recipe.name, edge.recipe);
                let hint = format!("apply it, or write `{}?` if it is optional", edge.recipe);
                diags.push(Diag::error(DiagCode::EdgeNotApplied, message).with_span(edge.span).hint(hint));
            }
        }
    }
}
