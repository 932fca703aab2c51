//! One host with everything that is known about it: the context in which planner and engine evaluate steps.

use super::{ObservedHost, PlanPolicy, removal_record};
use crate::config::{
    ExpandedStep, ExpansionInputs, ExportedValues, FactSource, Host, Project, RecipeInstance, RecipeStep,
    SharedExpandedStep, StepExpander, StepFilter,
};
use crate::graph::{Graph, StepIndex};
use crate::model::{HostName, StepId, StepScope, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The host of a selection on which a `one` step runs.
pub type ChosenHosts = BTreeMap<StepIndex, BTreeSet<HostName>>;

/// The context that all hosts of a run share.
#[derive(Clone, Copy, Debug)]
pub struct PlanContext<'a> {
    /// The inventory with its recipes.
    pub project: &'a Project,
    /// Renders the templates of steps; shared, so that equal results are computed once.
    pub expander: &'a StepExpander<'a>,
    /// The steps that the run includes.
    pub filter: &'a StepFilter,
    /// The values that steps export to other steps, as far as they exist.
    pub exports: &'a ExportedValues,
    /// The hosts that run the steps of scope `one` and `fleet`.
    pub chosen: &'a ChosenHosts,
    /// Includes the secrets that hosts exported.
    pub secrets: &'a crate::model::SecretStore,
    /// How much the run may disturb.
    pub policy: PlanPolicy,
}

/// One host in that context.
#[derive(Clone, Copy, Debug)]
pub struct HostContext<'a> {
    /// What the host shares with the other hosts of the run.
    pub ground: PlanContext<'a>,
    /// The host as the inventory declares it.
    pub host: &'a Host,
    /// The observed state of the host.
    pub seen: &'a ObservedHost,
    /// The dependency graph that orders the steps of this host.
    pub graph: &'a Graph,
}

/// One instance of a step on the host (one element of its `each`), in execution order.
#[derive(Clone, Debug)]
pub struct StepInstance<'a> {
    /// The step's position in the dependency graph.
    pub index: StepIndex,
    /// The recipe that the step belongs to, with the host's parameters.
    pub instance: &'a Arc<RecipeInstance>,
    /// The declaration of the step.
    pub step: &'a Arc<RecipeStep>,
    /// The step with its templates rendered for this host.
    pub expanded: SharedExpandedStep,
}

impl<'a> HostContext<'a> {
    /// Builds the context; `None` if the inventory does not have the host.
    pub fn new(ground: PlanContext<'a>, host: &'a HostName, seen: &'a ObservedHost) -> Option<Self> {
        let project = ground.project;
        Some(Self { ground, host: project.hosts.get(host)?, seen, graph: project.graph_for_host(host) })
    }

    /// Returns the facts and exported values that templates may read. An unobserved host has no facts yet.
    pub fn known_values(&self) -> ExpansionInputs<'a> {
        let facts = if self.seen.is_observed() && self.seen.trips > 0 {
            FactSource::Known(&self.seen.facts)
        } else {
            FactSource::NotYet
        };
        ExpansionInputs { facts, exports: self.ground.exports }
    }

    /// Returns the record of the last verified apply of a step instance.
    pub fn find_record(&self, turn: &StepId) -> Option<&'a Value> {
        match self.seen.records.is_empty() {
            true => None,
            false => self.seen.find_record(&self.ground.project.cluster, &turn.to_string()),
        }
    }

    /// Returns whether a record shows that a step instance was applied here and not removed since.
    pub fn was_applied(&self, turn: &StepId) -> bool {
        self.find_record(turn).is_some_and(|record| !removal_record::is_removal_record(record))
    }

    /// Returns the recipes that are applied to the host, with its parameters; empty if there are none.
    pub fn instances(&self) -> &'a [Arc<RecipeInstance>] {
        self.ground.project.instances.get(&self.host.name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the steps of this host in graph order, without those that the filter excludes.
    pub fn list_steps(&self) -> Vec<(StepIndex, &'a Arc<RecipeInstance>, &'a Arc<RecipeStep>)> {
        let graph = self.graph;
        let mut steps: Vec<_> = self
            .instances()
            .iter()
            .flat_map(|instance| instance.recipe.steps.iter().map(move |step| (instance, step)))
            .filter(|(instance, step)| self.ground.filter.admits_step(&instance.recipe.name, &step.name))
            .filter(|(_, step)| self.ground.filter.admits_level(step.level))
            .filter_map(|(instance, step)| Some((graph.find_step(&instance.recipe.name, &step.name)?, instance, step)))
            .collect();
        steps.sort_by_key(|(index, _, _)| graph.order_position(*index));
        steps
    }

    /// Returns whether this host runs a step: every host does, except for the scopes `one` and `fleet`. A removal runs
    /// on every host, because any of them may have been the one that applied the step for all.
    pub fn runs_here(&self, index: StepIndex, instance: &RecipeInstance, step: &RecipeStep) -> bool {
        match step.scope {
            // Only the cluster's API has steps of scope `cluster`.
            StepScope::Host | StepScope::Cluster => true,
            StepScope::One if instance.absent => true,
            StepScope::One | StepScope::Fleet => {
                self.ground.chosen.get(&index).is_some_and(|hosts| hosts.contains(&self.host.name))
            }
        }
    }

    /// Expands the steps that run here.
    pub fn expand_local_steps(&self) -> Vec<StepInstance<'a>> {
        self.expand_steps(|case, index, instance, step| case.runs_here(index, instance, step))
    }

    /// Expands the steps that could run here: a `one` step is observed on every host before one host is chosen.
    pub fn expand_candidate_steps(&self) -> Vec<StepInstance<'a>> {
        self.expand_steps(|case, index, instance, step| match step.scope {
            StepScope::One if case.ground.chosen.get(&index).is_none() => true,
            _ => case.runs_here(index, instance, step),
        })
    }

    /// Expands every step that is declared for the host, also those that the filter excludes or that run on other
    /// hosts.
    pub(super) fn expand_declared_steps(&self) -> Vec<Arc<[ExpandedStep]>> {
        let known = self.known_values();
        let steps = self.instances().iter().flat_map(|i| i.recipe.steps.iter().map(move |step| (i, step)));
        steps.map(|(instance, step)| self.ground.expander.expand_step(self.host, instance, step, &known)).collect()
    }

    fn expand_steps(
        &self,
        admits: impl Fn(&Self, StepIndex, &RecipeInstance, &RecipeStep) -> bool,
    ) -> Vec<StepInstance<'a>> {
        let known = self.known_values();
        let mut turns = Vec::new();
        for (index, instance, step) in self.list_steps() {
            if !admits(self, index, instance, step) {
                continue;
            }
            let expanded = self.ground.expander.expand_step(self.host, instance, step, &known);
            let own = SharedExpandedStep::iter_shared(&expanded).map(|expanded| StepInstance {
                index,
                instance,
                step,
                expanded,
            });
            // A list is removed in reverse order.
            match instance.absent {
                true => turns.extend(own.rev()),
                false => turns.extend(own),
            }
        }
        turns
    }
}
