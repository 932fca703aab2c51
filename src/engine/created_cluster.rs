//! The API of a cluster that the run itself creates: opened and observed once the steps that create it have run.

use super::cancel::StopLevel;
use super::dependency_gate::{DependencyGate, GateRefusal};
use super::event::StepResult;
use super::host_report::{complete_report, empty_report, report_as_planned, report_unreachable};
use super::host_session::HostSession;
use super::observe::observe_created_cluster;
use super::report::{HostReport, StepReport};
use super::run_context::ApplyContext;
use super::session_connector::OpenSession;
use crate::model::{HostOutcome, StepId, UntrustedText};
use crate::plan::{HostPlan, HostReachability, MissingCluster, ObservedHost, UnreachableReason};
use crate::transport::{TransportError, TransportErrorKind};
use std::time::{Duration, Instant};

/// How long the API may take to answer after the steps that create it have succeeded.
const START_LIMIT: Duration = Duration::from_secs(120);
const START_PAUSE: Duration = Duration::from_secs(2);

/// Waits until the cluster exists, and opens its API.
///
/// # Errors
/// It was not created, or does not answer: the report of its steps.
pub(super) async fn open_created_cluster(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
    missing: &MissingCluster,
) -> Result<(Box<dyn HostSession>, ObservedHost), Box<HostReport>> {
    let gate = DependencyGate::new(run, &plan.host);
    match gate.await_makers(missing, &name_first_step(plan)).await {
        Ok(()) => {}
        Err(GateRefusal::Lacks { reason, .. }) => return Err(Box::new(report_not_created(plan, &reason))),
        Err(GateRefusal::Stopped) => return Err(Box::new(report_stopped(plan))),
    }
    let until = Instant::now() + START_LIMIT;
    loop {
        let error = match open_and_observe(run, plan).await {
            Ok(entered) => return Ok(entered),
            Err(error) => error,
        };
        if !error.may_be_starting() || Instant::now() >= until {
            return Err(Box::new(error.into_report(plan)));
        }
        tokio::select! {
            () = tokio::time::sleep(START_PAUSE) => {}
            () = run.cancel.wait_for_level(StopLevel::Finish) => return Err(Box::new(report_stopped(plan))),
        }
    }
}

/// Why the API could not be used.
enum ApiStartFailure {
    Open(TransportError),
    Observe { starting: bool, why: UnreachableReason },
}

impl ApiStartFailure {
    /// Returns whether the API of a cluster that was just created fails like this before it answers.
    fn may_be_starting(&self) -> bool {
        match self {
            Self::Open(error) => matches!(error.kind, TransportErrorKind::NoLogin | TransportErrorKind::NoAnswer),
            Self::Observe { starting, .. } => *starting,
        }
    }

    fn into_report(self, plan: &HostPlan) -> HostReport {
        match self {
            Self::Open(error) => report_unreachable(&plan.host, &error),
            Self::Observe { why, .. } => {
                HostReport { hint: why.hint, ..empty_report(&plan.host, HostOutcome::Unreachable, why.why) }
            }
        }
    }
}

async fn open_and_observe(
    run: &ApplyContext<'_>,
    plan: &HostPlan,
) -> Result<(Box<dyn HostSession>, ObservedHost), ApiStartFailure> {
    let shared = run.board.shared_values();
    let opened = <dyn HostSession>::open(run.session_request(&plan.host, &shared.secrets)).await;
    let session = opened.map_err(ApiStartFailure::Open)?;
    let seen = observe_created_cluster(run, &*session, &plan.host).await;
    match seen.reach {
        HostReachability::Observed => Ok((session, seen)),
        HostReachability::Unreachable(why) => {
            session.close().await;
            Err(ApiStartFailure::Observe { starting: seen.missing.is_some(), why })
        }
    }
}

/// Returns the step that waits for the cluster; a cluster without steps waits with its verification.
fn name_first_step(plan: &HostPlan) -> StepId {
    let step = plan.steps.iter().find(|step| step.will_run()).map(|step| step.id.clone());
    let verify = || plan.verify.first().map(|verify| StepId::new(&verify.recipe, &verify.name));
    step.or_else(verify).unwrap_or_else(|| StepId::new(plan.host.as_str(), ""))
}

/// Skips every step that was to change something.
fn report_not_created(plan: &HostPlan, reason: &str) -> HostReport {
    let mut steps: Vec<StepReport> = plan.steps.iter().map(report_as_planned).collect();
    for step in steps.iter_mut().filter(|step| step.result == StepResult::Cancelled) {
        step.result = StepResult::Skipped { reason: reason.into() };
    }
    complete_report(empty_report(&plan.host, HostOutcome::Ok, reason.into()), steps, Vec::new())
}

fn report_stopped(plan: &HostPlan) -> HostReport {
    let reason = UntrustedText::from("the run was stopped before the cluster existed");
    let mut report = empty_report(&plan.host, HostOutcome::Cancelled, reason);
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    report
}
