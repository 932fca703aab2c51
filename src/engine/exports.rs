//! Publishes the exports of steps during a run.

use super::host_view::HostView;
use super::run_context::ApplyContext;
use super::run_state::SharedValues;
use super::step_groups::HostStepGroup;
use crate::model::{HostName, StepId};
use crate::plan::{HostExports, StepInstance, read_step_exports, to_exported_value};
use std::collections::BTreeSet;

/// Publishes the exports of those turns of a group that succeeded (`through`): values read from the host, and the
/// stdout of actions.
pub(super) fn publish_exports(
    run: &ApplyContext<'_>,
    view: &HostView<'_>,
    group: &HostStepGroup,
    through: &BTreeSet<StepId>,
    stdout: &[(StepId, String)],
) {
    let snapshot = run.board.shared_values();
    let Some(case) = view.context(&snapshot) else { return };
    let turns: Vec<StepInstance<'_>> = case
        .expand_local_steps()
        .into_iter()
        .filter(|turn| group.steps.contains(&turn.index) && !turn.step.exports.is_empty())
        .filter(|turn| through.contains(&turn.expanded.id))
        .collect();
    if turns.is_empty() {
        return;
    }
    run.board.update_shared_values(|shared| {
        for turn in &turns {
            read_step_exports(&case, turn, &mut shared.secrets, &mut shared.published);
            for (_, text) in stdout.iter().filter(|(id, _)| *id == turn.expanded.id) {
                publish_stdout(turn, &case.host.name, text, shared);
            }
        }
    });
}

/// Replaces exported values that the last observation of the host shows to have changed since they were published.
pub(super) fn refresh_exports(run: &ApplyContext<'_>, view: &HostView<'_>) {
    let snapshot = run.board.shared_values();
    let Some(case) = view.context(&snapshot) else { return };
    let turns = case.expand_local_steps();
    let (mut fresh, mut secrets) = (HostExports::default(), snapshot.secrets.clone());
    for turn in turns.iter().filter(|turn| !turn.step.exports.is_empty()) {
        read_step_exports(&case, turn, &mut secrets, &mut fresh);
    }
    if snapshot.published.differs_from(&fresh) {
        run.board.update_shared_values(|shared| {
            let mut fresh = HostExports::default();
            for turn in turns.iter().filter(|turn| !turn.step.exports.is_empty()) {
                read_step_exports(&case, turn, &mut shared.secrets, &mut fresh);
            }
            shared.published.replace_values(&fresh);
        });
    }
}

fn publish_stdout(turn: &StepInstance<'_>, host: &HostName, text: &str, shared: &mut SharedValues) {
    for export in turn.step.exports.values().filter(|export| export.stdout) {
        let value = to_exported_value(export, &turn.expanded.id, host, text.to_owned(), &mut shared.secrets);
        shared.published.set_value(turn, export, host, Some(value));
    }
}
