//! Numbers the groups of changes of one host's run, and builds what their scripts keep for an undo. For the cluster, it
//! writes the state before each step itself.

use super::due_step::DueStep;
use super::run_context::ApplyContext;
use crate::kube::{ClusterUndoLog, ClusterWriter, KubeError};
use crate::state::{UndoGroup, UndoScripts, UndoStep};
use std::collections::BTreeMap;

/// The first number of the groups of a worker that replaces another one of the same run. Those of the first one stay:
/// they have the state before the run.
const GROUPS_PER_WORKER: u64 = 100_000;

/// The groups of changes of one host so far.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    /// The number of the next group.
    groups: u64,
    /// The journal of the cluster, once it is begun.
    cluster: Option<ClusterUndoLog>,
}

fn build_group(run: &ApplyContext<'_>, steps: Vec<UndoStep>) -> UndoGroup {
    UndoGroup {
        controller: run.options.controller.clone(),
        user: run.options.user.clone(),
        time: (run.options.clock)().to_string(),
        ..UndoGroup::new(&run.project.cluster, &run.options.run, steps)
    }
}

impl UndoLog {
    /// Returns the log of a process of the run, in which as many workers of the host have died.
    pub fn after_workers(replaced: u32) -> Self {
        Self { groups: u64::from(replaced) * GROUPS_PER_WORKER, ..Self::default() }
    }

    /// Returns the number of the next group.
    pub fn next_number(&self) -> u64 {
        self.groups
    }

    /// Returns the scripts of the next group; empty if it changes no host.
    pub fn build_scripts(&mut self, run: &ApplyContext<'_>, due: &[DueStep]) -> UndoScripts {
        let steps: Vec<_> = due.iter().filter_map(|due| due.undo.clone()).collect();
        if steps.is_empty() {
            return UndoScripts::default();
        }
        let group = build_group(run, steps);
        self.groups += 1;
        group.build_scripts(self.groups - 1, run.project.undo)
    }

    /// Writes the state before a step of the cluster. Returns the number of the entry; `None` if nothing acts.
    ///
    /// # Errors
    /// It cannot be written: the step must not act.
    pub async fn keep_cluster_state(
        &mut self,
        run: &ApplyContext<'_>,
        writer: &ClusterWriter,
        due: &DueStep,
    ) -> Result<Option<u64>, KubeError> {
        let Some(step) = &due.undo else { return Ok(None) };
        let log = match &mut self.cluster {
            Some(log) => log,
            none => none.insert(writer.begin_undo_journal(run.project.undo).await?),
        };
        writer.keep_state_before(log, &build_group(run, vec![step.clone()])).await.map(Some)
    }

    /// Notes which objects a step of the cluster created. `applied` are the uids of the objects that it applied, by their
    /// claims.
    pub async fn note_created_objects(
        &mut self,
        writer: &ClusterWriter,
        number: u64,
        applied: &BTreeMap<String, String>,
    ) {
        if let Some(log) = self.cluster.as_mut().filter(|_| !applied.is_empty()) {
            // Without the note, an undo knows the objects by their manager and the time of the journal.
            let _ = writer.note_step_end(log, number, applied).await;
        }
    }
}
