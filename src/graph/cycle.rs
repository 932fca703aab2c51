//! Reports dependency cycles, each complete with the locations of its links.

use super::edge::{DependencyKind, DependencyLink, GraphEdge, GraphStep, StepIndex};
use super::phase_wait::{PhaseWait, steps_of_nodes};
use crate::diag::{Diag, DiagCode};
use crate::model::StepPhase;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Returns one diagnostic per set of mutually dependent steps: its shortest cycle.
pub(super) fn report_cycles(steps: &[GraphStep], links: &[DependencyLink], waits: &[Vec<PhaseWait>]) -> Vec<Diag> {
    let mut knots: Vec<BTreeSet<usize>> = find_cyclic_components(waits);
    knots.sort_by_key(|knot| knot.first().copied());
    knots
        .iter()
        .filter_map(|knot| find_shortest_cycle(knot, waits))
        .map(|circle| build_cycle_diag(&circle, steps, links))
        .collect()
}

fn find_cyclic_components(waits: &[Vec<PhaseWait>]) -> Vec<BTreeSet<usize>> {
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
fn find_shortest_cycle<'w>(knot: &BTreeSet<usize>, waits: &'w [Vec<PhaseWait>]) -> Option<Vec<(usize, &'w PhaseWait)>> {
    knot.iter().filter_map(|start| find_cycle_from(*start, knot, waits)).min_by_key(Vec::len)
}

fn find_cycle_from<'w>(
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
                return Some(trace_cycle_back(start, &came));
            }
            open.push_back(arc.to);
        }
    }
    None
}

fn trace_cycle_back<'w>(start: usize, came: &HashMap<usize, (usize, &'w PhaseWait)>) -> Vec<(usize, &'w PhaseWait)> {
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

fn build_cycle_diag(circle: &[(usize, &PhaseWait)], steps: &[GraphStep], links: &[DependencyLink]) -> Diag {
    let name = |step: StepIndex| format!("{}/{}", steps[step.0 as usize].recipe, steps[step.0 as usize].step);
    // The edges of the cycle, from each dependent step to its dependency.
    let edges: Vec<&GraphEdge> = circle.iter().rev().filter_map(|(_, arc)| arc.edge.as_ref()).collect();
    let mut chain: Vec<String> = edges.iter().map(|edge| format!("`{}`", name(edge.to))).collect();
    chain.extend(edges.first().map(|edge| format!("`{}`", name(edge.to))));
    let message = match steps_of_nodes(&circle.iter().map(|(node, _)| *node).collect::<Vec<_>>()).len() {
        1 => format!("{} depends on itself", chain.first().map_or("", String::as_str)),
        _ => format!("dependency cycle: {}", chain.join(" → ")),
    };
    let mut diag = Diag::error(DiagCode::Cycle, message);
    for edge in &edges {
        let label = format!(
            "`{}` {} `{}`{}",
            name(edge.to),
            edge_verb(edge.why),
            name(edge.from),
            format_phase_suffix(edge.phase)
        );
        diag = match edge.link.and_then(|link| links.get(link as usize)) {
            Some(link) if diag.span.is_none() => diag.with_span(link.span).label(label),
            Some(link) => diag.with_other_span(link.span, label),
            None => diag.note(label),
        };
    }
    if diag.span.is_none() {
        diag.span = edges.first().map(|edge| steps[edge.to.0 as usize].span);
    }
    diag
}

fn edge_verb(why: DependencyKind) -> &'static str {
    match why {
        DependencyKind::Order => "is declared below",
        DependencyKind::After => "runs after",
        DependencyKind::Needs | DependencyKind::Barrier => "needs",
        DependencyKind::Restart => "restarts on",
        DependencyKind::Export => "uses a value of",
    }
}

fn format_phase_suffix(phase: StepPhase) -> String {
    match phase {
        StepPhase::Configured => String::new(),
        other => format!(" to be {}", other.name()),
    }
}
