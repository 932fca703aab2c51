//! Turns declared edges into links of the graph: checks that their targets exist and are applied where needed.

use super::instances::{AppliedRecipes, RecipeLibrary, format_host_names};
use super::recipe_reads::{self, ExportRead};
use super::recipe_requirement::RecipeRequirement;
use super::{Project, Recipe, RecipeEdge, RecipeStep, cluster_step};
use crate::diag::{Diag, DiagCode, DiagList, Span};
use crate::graph::{DependencyKind, DependencyLink, Graph, GraphEndpoint, GraphStep};
use crate::model::{HostName, StepPhase, StepScope};
use crate::resource::ProvidedItem;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Reports edges of all recipes in the library whose targets do not exist.
pub(super) fn check_targets(library: &RecipeLibrary, diags: &mut DiagList) {
    for recipe in library.values() {
        for edge in iter_edges(recipe) {
            check_edge_target(edge, library, diags);
            check_own_verification(recipe, edge, diags);
        }
        for (name, span) in recipe.steps.iter().flat_map(|step| &step.restart_on) {
            check_restart_target(recipe, name, *span, library, diags);
        }
        for during in recipe.during_requirements().filter(|during| !library.contains_key(&during.recipe)) {
            diags.push(build_no_recipe_diag(&during.recipe, during.span, library));
        }
    }
}

fn iter_edges(recipe: &Recipe) -> impl Iterator<Item = &RecipeEdge> {
    let own = recipe.needs.iter().chain(&recipe.after);
    own.chain(recipe.steps.iter().flat_map(|step| step.needs.iter().chain(&step.after)))
}

fn check_edge_target(edge: &RecipeEdge, library: &RecipeLibrary, diags: &mut DiagList) {
    let Some(recipe) = library.get(&edge.recipe) else {
        return diags.push(build_no_recipe_diag(&edge.recipe, edge.span, library));
    };
    if !recipe.uses.is_empty() {
        let diag = Diag::error(DiagCode::UnknownEdge, format!("`{}` is a stack and has no steps", edge.recipe))
            .with_span(edge.span);
        return diags.push(diag.suggest_name("", recipe.uses.iter().map(|used| used.recipe.as_str())));
    }
    if let Some(step) = &edge.step {
        check_step_target(recipe, step, edge.span, diags);
    }
}

/// Reports a step that waits for the verification of its own recipe, which runs after the recipe's last step.
fn check_own_verification(recipe: &Recipe, edge: &RecipeEdge, diags: &mut DiagList) {
    if edge.recipe == recipe.name && edge.phase == StepPhase::Verified {
        let message = format!("`{}` is verified after all of its steps: no step can wait for that", recipe.name);
        diags.push(Diag::error(DiagCode::Cycle, message).with_span(edge.span).hint("use `@effective`"));
    }
}

fn check_step_target(recipe: &Recipe, step: &str, span: Span, diags: &mut DiagList) {
    if !recipe.steps.iter().any(|other| other.name == step) && !recipe.unread.contains(step) {
        let diag = Diag::error(DiagCode::UnknownEdge, format!("recipe `{}` has no step `{step}`", recipe.name))
            .with_span(span);
        diags.push(diag.suggest_name(step, recipe.steps.iter().map(|step| step.name.as_str())));
    }
}

fn check_restart_target(recipe: &Recipe, name: &str, span: Span, library: &RecipeLibrary, diags: &mut DiagList) {
    let (other, step) = split_step_name(recipe, name);
    match library.get(other) {
        Some(other) => check_step_target(other, step, span, diags),
        None => diags.push(build_no_recipe_diag(other, span, library)),
    }
}

fn build_no_recipe_diag(name: &str, span: Span, library: &RecipeLibrary) -> Diag {
    let diag = Diag::error(DiagCode::UnknownEdge, format!("recipe `{name}` not found")).with_span(span);
    diag.suggest_name(name, library.keys().map(String::as_str))
}

fn split_step_name<'n>(recipe: &'n Recipe, name: &'n str) -> (&'n str, &'n str) {
    name.split_once('/').unwrap_or((recipe.name.as_str(), name))
}

