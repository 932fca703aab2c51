//! Edges across hosts: which steps of which hosts a step waits for, and how many of them suffice.

use crate::config::{HostBarrier, Project, Recipe, RecipeEdge as Declared, RecipeStep, StepFilter, format_first_names};
use crate::graph::{DependencyKind, Graph, GraphEdge, StepIndex};
use crate::model::{HostName, StepPhase, StepScope};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::ChosenHosts;
use super::unmet_dependency::DependencyShortfall;

/// The hosts that one step waits for because of one edge.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossHostWait {
    /// The step that the other hosts must run.
    pub from: StepIndex,
    /// The phase that `from` must reach on them.
    pub phase: StepPhase,
    /// Hosts of this run that must run the step `from`.
    pub hosts: Vec<HostName>,
    /// Hosts that also count but are not in this run.
    pub cut: Vec<HostName>,
    /// How many hosts must reach `phase`; `None` if the edge only sets an order.
    pub least: Option<usize>,
}

impl CrossHostWait {
    /// Returns why too few hosts reached the phase, if so: `on 3 hosts, got 2; missing: n2`, or `on n1` if a single
    /// host was expected. `out` are the hosts of this run that did not reach it.
    pub fn describe_missing(&self, there: usize, out: &[HostName]) -> Option<DependencyShortfall> {
        let least = self.least.filter(|least| there < *least)?;
        if let ([one], 1, true) = (&*self.hosts, least, self.cut.is_empty()) {
            return Some(DependencyShortfall::Hosts(format!("on {one}")));
        }
        if self.hosts.is_empty() && !self.cut.is_empty() && self.cut.iter().all(HostName::is_cluster) {
            return Some(DependencyShortfall::ClusterNotSelected);
        }
        let mut text = format!("on {least} {}, got {there}", if least == 1 { "host" } else { "hosts" });
        if !out.is_empty() {
            text.push_str(&format!("; missing: {}", format_host_names(out)));
        }
        if !self.cut.is_empty() {
            text.push_str(&format!("; not in this run: {}", format_host_names(&self.cut)));
        }
        Some(DependencyShortfall::Hosts(text))
    }
}

/// Returns the first names and the number of the remaining ones.
pub(super) fn format_host_names(hosts: &[HostName]) -> String {
    format_first_names(&hosts.iter().map(HostName::as_str).collect::<Vec<_>>())
}

/// The data needed to follow edges across hosts. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct CrossHostEdges<'a> {
    /// The inventory with its recipes and dependency graph.
    pub project: &'a Project,
    /// The steps that the run includes.
    pub filter: &'a StepFilter,
    /// The hosts that run the steps of scope `one` and `fleet`.
    pub chosen: &'a ChosenHosts,
    /// The hosts of this run, reachable or not.
    pub members: &'a BTreeSet<HostName>,
    /// The declarations of the steps in the graph.
    pub steps: &'a StepTable,
}

/// The declarations of the graph's steps, by index.
#[derive(Clone, Debug, Default)]
pub struct StepTable {
    steps: Vec<Option<(Arc<Recipe>, Arc<RecipeStep>)>>,
    /// `file:line:col` of each step.
    places: Vec<Arc<str>>,
    /// The recipes that each step depends on in the graph of all hosts, computed on first use.
    needed: Vec<OnceLock<Box<[Arc<str>]>>>,
}

impl StepTable {
    /// Collects the steps of all recipes of a project.
    pub fn new(project: &Project) -> Self {
        let count = project.graph.order().len();
        let needed = std::iter::repeat_with(OnceLock::new).take(count).collect();
        let mut table = Self { steps: vec![None; count], places: vec!["".into(); count], needed };
        for recipe in project.recipes.values() {
            for step in &recipe.steps {
                if let Some(index) = project.graph.find_step(&recipe.name, &step.name) {
                    table.steps[index.0 as usize] = Some((recipe.clone(), step.clone()));
                    table.places[index.0 as usize] = project.format_step_place(step.span).into();
                }
            }
        }
        table
    }

    fn get(&self, index: StepIndex) -> Option<&(Arc<Recipe>, Arc<RecipeStep>)> {
        self.steps.get(index.0 as usize)?.as_ref()
    }

    /// Returns the declaration of a step; `None` if no recipe declares it.
    pub fn find_step(&self, index: StepIndex) -> Option<&Arc<RecipeStep>> {
        self.get(index).map(|(_, step)| step)
    }

