//! Reports hosts on which this run changes nothing: the plan's observation is their result.

use super::event::{StepResult, VerifyResult};
use super::host_report::{complete_report, describe_empty_host, empty_report, planned_phase};
use super::host_report::{report_as_planned, report_planned_verification};
use super::host_start::HostStartRefusal;
use super::report::{HostReport, StepReport};
use super::run_context::ApplyContext;
use crate::model::{HostOutcome, UntrustedText};
use crate::plan::{HostHold, HostPlan, ObservedHost, RELEASE_HINT};
use std::collections::BTreeSet;

/// Reports a host that did not get its turn. A host without changes keeps its observed result.
pub(super) fn report_not_started(run: &ApplyContext<'_>, plan: &HostPlan, halt: &HostStartRefusal) -> HostReport {
    let reason = match halt {
        _ if !plan.has_changes() => return report_unchanged(run, plan),
        HostStartRefusal::Stopped => "the run was stopped before this host started",
        HostStartRefusal::Budget(reason) => reason,
        HostStartRefusal::Held(why) => {
            record_planned_phases(run, plan);
            record_planned_verifications(run, plan);
            return report_behind_canary(plan, why);
        }
    };
    let mut report = empty_report(&plan.host, HostOutcome::Cancelled, reason.into());
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    report
}

/// Reports a host that waits for a canary whose window did not open.
pub(super) fn report_behind_canary(plan: &HostPlan, why: &str) -> HostReport {
    let steps = report_instead_of_changes(plan, &StepResult::Held { reason: why.into() });
    let verify = plan.verify.iter().map(report_planned_verification).collect();
    complete_report(empty_report(&plan.host, HostOutcome::Ok, why.into()), steps, verify)
}

/// Reports a host on which forge may change nothing: no action is tried there, not even taking the lock.
pub(super) fn report_refused(run: &ApplyContext<'_>, plan: &HostPlan) -> HostReport {
    let Some(refused) = plan.refused.as_ref().filter(|_| plan.has_changes()) else {
        return report_unchanged(run, plan);
    };
    let mut report = empty_report(&plan.host, HostOutcome::Blocked, refused.why.clone());
    report.hint = Some(refused.hint.clone());
    report.steps = report_instead_of_changes(plan, &StepResult::Skipped { reason: refused.why.clone() });
    report
}

/// Reports the steps as planned, with `result` for those that the plan changes.
fn report_instead_of_changes(plan: &HostPlan, result: &StepResult) -> Vec<StepReport> {
    let mut steps: Vec<StepReport> = plan.steps.iter().map(report_as_planned).collect();
    for step in steps.iter_mut().filter(|step| step.result == StepResult::Cancelled) {
        step.result = result.clone();
    }
    steps
}

/// Reports a host that is on hold: its observation proves what matches, and everything else is held back.
pub(super) fn report_on_hold(run: &ApplyContext<'_>, plan: &HostPlan, hold: &HostHold) -> HostReport {
    hold_back(report_unchanged(run, plan), hold)
}

/// Reports a host that was put on hold after it was planned, before its turn.
pub(super) fn report_new_hold(plan: &HostPlan, hold: &HostHold) -> HostReport {
    let mut report = empty_report(&plan.host, HostOutcome::Ok, UntrustedText::default());
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    hold_back(report, hold)
}

/// Replaces all results that are not as declared. Failures there are not failures of this run: whoever asked for the
/// hold works on the host.
fn hold_back(report: HostReport, hold: &HostHold) -> HostReport {
    let reason = UntrustedText::from(hold.describe());
    let (mut steps, mut verify) = (report.steps, report.verify);
    for step in &mut steps {
        if !matches!(step.result, StepResult::AlreadyOk { .. } | StepResult::NotApplicable { .. }) {
            step.result = StepResult::Held { reason: reason.clone() };
            // It is about what the step lacked; nothing but the release lets it run.
            step.hint = None;
        }
    }
    for one in &mut verify {
        if !matches!(one.result, VerifyResult::Held | VerifyResult::NotApplicable { .. }) {
            one.result = VerifyResult::Skipped { reason: reason.clone() };
        }
    }
    let mut report = complete_report(empty_report(&report.host, HostOutcome::Ok, reason), steps, verify);
    report.hint = Some(RELEASE_HINT.into());
    report
}

