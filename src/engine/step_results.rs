//! The results of one host's steps during its run.

use super::event::{Event, StepResult};
use super::host_report::report_as_planned;
use super::planned_steps::PlannedSteps;
use super::reached_phase::ReachedPhase;
use super::report::StepReport;
use super::run_context::ApplyContext;
use super::step_groups::HostStepGroup;
use crate::graph::StepIndex;
use crate::model::{HostName, StepId};
use std::collections::BTreeSet;

/// The reports of a host's completed steps, and the steps that this run changed.
pub(super) struct StepResults<'r> {
    run: &'r ApplyContext<'r>,
    host: &'r HostName,
    reports: Vec<StepReport>,
    /// Steps that were changed in this run.
    changed: BTreeSet<StepId>,
    /// The number of reports that the run's list of finished steps contains.
    noted: usize,
}

impl<'r> StepResults<'r> {
    pub fn new(run: &'r ApplyContext<'r>, host: &'r HostName) -> Self {
        Self { run, host, reports: Vec::new(), changed: BTreeSet::new(), noted: 0 }
    }

    pub fn reports(&self) -> &[StepReport] {
        &self.reports
    }

    pub fn into_reports(self) -> Vec<StepReport> {
        self.reports
    }

    /// Adds reports without an event: of steps that did not get their turn, or were not run.
    pub fn add_silently(&mut self, reports: impl IntoIterator<Item = StepReport>) {
        self.reports.extend(reports);
    }

    /// Adds the report of a completed step and publishes it.
    pub fn add_report(&mut self, report: StepReport) {
        self.emit_finished(&report);
        self.reports.push(report);
    }

    fn emit_finished(&self, report: &StepReport) {
        let matched = matches!(report.result, StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. });
        if matched && self.changed.is_empty() {
            return;
        }
        self.run.emit_event(Event::StepFinished {
            host: self.host.clone(),
            step: report.id.clone(),
            title: report.title.clone(),
            result: report.result.clone(),
            hint: report.hint.clone(),
            check: report.check.clone(),
            changes: report.changes.clone(),
            took: report.took,
        });
    }

    /// Notes that steps are about to change the host, whatever their results will be.
    pub fn mark_changed(&mut self, steps: impl IntoIterator<Item = StepId>) {
        self.changed.extend(steps);
    }

    pub fn changed(&self) -> &BTreeSet<StepId> {
        &self.changed
    }

    /// Returns the first step that failed.
    pub fn find_failed(&self) -> Option<&StepReport> {
        self.reports.iter().find(|report| matches!(report.result, StepResult::Failed { .. }))
    }

    /// Replaces results. `revise` receives each report, and whether this run changed its step.
    pub fn revise_results(&mut self, mut revise: impl FnMut(&StepReport, bool) -> Option<StepResult>) {
        for report in &mut self.reports {
            if let Some(result) = revise(report, self.changed.contains(&report.id)) {
                report.result = result;
            }
        }
    }

    /// Completes steps that did not get their turn: those that would have changed are cancelled, the others keep the
    /// planned result.
    pub fn cancel_group(&mut self, group: &HostStepGroup, planned: &PlannedSteps<'_>) {
        self.publish_nothing(group);
        self.reports.extend(planned.list_group(group).map(report_as_planned));
    }

    /// Skips steps because a dependency is missing.
    pub fn skip_group(
        &mut self,
        group: &HostStepGroup,
        planned: &PlannedSteps<'_>,
        reason: &str,
        root: Option<&StepId>,
    ) {
        let mut reports: Vec<StepReport> = planned.list_group(group).map(report_as_planned).collect();
        for report in &mut reports {
            if !matches!(report.result, StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. }) {
                report.result = StepResult::Skipped { reason: reason.into() };
            }
            self.emit_finished(report);
        }
        self.publish_nothing(group);
        if let Some(root) = root {
            group.steps.iter().for_each(|index| self.run.board.record_behind(*index, self.host, root));
        }
        self.reports.extend(reports);
    }

    /// Publishes that no step of a group reached a phase.
    pub fn publish_nothing(&self, group: &HostStepGroup) {
        group.steps.iter().for_each(|index| self.publish_phase(*index, ReachedPhase::Nothing));
    }

    /// Publishes the phase that a step reached on this host.
    pub fn publish_phase(&self, index: StepIndex, reached: ReachedPhase) {
        self.run.publish_phase(index, self.host, reached);
    }

    /// Adds new reports to the run's list of finished steps.
    pub fn note_finished(&mut self) {
        self.run.ledger.append_reports(self.host, &self.reports[self.noted..]);
        self.noted = self.reports.len();
    }
}
