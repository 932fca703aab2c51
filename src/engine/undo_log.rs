//! Numbers the groups of changes of one host's run, and builds what their scripts keep for an undo.

use super::due_step::DueStep;
use super::run_context::ApplyContext;
use crate::state::{UndoGroup, UndoScripts};

/// The groups of changes of one host so far.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    groups: u64,
}

impl UndoLog {
    /// Returns the number of groups so far.
    pub fn count_groups(&self) -> u64 {
        self.groups
    }

    /// Returns the scripts of the next group; empty if it changes no host.
    pub fn build_scripts(&mut self, run: &ApplyContext<'_>, due: &[DueStep]) -> UndoScripts {
        let steps: Vec<_> = due.iter().filter_map(|due| due.undo.clone()).collect();
        if steps.is_empty() {
            return UndoScripts::default();
        }
        let group = UndoGroup {
            controller: run.options.controller.clone(),
            user: run.options.user.clone(),
            time: (run.options.clock)().to_string(),
            ..UndoGroup::new(&run.project.cluster, &run.options.run, steps)
        };
        self.groups += 1;
        group.build_scripts(self.groups - 1, run.project.undo)
    }
}