    /// Returns where a step is declared: `file:line:col`.
    pub fn find_location(&self, index: StepIndex) -> Arc<str> {
        self.places.get(index.0 as usize).cloned().unwrap_or_else(|| "".into())
    }

    /// Returns the recipes that a step depends on in the project's graph: its own, and those that it needs, sorted.
    pub(super) fn list_needed_recipes(&self, graph: &Graph, index: StepIndex) -> Option<&[Arc<str>]> {
        let needed = self.needed.get(index.0 as usize)?;
        Some(needed.get_or_init(|| list_needed_recipes(graph, index)))
    }

    /// Returns whether an edge leads to other hosts.
    pub fn crosses_hosts(&self, edge: &GraphEdge) -> bool {
        let scope = |index| self.find_step(index).map(|step| step.scope);
        let (from, to) = (scope(edge.from), scope(edge.to));
        match (from == Some(StepScope::Cluster), to == Some(StepScope::Cluster)) {
            (true, true) => false,
            (true, false) | (false, true) => true,
            (false, false) => {
                matches!(edge.why, DependencyKind::Export | DependencyKind::Barrier)
                    || matches!(from, Some(StepScope::One | StepScope::Fleet))
                    || to == Some(StepScope::Fleet)
            }
        }
    }
}

/// Returns the recipes that a step depends on in a graph: its own, and those that it needs, sorted.
pub(super) fn list_needed_recipes(graph: &Graph, index: StepIndex) -> Box<[Arc<str>]> {
    let edges = graph.incoming_edges(index).filter(|edge| edge.why != DependencyKind::After);
    let needed: BTreeSet<&Arc<str>> =
        edges.map(|edge| edge.from).chain([index]).map(|step| &graph.step_id(step).recipe).collect();
    needed.into_iter().cloned().collect()
}

/// Returns the step that an edge between steps of one host refers to on that host. In written order, a step that does
/// not run there (it runs on another host or is filtered out) is replaced by the one above it.
pub fn resolve_predecessor(graph: &Graph, edge: &GraphEdge, runs: impl Fn(StepIndex) -> bool) -> Option<StepIndex> {
    let mut at = edge.from;
    while edge.why == DependencyKind::Order && !runs(at) {
        at = graph.incoming_edges(at).find(|above| above.why == DependencyKind::Order)?.from;
    }
    Some(at)
}

