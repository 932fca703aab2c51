//! The graph of hosts with removals: the reverse order of installation.

use super::{DependencyKind, Graph, GraphEdge, StepIndex, build};
use crate::model::StepPhase;
use std::collections::BTreeSet;

impl Graph {
    /// Returns the same steps for a host on which the recipes `absent` are removed. All edges between these are
    /// reversed: the steps of a recipe run from last to first, and dependents of a recipe are removed before it.
    /// Between a removed and a remaining recipe the removal comes first, whatever the direction of the edge. A removal
    /// does not wait for other dependencies of its recipe.
    pub fn removing(&self, absent: &BTreeSet<&str>) -> Graph {
        let gone = |at: StepIndex| absent.contains(&*self.step(at).recipe);
        let edges = self.edges.iter().filter_map(|edge| turned(edge, gone(edge.from), gone(edge.to)));
        // The reversal of an acyclic graph is acyclic, and no edge leads from a remaining recipe to a removed one.
        build::graph(self.steps.clone(), edges.collect())
    }
}

fn turned(edge: &GraphEdge, from_gone: bool, to_gone: bool) -> Option<GraphEdge> {
    let (phase, why) = match (from_gone, edge.why) {
        _ if !to_gone => return Some(edge.clone()),
        (_, DependencyKind::Export) => return None,
        (true, DependencyKind::Order) => (StepPhase::Configured, DependencyKind::Order),
        (true, DependencyKind::Needs) => (StepPhase::Effective, DependencyKind::Needs),
        _ => (StepPhase::Configured, DependencyKind::After),
    };
    Some(GraphEdge { from: edge.to, to: edge.from, phase, why, link: edge.link })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::{FileId, Span};
    use crate::graph::{DependencyLink, GraphEndpoint, GraphStep};

    fn graph() -> Graph {
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

    fn order(absent: &[&str]) -> Vec<String> {
        let graph = graph().removing(&absent.iter().copied().collect());
        graph.order().iter().map(|index| graph.step(*index).to_string()).collect()
    }

    #[test]
    fn what_was_built_last_goes_first() {
        assert_eq!(order(&["base", "app"]), ["app/2", "app/1", "base/2", "base/1", "new/1"]);
        assert_eq!(order(&["base", "app", "new"]), ["new/1", "app/2", "app/1", "base/2", "base/1"]);
        assert_eq!(order(&[]), ["base/1", "base/2", "app/1", "app/2", "new/1"]);
    }

    #[test]
    fn what_goes_comes_before_what_stays() {
        assert_eq!(order(&["app"]), ["app/2", "app/1", "base/1", "base/2", "new/1"]);
        assert_eq!(order(&["new"]), ["base/1", "base/2", "new/1", "app/1", "app/2"]);
    }

    #[test]
    fn a_removal_waits_for_nothing_but_removals() {
        let only_app = graph().removing(&BTreeSet::from(["app"]));
        let last = only_app.find("app", "2").unwrap();
        assert_eq!(only_app.waits_for(last).count(), 0);
        let both = graph().removing(&BTreeSet::from(["app", "base"]));
        let waits = both.waits_for(both.find("base", "2").unwrap());
        let waits: Vec<_> = waits.map(|edge| (both.step(edge.from).to_string(), edge.phase, edge.why)).collect();
        let needs = |step: &str| (step.to_owned(), StepPhase::Effective, DependencyKind::Needs);
        assert_eq!(waits, [needs("app/1"), needs("app/2")]);
    }
}
