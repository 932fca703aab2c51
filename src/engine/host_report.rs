//! Builds the reports of hosts and steps: of what was planned, and of a completed host.

use super::event::{StepFailure, StepResult, VerifyResult};
use super::host_session::describe_transport_error;
use super::reached_phase::ReachedPhase;
use super::report::{HostReport, StepReport, VerifyReport};
use crate::config::Project;
use crate::model::{HostName, HostOutcome, StepVerdict, UntrustedText};
use crate::plan::{StepPlan, VerifyPlan};
use crate::transport::TransportError;

/// Returns the report of a host without results.
pub(super) fn empty_report(host: &HostName, outcome: HostOutcome, reason: UntrustedText) -> HostReport {
    HostReport {
        host: host.clone(),
        outcome,
        reason,
        hint: None,
        steps: Vec::new(),
        verify: Vec::new(),
        return_tests: Vec::new(),
        reboots: Vec::new(),
        node: None,
        undeclared: Vec::new(),
        accepted: Vec::new(),
        not_undone: Vec::new(),
        held_back_by: None,
        took: Default::default(),
    }
}

/// Reports a host that could not be reached, or not prepared.
pub(super) fn report_unreachable(host: &HostName, error: &TransportError) -> HostReport {
    let mut report = empty_report(host, HostOutcome::Unreachable, describe_transport_error(error));
    report.hint = error.hint.as_deref().map(UntrustedText::from);
    report
}

/// Returns why a host has no results: no recipe declares anything for it. `undone` is the run that an undo reverts.
pub(super) fn describe_empty_host(project: &Project, undone: Option<&str>, host: &HostName) -> UntrustedText {
    match (project.instances.get(host).is_none_or(Vec::is_empty), undone) {
        (true, Some(run)) => format!("no change of run {run} to undo").into(),
        (true, None) => "no recipe is applied to it".into(),
        (false, _) => UntrustedText::default(),
    }
}

/// Returns the report of a step that was not run.
pub(super) fn report_as_planned(step: &StepPlan) -> StepReport {
    let reason = step.reason.clone();
    let result = match (&step.waits_for, step.verdict) {
        (Some(other), _) => StepResult::Skipped { reason: other.describe_need().into() },
        (None, StepVerdict::Change) if step.held.is_some() => {
            StepResult::Held { reason: step.held.as_deref().unwrap_or_default().into() }
        }
        (None, StepVerdict::Ok) => StepResult::AlreadyOk { reason },
        (None, StepVerdict::Change) => StepResult::Cancelled,
        (None, StepVerdict::Pending) => StepResult::Pending { reason },
        (None, StepVerdict::Blocked(class)) => StepResult::Blocked { class, reason },
        (None, StepVerdict::Unknown) => StepResult::Unknown { reason },
        (None, StepVerdict::NotApplicable) => StepResult::NotApplicable { reason },
    };
    StepReport {
        id: step.id.clone(),
        title: step.title.clone(),
        result,
        hint: step.hint.clone(),
        check: step.check.clone().filter(|_| step.verdict == StepVerdict::Pending),
        changes: Vec::new(),
        took: Default::default(),
        place: step.place.to_string(),
    }
}

/// Returns the phase that a step reached without being run.
pub(super) fn planned_phase(step: &StepPlan) -> ReachedPhase {
    match &step.waits_for {
        Some(_) => ReachedPhase::Nothing,
        None => phase_from_verdict(step.verdict),
    }
}

/// Returns the phase of a step with that verdict.
pub(super) fn phase_from_verdict(verdict: StepVerdict) -> ReachedPhase {
    match verdict {
        StepVerdict::Ok | StepVerdict::NotApplicable => ReachedPhase::Effective,
        StepVerdict::Pending => ReachedPhase::Configured,
        StepVerdict::Change | StepVerdict::Blocked(_) | StepVerdict::Unknown => ReachedPhase::Nothing,
    }
}

