//! When a step runs relative to the window of its host: before it opens, while it is open, after it is closed.

use crate::graph::{DependencyKind, Graph, GraphEdge, StepIndex};
use crate::model::StepPhase;
use crate::plan::resolve_predecessor;

use super::host_window::StepStage;
use std::collections::{BTreeMap, BTreeSet};

/// The properties that decide when a step runs.
#[derive(Clone, Copy, Debug)]
pub struct StageNode {
    pub index: StepIndex,
    /// Whether it belongs to the window by itself.
    pub member: bool,
    /// Whether a reboot is planned to make it effective.
    pub awaits: bool,
    /// Whether it waits for other hosts.
    pub crosses: bool,
}

/// Returns when each step runs. `nodes` are the steps of a host in graph order. No step runs in an earlier stage than a
/// step that it waits for, and a step that needs another one to be effective runs after the reboot that makes it so.
pub fn assign_stages(graph: &Graph, nodes: &[StageNode]) -> BTreeMap<StepIndex, StepStage> {
    let mut rounds = RebootRounds { graph, nodes, known: BTreeMap::new() };
    for node in nodes {
        let round = rounds.compute_round(node);
        let effective = if node.awaits { Some(round.unwrap_or(0) + 1) } else { round };
        rounds.known.insert(node.index, RebootRound { own: round, effective });
    }
    let late = rounds.find_late_steps();
    let stage = |node: &StageNode| match rounds.known.get(&node.index).and_then(|round| round.own) {
        None => StepStage::Before,
        Some(_) if late.contains(&node.index) => StepStage::After,
        Some(reboots) => StepStage::Inside(reboots),
    };
    nodes.iter().map(|node| (node.index, stage(node))).collect()
}

/// The number of reboots after which a step runs, and after which it is effective; `None` outside of the window.
#[derive(Clone, Copy)]
struct RebootRound {
    own: Option<u32>,
    effective: Option<u32>,
}

struct RebootRounds<'g> {
    graph: &'g Graph,
    nodes: &'g [StageNode],
    known: BTreeMap<StepIndex, RebootRound>,
}

