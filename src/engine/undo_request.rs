//! What an undo does: the recipes that declare the state before a run, and the records that go with it.

use crate::config::{GeneratedRecipe, StepFilter};
use crate::model::{HostName, StepId};
use crate::state::FormerRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The changes of a run to undo.
#[derive(Clone, Copy, Debug)]
pub struct UndoSelection<'a> {
    /// The ID of the run.
    pub run: &'a str,
    /// The steps, by their names in the run.
    pub filter: &'a StepFilter,
    /// Whether files that were changed after the run are restored too.
    pub overwrite: bool,
}

/// The changes of a run to undo, as a saved plan stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndoScope {
    /// The ID of the run.
    pub run: String,
    /// The patterns of `--step`, by the names of the steps in the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<String>,
    /// The patterns of `--skip`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// Whether files that were changed after the run are restored too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
}

/// Recipes that undo a run.
#[derive(Clone, Debug, Default)]
pub struct UndoRequest {
    /// The changes to undo.
    pub scope: UndoScope,
    /// Recipes with the steps, each with its hosts.
    pub recipes: Vec<GeneratedRecipe>,
    /// For each host, its last step, and the records that are restored once it is proven.
    hosts: BTreeMap<HostName, HostUndo>,
}

/// The end of an undo on one host.
#[derive(Clone, Debug)]
pub(super) struct HostUndo {
    pub last: StepId,
    pub records: Vec<FormerRecord>,
}

/// A request, with what it leaves out.
#[derive(Clone, Debug, Default)]
pub struct GeneratedUndo {
    /// The recipes of the undo.
    pub request: UndoRequest,
    /// Changes that cannot be undone, in the order of the inventory and of the run.
    pub refused: Vec<UndoRefusal>,
    /// Hosts that did not answer, with the reason.
    pub silent: Vec<(HostName, String)>,
    /// What the undo leaves unchanged: lowercase fragments with their hosts.
    pub remains: BTreeMap<String, Vec<HostName>>,
    /// The number of changes to undo.
    pub changes: usize,
}

/// A change that cannot be undone.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoRefusal {
    /// The host.
    pub host: HostName,
    /// The step that changed it; `None` if the whole journal of the host cannot be read.
    pub step: Option<StepId>,
    /// Why it cannot be undone: a lowercase fragment.
    pub why: String,
}

impl UndoRequest {
    pub(super) fn new(
        selection: UndoSelection<'_>,
        recipes: Vec<GeneratedRecipe>,
        hosts: BTreeMap<HostName, HostUndo>,
    ) -> Self {
        let (step, skip) = selection.filter.written_patterns();
        let scope = UndoScope { run: selection.run.to_owned(), step, skip, overwrite: selection.overwrite };
        Self { scope, recipes, hosts }
    }

    /// Returns the records that are restored once `step` is proven on `host`.
    pub(super) fn former_records(&self, host: &HostName, step: &StepId) -> &[FormerRecord] {
        match self.hosts.get(host).filter(|undo| undo.last == *step) {
            Some(undo) => &undo.records,
            None => &[],
        }
    }

    /// Returns the steps whose records are replaced once `step` is proven on `host`.
    pub(super) fn list_replaced_records(&self, host: &HostName, step: &StepId) -> Vec<StepId> {
        self.former_records(host, step).iter().map(|record| record.step.clone()).collect()
    }
}
