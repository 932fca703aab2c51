//! Reports dependency cycles, each complete with the locations of its links.

use super::build::{DependencyKind, DependencyLink, GraphStep, steps_of};
use super::{GraphEdge, StepIndex};
use crate::diag::{Code, Diag};
use crate::model::StepPhase;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// A dependency between nodes; `edge` is `None` between the phases of one step.
#[derive(Clone, Debug)]
pub(super) struct PhaseWait {
    pub to: usize,
    pub edge: Option<GraphEdge>,
}

/// Returns one diagnostic per set of mutually dependent steps: its shortest cycle.
pub(super) fn report(steps: &[GraphStep], links: &[DependencyLink], waits: &[Vec<PhaseWait>]) -> Vec<Diag> {
    let mut knots: Vec<BTreeSet<usize>> = components(waits);
    knots.sort_by_key(|knot| knot.first().copied());
    knots.iter().filter_map(|knot| circle(knot, waits)).map(|circle| diagnose(&circle, steps, links)).collect()
}

fn components(waits: &[Vec<PhaseWait>]) -> Vec<BTreeSet<usize>> {
    let mut graph = DiGraph::<(), ()>::with_capacity(waits.len(), 0);
    waits.iter().for_each(|_| {
        graph.add_node(());
    });
    for (from, arcs) in waits.iter().enumerate() {
        arcs.iter().for_each(|arc| {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(arc.to), ());
        });
    }
    let knots =
        tarjan_scc(&graph).into_iter().map(|knot| knot.into_iter().map(NodeIndex::index).collect::<BTreeSet<_>>());
    knots
        .filter(|knot| knot.len() > 1 || knot.iter().any(|node| waits[*node].iter().any(|arc| arc.to == *node)))
        .collect()
}

/// Returns the shortest cycle through any node of such a set, as its dependencies.
fn circle<'w>(knot: &BTreeSet<usize>, waits: &'w [Vec<PhaseWait>]) -> Option<Vec<(usize, &'w PhaseWait)>> {
    knot.iter().filter_map(|start| around(*start, knot, waits)).min_by_key(Vec::len)
}

fn around<'w>(
    start: usize,
    knot: &BTreeSet<usize>,
    waits: &'w [Vec<PhaseWait>],
) -> Option<Vec<(usize, &'w PhaseWait)>> {
    let mut came: HashMap<usize, (usize, &PhaseWait)> = HashMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for arc in waits[node].iter().filter(|arc| knot.contains(&arc.to)) {
            if came.contains_key(&arc.to) {
                continue;
            }
            came.insert(arc.to, (node, arc));
            if arc.to == start {
                return Some(walk_back(start, &came));
            }
            open.push_back(arc.to);
        }
    }
    None
}

fn walk_back<'w>(start: usize, came: &HashMap<usize, (usize, &'w PhaseWait)>) -> Vec<(usize, &'w PhaseWait)> {
    let mut path = Vec::new();
    let mut at = start;
    while let Some((from, arc)) = came.get(&at) {
        path.push((*from, *arc));
        at = *from;
        if at == start {
            break;
        }
    }
    path.reverse();
    path
}

fn diagnose(circle: &[(usize, &PhaseWait)], steps: &[GraphStep], links: &[DependencyLink]) -> Diag {
    let name = |step: StepIndex| format!("{}/{}", steps[step.0 as usize].recipe, steps[step.0 as usize].step);
    // The edges of the cycle, from each dependent step to its dependency.
    let edges: Vec<&GraphEdge> = circle.iter().rev().filter_map(|(_, arc)| arc.edge.as_ref()).collect();
    let mut chain: Vec<String> = edges.iter().map(|edge| format!("`{}`", name(edge.to))).collect();
    chain.extend(edges.first().map(|edge| format!("`{}`", name(edge.to))));
    let message = match steps_of(&circle.iter().map(|(node, _)| *node).collect::<Vec<_>>()).len() {
        1 => format!("{} depends on itself", chain.first().map_or("", String::as_str)),
        _ => format!("dependency cycle: {}", chain.join(" → ")),
    };
    let mut diag = Diag::error(Code::Cycle, message);
    for edge in &edges {
        let label = format!("`{}` {} `{}`{}", name(edge.to), verb(edge.why), name(edge.from), at(edge.phase));
        diag = match edge.link.and_then(|link| links.get(link as usize)) {
            Some(link) if diag.span.is_none() => diag.at(link.span).label(label),
            Some(link) => diag.also(link.span, label),
            None => diag.note(label),
        };
    }
    if diag.span.is_none() {
        diag.span = edges.first().map(|edge| steps[edge.to.0 as usize].span);
    }
    diag
}

fn verb(why: DependencyKind) -> &'static str {
    match why {
        DependencyKind::Order => "is declared below",
        DependencyKind::After => "runs after",
        DependencyKind::Needs | DependencyKind::Barrier => "needs",
        DependencyKind::Restart => "restarts on",
        DependencyKind::Export => "uses a value of",
    }
}

fn at(phase: StepPhase) -> String {
    match phase {
        StepPhase::Configured => String::new(),
        other => format!(" to be {}", other.name()),
    }
}