/// Returns the result that the plan's own observation proves.
pub(super) fn report_planned_verification(verify: &VerifyPlan) -> VerifyReport {
    VerifyReport {
        recipe: verify.recipe.to_string(),
        name: verify.name.to_string(),
        result: to_verify_result((verify.verdict, verify.reason.raw().to_owned())),
        check: verify.check.clone(),
        of_step: false,
        place: verify.place.to_string(),
    }
}

/// Returns the result of a verification with that verdict.
pub(super) fn to_verify_result((verdict, reason): (StepVerdict, String)) -> VerifyResult {
    let reason: UntrustedText = reason.into();
    match verdict {
        StepVerdict::Ok => VerifyResult::Held,
        StepVerdict::NotApplicable => VerifyResult::NotApplicable { reason },
        StepVerdict::Unknown => VerifyResult::Unknown { reason },
        StepVerdict::Pending => VerifyResult::Skipped { reason },
        StepVerdict::Change | StepVerdict::Blocked(_) => VerifyResult::Failed { reason },
    }
}

/// Completes a report by the results of steps and verifications.
pub(super) fn complete_report(mut report: HostReport, steps: Vec<StepReport>, verify: Vec<VerifyReport>) -> HostReport {
    report.outcome = HostReport::compute_outcome(&steps, &verify);
    if report.reason.is_empty() {
        report.reason = find_failure_reason(report.outcome, &steps, &verify);
    }
    report.steps = steps;
    report.verify = verify;
    report
}

/// Returns the first result that gives a host its outcome, in one line; without one, the first that is not as declared.
fn find_failure_reason(outcome: HostOutcome, steps: &[StepReport], verify: &[VerifyReport]) -> UntrustedText {
    let decides = |result: &StepResult| match outcome {
        HostOutcome::Failed => matches!(result, StepResult::Failed { .. }),
        HostOutcome::Blocked => matches!(result, StepResult::Blocked { .. }),
        HostOutcome::Stale => matches!(result, StepResult::Stale { .. }),
        _ => false,
    };
    let deciding = steps.iter().filter(|step| decides(&step.result)).find_map(describe_step_failure);
    let failed = || verify.iter().find_map(describe_failed_verification);
    let first = match outcome {
        HostOutcome::Failed => deciding.or_else(failed),
        _ => deciding,
    };
    let found = first.or_else(|| steps.iter().find_map(describe_step_failure)).or_else(failed);
    found.or_else(|| describe_stop(steps)).unwrap_or_default().into()
}

fn describe_step_failure(step: &StepReport) -> Option<String> {
    match &step.result {
        StepResult::Failed { failure: StepFailure { why, .. } } => Some(format!("`{}` failed: {}", step.id, why.raw())),
        StepResult::Blocked { class, reason } => {
            Some(format!("`{}` is blocked ({}): {}", step.id, class.name(), reason.raw()))
        }
        StepResult::Stale { reason } => Some(format!("`{}` is stale: {}", step.id, reason.raw())),
        StepResult::Unknown { reason } => Some(format!("`{}` is unknown: {}", step.id, reason.raw())),
        _ => None,
    }
}

fn describe_failed_verification(verify: &VerifyReport) -> Option<String> {
    let VerifyResult::Failed { reason } = &verify.result else { return None };
    Some(format!("verification `{}` of `{}` failed: {}", verify.name, verify.recipe, reason.raw()))
}

/// Returns the position of a host when the user stopped the run.
fn describe_stop(steps: &[StepReport]) -> Option<String> {
    let mut cancelled = steps.iter().filter(|step| step.result == StepResult::Cancelled);
    let first = cancelled.next()?;
    Some(match cancelled.count() {
        0 => format!("the run was stopped before `{}`", first.id),
        1 => format!("the run was stopped before `{}` and 1 more step", first.id),
        more => format!("the run was stopped before `{}` and {more} more steps", first.id),
    })
}
