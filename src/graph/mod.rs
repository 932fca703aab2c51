//! The dependency graph of (step, phase) pairs: complete reports of cycles and a stable order.
//!
//! The graph is built from recipes; a host uses the part that is applied to it. Hosts with removals run that part in
//! reverse order. This module does not know recipes' files or values; `config` translates declarations.

mod build;
mod cycle;
mod edge;
mod phase_wait;
mod removal;
mod waves;

pub use edge::{DependencyKind, DependencyLink, GraphEdge, GraphEndpoint, GraphStep, StepIndex};

use crate::model::StepId;
use hashbrown::HashMap;
use std::sync::Arc;

/// All declared steps with their edges, without cycles.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(crate) steps: Vec<StepId>,
    pub(crate) edges: Vec<GraphEdge>,
    /// The links as declared.
    links: Vec<DependencyLink>,
    pub(crate) order: Arc<[StepIndex]>,
    /// Position of each step in `order`.
    positions: Vec<u32>,
    /// Recipe → step → position.
    index: HashMap<String, HashMap<String, StepIndex>>,
    /// Start offsets of the edges that end at each step: `edges` is sorted by the dependent step.
    starts: Vec<u32>,
}

impl Graph {
    /// Returns all steps in an order that respects all edges; independent steps keep the order of declaration.
    pub fn order(&self) -> &[StepIndex] {
        &self.order
    }

    /// Returns the position of a step in [`order`](Self::order).
    pub fn order_position(&self, index: StepIndex) -> Option<u32> {
        self.positions.get(index.0 as usize).copied()
    }

    /// Returns the identity (without key) of a step.
    pub fn step_id(&self, index: StepIndex) -> &StepId {
        &self.steps[index.0 as usize]
    }

    /// Returns the step with that recipe and name.
    pub fn find_step(&self, recipe: &str, step: &str) -> Option<StepIndex> {
        self.index.get(recipe)?.get(step).copied()
    }

