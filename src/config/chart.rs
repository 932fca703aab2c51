//! The dependency graph of some hosts as a value for output: steps in waves, and edges as declared.

use super::{HostShare, Project, Recipe, RecipeEdge, RecipeStep, StepFilter};
use crate::diag::Span;
use crate::graph::{DependencyKind, GraphEndpoint, StepIndex};
use crate::model::{DisruptionClass, HostName, StepId, StepPhase, StepScope};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Steps in an order that respects every edge, with their dependencies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DependencyChart {
    /// The name of the cluster, from the inventory.
    pub cluster: String,
    /// The hosts that the chart covers, as selected.
    pub hosts: Vec<HostName>,
    /// The steps of these hosts that the filter includes, by wave; `waves` refers to their positions.
    pub steps: Vec<ChartStep>,
    /// The dependencies between these steps: first the order inside each recipe, then the declared ones.
    pub edges: Vec<ChartEdge>,
    /// Waves of steps that can run at the same time, as positions in `steps`, in order.
    pub waves: Vec<Vec<usize>>,
}

/// A step of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChartStep {
    /// Name of the step's recipe.
    pub recipe: String,
    /// Name of the step in its recipe.
    pub step: String,
    /// Name of the resource's kind: `file`, `service`.
    pub kind: &'static str,
    /// Where the step runs. A step of scope `cluster` has the cluster's API as its host.
    pub scope: StepScope,
    /// The class to which the recipe raises its changes; absent if the class follows from the change alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<DisruptionClass>,
    /// How the step takes effect, if that needs more than its own commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effective_by: Vec<String>,
    /// Hosts to which it is applied.
    pub hosts: Vec<HostName>,
    /// Hosts from which it is removed. A step with hosts of both kinds has the place of its application in the chart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<HostName>,
    /// Where the step is declared, `file:line:col`.
    pub place: String,
}

/// One end of an edge: a step or a whole recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChartEndpoint {
    /// Name of the recipe at this end.
    pub recipe: String,
    /// Name of the step in that recipe; absent if the end is the whole recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// `to` does not start before `from` has reached `phase`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChartEdge {
    /// The side that must come first.
    pub from: ChartEndpoint,
    /// The side that waits.
    pub to: ChartEndpoint,
    /// The phase that `from` must have reached before `to` starts.
    pub phase: StepPhase,
    /// `order`, `needs`, `after`, `barrier`, `restart_on` or `export`.
    #[serde(serialize_with = "serialize_kind")]
    #[schemars(with = "String")]
    pub why: DependencyKind,
    /// For a barrier: how many of the selected hosts must have reached the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<String>,
    /// Place of the declaration. The order of steps has no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

fn serialize_kind<S: serde::Serializer>(why: &DependencyKind, into: S) -> Result<S::Ok, S::Error> {
    into.serialize_str(why.name())
}

impl ChartEndpoint {
    /// Returns whether `step` is this end or belongs to it.
    pub fn contains_step(&self, step: &ChartStep) -> bool {
        self.recipe == step.recipe && self.step.as_ref().is_none_or(|name| *name == step.step)
    }

    /// Returns `recipe/step`, or the recipe.
    pub fn full_name(&self) -> String {
        match &self.step {
            Some(step) => format!("{}/{step}", self.recipe),
            None => self.recipe.clone(),
        }
    }
}

impl HostShare {
    /// Returns the share as text: `2`, `90%`.
    pub fn format_share(self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }
}

/// Returns the dependency graph of the steps on `hosts` that `filter` includes.
pub fn build_chart(project: &Project, hosts: &[HostName], filter: &StepFilter) -> DependencyChart {
    let on = group_hosts_by_recipe(project, hosts);
    let removed = list_removed_recipes(&on);
    let waves = project.graph.for_removal(&removed).compute_waves();
    let mut kept: Vec<StepIndex> = project.graph.order().to_vec();
    kept.retain(|index| {
        let id = project.graph.step_id(*index);
        on.contains_key(&*id.recipe) && filter.admits_step(&id.recipe, &id.step)
    });
    // The sort is stable: within a wave, steps stay in the graph's order.
    kept.sort_by_key(|index| waves[index.0 as usize]);
    let steps: Vec<ChartStep> =
        kept.iter().filter_map(|index| build_chart_step(project, project.graph.step_id(*index), &on)).collect();
    let mut by_wave: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, index) in kept.iter().enumerate() {
        by_wave.entry(waves[index.0 as usize]).or_default().push(at);
    }
    DependencyChart {
        cluster: project.cluster.clone(),
        hosts: hosts.to_vec(),
        edges: collect_chart_edges(project, &steps, &removed),
        waves: by_wave.into_values().collect(),
        steps,
    }
}

/// Hosts of each recipe: those to which it is applied, and those from which it is removed.
type HostsByRecipe<'p> = BTreeMap<&'p str, (Vec<HostName>, Vec<HostName>)>;

fn group_hosts_by_recipe<'p>(project: &'p Project, hosts: &[HostName]) -> HostsByRecipe<'p> {
    let mut on = HostsByRecipe::new();
    for host in hosts {
        for instance in project.instances.get(host).into_iter().flatten() {
            let (present, absent) = on.entry(instance.recipe.name.as_str()).or_default();
            match instance.absent {
                true => absent.push(host.clone()),
                false => present.push(host.clone()),
            }
        }
    }
    on
}