/// Builds the dependency graph of the applied recipes.
pub(super) fn build_graph(applied: &AppliedRecipes, project: &Project, diags: &mut DiagList) -> Graph {
    let steps: Vec<GraphStep> = applied
        .recipes
        .values()
        .flat_map(|recipe| recipe.steps.iter().map(|step| declare_step(recipe, step)))
        .collect();
    let mut links: Vec<DependencyLink> =
        applied.recipes.values().flat_map(|recipe| build_recipe_links(recipe, applied, project)).collect();
    links.extend(applied.recipes.values().flat_map(|recipe| build_cluster_links(recipe, applied)));
    match Graph::build(&steps, &links) {
        // What one step of an undo cannot restore does not keep the others from doing so.
        Ok(graph) if project.generated => graph.without_success_of_earlier_steps(),
        Ok(graph) => graph,
        Err(cycles) => {
            cycles.into_iter().for_each(|cycle| diags.push(cycle));
            Graph::default()
        }
    }
}

/// Returns the graphs of hosts from which recipes are removed. Hosts that lose the same recipes share a graph.
pub(super) fn build_removal_graphs(applied: &AppliedRecipes, graph: &Graph) -> HashMap<HostName, Arc<Graph>> {
    let mut shared: HashMap<BTreeSet<&str>, Arc<Graph>> = HashMap::new();
    let mut removals = HashMap::new();
    for (host, instances) in &applied.instances {
        let absent: BTreeSet<&str> = instances.iter().filter(|i| i.absent).map(|i| &*i.recipe.name).collect();
        if !absent.is_empty() {
            let own = shared.entry(absent).or_insert_with_key(|absent| Arc::new(graph.for_removal(absent)));
            removals.insert(host.clone(), own.clone());
        }
    }
    removals
}

/// Orders a step after the recipes of its `during` entries: a service that stops while another recipe changes is
/// started again after that change.
fn build_during_links<'r>(recipe: &'r Recipe, step: &'r RecipeStep) -> impl Iterator<Item = DependencyLink> + 'r {
    let whole = recipe.during.iter().filter(|_| step.traits().stops_during);
    whole.chain(&step.during).filter(|during| during.recipe != recipe.name).map(|during| DependencyLink {
        from: GraphEndpoint { recipe: during.recipe.clone(), step: None },
        phase: StepPhase::Configured,
        to: GraphEndpoint { recipe: recipe.name.clone(), step: Some(step.name.clone()) },
        why: DependencyKind::After,
        span: during.span,
    })
}

fn declare_step(recipe: &Recipe, step: &RecipeStep) -> GraphStep {
    GraphStep { recipe: recipe.name.clone(), step: step.name.clone(), span: step.span }
}

fn build_recipe_links(recipe: &Recipe, applied: &AppliedRecipes, project: &Project) -> Vec<DependencyLink> {
    let whole = GraphEndpoint { recipe: recipe.name.clone(), step: None };
    let mut links: Vec<DependencyLink> = recipe.needs.iter().map(|edge| build_edge_link(edge, &whole, true)).collect();
    links.extend(recipe.after.iter().map(|edge| build_edge_link(edge, &whole, false)));
    links.extend(recipe.steps.iter().flat_map(|step| build_during_links(recipe, step)));
    for step in &recipe.steps {
        let to = GraphEndpoint { recipe: recipe.name.clone(), step: Some(step.name.clone()) };
        links.extend(step.needs.iter().map(|edge| build_edge_link(edge, &to, true)));
        links.extend(step.after.iter().map(|edge| build_edge_link(edge, &to, false)));
        links.extend(step.restart_on.iter().map(|(name, span)| build_restart_link(recipe, name, *span, &to)));
        links.extend(build_export_links(recipe, step, applied, project, &to));
    }
    links
}

/// Orders the steps of a recipe for the cluster after the steps of hosts that create it. The later ones follow the
/// first.
fn build_cluster_links(recipe: &Recipe, applied: &AppliedRecipes) -> Vec<DependencyLink> {
    let Some(first) = recipe.steps.iter().find(|step| cluster_step::is_cluster_step(step)) else { return Vec::new() };
    let endpoint = |recipe: &Recipe, step: &RecipeStep| GraphEndpoint {
        recipe: recipe.name.clone(),
        step: Some(step.name.clone()),
    };
    let makers = applied.recipes.values().flat_map(|other| other.steps.iter().map(move |step| (other, step)));
    let makers = makers.filter(|(_, step)| step.provides.contains(&ProvidedItem::Cluster));
    makers
        .map(|(other, step)| DependencyLink {
            from: endpoint(other, step),
            phase: StepPhase::Configured,
            to: endpoint(recipe, first),
            why: DependencyKind::After,
            span: step.span,
        })
        .collect()
}

