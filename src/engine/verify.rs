//! Verify: compares the declared state with one observation. Changes nothing.

use super::event::{Event, EventSender, VerifyResult};
use super::host_report::{describe_empty_host, empty_report, report_planned_verification};
use super::observed_hosts::ObservedHosts;
use super::report::{HostReport, REPORT_VERSION, RunReport, VerifyReport};
use super::run_options::RunOptions;
use super::window::find_closed_hours;
use crate::config::{Project, StepExpander};
use crate::model::{HostName, HostOutcome, StepVerdict, UntrustedText};
use crate::plan::{
    self, ChangeCertainty, HostContext, HostPlan, HostReachability, HostRefusal, ObservedHost, OngoingWork, Plan,
    StepPlan, VerifyPlan,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Makes the plan for an observation, and notes whether windows may open now.
pub fn plan(project: &Project, observed: &ObservedHosts, options: &RunOptions) -> Plan {
    let mut plan = plan::plan(&observed.to_plan_inputs(project, options));
    note_closed_hours(project, &mut plan, options);
    plan
}

/// Notes in a plan with windows whether they may open now.
pub(super) fn note_closed_hours(project: &Project, plan: &mut Plan, options: &RunOptions) {
    plan.rollout.closed = plan.rollout.hours.as_ref().and_then(|_| find_closed_hours(project, options));
}

/// Evaluates every step and every `verify` on an observation.
pub fn verify(
    project: &Project,
    plan: &Plan,
    observed: &ObservedHosts,
    options: &RunOptions,
    events: &EventSender,
) -> RunReport {
    let took = |host: &HostPlan| observed.took_by.get(&host.host).copied().unwrap_or_default();
    let inputs = observed.to_plan_inputs(project, options);
    let expander = StepExpander::new(project);
    let ground = inputs.plan_context(&expander);
    let seen: BTreeMap<&HostName, &ObservedHost> = observed.seen.iter().map(|seen| (&seen.host, seen)).collect();
    let busy = observed.seen.iter().filter_map(|seen| Some((&seen.host, seen.activity.as_ref()?)));
    let busy: BTreeMap<&HostName, &OngoingWork> = busy.collect();
    RunReport {
        version: REPORT_VERSION,
        run: options.run.clone(),
        verb: "verify".to_owned(),
        cluster: project.cluster.clone(),
        plan: None,
        simulated: plan.simulated.clone(),
        hosts: plan
            .hosts
            .iter()
            .map(|host| {
                let case = seen.get(&host.host).and_then(|seen| HostContext::new(ground, &host.host, seen));
                verify_host((project, case), host, busy.get(&host.host).copied(), took(host), events)
            })
            .collect(),
        budget_spent: false,
        interrupted: false,
        evict_busy: None,
        took: observed.took,
    }
}

fn verify_host(
    (project, case): (&Project, Option<HostContext<'_>>),
    plan: &HostPlan,
    work: Option<&OngoingWork>,
    took: Duration,
    events: &EventSender,
) -> HostReport {
    let (outcome, reason, hint) = match &plan.reach {
        HostReachability::Unreachable(why) => (HostOutcome::Unreachable, why.why.clone(), why.hint.clone()),
        HostReachability::Observed => match &plan.refused {
            Some(refused) => (HostOutcome::Ok, describe_missing_root(refused), Some(refused.hint.clone())),
            None => match work {
                Some(work) => (HostOutcome::Ok, work.describe().into(), Some(OngoingWork::HINT.into())),
                None => (HostOutcome::Ok, describe_empty_host(project, None, &plan.host), None),
            },
        },
    };
    let steps = plan.steps.iter().map(verify_step);
    let verifications =
        case.map(|case| assess_verifications(&case, plan)).unwrap_or_else(|| plan.verify.iter().cloned().collect());
    let mut verify: Vec<VerifyReport> = steps.chain(verifications.iter().map(report_planned_verification)).collect();
    if let Some(missing) = &plan.missing {
        let reason: UntrustedText = missing.describe_absence().into();
        verify.iter_mut().for_each(|verify| verify.result = VerifyResult::Unknown { reason: reason.clone() });
    }
    if work.is_some() {
        verify.iter_mut().for_each(defer_failure);
    }
    let undeclared = plan.undeclared.clone();
    let mut report = HostReport { verify, hint, undeclared, took, ..empty_report(&plan.host, outcome, reason) };
    report.accepted = plan.accepted.clone();
    if report.outcome == HostOutcome::Ok {
        report.outcome = HostReport::compute_outcome(&[], &report.verify);
    }
    let finished =
        Event::HostFinished { host: report.host.clone(), outcome: report.outcome, reason: report.reason.clone() };
    // Sending fails only when the receiver is gone, shortly before the process ends.
    let _ = events.send(finished);
    report
}

/// Returns the verifications of a host by its observation. Those of a recipe whose declaration differs from the host
/// wait, and those that read such a recipe: they are about the state after an apply. If only the host changed, they are
/// about that change.
fn assess_verifications(case: &HostContext<'_>, plan: &HostPlan) -> Vec<VerifyPlan> {
    if plan.verify.iter().all(|verify| verify.verdict != StepVerdict::Pending) {
        return plan.verify.iter().cloned().collect();
    }
    let turns = case.expand_local_steps();
    let changed = plan::list_changed_recipes(case, &turns, plan);
    let judge = |verify: &VerifyPlan| {
        match changed.contains(&*verify.recipe) || plan::reads_recipes(case, verify, &changed) {
            true => verify.clone(),
            // What cannot be asked now, such as a stopped service, can be once the steps match.
            false => plan::assess_waiting_verification(case, verify)
                .filter(|judged| judged.verdict != StepVerdict::Unknown)
                .unwrap_or_else(|| verify.clone()),
        }
    };
    plan.verify.iter().map(judge).collect()
}

/// Leaves a failure undecided: the run that works on the host may be about to change that.
fn defer_failure(verify: &mut VerifyReport) {
    if let VerifyResult::Failed { reason } = &verify.result {
        verify.result = VerifyResult::Unknown { reason: OngoingWork::defer_reason(reason) };
    }
}

fn describe_missing_root(refused: &HostRefusal) -> UntrustedText {
    format!("{}: state readable only by root is unknown", refused.why.raw()).into()
}

/// Reports a step that does not match as a failed verification.
fn verify_step(step: &StepPlan) -> VerifyReport {
    let reason = step.reason.clone();
    // A precaution applies to a step that was observed to match; a pending package may change it later.
    let is_precaution =
        step.envelope.as_ref().is_some_and(|envelope| envelope.foresight == ChangeCertainty::Precaution);
    let result = match step.verdict {
        StepVerdict::Change if is_precaution => VerifyResult::Held,
        StepVerdict::Ok => VerifyResult::Held,
        StepVerdict::NotApplicable => VerifyResult::NotApplicable { reason },
        StepVerdict::Unknown => VerifyResult::Unknown { reason },
        // It waits for a value, so nothing was compared.
        StepVerdict::Change if is_uncompared(step) => VerifyResult::Unknown { reason },
        StepVerdict::Change => VerifyResult::Failed { reason: format!("does not match: {}", reason.raw()).into() },
        StepVerdict::Pending => VerifyResult::Failed { reason },
        StepVerdict::Blocked(class) => {
            VerifyResult::Failed { reason: format!("blocked ({}): {}", class.name(), reason.raw()).into() }
        }
    };
    let name = match &step.id.key {
        Some(key) => format!("{}[{key}]", step.id.step),
        None => step.id.step.to_string(),
    };
    let (recipe, place) = (step.id.recipe.to_string(), step.place.to_string());
    VerifyReport { recipe, name, result, check: None, of_step: true, place }
}

/// Reports whether a step waits for a value that it declares: its change is predicted without any difference.
fn is_uncompared(step: &StepPlan) -> bool {
    let is_predicted = |envelope: &crate::plan::PredictedEffects| envelope.foresight == ChangeCertainty::Predicted;
    step.changes.is_empty() && step.envelope.as_deref().is_some_and(is_predicted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PredictedEffects;
    use crate::view::sample;

    /// A step that matches now passes, even if a pending package may change it.
    #[test]
    fn precautionary_change_does_not_fail_verification() {
        let envelope = |foresight| PredictedEffects {
            until: "base/nginx has run".into(),
            disruption: crate::model::DisruptionClass::D0,
            resource: "absent /etc/x".into(),
            foresight,
        };
        let step = |foresight| StepPlan {
            envelope: Some(Box::new(envelope(foresight))),
            ..sample::step("site", "absent", "/etc/x", StepVerdict::Change, "nothing is there")
        };
        assert_eq!(verify_step(&step(ChangeCertainty::Precaution)).result, VerifyResult::Held);
        let failed = VerifyResult::Failed { reason: "does not match: nothing is there".into() };
        let differs = StepPlan {
            changes: vec![crate::resource::AttributeChange::new("type", None, Some("file"))],
            ..step(ChangeCertainty::Predicted)
        };
        assert_eq!(verify_step(&differs).result, failed);
        let unknown = VerifyResult::Unknown { reason: "nothing is there".into() };
        assert_eq!(verify_step(&step(ChangeCertainty::Predicted)).result, unknown, "nothing was compared");
        let held = StepPlan { held: Some("the limit".into()), ..step(ChangeCertainty::Predicted) };
        assert_eq!(verify_step(&held).result, unknown);
    }
}