/// Returns the recipes that these hosts only remove, which is done in reverse order. A recipe that some of them remove and
/// others have is in the chart in the order of its application.
fn list_removed_recipes<'p>(on: &HostsByRecipe<'p>) -> BTreeSet<&'p str> {
    on.iter().filter(|(_, (present, _))| present.is_empty()).map(|(recipe, _)| *recipe).collect()
}

fn build_chart_step(project: &Project, id: &StepId, on: &HostsByRecipe<'_>) -> Option<ChartStep> {
    let recipe = project.recipes.get(&*id.recipe)?;
    let step = recipe.steps.iter().find(|step| step.name == *id.step)?;
    let (hosts, removed) = on.get(&*id.recipe).cloned().unwrap_or_default();
    let (hosts, removed) = match step.scope {
        StepScope::Cluster => (to_cluster_host(project, &hosts), to_cluster_host(project, &removed)),
        _ => (hosts, removed),
    };
    Some(ChartStep {
        recipe: recipe.name.clone(),
        step: step.name.clone(),
        kind: step.kind,
        scope: step.scope,
        disruption: step.disruption,
        effective_by: step.effective.as_ref().map(|effective| effective.by.clone()).unwrap_or_default(),
        hosts,
        removed,
        place: project.sources.format_location(step.span),
    })
}

/// Returns the cluster's API in place of the hosts, for steps that run through it.
fn to_cluster_host(project: &Project, hosts: &[HostName]) -> Vec<HostName> {
    project.cluster_member().filter(|_| !hosts.is_empty()).into_iter().cloned().collect()
}

/// Returns the edges between `steps`: first the order inside each recipe, then the declared edges. Those of `removed`
/// recipes are reversed.
fn collect_chart_edges(project: &Project, steps: &[ChartStep], removed: &BTreeSet<&str>) -> Vec<ChartEdge> {
    let here = |end: &ChartEndpoint| steps.iter().any(|step| end.contains_step(step));
    let recipes: BTreeSet<&str> = steps.iter().map(|step| step.recipe.as_str()).collect();
    let own = project.recipes.values().filter(|recipe| recipes.contains(recipe.name.as_str()));
    let mut edges: Vec<ChartEdge> = own.flat_map(|recipe| build_order_edges(recipe, &here)).collect();
    let declared = project.graph.links().iter().map(|link| ChartEdge {
        from: to_chart_endpoint(&link.from),
        to: to_chart_endpoint(&link.to),
        phase: link.phase,
        why: link.why,
        least: find_barrier_share(project, &link.to, link.span)
            .filter(|_| link.why == DependencyKind::Barrier)
            .map(HostShare::format_share),
        place: Some(project.sources.format_location(link.span)),
    });
    edges.extend(declared.filter(|edge| here(&edge.from) && here(&edge.to)));
    edges.into_iter().filter_map(|edge| reverse_chart_edge(edge, removed)).collect()
}

/// Returns the edge as it holds while recipes are removed: the dependent is removed first.
fn reverse_chart_edge(edge: ChartEdge, removed: &BTreeSet<&str>) -> Option<ChartEdge> {
    let is_removed = |end: &ChartEndpoint| removed.contains(end.recipe.as_str());
    if !is_removed(&edge.to) {
        return Some(edge);
    }
    let (phase, why) = edge.why.reverse_for_removal(is_removed(&edge.from))?;
    Some(ChartEdge { from: edge.to, to: edge.from, phase, why, least: None, place: edge.place })
}

/// Returns the edges between consecutive steps of a recipe. Steps that are not in the chart do not interrupt the order.
fn build_order_edges(recipe: &Recipe, here: &impl Fn(&ChartEndpoint) -> bool) -> Vec<ChartEdge> {
    let end = |step: &std::sync::Arc<RecipeStep>| ChartEndpoint {
        recipe: recipe.name.clone(),
        step: Some(step.name.clone()),
    };
    let kept: Vec<ChartEndpoint> = recipe.steps.iter().map(end).filter(here).collect();
    let pair = |pair: &[ChartEndpoint]| ChartEdge {
        from: pair[0].clone(),
        to: pair[1].clone(),
        phase: StepPhase::Configured,
        why: DependencyKind::Order,
        least: None,
        place: None,
    };
    kept.windows(2).map(pair).collect()
}

fn to_chart_endpoint(end: &GraphEndpoint) -> ChartEndpoint {
    ChartEndpoint { recipe: end.recipe.clone(), step: end.step.clone() }
}

/// Finds the share of the edge at `span`: the graph does not store shares.
fn find_barrier_share(project: &Project, to: &GraphEndpoint, span: Span) -> Option<HostShare> {
    let recipe = project.recipes.get(&to.recipe)?;
    let edges = recipe.needs.iter().chain(recipe.steps.iter().flat_map(|step| &step.needs));
    edges.filter(|edge: &&RecipeEdge| edge.span == span).find_map(|edge| Some(edge.barrier?.least))
}