impl CrossHostEdges<'_> {
    /// Returns the hosts that a step of `host` waits for because of an edge, if any. No step waits for a step that the
    /// filter excludes, and a removal waits for no step.
    pub fn find_wait(&self, host: &HostName, edge: &GraphEdge) -> Option<CrossHostWait> {
        let (recipe, from) = self.steps.get(edge.from)?;
        let removal = self.is_removed(host, &self.project.graph.step_id(edge.to).recipe);
        if removal || !self.steps.crosses_hosts(edge) || !self.filter.admits_step(&recipe.name, &from.name) {
            return None;
        }
        let one = matches!(from.scope, StepScope::One | StepScope::Fleet | StepScope::Cluster);
        let counted = match (from.scope, edge.why, host.is_cluster()) {
            (StepScope::Cluster, ..) => self.project.cluster_member().cloned().into_iter().collect(),
            // A value belongs to its recipe, regardless of the entry that applies the recipe to a host.
            (_, DependencyKind::Export, _) => self.list_hosts_with_recipe(&recipe.name),
            (_, _, true) => self.list_cluster_counted_hosts(edge, &recipe.name),
            _ => self.list_counted_hosts(host, &recipe.name),
        };
        let total = counted.len();
        let (hosts, cut): (Vec<_>, Vec<_>) = counted.into_iter().partition(|host| self.members.contains(host));
        let least = match edge.why {
            DependencyKind::Barrier if !one => {
                self.find_barrier(edge).map(|barrier| barrier.least.resolve_minimum(total))
            }
            DependencyKind::Needs | DependencyKind::Order | DependencyKind::Barrier if one => Some(1),
            // A cluster step that needs a step of hosts needs it on all of them, unless declared otherwise.
            DependencyKind::Needs | DependencyKind::Order if host.is_cluster() => Some(total),
            _ => None,
        };
        let chosen = one && from.scope != StepScope::Cluster;
        let hosts = if chosen { self.filter_chosen(edge.from, hosts) } else { hosts };
        let cut = if one && !hosts.is_empty() { Vec::new() } else { cut };
        Some(CrossHostWait { from: edge.from, phase: edge.phase, hosts, cut, least })
    }

    fn filter_chosen(&self, step: StepIndex, hosts: Vec<HostName>) -> Vec<HostName> {
        let chosen = self.chosen.get(&step);
        hosts.into_iter().filter(|host| chosen.is_some_and(|chosen| chosen.contains(host))).collect()
    }

    fn is_removed(&self, host: &HostName, recipe: &str) -> bool {
        let own = self.project.instances.get(host).into_iter().flatten();
        own.filter(|instance| instance.absent).any(|instance| instance.recipe.name == recipe)
    }

    /// Returns the hosts that have `recipe`: those of the selection through which `host` has it, or all if `host` does
    /// not have it.
    fn list_counted_hosts(&self, host: &HostName, recipe: &str) -> Vec<HostName> {
        match self.find_selection(host, recipe) {
            Some(selection) => selection.iter().filter(|host| self.has_recipe(host, recipe)).cloned().collect(),
            None => self.list_hosts_with_recipe(recipe),
        }
    }

    /// Returns the hosts that have `recipe` among those that the waiting cluster recipe is applied to; if there are
    /// none, all hosts that have it.
    fn list_cluster_counted_hosts(&self, edge: &GraphEdge, recipe: &str) -> Vec<HostName> {
        let own = self.find_selection(&HostName::cluster_api(), &self.project.graph.step_id(edge.to).recipe);
        let own = own.into_iter().flat_map(|own| own.iter());
        let selected: Vec<HostName> = own.filter(|host| self.has_recipe(host, recipe)).cloned().collect();
        match selected.is_empty() {
            true => self.list_hosts_with_recipe(recipe),
            false => selected,
        }
    }

    /// Returns all hosts that have `recipe`.
    fn list_hosts_with_recipe(&self, recipe: &str) -> Vec<HostName> {
        self.project.machine_names().filter(|host| self.has_recipe(host, recipe)).cloned().collect()
    }

    fn has_recipe(&self, host: &HostName, recipe: &str) -> bool {
        let own = self.project.instances.get(host);
        own.is_some_and(|own| own.iter().any(|instance| !instance.absent && instance.recipe.name == recipe))
    }

    /// Returns the hosts of the entry that applies the recipe to `host`.
    pub fn find_selection(&self, host: &HostName, recipe: &str) -> Option<&Arc<Vec<HostName>>> {
        let own = self.project.instances.get(host)?;
        own.iter()
            .find(|instance| !instance.absent && instance.recipe.name == recipe)
            .map(|instance| &instance.selection)
    }

    /// Returns the barrier that is declared for an edge.
    fn find_barrier(&self, edge: &GraphEdge) -> Option<HostBarrier> {
        let id = self.project.graph.step_id(edge.from);
        let (recipe, step) = self.steps.get(edge.to)?;
        let fits = |declared: &&Declared| {
            declared.recipe == *id.recipe && declared.step.as_ref().is_none_or(|step| **step == *id.step)
        };
        let declared = step.needs.iter().chain(&recipe.needs).filter(fits);
        declared.filter_map(|edge| edge.barrier).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: usize) -> Vec<HostName> {
        (0..count).map(|at| HostName::new(format!("n{at}"))).collect()
    }

    #[test]
    fn missing_hosts_are_named() {
        let wait = CrossHostWait {
            from: StepIndex(0),
            phase: StepPhase::Effective,
            hosts: hosts(3),
            cut: vec![HostName::new("far")],
            least: Some(4),
        };
        let text = wait.describe_missing(2, &hosts(1)).unwrap().to_string();
        assert_eq!(text, "on 4 hosts, got 2; missing: n0; not in this run: far");
        assert_eq!(wait.describe_missing(4, &[]), None);
        let one = CrossHostWait { hosts: hosts(1), cut: Vec::new(), least: Some(1), ..wait.clone() };
        assert_eq!(one.describe_missing(0, &hosts(1)).unwrap().to_string(), "on n0");
        assert_eq!(CrossHostWait { least: None, ..wait }.describe_missing(0, &hosts(1)), None, "an order only");
    }

    #[test]
    fn long_host_lists_are_truncated() {
        assert_eq!(format_host_names(&hosts(8)), "n0, n1, n2, n3, n4, n5, n6, n7");
        assert_eq!(format_host_names(&hosts(10)), "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more");
    }
}
