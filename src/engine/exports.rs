//! Publishes the exports of steps during a run.

use super::host_view::HostView;
use super::run_context::ApplyContext;
use super::run_state::SharedValues;
use super::step_groups::HostStepGroup;
use crate::model::{HostName, SecretStore, StepId};
use crate::plan::{HostExports, StepInstance, exports_values, read_step_exports, to_exported_value};
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
        .filter(|turn| group.steps.contains(&turn.index) && exports_values(turn))
        .filter(|turn| through.contains(&turn.expanded.id))
        .collect();
    if turns.is_empty() {
        return;
    }
    run.board.update_exports(&case.host.name, |shared| {
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
    if case.list_steps().iter().all(|(_, _, step)| step.exports.is_empty()) {
        return;
    }
    let turns = case.expand_local_steps();
    let read = |secrets: &mut SecretStore| {
        let mut fresh = HostExports::default();
        let own = turns.iter().filter(|turn| exports_values(turn));
        own.for_each(|turn| read_step_exports(&case, turn, secrets, &mut fresh));
        fresh
    };
    if snapshot.published.differs_from(&read(&mut snapshot.secrets.clone())) {
        run.board.update_exports(&case.host.name, |shared| {
            let fresh = read(&mut shared.secrets);
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