fn build_edge_link(edge: &RecipeEdge, to: &GraphEndpoint, needs: bool) -> DependencyLink {
    let why = match (needs, edge.barrier) {
        (false, _) => DependencyKind::After,
        (true, Some(_)) => DependencyKind::Barrier,
        (true, None) => DependencyKind::Needs,
    };
    DependencyLink {
        from: GraphEndpoint { recipe: edge.recipe.clone(), step: edge.step.clone() },
        phase: edge.phase,
        to: to.clone(),
        why,
        span: edge.span,
    }
}

fn build_restart_link(recipe: &Recipe, name: &str, span: Span, to: &GraphEndpoint) -> DependencyLink {
    let (other, step) = split_step_name(recipe, name);
    let from = GraphEndpoint { recipe: other.to_owned(), step: Some(step.to_owned()) };
    DependencyLink { from, phase: StepPhase::Configured, to: to.clone(), why: DependencyKind::Restart, span }
}

/// Links a step that reads an exported value to the step that exports it.
fn build_export_links(
    recipe: &Recipe,
    step: &Arc<RecipeStep>,
    applied: &AppliedRecipes,
    project: &Project,
    to: &GraphEndpoint,
) -> Vec<DependencyLink> {
    let mut links = Vec::new();
    for ExportRead { recipe: other, name, span } in recipe_reads::find_exports_of_step(recipe, step, project) {
        let Some(other) = applied.recipes.get(&other) else { continue };
        for made in other.steps.iter().filter(|made| made.exports.contains_key(&name)) {
            let from = GraphEndpoint { recipe: other.name.clone(), step: Some(made.name.clone()) };
            links.push(DependencyLink {
                from,
                phase: StepPhase::Configured,
                to: to.clone(),
                why: DependencyKind::Export,
                span,
            });
        }
    }
    links
}

/// Reports reads of exported values whose recipe is not applied to any host, and returns the places of their templates.
pub(super) fn check_exports(
    applied: &AppliedRecipes,
    known: impl Fn(&str) -> bool,
    project: &Project,
    diags: &mut DiagList,
) -> BTreeSet<Span> {
    let mut places = BTreeSet::new();
    for recipe in applied.recipes.values() {
        for ExportRead { recipe: other, name, span } in recipe_reads::find_read_exports(recipe, project) {
            if !applied.recipes.contains_key(&other) && known(&other) {
                let message = format!("`{other}` is not applied to any host, so `{name}` is never exported");
                diags.push(Diag::error(DiagCode::EdgeNotApplied, message).with_span(span));
                places.insert(span);
            }
        }
    }
    places
}

/// Reports barriers that wait for a recipe which no host has: none of its steps could ever be counted. Returns their
/// places.
pub(super) fn check_barriers(
    applied: &AppliedRecipes,
    known: impl Fn(&str) -> bool,
    diags: &mut DiagList,
) -> BTreeSet<Span> {
    let present: BTreeSet<&str> = iter_present_recipes(applied).map(|recipe| recipe.name.as_str()).collect();
    let waits = |edge: &&RecipeEdge| edge.barrier.is_some() && !edge.optional && known(&edge.recipe);
    let mut places = BTreeSet::new();
    for recipe in applied.recipes.values().filter(|recipe| present.contains(recipe.name.as_str())) {
        let lacking = iter_edges(recipe).filter(waits).filter(|edge| !present.contains(edge.recipe.as_str()));
        for RecipeEdge { recipe: needed, span, .. } in lacking {
            let what = match applied.recipes.contains_key(needed) {
                true => "only removed from hosts",
                false => "not applied to any host",
            };
            let message = format!("`{}` waits for `{needed}` on other hosts, which is {what}", recipe.name);
            let diag = Diag::error(DiagCode::EdgeNotApplied, message).with_span(*span);
            diags.push(diag.hint("apply it, or add `optional: true`: then nothing waits where it is not applied"));
            places.insert(*span);
        }
    }
    places
}