/// Reports a host whose state differs from the saved plan's: no action is tried there.
pub(super) fn report_stale(run: &ApplyContext<'_>, plan: &HostPlan, seen: &ObservedHost) -> HostReport {
    let Some(stale) = &seen.stale else { return report_unchanged(run, plan) };
    let mut report = empty_report(&plan.host, HostOutcome::Stale, stale.why.clone());
    report.hint = Some(stale.hint.clone());
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    for step in &mut report.steps {
        let moved = stale.steps.iter().find(|(id, _)| *id == step.id);
        step.result = match moved {
            Some((_, why)) => StepResult::Stale { reason: why.clone() },
            None if step.result == StepResult::Cancelled => {
                StepResult::Skipped { reason: "the plan is stale on this host".into() }
            }
            None => match stale.unsettled.iter().find(|(id, _)| *id == step.id) {
                Some((_, why)) => StepResult::Skipped {
                    reason: format!("the plan is stale on this host; observed now: {}", why.raw()).into(),
                },
                None => continue,
            },
        };
    }
    report
}

/// Reports a host with nothing to do: the plan's observation is its proof.
pub(super) fn report_unchanged(run: &ApplyContext<'_>, plan: &HostPlan) -> HostReport {
    let steps: Vec<StepReport> = plan.steps.iter().map(report_as_planned).collect();
    record_planned_phases(run, plan);
    record_planned_verifications(run, plan);
    let verify = plan.verify.iter().map(report_planned_verification).collect::<Vec<_>>();
    let undone = run.options.undo.as_deref().map(|undo| &*undo.scope.run);
    complete_report(
        empty_report(&plan.host, HostOutcome::Ok, describe_empty_host(run.project, undone, &plan.host)),
        steps,
        verify,
    )
}

/// Publishes the phases that steps have reached according to the plan.
pub(super) fn record_planned_phases(run: &ApplyContext<'_>, plan: &HostPlan) {
    for step in &plan.steps {
        if let Some(index) = run.project.graph.find_step(&step.id.recipe, &step.id.step) {
            run.publish_phase(index, &plan.host, planned_phase(step));
        }
    }
}

/// Publishes the verification results of the plan's observation to the steps that wait for them.
fn record_planned_verifications(run: &ApplyContext<'_>, plan: &HostPlan) {
    let recipes: BTreeSet<&str> = plan.steps.iter().map(|step| &*step.id.recipe).collect();
    for recipe in recipes.into_iter().filter(|recipe| run.proofs.contains(*recipe)) {
        let open = plan.verify.iter().find(|v| v.recipe == recipe && !v.verdict.is_settled());
        let why = open.map(|verify| format!("verification `{}`: {}", verify.name, verify.reason.raw()));
        run.board.record_verification(run.list_recipe_steps(recipe), &plan.host, why.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StepVerdict;
    use crate::plan::StepPlan;
    use crate::view::sample;

    #[test]
    fn step_of_a_host_on_hold_has_no_advice_of_its_own() {
        let step = StepPlan {
            hint: Some("run without `--on`".into()),
            ..sample::step("p", "file", "/etc/p", StepVerdict::Unknown, "`token` is not known")
        };
        let hold = HostHold { why: "RMA 17".into(), by: "ann@ops".into(), since: "today".into(), until: None };
        let report = report_new_hold(&sample::observed_host("a", vec![step]), &hold);
        assert_eq!(report.steps[0].hint, None);
        assert_eq!(report.hint.unwrap().raw(), RELEASE_HINT);
    }
}