    /// Returns the edges that end at `to`: its dependencies.
    pub fn incoming_edges(&self, to: StepIndex) -> impl Iterator<Item = &GraphEdge> {
        let at = to.0 as usize;
        let range = match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(start), Some(end)) => *start as usize..*end as usize,
            _ => 0..0,
        };
        self.edges[range].iter()
    }

    /// Returns the links as declared; those between whole recipes are not expanded.
    pub fn links(&self) -> &[DependencyLink] {
        &self.links
    }

    /// Returns all edges, sorted by the dependent step.
    pub fn edges(&self) -> &[GraphEdge] {
        &self.edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::{FileId, Span};
    use crate::model::StepPhase;
    use proptest::prelude::*;

    fn span_at(start: u32) -> Span {
        Span { file: FileId(0), start, end: start + 1 }
    }

    fn graph_step(recipe: &str, step: &str) -> GraphStep {
        GraphStep { recipe: recipe.into(), step: step.into(), span: span_at(0) }
    }

    fn parse_endpoint(text: &str) -> GraphEndpoint {
        match text.split_once('/') {
            Some((recipe, step)) => GraphEndpoint { recipe: recipe.into(), step: Some(step.into()) },
            None => GraphEndpoint { recipe: text.into(), step: None },
        }
    }

    fn needs_link(to: &str, from: &str, phase: StepPhase, place: u32) -> DependencyLink {
        DependencyLink {
            from: parse_endpoint(from),
            phase,
            to: parse_endpoint(to),
            why: DependencyKind::Needs,
            span: span_at(place),
        }
    }

    fn list_ordered_names(graph: &Graph) -> Vec<String> {
        graph.order().iter().map(|index| graph.step_id(*index).to_string()).collect()
    }

    #[test]
    fn order_follows_declaration_unless_an_edge_requires_otherwise() {
        let steps = [
            graph_step("fm", "pkg"),
            graph_step("fm", "svc"),
            graph_step("driver", "files"),
            graph_step("driver", "load"),
            graph_step("motd", "x"),
        ];
        let graph = Graph::build(&steps, &[needs_link("fm", "driver", StepPhase::Effective, 1)]).unwrap();
        assert_eq!(list_ordered_names(&graph), ["driver/files", "driver/load", "fm/pkg", "fm/svc", "motd/x"]);
        let waits = graph
            .incoming_edges(StepIndex(1))
            .map(|edge| (graph.step_id(edge.from).to_string(), edge.phase, edge.why))
            .collect::<Vec<_>>();
        let expected = [
            ("fm/pkg".to_owned(), StepPhase::Configured, DependencyKind::Order),
            ("driver/files".to_owned(), StepPhase::Effective, DependencyKind::Needs),
            ("driver/load".to_owned(), StepPhase::Effective, DependencyKind::Needs),
        ];
        assert_eq!(waits, expected);
    }

    #[test]
    fn two_recipes_may_interleave_by_phase() {
        let steps = [graph_step("a", "1"), graph_step("a", "2"), graph_step("b", "1")];
        let links =
            [needs_link("b/1", "a/1", StepPhase::Configured, 1), needs_link("a/2", "b/1", StepPhase::Effective, 2)];
        assert_eq!(list_ordered_names(&Graph::build(&steps, &links).unwrap()), ["a/1", "b/1", "a/2"]);
    }

    #[test]
    fn dependency_cycle_is_reported_with_all_locations() {
        let steps = [graph_step("a", "1"), graph_step("a", "2"), graph_step("b", "1"), graph_step("c", "1")];
        let links = [
            needs_link("b", "a/2", StepPhase::Effective, 10),
            needs_link("c", "b", StepPhase::Verified, 20),
            needs_link("a/1", "c/1", StepPhase::Configured, 30),
        ];
        let diags = Graph::build(&steps, &links).unwrap_err();
        assert_eq!(diags.len(), 1);
        let diag = &diags[0];
        assert_eq!(diag.message, "dependency cycle: `a/1` → `c/1` → `b/1` → `a/2` → `a/1`");
        let mut places: Vec<_> = diag.others.iter().map(|(span, label)| (span.start, label.clone())).collect();
        places.push((diag.span.unwrap().start, diag.label.clone().unwrap()));
        places.sort();
        let expected = [
            (10, "`b/1` needs `a/2` to be effective".to_owned()),
            (20, "`c/1` needs `b/1` to be verified".to_owned()),
            (30, "`a/1` needs `c/1`".to_owned()),
        ];
        assert_eq!(places, expected);
        assert_eq!(diag.notes, ["`a/2` is declared below `a/1`"]);
    }

    #[test]
    fn a_step_cannot_wait_for_itself() {
        let steps = [graph_step("a", "1")];
        let diags = Graph::build(&steps, &[needs_link("a/1", "a/1", StepPhase::Effective, 1)]).unwrap_err();
        assert_eq!(diags[0].message, "`a/1` depends on itself");
    }

    proptest! {
        #[test]
        fn the_order_respects_every_edge(links in proptest::collection::vec((0usize..12, 0usize..12, 0usize..3), 0..24)) {
            let steps: Vec<GraphStep> = (0..12).map(|at| graph_step(&format!("r{}", at / 3), &format!("s{}", at % 3))).collect();
            let name = |at: usize| format!("{}/{}", steps[at].recipe, steps[at].step);
            let links: Vec<DependencyLink> = links.iter().map(|(to, from, phase)| needs_link(&name(*to), &name(*from), StepPhase::ALL[*phase], 1)).collect();
            match Graph::build(&steps, &links) {
                Ok(graph) => {
                    let position = |index: StepIndex| graph.order().iter().position(|at| *at == index);
                    prop_assert_eq!(graph.order().len(), 12);
                    for edge in graph.edges() {
                        prop_assert!(position(edge.from) < position(edge.to));
                    }
                }
                Err(diags) => prop_assert!(!diags.is_empty() && diags.iter().all(|d| d.span.is_some())),
            }
        }
    }
}
