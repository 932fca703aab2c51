//! What an undo does: the recipes that declare the state before a run, and the records that go with it.

use crate::config::{GeneratedRecipe, StepFilter};
use crate::model::{HostName, StepId};
use crate::state::FormerRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which changes of a run to take back.
#[derive(Clone, Copy, Debug)]
pub struct UndoSelection<'a> {
    /// The ID of the run.
    pub run: &'a str,
    /// The steps, by their names in the run.
    pub filter: &'a StepFilter,
    /// Whether files that were changed after the run are put back too.
    pub overwrite: bool,
}

/// Which changes of a run an undo takes back, as a saved plan stores it.
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
    /// Whether files that were changed after the run are put back too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overwrite: bool,
}

/// What takes a run back.
#[derive(Clone, Debug, Default)]
pub struct UndoRequest {
    /// The changes that it takes back.
    pub scope: UndoScope,
    /// Recipes with the steps, each with its hosts.
    pub recipes: Vec<GeneratedRecipe>,
    /// For each host, its last step, and the records that are put back once it is proven.
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
    /// What is taken back.
    pub request: UndoRequest,
    /// Changes that cannot be taken back, in the order of the inventory and of the run.
    pub refused: Vec<UndoRefusal>,
    /// Hosts that did not answer, with the reason.
    pub silent: Vec<(HostName, String)>,
    /// What stays as it is after the undo: lowercase fragments with their hosts.
    pub remains: BTreeMap<String, Vec<HostName>>,
    /// The number of changes that are taken back.
    pub changes: usize,
}

/// A change that cannot be taken back.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoRefusal {
    /// The host.
    pub host: HostName,
    /// The step that changed it; `None` if the whole journal of the host cannot be read.
    pub step: Option<StepId>,
    /// Why it cannot be taken back: a lowercase fragment.
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

    /// Returns the records that are put back once `step` is proven on `host`.
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
