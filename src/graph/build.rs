//! Builds the graph from declared steps and links: expands links of whole recipes and computes a stable topological
//! order.

use super::edge::{DependencyKind, DependencyLink, GraphEdge, GraphEndpoint, GraphStep, StepIndex};
use super::phase_wait::{PhaseWait, list_phase_waits};
use super::{Graph, cycle};
use crate::diag::Diag;
use crate::model::{StepId, StepPhase};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

impl Graph {
    /// Builds the graph of `steps` and `links`. Skips links to undeclared steps, which the caller has already reported.
    ///
    /// # Errors
    /// Every complete cycle, with the location of each of its links.
    pub fn build(steps: &[GraphStep], links: &[DependencyLink]) -> Result<Graph, Vec<Diag>> {
        let by_recipe = group_by_recipe(steps);
        let mut edges = build_order_edges(&by_recipe);
        for (at, link) in links.iter().enumerate() {
            edges.extend(unfold_link(at, link, steps, &by_recipe));
        }
        let graph = build_from_edges(steps.iter().map(|step| StepId::new(&step.recipe, &step.step)).collect(), edges);
        match graph.order.len() < steps.len() {
            true => Err(cycle::report_cycles(steps, links, &list_phase_waits(steps.len(), &graph.edges))),
            false => Ok(Graph { links: links.to_vec(), ..graph }),
        }
    }

    /// Returns the graph in which the steps of a recipe keep their order, but do not need each other's success.
    pub fn without_success_of_earlier_steps(self) -> Graph {
        let loosen = |edge: GraphEdge| match edge.why {
            DependencyKind::Order => GraphEdge { why: DependencyKind::After, ..edge },
            _ => edge,
        };
        let edges = self.edges.into_iter().map(loosen).collect();
        Graph { links: self.links, ..build_from_edges(self.steps, edges) }
    }

    fn from_sorted_edges(steps: Vec<StepId>, edges: Vec<GraphEdge>, order: Vec<StepIndex>) -> Graph {
        let mut positions = vec![0; steps.len()];
        for (position, index) in order.iter().enumerate() {
            positions[index.0 as usize] = position as u32;
        }
        let mut index: HashMap<String, HashMap<String, StepIndex>> = HashMap::new();
        for (at, id) in steps.iter().enumerate() {
            index.entry(id.recipe.to_string()).or_default().insert(id.step.to_string(), StepIndex(at as u32));
        }
        let mut starts = vec![0u32; steps.len() + 1];
        for at in 0..steps.len() {
            starts[at + 1] = edges.partition_point(|edge| edge.to.0 as usize <= at) as u32;
        }
        Graph { links: Vec::new(), steps, edges, order: order.into(), positions, index, starts }
    }
}

/// Builds the graph of expanded edges. Steps of cycles are missing in its order.
pub(super) fn build_from_edges(steps: Vec<StepId>, mut edges: Vec<GraphEdge>) -> Graph {
    edges.sort_by_key(|edge| (edge.to, edge.from, edge.phase, edge.why, edge.link));
    edges.dedup_by_key(|edge| (edge.to, edge.from, edge.phase, edge.why));
    let order = sort_steps(steps.len(), &list_phase_waits(steps.len(), &edges));
    Graph::from_sorted_edges(steps, edges, order)
}

fn group_by_recipe(steps: &[GraphStep]) -> BTreeMap<&str, Vec<usize>> {
    let mut positions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        positions.entry(&step.recipe).or_default().push(at);
    }
    positions
}

fn build_order_edges(by_recipe: &BTreeMap<&str, Vec<usize>>) -> Vec<GraphEdge> {
    let pair = |pair: &[usize]| new_edge(pair[0], StepPhase::Configured, pair[1], DependencyKind::Order, None);
    by_recipe.values().flat_map(|steps| steps.windows(2).map(pair)).collect()
}

fn new_edge(from: usize, phase: StepPhase, to: usize, why: DependencyKind, link: Option<u32>) -> GraphEdge {
    GraphEdge { from: StepIndex(from as u32), phase, to: StepIndex(to as u32), why, link }
}

fn unfold_link(
    at: usize,
    link: &DependencyLink,
    steps: &[GraphStep],
    by_recipe: &BTreeMap<&str, Vec<usize>>,
) -> Vec<GraphEdge> {
    let ends = |end: &GraphEndpoint| -> Vec<usize> {
        let all = by_recipe.get(end.recipe.as_str()).map(Vec::as_slice).unwrap_or_default();
        all.iter().copied().filter(|at| end.step.as_ref().is_none_or(|name| *name == steps[*at].step)).collect()
    };
    let (from, to) = (ends(&link.from), ends(&link.to));
    let mut edges = Vec::with_capacity(from.len() * to.len());
    for from in &from {
        edges.extend(to.iter().map(|to| new_edge(*from, link.phase, *to, link.why, Some(at as u32))));
    }
    edges
}

/// Orders steps by the point at which they may be configured; among ready steps the first declared comes first. The
/// result is shorter than `steps` if there is a cycle.
fn sort_steps(steps: usize, waits: &[Vec<PhaseWait>]) -> Vec<StepIndex> {
    let mut open = vec![0usize; waits.len()];
    waits.iter().flatten().for_each(|wait| open[wait.to] += 1);
    // Later phases need no action: they go first, so that dependents become ready in time.
    let key = |node: usize| Reverse((node.is_multiple_of(3), node));
    let mut free: BinaryHeap<_> = (0..waits.len()).filter(|node| open[*node] == 0).map(key).collect();
    let mut order = Vec::with_capacity(steps);
    while let Some(Reverse((configures, node))) = free.pop() {
        if configures {
            order.push(StepIndex((node / 3) as u32));
        }
        for wait in &waits[node] {
            open[wait.to] -= 1;
            if open[wait.to] == 0 {
                free.push(key(wait.to));
            }
        }
    }
    order
}