/// Hosts without a needed recipe, and the place that needs it.
struct MissingRequirement {
    span: Span,
    label: &'static str,
    hosts: Vec<HostName>,
}

/// Reports recipes that are needed on hosts where they are not applied, and returns the places that need them. Recipes
/// that are not `known` are reported by [`check_targets`].
pub(super) fn check_applied(
    applied: &AppliedRecipes,
    known: impl Fn(&str) -> bool,
    needs: impl Fn(&Recipe) -> Vec<RecipeRequirement>,
    diags: &mut DiagList,
) -> BTreeSet<Span> {
    let once = |needs: Vec<RecipeRequirement>| {
        let mut seen = BTreeSet::new();
        let is_new = |need: &RecipeRequirement| seen.insert((need.recipe.clone(), need.span));
        needs.into_iter().filter(|need| known(&need.recipe)).filter(is_new).collect()
    };
    let by_recipe: BTreeMap<&str, Vec<RecipeRequirement>> =
        applied.recipes.values().map(|recipe| (recipe.name.as_str(), once(needs(recipe)))).collect();
    let elsewhere: BTreeSet<&str> =
        iter_present_recipes(applied).filter(|recipe| has_shared_steps(recipe)).map(|r| &*r.name).collect();
    let mut places = BTreeSet::new();
    let mut lacking: BTreeMap<(Span, &str, &str, bool), MissingRequirement> = BTreeMap::new();
    for (host, instances) in &applied.instances {
        let here: BTreeSet<&str> = instances.iter().filter(|i| !i.absent).map(|i| i.recipe.name.as_str()).collect();
        for instance in instances.iter().filter(|instance| !instance.absent) {
            for need in &by_recipe[instance.recipe.name.as_str()] {
                if here.contains(need.recipe.as_str()) || elsewhere.contains(need.recipe.as_str()) {
                    continue;
                }
                places.insert(need.span);
                let removed = instances.iter().any(|other| other.recipe.name == need.recipe);
                let key = (instance.span, instance.recipe.name.as_str(), need.recipe.as_str(), removed);
                let lacking = lacking.entry(key).or_insert_with(|| MissingRequirement {
                    span: need.span,
                    label: need.label,
                    hosts: Vec::new(),
                });
                if lacking.hosts.last() != Some(host) {
                    lacking.hosts.push(host.clone());
                }
            }
        }
    }
    for ((entry, recipe, needed, removed), MissingRequirement { span, label, hosts }) in lacking {
        let what = if removed { "removed from" } else { "not applied to" };
        let message = format!("`{recipe}` needs `{needed}`, which is {what} {}", format_host_names(&hosts));
        diags.push(Diag::error(DiagCode::EdgeNotApplied, message).with_span(entry).with_other_span(span, label));
    }
    places
}

/// Returns every recipe that is applied to at least one host, excluding recipes that are only removed.
fn iter_present_recipes(applied: &AppliedRecipes) -> impl Iterator<Item = &Arc<Recipe>> {
    let instances = applied.instances.values().flatten().filter(|instance| !instance.absent);
    instances.map(|instance| &instance.recipe)
}

/// Returns whether a recipe serves hosts to which it is not applied: steps of scope `one` and `fleet` do.
fn has_shared_steps(recipe: &Recipe) -> bool {
    recipe.steps.iter().any(|step| step.scope != StepScope::Host)
}

/// Returns the recipes that a recipe's `needs` require on the same host.
pub(super) fn list_host_requirements(recipe: &Recipe) -> Vec<RecipeRequirement> {
    let whole = recipe.needs.iter().filter(|_| !cluster_step::is_cluster_only(recipe));
    let on_hosts = recipe.steps.iter().filter(|step| !cluster_step::is_cluster_step(step));
    let own = whole.chain(on_hosts.flat_map(|step| &step.needs));
    let same_host = own.filter(|edge| edge.barrier.is_none() && !edge.optional && edge.recipe != recipe.name);
    same_host
        .map(|edge| RecipeRequirement { recipe: edge.recipe.clone(), span: edge.span, label: "needed here" })
        .collect()
}
