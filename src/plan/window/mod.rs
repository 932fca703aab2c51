//! A host's window: the changes that take it out of service, as one transaction. This module determines the changes in
//! it, the units that stop meanwhile, and the reboots it needs.
//!
//! All of it follows from the evaluated steps. The only state from earlier runs is a mark on the host that a window was
//! left open.

mod host_window;
mod members;
mod stage;
mod window_mark;

pub use super::model::step_disruption;
pub use host_window::{HostWindow, PlannedReboot, StepStage, WindowStop};
pub use members::{WindowScope, explain_unopened_window, has_delayed_effect, list_effect_triggers, needs_reboot};
pub use window_mark::{WINDOW_MARK, find_other_window, left_open_by};

use super::{
    ChangeCertainty, HostContext, HostWarning, ObservedHost, ObservedNode, PredictedEffects, StepAssessment,
    StepInstance, StepPlan, describe_resource,
};
use crate::config::{self, ExpansionState};
use crate::graph::StepIndex;
use crate::model::{DisruptionClass, StepVerdict};
use crate::resource::{Assessment, AttributeChange, ChangeAspect};
use members::WindowMembers;

use stage::{StageNode, assign_stages};
use std::collections::{BTreeMap, BTreeSet};

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
    let left_open = left_open_by(case.seen, &case.ground.project.cluster);
    let mut window = HostWindow { steps: own.collect(), left_open, ..HostWindow::default() };
    let changing: BTreeSet<&str> = window.steps.iter().map(|id| &*id.recipe).collect();
    (window.stops, window.unloads) = members::list_stops(case, &changing);
    // A simulated reboot has no guard.
    let guard_s =
        case.ground.project.rollout.reboot_guard_s.filter(|_| !case.ground.project.is_simulated(&case.host.name));
    for (turn, step) in both().filter(|(turn, step)| members.awaits_reboot(turn, step)) {
        let round = match stages.get(&turn.index) {
            Some(StepStage::Inside(reboots)) => *reboots as usize,
            _ => 0,
        };
        while window.reboots.len() <= round {
            window.reboots.push(PlannedReboot { steps: Vec::new(), certain: false, guard_s });
        }
        let reboot = &mut window.reboots[round];
        reboot.certain |= step.by_reboot || list_effect_triggers(turn).all(|way| way == "reboot");
        reboot.steps.push(step.id.clone());
    }
    // A run with a selection of steps cannot check everything that belongs to a window, so it closes none; nor does an
    // undo, which has the steps of one run.
    let checks_all = case.ground.filter.is_empty() && !case.ground.project.generated;
    let closes = window.left_open.is_some() && checks_all && case.seen.hold.is_none();
    let needed = !window.steps.is_empty() || !window.reboots.is_empty() || closes;
    window.slurm = needed && case.ground.project.rollout.is_slurm_node(&case.host.groups);
    window.kubernetes = case.seen.node.clone();
    let drain = case.ground.project.rollout.kubernetes.as_ref().filter(|_| window.kubernetes.is_some());
    window.returns = drain
        .and_then(|drain| drain.returns.as_ref())
        .map(config::NodeReturnCondition::describe_offers)
        .unwrap_or_default();
    if needed {
        window.return_tests = list_return_tests(case);
    }
    needed.then_some(window)
}

/// Returns the tests that the host has to pass before its window closes. Simulated hardware cannot be measured.
fn list_return_tests(case: &HostContext<'_>) -> Vec<String> {
    let project = case.ground.project;
    let is_simulated = project.is_simulated(&case.host.name) || case.seen.facts.is_hardware_simulated();
    let set = project.rollout.return_tests.iter().filter(|_| !is_simulated);
    let entries = set.filter_map(|(set, _)| project.tests.sets.get(set)).flatten();
    let own = entries.filter(|test| test.hosts.contains(&case.host.name));
    own.map(|test| test.definition.name.clone()).collect()
}

/// Returns the warning for a host without a planned window whose node is, or may be, still drained.
pub(super) fn warn_drained_node(seen: &ObservedHost) -> Option<HostWarning> {
    let (why, hint) = match seen.node.as_ref()? {
        ObservedNode::Unknown { why } => (
            format!("its Kubernetes node could not be read; an earlier run may have left it drained: {}", why.raw()),
            None,
        ),
        ObservedNode::Node { name, left: Some(run), .. } => (
            format!("its Kubernetes node {} is still drained by run {}", name.raw(), run.raw()),
            Some("run `forge apply` without `--step` and `--skip` to uncordon it".to_owned()),
        ),
        _ => return None,
    };
    Some(HostWarning { why: why.into(), hint })
}

/// Returns the warning for a host that another inventory has taken out of service.
pub(super) fn warn_other_window(seen: &ObservedHost, cluster: &str) -> Option<HostWarning> {
    let other = find_other_window(seen, cluster)?;
    Some(HostWarning {
        why: other.to_string().into(),
        hint: Some("run `forge apply` with that inventory: until then, no window of this one opens here".to_owned()),
    })
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
        let change =
            AttributeChange::new("state", Some("stopped"), Some("running")).with_aspect(ChangeAspect::RunState);
        return build_restore_assessment(ruling, recipe, reason, change, DisruptionClass::D1);
    }
    match module.as_deref().and_then(|module| scope.unloaded_during(module)) {
        Some(recipe) => {
            let reason = format!("loaded; will be unloaded while `{recipe}` changes, then loaded again");
            let change =
                AttributeChange::new("loaded", Some("not loaded"), Some("loaded")).with_aspect(ChangeAspect::Loaded);
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
            step.envelope = Some(Box::new(PredictedEffects {
                until: "the host has rebooted".into(),
                disruption: step.disruption,
                resource: describe_resource(turn).into(),
                foresight: ChangeCertainty::Predicted,
            }));
        }
    }
}
