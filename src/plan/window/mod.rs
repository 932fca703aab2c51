//! A host's window: the changes that take it out of service, as one transaction. This module determines the changes in
//! it, the units that stop meanwhile, and the reboots it needs.
//!
//! All of it follows from the evaluated steps. The only state from earlier runs is a mark on the host that a window was
//! left open.

mod members;
mod stage;

pub use members::{
    WindowScope, explain_unopened_window, has_delayed_effect, list_effect_triggers, needs_reboot, step_disruption,
};
pub use stage::StepStage;

use super::{
    ChangeCertainty, HostContext, HostWarning, ObservedHost, ObservedNode, PredictedEffects, StepAssessment,
    StepInstance, StepPlan, describe_resource,
};
use crate::config::{self, ExpansionState};
use crate::graph::StepIndex;
use crate::model::{DisruptionClass, StepId, StepVerdict, UntrustedText, Value};
use crate::resource::{Assessment, AttributeChange};
use members::WindowMembers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stage::{StageNode, assign_stages};
use std::collections::{BTreeMap, BTreeSet};

/// The file in which a host records that its window is open.
pub const WINDOW_MARK: &str = "/var/lib/forge/window.json";

/// The changes that take a host out of service, with the stops, reboots and drains that they need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostWindow {
    /// The steps that make it necessary, and those that are tied to them by a version.
    pub steps: Vec<StepId>,
    /// Units that are stopped while it is open. The steps that declare them running start them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<WindowStop>,
    /// Kernel modules that are unloaded while it is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unloads: Vec<WindowStop>,
    /// In order. A host does not reboot more often than this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reboots: Vec<PlannedReboot>,
    /// Whether the host is a Slurm node that is drained first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slurm: bool,
    /// The Kubernetes node that is drained first, if the host is declared to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<ObservedNode>,
    /// The resources that the node must offer before it is uncordoned: `nvidia.com/gpu 8`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returns: Vec<String>,
    /// The run that left it open, if any: such a window is closed in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_open: Option<UntrustedText>,
}

/// A unit or module that must not run while a recipe changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct WindowStop {
    /// A unit with its type, or a module.
    pub name: String,
    /// The recipe that changes meanwhile.
    pub during: String,
}

/// One reboot, shared by all steps that wait for one at that point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PlannedReboot {
    /// The steps that take effect by it.
    pub steps: Vec<StepId>,
    /// Whether nothing else can make them effective before. If false, the host reboots only if they are not effective
    /// by then.
    pub certain: bool,
}

/// A window with the stage of each step.
pub(super) struct StagedWindow {
    pub window: Option<HostWindow>,
    pub stages: BTreeMap<StepIndex, StepStage>,
}

/// Determines the window that a host's steps require.
pub(super) fn plan_window(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    steps: &[StepPlan],
    scope: &WindowScope,
    crosses: &dyn Fn(StepIndex) -> bool,
) -> StagedWindow {
    let members = WindowMembers::new(case, scope);
    let is_of = |(turn, step): (&StepInstance<'_>, &StepPlan)| {
        members.is_member(turn, step) || members.awaits_reboot(turn, step)
    };
    if !turns.iter().zip(steps).any(is_of) {
        let stages = BTreeMap::new();
        return StagedWindow { window: build_window(case, turns, steps, &members, &stages), stages };
    }
    let mut nodes: Vec<StageNode> = Vec::new();
    for (turn, step) in turns.iter().zip(steps) {
        let (member, awaits) = (members.is_member(turn, step), members.awaits_reboot(turn, step));
        match nodes.last_mut().filter(|node| node.index == turn.index) {
            Some(node) => (node.member, node.awaits) = (node.member | member, node.awaits | awaits),
            None => nodes.push(StageNode { index: turn.index, member, awaits, crosses: crosses(turn.index) }),
        }
    }
    let stages = assign_stages(case.graph, &nodes);
    StagedWindow { window: build_window(case, turns, steps, &members, &stages), stages }
}

