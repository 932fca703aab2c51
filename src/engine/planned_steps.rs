//! The planned steps of one host: found by their names, or by the group that runs them.

use super::run_context::ApplyContext;
use super::step_groups::HostStepGroup;
use crate::graph::{Graph, StepIndex};
use crate::model::StepId;
use crate::plan::{HostPlan, SharedList, StepInstance, StepPlan, StepStage};
use std::collections::BTreeMap;

/// The planned steps of a host.
pub(super) struct PlannedSteps<'r> {
    graph: &'r Graph,
    steps: &'r SharedList<StepPlan>,
    by_id: BTreeMap<StepId, &'r StepPlan>,
}

impl<'r> PlannedSteps<'r> {
    pub fn new(run: &ApplyContext<'r>, plan: &'r HostPlan) -> Self {
        let by_id = plan.steps.iter().map(|step| (step.id.clone(), step)).collect();
        Self { graph: &run.project.graph, steps: &plan.steps, by_id }
    }

    /// Returns the planned steps of a group, in order.
    pub fn list_group(&self, group: &HostStepGroup) -> impl Iterator<Item = &'r StepPlan> {
        self.steps.iter().filter(|step| group.steps.iter().any(|index| self.is_same_step(*index, &step.id)))
    }

    /// Returns those planned steps of a group that belong to one step of the graph.
    pub fn list_step(&self, group: &HostStepGroup, index: StepIndex) -> impl Iterator<Item = &'r StepPlan> {
        self.list_group(group).filter(move |step| self.is_same_step(index, &step.id))
    }

    /// Reports whether `id` is an instance of a step of the graph.
    pub fn is_same_step(&self, index: StepIndex, id: &StepId) -> bool {
        let step = self.graph.step_id(index);
        step.recipe == id.recipe && step.step == id.step
    }

    /// Returns the stage in which a group runs.
    pub fn find_group_stage(&self, group: &HostStepGroup) -> StepStage {
        self.list_group(group).map(|step| step.stage).max().unwrap_or_default()
    }

    /// Returns the planned step of a turn. A step whose list was not known at plan time was planned as one.
    pub fn find_instance(&self, turn: &StepInstance<'_>) -> Option<&'r StepPlan> {
        let id = &turn.expanded.id;
        let whole = || self.by_id.get(&StepId { key: None, ..id.clone() }).filter(|step| step.envelope.is_some());
        self.by_id.get(id).or_else(whole).copied()
    }
}
