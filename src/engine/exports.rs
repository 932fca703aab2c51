//! Publishes the exports of steps during a run.

use super::group::HostStepGroup;
use super::host::HostRun;
use crate::model::{HostName, StepId};
use crate::plan::{StepInstance, exported, read_turn};
use std::collections::BTreeSet;

/// Publishes the exports of those turns of a group that succeeded (`through`): values read from the host, and the
/// stdout of actions.
pub(super) fn publish(
    host: &HostRun<'_>,
    group: &HostStepGroup,
    through: &BTreeSet<StepId>,
    stdout: &[(StepId, String)],
) {
    let snapshot = host.run.board.shared();
    let Some(case) = host.run.case(&snapshot, host.host(), &host.seen) else { return };
    let turns: Vec<StepInstance<'_>> = case
        .turns()
        .into_iter()
        .filter(|turn| group.steps.contains(&turn.index) && !turn.step.exports.is_empty())
        .filter(|turn| through.contains(&turn.expanded.id))
        .collect();
    if turns.is_empty() {
        return;
    }
    host.run.board.change_shared(|shared| {
        for turn in &turns {
            read_turn(&case, turn, &mut shared.secrets, &mut shared.published);
            for (_, text) in stdout.iter().filter(|(id, _)| *id == turn.expanded.id) {
                put_stdout(turn, &case.host.name, text, shared);
            }
        }
    });
}

fn put_stdout(turn: &StepInstance<'_>, host: &HostName, text: &str, shared: &mut super::board::SharedValues) {
    for (name, export) in turn.step.exports.iter().filter(|(_, export)| export.stdout) {
        let value = exported(export, &turn.expanded.id, host, text.to_owned(), &mut shared.secrets);
        shared.published.put(turn, name, host, Some(value));
    }
}