impl RebootRounds<'_> {
    fn compute_round(&self, node: &StageNode) -> Option<u32> {
        let own = node.member.then_some(0);
        let others = self.graph.incoming_edges(node.index).filter_map(|edge| self.round_after_edge(edge));
        others.chain(own).max()
    }

    /// Returns the earliest round in which an edge allows its target to begin.
    fn round_after_edge(&self, edge: &GraphEdge) -> Option<u32> {
        let round = self.known.get(&self.find_predecessor(edge)?)?;
        match edge.why {
            DependencyKind::Needs | DependencyKind::Barrier | DependencyKind::Export
                if edge.phase >= StepPhase::Effective =>
            {
                round.effective
            }
            _ => round.own,
        }
    }

    fn find_predecessor(&self, edge: &GraphEdge) -> Option<StepIndex> {
        resolve_predecessor(self.graph, edge, |step| self.known.contains_key(&step))
    }

    /// Returns the steps that run after the window is closed: those that wait for other hosts, and their dependents,
    /// unless the window itself waits for them.
    fn find_late_steps(&self) -> BTreeSet<StepIndex> {
        let wanted = self.find_wanted_steps();
        let mut late = BTreeSet::new();
        for node in self.nodes.iter().filter(|node| !wanted.contains(&node.index)) {
            let behind = || self.graph.incoming_edges(node.index).filter_map(|edge| self.find_predecessor(edge));
            if node.crosses || behind().any(|from| late.contains(&from)) {
                late.insert(node.index);
            }
        }
        late
    }

    /// Returns the steps of the window with all their dependencies.
    fn find_wanted_steps(&self) -> BTreeSet<StepIndex> {
        let mut wanted: BTreeSet<StepIndex> =
            self.nodes.iter().filter(|node| node.member || node.awaits).map(|node| node.index).collect();
        for node in self.nodes.iter().rev() {
            if wanted.contains(&node.index) {
                wanted.extend(self.graph.incoming_edges(node.index).filter_map(|edge| self.find_predecessor(edge)));
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::{FileId, Span};
    use crate::graph::{DependencyLink, GraphEndpoint, GraphStep};

    const SPAN: Span = Span { file: FileId(0), start: 0, end: 0 };

    fn end(text: &str) -> GraphEndpoint {
        let (recipe, step) = text.split_once('/').unwrap();
        GraphEndpoint { recipe: recipe.into(), step: Some(step.into()) }
    }

    fn graph(links: &[(&str, &str, DependencyKind, StepPhase)]) -> Graph {
        let steps = ["nouveau/file", "gsp/file", "driver/pkg", "fm/pkg", "fm/svc", "motd/file", "nccl/test", "late/x"];
        let declared = |name: &&str| {
            let (recipe, step) = name.split_once('/').unwrap();
            GraphStep { recipe: recipe.into(), step: step.into(), span: SPAN }
        };
        let link = |(to, from, why, phase): &(&str, &str, DependencyKind, StepPhase)| DependencyLink {
            from: end(from),
            phase: *phase,
            to: end(to),
            why: *why,
            span: SPAN,
        };
        Graph::build(&steps.iter().map(declared).collect::<Vec<_>>(), &links.iter().map(link).collect::<Vec<_>>())
            .unwrap()
    }

    /// `member`, `awaits` and `crosses` are names of steps.
    fn of(graph: &Graph, member: &[&str], awaits: &[&str], crosses: &[&str]) -> Vec<(String, StepStage)> {
        let has = |list: &[&str], index| list.contains(&graph.step_id(index).to_string().as_str());
        let node = |index: &StepIndex| StageNode {
            index: *index,
            member: has(member, *index),
            awaits: has(awaits, *index),
            crosses: has(crosses, *index),
        };
        let nodes: Vec<StageNode> = graph.order().iter().map(node).collect();
        let stages = assign_stages(graph, &nodes);
        let named = stages.iter().map(|(index, stage)| (graph.step_id(*index).to_string(), *stage));
        named.filter(|(_, stage)| *stage != StepStage::Before).collect()
    }

    fn named(list: &[(&str, StepStage)]) -> Vec<(String, StepStage)> {
        list.iter().map(|(name, stage)| ((*name).to_owned(), *stage)).collect()
    }

    const CHAIN: [(&str, &str, DependencyKind, StepPhase); 3] = [
        ("driver/pkg", "nouveau/file", DependencyKind::Needs, StepPhase::Effective),
        ("driver/pkg", "gsp/file", DependencyKind::After, StepPhase::Configured),
        ("fm/pkg", "driver/pkg", DependencyKind::Needs, StepPhase::Effective),
    ];

    #[test]
    fn dependents_of_a_window_step_run_inside_the_window() {
        let graph = graph(&CHAIN);
        let found = of(&graph, &["driver/pkg"], &[], &[]);
        let inside = StepStage::Inside(0);
        assert_eq!(found, named(&[("driver/pkg", inside), ("fm/pkg", inside), ("fm/svc", inside)]));
        assert_eq!(of(&graph, &[], &[], &[]), []);
    }

    #[test]
    fn steps_that_need_a_reboot_share_one() {
        let found = of(&graph(&CHAIN), &[], &["nouveau/file", "gsp/file"], &[]);
        let after = StepStage::Inside(1);
        assert_eq!(found, named(&[("driver/pkg", after), ("fm/pkg", after), ("fm/svc", after)]));
    }

    #[test]
    fn step_matching_the_loaded_version_waits_for_the_reboot() {
        let found = of(&graph(&CHAIN), &["driver/pkg", "fm/pkg"], &["nouveau/file", "driver/pkg"], &[]);
        let (first, second) = (StepStage::Inside(1), StepStage::Inside(2));
        assert_eq!(found, named(&[("driver/pkg", first), ("fm/pkg", second), ("fm/svc", second)]));
    }

    #[test]
    fn order_only_dependency_does_not_wait_for_the_reboot() {
        let links = [("driver/pkg", "gsp/file", DependencyKind::After, StepPhase::Effective)];
        assert_eq!(
            of(&graph(&links), &["driver/pkg"], &["gsp/file"], &[]),
            named(&[("driver/pkg", StepStage::Inside(0))])
        );
    }

    #[test]
    fn step_waiting_for_other_hosts_runs_after_the_window() {
        let links = [
            ("nccl/test", "driver/pkg", DependencyKind::Barrier, StepPhase::Effective),
            ("late/x", "nccl/test", DependencyKind::Needs, StepPhase::Effective),
        ];
        let found = of(&graph(&links), &["driver/pkg"], &[], &["nccl/test"]);
        let driver = ("driver/pkg", StepStage::Inside(0));
        assert_eq!(found, named(&[driver, ("nccl/test", StepStage::After), ("late/x", StepStage::After)]));
        // Unless the window depends on it.
        let found = of(&graph(&links), &["driver/pkg", "late/x"], &[], &["nccl/test"]);
        assert!(found.iter().all(|(_, stage)| *stage == StepStage::Inside(0)), "{found:?}");
    }
}