fn build_window(
    case: &HostContext<'_>,
    turns: &[StepInstance<'_>],
    steps: &[StepPlan],
    members: &WindowMembers<'_>,
    stages: &BTreeMap<StepIndex, StepStage>,
) -> Option<HostWindow> {
    let both = || turns.iter().zip(steps);
    let own = both().filter(|(turn, step)| members.is_member(turn, step)).map(|(_, step)| step.id.clone());
    let mut window = HostWindow { steps: own.collect(), left_open: left_open_by(case.seen), ..HostWindow::default() };
    let changing: BTreeSet<&str> = window.steps.iter().map(|id| &*id.recipe).collect();
    (window.stops, window.unloads) = members::list_stops(case, &changing);
    for (turn, step) in both().filter(|(turn, step)| members.awaits_reboot(turn, step)) {
        let round = match stages.get(&turn.index) {
            Some(StepStage::Inside(reboots)) => *reboots as usize,
            _ => 0,
        };
        while window.reboots.len() <= round {
            window.reboots.push(PlannedReboot { steps: Vec::new(), certain: false });
        }
        let reboot = &mut window.reboots[round];
        reboot.certain |= step.by_reboot || list_effect_triggers(turn).all(|way| way == "reboot");
        reboot.steps.push(step.id.clone());
    }
    // A run with a selection of steps cannot check everything that belongs to a window, so it closes none.
    let closes = window.left_open.is_some() && case.ground.filter.is_empty();
    let needed = !window.steps.is_empty() || !window.reboots.is_empty() || closes;
    window.slurm = needed && members::is_slurm_node(case);
    window.kubernetes = case.seen.node.clone();
    let drain = case.ground.project.rollout.kubernetes.as_ref().filter(|_| window.kubernetes.is_some());
    window.returns = drain
        .and_then(|drain| drain.returns.as_ref())
        .map(config::NodeReturnCondition::describe_offers)
        .unwrap_or_default();
    needed.then_some(window)
}

/// Returns the run that left a window open on a host, or that drained its node before it opened one. An unreadable mark
/// counts too.
pub fn left_open_by(seen: &ObservedHost) -> Option<UntrustedText> {
    let Some(mark) = &seen.window else { return seen.drained_by().cloned() };
    let mark = serde_json::from_str::<Value>(mark.raw()).ok();
    let run = mark.and_then(|mark| Some(mark.get("run")?.as_str()?.to_owned()));
    Some(run.unwrap_or_else(|| "that is not known".to_owned()).into())
}

/// Returns the warning for a host without a planned window whose node is, or may be, still drained.
pub(super) fn warn_drained_node(seen: &ObservedHost) -> Option<HostWarning> {
    let (why, hint) = match seen.node.as_ref()? {
        ObservedNode::Unknown { why } => (
            format!("its Kubernetes node could not be read; an earlier run may have left it drained: {}", why.raw()),
            None,
        ),
        ObservedNode::Node { name, left: Some(run) } => (
            format!("its Kubernetes node {} is still drained by run {}", name.raw(), run.raw()),
            Some("run `forge apply` without `--step` and `--skip` to uncordon it".to_owned()),
        ),
        _ => return None,
    };
    Some(HostWarning { why: why.into(), hint })
}

impl HostWindow {
    /// Returns the recipes that change or take effect while it is open.
    pub fn list_recipes(&self) -> BTreeSet<&str> {
        let awaited = self.reboots.iter().flat_map(|reboot| &reboot.steps);
        self.steps.iter().chain(awaited).map(|id| &*id.recipe).collect()
    }

    /// Returns whether the host reboots in any case.
    pub fn has_certain_reboot(&self) -> bool {
        self.reboots.iter().any(|reboot| reboot.certain)
    }

    /// Returns whether a step waits for one of its reboots.
    pub fn has_reboot_for(&self, id: &StepId) -> bool {
        self.reboots.iter().any(|reboot| reboot.steps.contains(id))
    }
}

/// Returns the unit that a step declares as running, if any.
pub fn declared_running_unit(turn: &StepInstance<'_>) -> Option<String> {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return None };
    resource.running_unit().map(str::to_owned)
}

/// Returns the module that a step declares as loaded, if any.
fn declared_loaded_module(turn: &StepInstance<'_>) -> Option<String> {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return None };
    resource.loaded_module().map(str::to_owned)
}

/// Plans to restore a resource that matches now but goes away while the window is open: a service that stops or a
/// module that is unloaded.
pub(super) fn restore_after_window(
    turn: &StepInstance<'_>,
    ruling: StepAssessment,
    scope: &WindowScope,
) -> StepAssessment {
    if ruling.judgement.verdict != StepVerdict::Ok || (scope.stops.is_empty() && scope.unloads.is_empty()) {
        return ruling;
    }
    let unit = declared_running_unit(turn);
    let module = declared_loaded_module(turn);
    if let Some(recipe) = unit.as_deref().and_then(|unit| scope.stopped_during(unit)) {
        let reason = format!("running; will be stopped while `{recipe}` changes, then started again");
        let change = AttributeChange::new("state", Some("stopped"), Some("running"));
        return build_restore_assessment(ruling, recipe, reason, change, DisruptionClass::D1);
    }
    match module.as_deref().and_then(|module| scope.unloaded_during(module)) {
        Some(recipe) => {
            let reason = format!("loaded; will be unloaded while `{recipe}` changes, then loaded again");
            let change = AttributeChange::new("loaded", Some("not loaded"), Some("loaded"));
            build_restore_assessment(ruling, recipe, reason, change, DisruptionClass::D0)
        }
        None => ruling,
    }
}

fn build_restore_assessment(
    ruling: StepAssessment,
    recipe: &str,
    reason: String,
    change: AttributeChange,
    disruption: DisruptionClass,
) -> StepAssessment {
    let basis = ruling.judgement.basis.clone();
    StepAssessment {
        judgement: Assessment::change(reason, vec![change], disruption, basis),
        until: Some(format!("`{recipe}` has changed")),
        ..ruling
    }
}

/// Sets the stage of each step. A step that runs after a reboot is evaluated again then: a reboot may change the state
/// that it reads.
pub(super) fn set_stages(turns: &[StepInstance<'_>], steps: &mut [StepPlan], stages: &BTreeMap<StepIndex, StepStage>) {
    for (turn, step) in turns.iter().zip(steps) {
        step.stage = stages.get(&turn.index).copied().unwrap_or_default();
        let rebooted = matches!(step.stage, StepStage::Inside(1..));
        let certain = step.envelope.as_ref().is_none_or(|envelope| envelope.foresight == ChangeCertainty::Certain);
        if rebooted && step.will_run() && certain {
            step.envelope = Some(PredictedEffects {
                until: "the host has rebooted".into(),
                disruption: step.disruption,
                resource: describe_resource(turn).into(),
                foresight: ChangeCertainty::Predicted,
            });
        }
    }
}

/// Returns whether a step waits to become effective, or will.
pub(super) fn is_changing_or_pending(step: &StepPlan) -> bool {
    step.will_run() || (step.verdict == StepVerdict::Pending && step.waits_for.is_none())
}
