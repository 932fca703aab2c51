//! Determines the results of a window's steps if it does not open.

use super::window_refusal::WindowRefusal;
use crate::engine::event::StepResult;
use crate::engine::host_report::{planned_phase, report_as_planned};
use crate::engine::host_work::HostWork;
use crate::engine::reached_phase::ReachedPhase;
use crate::engine::step_groups::HostStepGroup;
use crate::model::{StepVerdict, UntrustedText};
use crate::plan::{HostPlan, StepPlan};

/// Completes steps that wait for a reboot which is not made: they report the reason.
pub(super) fn report_awaiting_steps(work: &mut HostWork<'_>, shut: &WindowRefusal) {
    if matches!(shut, WindowRefusal::Stopped | WindowRefusal::Never(_) | WindowRefusal::Open(_)) {
        return;
    }
    let Some(window) = work.plan.window.as_ref() else { return };
    // One failure is enough to explain why the window does not open.
    let mut told = matches!(shut, WindowRefusal::Failed(_)) && work.results.find_failed().is_some();
    work.results.revise_results(|report, _| {
        let StepResult::Pending { reason } = &report.result else { return None };
        if told || !window.has_reboot_for(&report.id) {
            return None;
        }
        let result = match shut {
            // It is configured: the next boot loads it, whoever makes it.
            WindowRefusal::Held(why) | WindowRefusal::Blocked { why, .. } => {
                StepResult::Pending { reason: format!("{}; {why}", reason.raw()).into() }
            }
            _ => add_reason(shut.step_result(&report.id, false), reason.raw()),
        };
        told |= matches!(result, StepResult::Failed { .. });
        Some(result)
    });
}

/// Adds what a step has done already: it changed the host, although the window did not open.
fn add_reason(result: StepResult, done: &str) -> StepResult {
    let add = |why: UntrustedText| -> UntrustedText { format!("{done}; {}", why.raw()).into() };
    match result {
        StepResult::Blocked { class, reason } => StepResult::Blocked { class, reason: add(reason) },
        StepResult::Unknown { reason } => StepResult::Unknown { reason: add(reason) },
        other => other,
    }
}

/// Completes the steps of a window that did not open: those that would have acted report the reason.
pub(super) fn refuse_group(work: &mut HostWork<'_>, group: &HostStepGroup, shut: &WindowRefusal) {
    let (mut reports, mut failed) = (Vec::new(), work.results.find_failed().is_some());
    for step in work.planned.list_group(group) {
        let mut report = report_as_planned(step);
        if step.will_run() || is_pending_reboot(work.plan, step) {
            report.result = shut.step_result(&step.id, failed);
            if let Some(hint) = shut.step_hint(&step.id) {
                report.hint = Some(hint.into());
            }
            failed |= matches!(report.result, StepResult::Failed { .. });
        }
        reports.push(report);
    }
    for index in &group.steps {
        let own = work.planned.list_step(group, *index);
        let reached = own.map(|step| if step.will_run() { ReachedPhase::Nothing } else { planned_phase(step) });
        work.results.publish_phase(*index, reached.min().unwrap_or(ReachedPhase::Effective));
    }
    reports.into_iter().for_each(|report| work.results.add_report(report));
}

fn is_pending_reboot(plan: &HostPlan, step: &StepPlan) -> bool {
    let awaited = || plan.window.as_ref().is_some_and(|window| window.has_reboot_for(&step.id));
    step.verdict == StepVerdict::Pending && awaited()
}
