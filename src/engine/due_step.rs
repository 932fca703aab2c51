//! Steps that are about to act: their commands, limits and deliveries.

use super::run_options::RunOptions;
use crate::config::ExpansionState;
use crate::model::{SecretStore, StepId, UntrustedText};
use crate::plan::{self, HostContext, StepAssessment, StepInstance, StepPredictions};
use crate::resource::apply_trace::leave_trace;
use crate::resource::{Action, ActionBatch, ArtifactDelivery, Assessment, Resource};
use crate::state::{FormerRecord, GuardedStep, UndoStep};
use std::sync::Arc;
use std::time::Duration;

/// A turn that is about to act.
pub(super) struct DueStep {
    pub id: StepId,
    pub title: UntrustedText,
    pub place: String,
    pub action: Action,
    /// The part of the action that it can share with others of its script.
    pub batch: Option<ActionBatch>,
    /// The resource to change, if the step is expanded to one.
    pub resource: Option<Arc<dyn Resource>>,
    /// The content to send from the controller, instead of the action.
    pub delivery: Option<ArtifactDelivery>,
    pub changes: Vec<crate::resource::AttributeChange>,
    pub long: bool,
    pub limit: Duration,
    /// Whether the host ends the action at its limit. Otherwise it goes on, and the run stops waiting for it.
    pub stops_at_limit: bool,
    pub retries: u32,
    /// Whether the action's own stdout is exported, and whether that value is secret.
    pub exports_stdout: bool,
    pub secret: bool,
    /// Paths whose SELinux context the action may have to set.
    pub paths: Vec<String>,
    /// What the host restores unless a new session confirms the change, if it is guarded.
    pub guard: Option<DueGuard>,
    /// Whether the change can bar later logins.
    pub may_bar_login: bool,
    /// How the change is undone; `None` if nothing acts.
    pub undo: Option<UndoStep>,
}

/// The guard of a turn.
pub(super) struct DueGuard {
    pub seconds: u64,
    pub step: GuardedStep,
}

impl DueStep {
    pub fn needs_artifact(&self) -> bool {
        self.resource.as_ref().is_some_and(|resource| resource.artifact().is_some())
    }
}

/// Returns the actions of a turn.
pub(super) fn build_due_step(
    options: &RunOptions,
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    turns: &[StepInstance<'_>],
    ruling: StepAssessment,
) -> DueStep {
    let inputs = plan::collect_restart_inputs(case, turn, turns, &StepPredictions::default());
    let mut cx = plan::build_resource_context(case, turn, &inputs, None);
    cx.run = &options.run;
    let (action, batch, own, delivery) = match &turn.expanded.state {
        ExpansionState::Resource(resource) => {
            let delivery = choose_delivery(options, resource.as_ref(), &ruling.judgement);
            let mut action = resource.render_action(&ruling.judgement, &cx);
            let mut batch = resource.action_batch(&ruling.judgement, &cx);
            let trace = plan::find_trace_path(turn, resource.as_ref());
            if let (Some(trace), Action::Script(script)) =
                (trace.filter(|_| plan::is_restart_input(turn, turns)), &mut action)
            {
                script.body = leave_trace(&trace, std::mem::take(&mut script.body));
                batch.iter_mut().for_each(|batch| batch.new_path = None);
            }
            (action, batch, resource.time_limit_s(), delivery)
        }
        _ => Default::default(),
    };
    let undo = match &turn.expanded.state {
        ExpansionState::Resource(resource) if action.script().is_some() || !action.calls().is_empty() => {
            Some(build_undo_step(options, case, (turn, turns), resource.as_ref(), &ruling.judgement))
        }
        _ => None,
    };
    let long = action.script().is_some_and(|script| script.long) || turn.step.long || delivery.is_some();
    let guard = match &undo {
        Some(undo) if !long => build_due_guard((turn, turns), &ruling.judgement, &action, undo),
        _ => None,
    };
    DueStep {
        id: turn.expanded.id.clone(),
        title: plan::step_title(turn),
        place: case.ground.project.format_step_place(turn.step.span),
        resource: match &turn.expanded.state {
            ExpansionState::Resource(resource) => Some(resource.clone()),
            _ => None,
        },
        paths: match &turn.expanded.state {
            ExpansionState::Resource(resource) => resource.labeled_paths(),
            _ => Vec::new(),
        },
        action,
        batch,
        delivery,
        undo,
        guard,
        may_bar_login: ruling.judgement.may_bar_login(),
        changes: ruling.judgement.changes,
        long,
        limit: choose_time_limit(turn.step.timeout_s, own, options.timeout, long),
        stops_at_limit: turn.step.traits().stops_at_limit,
        retries: turn.step.retries,
        exports_stdout: turn.step.exports.values().any(|e| e.stdout),
        secret: turn.step.exports.values().any(|e| e.stdout && e.secret),
    }
}

/// Returns the guard of the change, if it has one.
fn build_due_guard(
    (turn, turns): (&StepInstance<'_>, &[StepInstance<'_>]),
    judgement: &Assessment,
    action: &Action,
    undo: &UndoStep,
) -> Option<DueGuard> {
    let seconds = plan::find_guard_time(turn, turns, judgement)?;
    let step = GuardedStep {
        effect: plan::find_guard_effect(turn, turns, judgement),
        rerun: action.script().map(|script| script.body.clone()).unwrap_or_default(),
        until: plan::list_guarded_dependents(turn, turns),
        records: undo.records.clone(),
    };
    Some(DueGuard { seconds, step })
}

