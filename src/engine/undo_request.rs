//! What an undo does: the recipes that declare the state before a run, and the records that go with it.

use super::event::StepResult;
use super::history::{PastRun, StepInFlight};
use super::host_report::empty_report;
use super::report::{HostReport, NotUndoneChange, StepReport};
use crate::config::{GeneratedRecipe, StepFilter};
use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
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
    /// What the run changed; `None` if this machine does not know the run.
    pub changed: Option<&'a ChangedSteps>,
}

/// The steps that a run changed, or tried to change, by its report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangedSteps(BTreeMap<HostName, BTreeMap<StepId, ReportedChange>>);

/// Whether a step of a run changed its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedChange {
    /// The report says that it did.
    Made,
    /// It failed or did not end, perhaps before its change.
    Tried,
}

impl ChangedSteps {
    /// Returns the steps of a run whose actions ran.
    pub fn from_run(run: &PastRun) -> Self {
        // An action that failed may have changed something.
        let has_acted = |step: &&StepReport| {
            step.has_changed_host() || matches!(step.result, StepResult::Failed { .. }) && !step.took.is_zero()
        };
        let rate = |step: &StepReport| match step.has_changed_host() {
            true => (step.id.clone(), ReportedChange::Made),
            false => (step.id.clone(), ReportedChange::Tried),
        };
        let list = |host: &HostReport| host.steps.iter().filter(has_acted).map(rate).collect();
        let mut steps: BTreeMap<HostName, BTreeMap<StepId, ReportedChange>> =
            run.report.hosts.iter().map(|host| (host.host.clone(), list(host))).collect();
        for StepInFlight { host, step, .. } in &run.in_flight {
            steps.entry(host.clone()).or_default().entry(step.clone()).or_insert(ReportedChange::Tried);
        }
        Self(steps)
    }

    /// Returns the steps of a host that `filter` includes.
    pub fn list_steps(&self, host: &HostName, filter: &StepFilter) -> Vec<(StepId, ReportedChange)> {
        let own = self.0.get(host).into_iter().flatten();
        let admitted = own.filter(|(step, _)| filter.admits_step(&step.recipe, &step.step));
        admitted.map(|(step, certainty)| (step.clone(), *certainty)).collect()
    }

    /// Reports whether it contains no step.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }

    /// Returns the hosts of the run.
    pub fn hosts(&self) -> impl Iterator<Item = &HostName> {
        self.0.keys()
    }
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
    /// The changes that stay, by host.
    left: BTreeMap<HostName, LeftChanges>,
}

/// What an undo leaves on one host.
#[derive(Clone, Debug, Default)]
struct LeftChanges {
    changes: Vec<NotUndoneChange>,
    /// Why the host did not answer when its journal was read.
    silence: Option<String>,
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
    /// The number of `refused` for which no host keeps the state before the run.
    pub forgotten: usize,
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

impl GeneratedUndo {
    /// Returns the request, with the changes that stay.
    pub fn into_request(self) -> UndoRequest {
        let mut request = self.request;
        for UndoRefusal { host, step, why } in self.refused {
            request.left.entry(host).or_default().changes.push(NotUndoneChange { step, why: why.into() });
        }
        for (host, why) in self.silent {
            request.left.entry(host).or_default().silence = Some(why);
        }
        request
    }

    /// Adds the changes of hosts that are not among `members`, the hosts of the inventory.
    pub fn refuse_missing_hosts(&mut self, selection: UndoSelection<'_>, members: &[HostName]) {
        let Some(changed) = selection.changed else { return };
        for host in changed.hosts().filter(|host| !members.contains(host)) {
            let refuse = |(step, _)| UndoRefusal { host: host.clone(), step: Some(step), why: MISSING_HOST.to_owned() };
            self.refused.extend(changed.list_steps(host, selection.filter).into_iter().map(refuse));
        }
    }
}

const MISSING_HOST: &str = "the inventory does not declare the host any longer";

impl UndoRequest {
    pub(super) fn new(
        selection: UndoSelection<'_>,
        recipes: Vec<GeneratedRecipe>,
        hosts: BTreeMap<HostName, Vec<UndoneChange>>,
    ) -> Self {
        let (step, skip) = selection.filter.written_patterns();
        let scope = UndoScope { run: selection.run.to_owned(), step, skip, overwrite: selection.overwrite };
        Self { scope, recipes, hosts, left: BTreeMap::new() }
    }

    /// Adds to the report of each host the changes that stay there. A host of which nothing is undone has no outcome of its
    /// steps.
    pub(super) fn report_left_changes(&self, reports: &mut Vec<HostReport>) {
        for (host, left) in &self.left {
            let at = reports.iter().position(|report| report.host == *host).unwrap_or_else(|| {
                reports.push(empty_report(host, HostOutcome::Ok, UntrustedText::default()));
                reports.len() - 1
            });
            let report = &mut reports[at];
            report.not_undone.clone_from(&left.changes);
            if report.outcome == HostOutcome::Ok && report.steps.is_empty() {
                let first = left.changes.first().map(|change| change.why.raw());
                let why = left.silence.as_deref().or(first).unwrap_or_default();
                report.reason = format!("not undone: {why}").into();
                report.outcome = match left.silence {
                    Some(_) => HostOutcome::Unreachable,
                    None => HostOutcome::Skipped,
                };
            }
        }
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
