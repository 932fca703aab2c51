//! Waits between the phases of steps.

use super::edge::{GraphEdge, StepIndex};
use crate::model::StepPhase;
use std::collections::BTreeSet;

/// Nodes are pairs of step and phase, numbered by step and phase; an arc leads to the dependent node.
pub(super) fn phase_node(step: StepIndex, phase: StepPhase) -> usize {
    step.0 as usize * 3 + phase as usize
}

pub(super) fn list_phase_waits(steps: usize, edges: &[GraphEdge]) -> Vec<Vec<PhaseWait>> {
    let mut waits = vec![Vec::new(); steps * 3];
    for step in 0..steps {
        let at = |phase| phase_node(StepIndex(step as u32), phase);
        waits[at(StepPhase::Configured)].push(PhaseWait { to: at(StepPhase::Effective), edge: None });
        waits[at(StepPhase::Effective)].push(PhaseWait { to: at(StepPhase::Verified), edge: None });
    }
    for edge in edges {
        waits[phase_node(edge.from, edge.phase)]
            .push(PhaseWait { to: phase_node(edge.to, StepPhase::Configured), edge: Some(edge.clone()) });
    }
    waits
}

/// Returns the steps of a set of nodes.
pub(super) fn steps_of_nodes(nodes: &[usize]) -> BTreeSet<usize> {
    nodes.iter().map(|node| node / 3).collect()
}

/// A dependency between nodes; `edge` is `None` between the phases of one step.
#[derive(Clone, Debug)]
pub(super) struct PhaseWait {
    pub to: usize,
    pub edge: Option<GraphEdge>,
}
