//! One host with everything that is known of it: the ground that planner and engine judge on.

use super::HostSeen;
use crate::config::{Expanded, Expander, Exports, FactSource, Host, Instance, Known, Project, Step, StepFilter};
use crate::graph::StepIndex;
use crate::model::{HostName, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which host of a selection a `one` step runs on.
pub type Chosen = BTreeMap<StepIndex, BTreeSet<HostName>>;

/// What holds for every host of a run.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    pub project: &'a Project,
    pub expander: &'a Expander<'a>,
    pub filter: &'a StepFilter,
    pub exports: &'a Exports,
    pub chosen: &'a Chosen,
    /// Position of each step in the graph's order, by its index.
    pub positions: &'a [u32],
    /// With the secrets that hosts exported.
    pub secrets: &'a crate::model::SecretStore,
}

/// One host on that ground.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub ground: Ground<'a>,
    pub host: &'a Host,
    pub seen: &'a HostSeen,
}

/// One turn of a step on the host, in the order it would run.
#[derive(Clone, Debug)]
pub struct Turn<'a> {
    pub index: StepIndex,
    pub instance: &'a Arc<Instance>,
    pub step: &'a Arc<Step>,
    pub expanded: Expanded,
}

/// Returns the position of each step in the graph's order, by its index.
pub fn positions(graph: &crate::graph::Graph) -> Vec<u32> {
    let mut positions = vec![0; graph.order().len()];
    for (position, index) in graph.order().iter().enumerate() {
        positions[index.0 as usize] = position as u32;
    }
    positions
}

impl<'a> Case<'a> {
    pub fn new(ground: Ground<'a>, host: &'a HostName, seen: &'a HostSeen) -> Option<Self> {
        Some(Self { ground, host: ground.project.hosts.get(host)?, seen })
    }

    pub fn known(&self) -> Known<'a> {
        let facts = if self.seen.is_observed() && self.seen.trips > 0 {
            FactSource::Known(&self.seen.facts)
        } else {
            FactSource::NotYet
        };
        Known { facts, exports: self.ground.exports }
    }

    pub fn instances(&self) -> &'a [Arc<Instance>] {
        self.ground.project.instances.get(&self.host.name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the steps of this host in graph order, without those the filter leaves out.
    pub fn steps(&self) -> Vec<(StepIndex, &'a Arc<Instance>, &'a Arc<Step>)> {
        let graph = &self.ground.project.graph;
        let mut steps: Vec<_> = self
            .instances()
            .iter()
            .flat_map(|instance| instance.recipe.steps.iter().map(move |step| (instance, step)))
            .filter(|(instance, step)| self.ground.filter.admits(&instance.recipe.name, &step.name))
            .filter_map(|(instance, step)| Some((graph.find(&instance.recipe.name, &step.name)?, instance, step)))
            .collect();
        steps.sort_by_key(|(index, _, _)| self.ground.positions.get(index.0 as usize).copied());
        steps
    }

    /// Returns whether this host is the one that runs a step of scope `one` or `fleet`, or every host does.
    pub fn runs(&self, index: StepIndex, step: &Step) -> bool {
        match step.scope {
            Scope::Host => true,
            Scope::One | Scope::Fleet => {
                self.ground.chosen.get(&index).is_some_and(|hosts| hosts.contains(&self.host.name))
            }
            Scope::Cluster => false,
        }
    }

    /// Expands the steps that run here.
    pub fn turns(&self) -> Vec<Turn<'a>> {
        self.expand(|case, index, step| case.runs(index, step))
    }

    /// Expands the steps that could run here: a `one` step is looked at on every host before one is chosen.
    pub fn candidate_turns(&self) -> Vec<Turn<'a>> {
        self.expand(|case, index, step| match step.scope {
            Scope::One => case.ground.chosen.get(&index).is_none_or(|hosts| hosts.contains(&case.host.name)),
            _ => case.runs(index, step),
        })
    }

    fn expand(&self, admits: impl Fn(&Self, StepIndex, &Step) -> bool) -> Vec<Turn<'a>> {
        let known = self.known();
        let mut turns = Vec::new();
        for (index, instance, step) in self.steps() {
            if !admits(self, index, step) {
                continue;
            }
            let expanded = self.ground.expander.expand(self.host, instance, step, &known);
            turns.extend(expanded.iter().map(|e| Turn { index, instance, step, expanded: e.clone() }));
        }
        turns
    }
}
