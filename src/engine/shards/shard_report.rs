//! The plan of a shard on the current state of its hosts, and the reports of hosts on which workers died.

use super::worker_task::ShardPlan;
use crate::config::Project;
use crate::engine::bind_saved_plan::bind_plan;
use crate::engine::event::StepResult;
use crate::engine::host_report::{empty_report, report_as_planned};
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::report::{HostReport, REPORT_VERSION, RunReport, StepReport};
use crate::engine::run_options::RunOptions;
use crate::model::{HostName, HostOutcome, StepId};
use crate::plan::{HostPlan, Plan, VerifyPlan};

/// Returns the part of a plan for `hosts`, bound to their current state: hosts that changed since the plan are marked as
/// stale in `observed`.
pub fn bind_shard_plan(
    project: &Project,
    shard: &ShardPlan,
    hosts: &[HostName],
    observed: &mut ObservedHosts,
    options: &RunOptions,
) -> Plan {
    let mut plan = shard.plan.clone();
    plan.hosts.retain(|host| hosts.contains(&host.host));
    bind_plan(project, plan, observed, options, shard.once)
}

/// Returns the report of a run that did not begin, because workers of another run may be at work.
pub fn report_locked_run(project: &Project, plan: &Plan, options: &RunOptions, why: &str) -> RunReport {
    let report_host = |host: &HostPlan| {
        let outcome = if host.will_run() { HostOutcome::Locked } else { HostOutcome::Ok };
        let mut report = report_without_results(host, outcome, why);
        if outcome == HostOutcome::Ok {
            report.outcome = HostReport::compute_outcome(&report.steps, &report.verify);
        }
        report
    };
    RunReport {
        version: REPORT_VERSION,
        run: options.run.clone(),
        verb: options.verb_name().to_owned(),
        cluster: project.cluster.clone(),
        plan: Some(plan.id.clone()),
        simulated: plan.simulated.clone(),
        hosts: plan.hosts.iter().map(report_host).collect(),
        budget_spent: false,
        interrupted: false,
        evict_busy: None,
        took: Default::default(),
    }
}

/// Returns the report of a host without results of its own: its steps as planned.
pub(super) fn report_without_results(plan: &HostPlan, outcome: HostOutcome, reason: &str) -> HostReport {
    let mut report = empty_report(&plan.host, outcome, reason.into());
    report.steps = plan.steps.iter().map(report_as_planned).collect();
    report.undeclared = plan.undeclared.clone();
    report.accepted = plan.accepted.clone();
    report
}

/// Why a host has no report of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbandonCause {
    /// The store could not be written, so that no worker was started.
    NoTask,
    /// Its worker died, and the run was being stopped.
    Died,
    /// Its worker died, and so did the one that replaced it.
    DiedTwice,
    /// The store could not be read.
    UnreadableReport,
}

impl AbandonCause {
    fn describe(self, how: &str, has_changes: bool) -> String {
        let what = match self {
            Self::NoTask => "no worker was started: the store cannot be written",
            Self::Died if has_changes => "its worker died while it changed the host",
            Self::Died => "its worker died",
            Self::DiedTwice if has_changes => "its worker died twice while it changed the host",
            Self::DiedTwice => "its worker died twice",
            Self::UnreadableReport => "the report of its worker cannot be read",
        };
        format!("{what}: {how}")
    }
}

/// Returns the report of a host without a report of a worker: completed steps have their results, a step that had
/// started is unknown.
pub(super) fn report_abandoned_host(
    plan: &HostPlan,
    cause: AbandonCause,
    how: &str,
    finished: &[StepReport],
    started: &[StepId],
) -> HostReport {
    let has_changes = !(started.is_empty() && finished.is_empty());
    let outcome = if has_changes { HostOutcome::Failed } else { HostOutcome::Unreachable };
    let mut report = report_without_results(plan, outcome, &cause.describe(how, has_changes));
    report.hint = Some("run the same command again: steps that are done are skipped".into());
    for step in &mut report.steps {
        match finished.iter().find(|done| done.id == step.id) {
            Some(done) => *step = done.clone(),
            None if started.contains(&step.id) => {
                step.result = StepResult::Unknown { reason: "was running when its worker died".into() };
            }
            None => {}
        }
    }
    report
}

/// Restores where the steps and verifications of a report are declared: a worker may have another path to the inventory.
pub(super) fn restore_places(report: &mut HostReport, plan: &HostPlan) {
    for step in &mut report.steps {
        if let Some(planned) = plan.steps.iter().find(|planned| planned.id == step.id) {
            step.place = planned.place.to_string();
        }
    }
    for verify in &mut report.verify {
        let same = |planned: &&VerifyPlan| planned.recipe == verify.recipe && planned.name == verify.name;
        if let Some(planned) = plan.verify.iter().find(same) {
            verify.place = planned.place.to_string();
        }
    }
}

/// Completes the report of a second worker by the changes of the first one, which the second one found done: those that
/// the first one reported in `earlier`, and planned ones that it had started when it died (`interrupted`).
pub(super) fn add_earlier_changes(
    report: &mut HostReport,
    plan: &HostPlan,
    earlier: &[StepReport],
    interrupted: &[StepId],
) {
    let mut added = false;
    for step in report.steps.iter_mut().filter(|step| matches!(step.result, StepResult::AlreadyOk { .. })) {
        let reported = earlier.iter().find(|done| done.id == step.id && done.result == StepResult::Changed);
        let started = || interrupted.contains(&step.id);
        if let Some(done) = reported {
            *step = done.clone();
            added = true;
        } else if let Some(planned) =
            plan.steps.iter().find(|planned| planned.id == step.id && planned.will_run() && started())
        {
            (step.result, step.changes) = (StepResult::Changed, planned.changes.clone());
            added = true;
        }
    }
    if added && report.outcome == HostOutcome::Ok {
        report.outcome = HostReport::compute_outcome(&report.steps, &report.verify);
    }
}
