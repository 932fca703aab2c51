//! The graph of (step, phase): who waits for whom on a host, cycles printed whole, and a stable order.
//!
//! The graph is the same for every host: it is made of recipes, and a host takes the part of it that is
//! applied to it. Nothing here knows of recipes' files or values; `config` translates what was written.

mod build;
mod cycle;

pub use build::{Declared, Endpoint, Link, Why};

use crate::model::{Phase, StepId};
use std::sync::Arc;

/// A step by its position in the declared order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u32);

/// One edge between two steps, resolved: `to` may not begin before `from` has reached `phase`.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub from: StepIndex,
    /// The phase of `from` that is waited for.
    pub phase: Phase,
    pub to: StepIndex,
    pub why: Why,
    /// Position in the declared links, for places; `None` for the order in which steps are written.
    pub link: Option<u32>,
}

/// Every declared step with its edges; without cycles.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(crate) steps: Vec<StepId>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) order: Arc<[StepIndex]>,
}

impl Graph {
    /// Returns every step in an order that respects all edges; steps that are free keep the order in
    /// which they were declared.
    pub fn order(&self) -> &[StepIndex] {
        &self.order
    }

    /// Returns the identity (without key) of a step.
    pub fn step(&self, index: StepIndex) -> &StepId {
        &self.steps[index.0 as usize]
    }

    /// Returns the step of that recipe and name.
    pub fn find(&self, recipe: &str, step: &str) -> Option<StepIndex> {
        let at = self.steps.iter().position(|id| &*id.recipe == recipe && &*id.step == step)?;
        Some(StepIndex(at as u32))
    }

    /// Returns the edges that end at `to`: what it waits for.
    pub fn waits_for(&self, to: StepIndex) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.to == to)
    }

    /// Returns every edge, ordered by the step that waits.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
}
