//! Determines the results of a window's steps if it does not open.

use super::WindowRefusal;
use crate::engine::event::{Event, StepFailure, StepResult};
use crate::engine::host_run::{HostRun, planned_phase, report_as_planned};
use crate::engine::run_state::ReachedPhase;
use crate::engine::step_groups::HostStepGroup;
use crate::model::StepVerdict;
use crate::model::{BlockClass, UntrustedText};
use crate::plan::{StepPlan, StepStage};

impl HostRun<'_> {
    /// Records and reports why the window does not open.
    pub(super) fn refuse_window(&mut self, shut: WindowRefusal) {
        if let Some(why) = describe_refusal(&shut) {
            let host = self.host().clone();
            self.run.emit_event(match self.passage.open || self.passage.stage > StepStage::Before {
                true => Event::WindowLeftOpen { host, why },
                false => Event::WindowShut { host, why },
            });
        }
        self.report_awaiting_steps(&shut);
        self.passage.shut = Some(shut);
    }

    /// Completes steps that wait for a reboot which is not made: they report the reason.
    fn report_awaiting_steps(&mut self, shut: &WindowRefusal) {
        if matches!(shut, WindowRefusal::Stopped | WindowRefusal::Never(_) | WindowRefusal::Open(_)) {
            return;
        }
        let Some(window) = self.plan.window.as_ref() else { return };
        for at in 0..self.steps.len() {
            let awaits = matches!(self.steps[at].result, StepResult::Pending { .. });
            let told = matches!(shut, WindowRefusal::Failed(_)) && self.has_failed_step();
            if awaits && !told && window.has_reboot_for(&self.steps[at].id) {
                self.steps[at].result = result_of_refusal(shut, false);
            }
        }
    }

    /// Completes the steps of a window that did not open: those that would have acted report the reason.
    pub(in crate::engine) fn refuse_group(&mut self, group: &HostStepGroup, shut: &WindowRefusal) {
        let (mut reports, mut failed) = (Vec::new(), self.has_failed_step());
        for step in self.list_planned_steps(group) {
            let mut report = report_as_planned(step);
            if step.will_run() || self.is_pending_reboot(step) {
                report.result = result_of_refusal(shut, failed);
                failed |= matches!(report.result, StepResult::Failed { .. });
            }
            reports.push(report);
        }
        for index in &group.steps {
            let own = self.list_planned_steps(group).filter(|step| self.is_same_step(*index, &step.id));
            let reached = own.map(|step| if step.will_run() { ReachedPhase::Nothing } else { planned_phase(step) });
            let reached = reached.min().unwrap_or(ReachedPhase::Effective);
            self.publish_phase(*index, reached);
        }
        reports.iter().for_each(|report| self.emit_step_finished(report));
        self.steps.extend(reports);
    }

    fn is_pending_reboot(&self, step: &StepPlan) -> bool {
        let awaited = || self.plan.window.as_ref().is_some_and(|window| window.has_reboot_for(&step.id));
        step.verdict == StepVerdict::Pending && awaited()
    }

    /// Reports whether a step has failed: one failure is enough to explain why the window does not open.
    fn has_failed_step(&self) -> bool {
        self.steps.iter().any(|report| matches!(report.result, StepResult::Failed { .. }))
    }
}

fn describe_refusal(shut: &WindowRefusal) -> Option<UntrustedText> {
    match shut {
        WindowRefusal::Held(why)
        | WindowRefusal::Never(why)
        | WindowRefusal::Refused(why)
        | WindowRefusal::Unknown(why)
        | WindowRefusal::Failed(why)
        | WindowRefusal::Open(why) => Some(why.as_str().into()),
        WindowRefusal::Busy(why) => Some(format!("busy: {why}").into()),
        WindowRefusal::Stopped => None,
    }
}

/// Returns the result of a step. `failed` says that another step already reports the failure.
fn result_of_refusal(shut: &WindowRefusal, failed: bool) -> StepResult {
    match shut {
        WindowRefusal::Held(why) => StepResult::Held { reason: why.as_str().into() },
        WindowRefusal::Never(why) | WindowRefusal::Open(why) => StepResult::Skipped { reason: why.as_str().into() },
        WindowRefusal::Busy(why) => StepResult::Blocked { class: BlockClass::Busy, reason: why.as_str().into() },
        WindowRefusal::Refused(why) => StepResult::Blocked { class: BlockClass::Rule, reason: why.as_str().into() },
        WindowRefusal::Unknown(why) => StepResult::Unknown { reason: why.as_str().into() },
        WindowRefusal::Failed(why) if failed => StepResult::Skipped { reason: why.as_str().into() },
        WindowRefusal::Failed(why) => StepResult::Failed {
            failure: StepFailure {
                why: why.as_str().into(),
                tail: UntrustedText::default(),
                hint: None,
                log: None,
                artifact: false,
            },
        },
        WindowRefusal::Stopped => StepResult::Cancelled,
    }
}
