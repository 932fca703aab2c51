//! What an undo does: the recipes that declare the state before a run, and the records that go with it.

use crate::config::{GeneratedRecipe, StepFilter};
use crate::model::{HostName, StepId};
use crate::state::FormerRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The changes of a run to undo.
#[derive(Clone, Copy, Debug)]
pub struct UndoSelection<'a> {
    /// The ID of the run.
    pub run: &'a str,
    /// The steps, by their names in the run.
    pub filter: &'a StepFilter,
    /// Whether files and objects that were changed after the run are restored too.
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
    /// Whether files and objects that were changed after the run are restored too.
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
    /// For each host, the steps of the run that are undone there.
    hosts: BTreeMap<HostName, Vec<UndoneChange>>,
}

/// A step of the run that is undone on one host.
#[derive(Clone, Debug)]
pub(super) struct UndoneChange {
    /// The step of the run.
    pub step: StepId,
    /// The steps of the undo that together restore the state before.
    pub generated: BTreeSet<StepId>,
    /// The last of them.
    pub last: StepId,
    /// The records as they were before the run.
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
        hosts: BTreeMap<HostName, Vec<UndoneChange>>,
    ) -> Self {
        let (step, skip) = selection.filter.written_patterns();
        let scope = UndoScope { run: selection.run.to_owned(), step, skip, overwrite: selection.overwrite };
        Self { scope, recipes, hosts }
    }

    /// Returns the changes that are undone on `host`.
    pub(super) fn list_changes(&self, host: &HostName) -> &[UndoneChange] {
        self.hosts.get(host).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns whether a step of the undo restores a state that records tell about.
    pub(super) fn restores_change(&self, host: &HostName, step: &StepId) -> bool {
        self.list_changes(host).iter().any(|change| change.generated.contains(step))
    }

    /// Returns the steps whose records are replaced with the last step of their undo, `step`.
    pub(super) fn list_replaced_records(&self, host: &HostName, step: &StepId) -> Vec<StepId> {
        let own = self.list_changes(host).iter().filter(|change| change.last == *step);
        own.flat_map(|change| &change.records).map(|record| record.step.clone()).collect()
    }
}