/// Returns what the host keeps for an undo of the change.
fn build_undo_step(
    options: &RunOptions,
    case: &HostContext<'_>,
    (turn, turns): (&StepInstance<'_>, &[StepInstance<'_>]),
    resource: &dyn Resource,
    judgement: &Assessment,
) -> UndoStep {
    let id = &turn.expanded.id;
    // An undo writes the records of the steps that it undoes, and none of its own.
    let replaced = match &options.undo {
        Some(undo) => undo.list_replaced_records(&case.host.name, id),
        None => vec![id.clone()],
    };
    let cluster = &case.ground.project.cluster;
    let keep_record =
        |step: StepId| FormerRecord { body: case.seen.find_record(cluster, &step.to_string()).cloned(), step };
    UndoStep {
        step: id.clone(),
        kind: resource.kind().to_owned(),
        title: SecretStore::mask_placeholders(&resource.title()),
        effect: plan::derive_undo_effect(turn, resource, judgement),
        secret: plan::may_hold_secret(case, id, resource),
        restart_on: plan::find_restart_inputs(turn, turns).iter().map(|input| input.expanded.id.clone()).collect(),
        guard_s: plan::find_guard_time(turn, turns, judgement),
        records: replaced.into_iter().map(keep_record).collect(),
    }
}

/// Returns the content to send from the controller. An artifact that the host fetches itself is included only when
/// offline.
fn choose_delivery(options: &RunOptions, resource: &dyn Resource, judgement: &Assessment) -> Option<ArtifactDelivery> {
    let by_host = resource.artifact().is_some_and(|artifact| artifact.by_host);
    resource.artifact_delivery(judgement).filter(|_| !by_host || options.depot.is_offline())
}

/// Returns the time limit of an action: the step's `timeout`, else the action's own limit with a grace period in which
/// it ends itself with a better message, else the command line's.
fn choose_time_limit(step: Option<u64>, own: Option<u64>, asked: Option<Duration>, long: bool) -> Duration {
    const LIMIT: Duration = Duration::from_secs(600);
    const LONG_LIMIT: Duration = Duration::from_secs(4 * 3600);
    const GRACE_S: u64 = 30;
    let named = step.or(own.map(|own| own.saturating_add(GRACE_S))).map(Duration::from_secs);
    named.or(asked).unwrap_or(if long { LONG_LIMIT } else { LIMIT })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_timeout_applies_to_steps_without_a_timeout() {
        let asked = Some(Duration::from_secs(5));
        let seconds = |step, own, asked, long| choose_time_limit(step, own, asked, long).as_secs();
        assert_eq!((seconds(None, None, asked, false), seconds(None, None, asked, true)), (5, 5));
        assert_eq!((seconds(Some(9), Some(7), asked, false), seconds(None, Some(900), asked, false)), (9, 930));
        assert_eq!((seconds(None, None, None, false), seconds(None, None, None, true)), (600, 14400));
    }
}
