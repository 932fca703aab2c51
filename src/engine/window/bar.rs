//! Determines the results of a window's steps if it does not open.

use super::WindowRefusal;
use crate::engine::board::ReachedPhase;
use crate::engine::event::{Event, StepFailure, StepResult};
use crate::engine::group::HostStepGroup;
use crate::engine::host::{HostRun, as_planned, reached_as_planned};
use crate::model::StepVerdict;
use crate::model::{BlockClass, UntrustedText};
use crate::plan::{StepPlan, StepStage};

impl HostRun<'_> {
    /// Records and reports why the window does not open.
    pub(super) fn shut(&mut self, shut: WindowRefusal) {
        if let Some(why) = why(&shut) {
            let host = self.host().clone();
            self.run.say(match self.passage.open || self.passage.stage > StepStage::Before {
                true => Event::WindowLeftOpen { host, why },
                false => Event::WindowShut { host, why },
            });
        }
        self.tell_awaiting(&shut);
        self.passage.shut = Some(shut);
    }

    /// Completes steps that wait for a reboot which is not made: they report the reason.
    fn tell_awaiting(&mut self, shut: &WindowRefusal) {
        if matches!(shut, WindowRefusal::Stopped | WindowRefusal::Never(_) | WindowRefusal::Open(_)) {
            return;
        }
        let Some(window) = self.plan.window.as_ref() else { return };
        for at in 0..self.steps.len() {
            let awaits = matches!(self.steps[at].result, StepResult::Pending { .. });
            let told = matches!(shut, WindowRefusal::Failed(_)) && self.has_failed();
            if awaits && !told && window.reboots_for(&self.steps[at].id) {
                self.steps[at].result = barred(shut, false);
            }
        }
    }

    /// Completes the steps of a window that did not open: those that would have acted report the reason.
    pub(in crate::engine) fn bar(&mut self, group: &HostStepGroup, shut: &WindowRefusal) {
        let (mut reports, mut failed) = (Vec::new(), self.has_failed());
        for step in self.planned_of(group) {
            let mut report = as_planned(step);
            if step.acts() || self.awaits(step) {
                report.result = barred(shut, failed);
                failed |= matches!(report.result, StepResult::Failed { .. });
            }
            reports.push(report);
        }
        for index in &group.steps {
            let own = self.planned_of(group).filter(|step| self.is_of(*index, &step.id));
            let reached = own.map(|step| if step.acts() { ReachedPhase::Nothing } else { reached_as_planned(step) });
            let reached = reached.min().unwrap_or(ReachedPhase::Effective);
            self.reach(*index, reached);
        }
        reports.iter().for_each(|report| self.say_finished(report));
        self.steps.extend(reports);
    }

    fn awaits(&self, step: &StepPlan) -> bool {
        let awaited = || self.plan.window.as_ref().is_some_and(|window| window.reboots_for(&step.id));
        step.verdict == StepVerdict::Pending && awaited()
    }

    /// Reports whether a step has failed: one failure is enough to explain why the window does not open.
    fn has_failed(&self) -> bool {
        self.steps.iter().any(|report| matches!(report.result, StepResult::Failed { .. }))
    }
}

fn why(shut: &WindowRefusal) -> Option<UntrustedText> {
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
fn barred(shut: &WindowRefusal, failed: bool) -> StepResult {
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
