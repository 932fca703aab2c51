//! The report of a host that the user detached from: completed steps, steps in flight, remaining steps.

use super::event::StepResult;
use super::host_report::{empty_report, report_as_planned};
use super::report::{HostReport, StepReport};
use super::run_context::ApplyContext;
use crate::model::{HostOutcome, StepId};
use crate::plan::{HostPlan, StepPlan};

/// Returns the report of a host that was not done when forge exited.
pub(super) fn report_detached_host(run: &ApplyContext<'_>, plan: &HostPlan) -> HostReport {
    let in_flight = run.in_flight.list_host_steps(&plan.host);
    let mut steps = run.ledger.list_host_reports(&plan.host);
    let done: Vec<StepId> = steps.iter().map(|step| step.id.clone()).collect();
    let open = plan.steps.iter().filter(|step| !done.iter().any(|id| covers_step(step, id)));
    steps.extend(open.map(|step| report_unfinished_step(step, &in_flight)));
    let mut report = empty_report(&plan.host, HostOutcome::Cancelled, describe_detach(&steps, in_flight.len()).into());
    report.hint = (!in_flight.is_empty()).then(|| "run again: the next run waits for running jobs first".into());
    report.steps = steps;
    report.took = run.times.time_worked(&plan.host);
    report
}

/// Reports whether a planned step has the name `id`. A step whose list was not known at plan time was planned as one.
fn covers_step(step: &StepPlan, id: &StepId) -> bool {
    let planned = &step.id;
    planned.recipe == id.recipe && planned.step == id.step && (planned.key == id.key || planned.key.is_none())
}

fn report_unfinished_step(step: &StepPlan, in_flight: &[StepId]) -> StepReport {
    let mut report = report_as_planned(step);
    if in_flight.iter().any(|id| covers_step(step, id)) {
        report.result = StepResult::Unknown { reason: "was running when forge exited".into() };
    }
    report
}

/// Returns `forge exited before this host was done; steps: 1 changed, 1 in flight, 2 not started`.
fn describe_detach(steps: &[StepReport], in_flight: usize) -> String {
    let of = |test: fn(&StepResult) -> bool| steps.iter().filter(|step| test(&step.result)).count();
    let (changed, failed) = (of(|r| matches!(r, StepResult::Changed)), of(|r| matches!(r, StepResult::Failed { .. })));
    let not_begun = of(|r| matches!(r, StepResult::Cancelled));
    let counts = [(changed, "changed"), (failed, "failed"), (in_flight, "in flight"), (not_begun, "not started")];
    let told: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    match told.is_empty() {
        true => "forge exited before this host was done".to_owned(),
        false => format!("forge exited before this host was done; steps: {}", told.join(", ")),
    }
}
