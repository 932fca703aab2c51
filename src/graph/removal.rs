//! The graph of hosts with removals: the reverse order of installation.

use super::edge::{GraphEdge, StepIndex};
use super::{DependencyKind, Graph, build};
use crate::model::StepPhase;
use std::collections::BTreeSet;

impl Graph {
    /// Returns the same steps for a host on which the recipes `absent` are removed. All edges between these are
    /// reversed: the steps of a recipe run from last to first, and dependents of a recipe are removed before it.
    /// Between a removed and a remaining recipe the removal comes first, whatever the direction of the edge. A removal
    /// does not wait for other dependencies of its recipe.
    pub fn for_removal(&self, absent: &BTreeSet<&str>) -> Graph {
        let gone = |at: StepIndex| absent.contains(&*self.step_id(at).recipe);
        let edges = self.edges.iter().filter_map(|edge| reverse_edge(edge, gone(edge.from), gone(edge.to)));
        // The reversal of an acyclic graph is acyclic, and no edge leads from a remaining recipe to a removed one.
        build::build_from_edges(self.steps.clone(), edges.collect())
    }
}

fn reverse_edge(edge: &GraphEdge, from_gone: bool, to_gone: bool) -> Option<GraphEdge> {
    if !to_gone {
        return Some(edge.clone());
    }
    let (phase, why) = edge.why.reverse_for_removal(from_gone)?;
    Some(GraphEdge { from: edge.to, to: edge.from, phase, why, link: edge.link })
}

impl DependencyKind {
    /// Returns the dependency in the other direction, for a dependent that is removed; `from_gone` if what it depends on is
    /// removed too. `None` if the removal has no such dependency.
    pub fn reverse_for_removal(self, from_gone: bool) -> Option<(StepPhase, Self)> {
        match (from_gone, self) {
            (_, Self::Export) => None,
            (true, Self::Order) => Some((StepPhase::Configured, Self::Order)),
            (true, Self::Needs) => Some((StepPhase::Effective, Self::Needs)),
            _ => Some((StepPhase::Configured, Self::After)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::{FileId, Span};
    use crate::graph::{DependencyLink, GraphEndpoint, GraphStep};

    fn sample_graph() -> Graph {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let step = |recipe: &str, step: &str| GraphStep { recipe: recipe.into(), step: step.into(), span };
        let end = |recipe: &str| GraphEndpoint { recipe: recipe.into(), step: None };
        let link = |to, from, phase, why| DependencyLink { from: end(from), phase, to: end(to), why, span };
        let steps = [step("base", "1"), step("base", "2"), step("app", "1"), step("app", "2"), step("new", "1")];
        let links = [
            link("app", "base", StepPhase::Verified, DependencyKind::Needs),
            link("new", "app", StepPhase::Configured, DependencyKind::After),
            link("app", "base", StepPhase::Configured, DependencyKind::Export),
        ];
        Graph::build(&steps, &links).unwrap()
    }

    fn removal_order(absent: &[&str]) -> Vec<String> {
        let graph = sample_graph().for_removal(&absent.iter().copied().collect());
        graph.order().iter().map(|index| graph.step_id(*index).to_string()).collect()
    }

    #[test]
    fn removal_reverses_the_build_order() {
        assert_eq!(removal_order(&["base", "app"]), ["app/2", "app/1", "base/2", "base/1", "new/1"]);
        assert_eq!(removal_order(&["base", "app", "new"]), ["new/1", "app/2", "app/1", "base/2", "base/1"]);
        assert_eq!(removal_order(&[]), ["base/1", "base/2", "app/1", "app/2", "new/1"]);
    }

    #[test]
    fn removal_is_ordered_before_steps_that_stay() {
        assert_eq!(removal_order(&["app"]), ["app/2", "app/1", "base/1", "base/2", "new/1"]);
        assert_eq!(removal_order(&["new"]), ["base/1", "base/2", "new/1", "app/1", "app/2"]);
    }

    #[test]
    fn removal_waits_only_for_other_removals() {
        let only_app = sample_graph().for_removal(&BTreeSet::from(["app"]));
        let last = only_app.find_step("app", "2").unwrap();
        assert_eq!(only_app.incoming_edges(last).count(), 0);
        let both = sample_graph().for_removal(&BTreeSet::from(["app", "base"]));
        let waits = both.incoming_edges(both.find_step("base", "2").unwrap());
        let waits: Vec<_> = waits.map(|edge| (both.step_id(edge.from).to_string(), edge.phase, edge.why)).collect();
        let needs = |step: &str| (step.to_owned(), StepPhase::Effective, DependencyKind::Needs);
        assert_eq!(waits, [needs("app/1"), needs("app/2")]);
    }
}
