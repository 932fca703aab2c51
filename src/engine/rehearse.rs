//! Rehearse: runs the steps of a plan in views of its hosts, and reports what changed there.
//!
//! Architecture Invariant: every session that may act is one in a view. The hosts themselves run two scripts only: one
//! that makes the view, and one that lists what changed in it.

use super::apply::apply;
use super::cancel::{CancelSignal, StopLevel};
use super::event::{Event, EventSender};
use super::fetch::fetch_for_plan;
use super::observe::observe_for_change;
use super::observed_hosts::ObservedHosts;
use super::rehearsed_host::{
    RehearsedRun, defer_to_run, report_cancelled, report_no_view, report_rehearsal, report_without_changes,
};
use super::remote_session::open_transport_session;
use super::run_options::{HostConnector, RunOptions};
use super::verify;
use super::view_connector::{HostInView, ViewConnector};
use crate::config::{HostShare, Project, RolloutPolicy, StepExpander};
use crate::model::HostName;
use crate::plan::{
    DeclaredEffects, HostContext, HostPlan, HostRehearsal, Plan, REHEARSAL_VERSION, RehearsalReport, ViewChanges,
    collect_declared_effects,
};
use crate::transport::TransportError;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::time::Instant;

/// The hosts whose views are up.
type ViewsByHost = BTreeMap<HostName, HostInView>;

/// Rehearses `plan`, which was made from `observed`, the real hosts. A stop request ends the views at once.
pub async fn rehearse(
    mut project: Project,
    plan: &Plan,
    observed: &ObservedHosts,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> RehearsalReport {
    let began = Instant::now();
    let left_out = list_left_out_parts(&project, plan);
    project.rollout = relax_rollout(&project.rollout);
    let connector = ViewConnector::default();
    let options = RunOptions { rehearsal: true, connector: HostConnector::new(connector.clone()), ..options.clone() };
    let work = Rehearsal { project: &project, plan, options: &options, events, connector: &connector };
    let (views, refused) = tokio::select! {
        opened = work.open_views() => opened,
        () = cancel.wait_for_level(StopLevel::Finish) => Default::default(),
    };
    let run = tokio::select! {
        run = work.run_in_views(&views) => Some(run),
        () = cancel.wait_for_level(StopLevel::Finish) => None,
    };
    let changes = match &run {
        Some(_) => work.read_all_changes(&views).await,
        None => BTreeMap::new(),
    };
    let runs_systemd: BTreeMap<&HostName, bool> =
        views.iter().map(|(host, view)| (host, view.host_runs_systemd())).collect();
    let hosts = plan.hosts.iter().filter(|host| !host.host.is_cluster());
    let report = hosts.map(|host| match (refused.get(&host.host), &run, changes.get(&host.host)) {
        _ if !host.has_changes() => report_without_changes(host),
        (Some(error), ..) => report_no_view(host, error),
        (None, Some(run), Some(changes)) => {
            report_rehearsal(host, run, changes, runs_systemd.get(&host.host) == Some(&true), began.elapsed())
        }
        _ => report_cancelled(host),
    });
    let work = |host: &HostName| observed.seen.iter().find(|seen| seen.host == *host)?.activity.as_ref();
    let hosts: Vec<HostRehearsal> = report
        .map(|host| match work(&host.host) {
            Some(work) => defer_to_run(host, work),
            None => host,
        })
        .collect();
    futures_util::future::join_all(views.into_values().map(HostInView::end)).await;
    RehearsalReport {
        version: REHEARSAL_VERSION,
        cluster: project.cluster.clone(),
        inventory: project.inventory.to_string(),
        plan: plan.id.clone(),
        hosts,
        left_out,
        interrupted: cancel.level() > StopLevel::No,
        took: began.elapsed(),
    }
}

/// One rehearsal.
struct Rehearsal<'a> {
    project: &'a Project,
    /// The plan of the real hosts.
    plan: &'a Plan,
    options: &'a RunOptions,
    events: &'a EventSender,
    connector: &'a ViewConnector,
}

impl Rehearsal<'_> {
    /// Makes the views, and returns why there is none for other hosts.
    async fn open_views(&self) -> (ViewsByHost, BTreeMap<HostName, TransportError>) {
        let (mut views, mut refused) = (ViewsByHost::new(), BTreeMap::new());
        let hosts = self.plan.hosts.iter().filter(|host| host.has_changes() && !host.host.is_cluster());
        let opening = hosts.map(|host| async { (host.host.clone(), self.open_view(&host.host).await) });
        let mut opening = futures_util::stream::iter(opening).buffer_unordered(self.options.parallel.max(1));
        while let Some((host, opened)) = opening.next().await {
            match opened {
                Ok(view) => {
                    self.connector.add_view(&host, &view);
                    views.insert(host, view);
                }
                Err(error) => drop(refused.insert(host, error)),
            }
        }
        (views, refused)
    }

    async fn open_view(&self, host: &HostName) -> Result<HostInView, TransportError> {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(Event::Connecting { host: host.clone() });
        let session = open_transport_session(self.project, self.options, host, &self.project.secrets).await?;
        HostInView::start(session).await
    }

    /// Observes the views, plans, and applies the plan there.
    async fn run_in_views(&self, views: &ViewsByHost) -> RehearsedRun {
        let hosts: Vec<HostName> =
            self.plan.hosts.iter().map(|host| host.host.clone()).filter(|host| views.contains_key(host)).collect();
        let observed = observe_for_change(self.project, &hosts, self.options, self.events).await;
        let plan = verify::plan(self.project, &observed, self.options);
        let declared = self.collect_declared(&plan, &observed);
        // A step whose artifact is missing fails with the reason.
        fetch_for_plan(self.project, &plan, &observed, self.options, self.events).await;
        let own = CancelSignal::default();
        let report = apply(self.project, &plan, observed, self.options, self.events, &own).await;
        RehearsedRun { plan, report, declared }
    }

    fn collect_declared(&self, plan: &Plan, observed: &ObservedHosts) -> BTreeMap<HostName, DeclaredEffects> {
        let expander = StepExpander::new(self.project);
        let ground = observed.plan_context(self.project, &expander, self.options);
        let of_host = |host: &HostPlan| {
            let seen = observed.seen.iter().find(|seen| seen.host == host.host)?;
            let case = HostContext::new(ground, &host.host, seen)?;
            Some((host.host.clone(), collect_declared_effects(&case, host)))
        };
        plan.hosts.iter().filter_map(of_host).collect()
    }

    async fn read_all_changes(&self, views: &ViewsByHost) -> BTreeMap<HostName, Result<ViewChanges, String>> {
        let secrets = &self.project.secrets;
        let reading = views.iter().map(|(host, view)| async { (host.clone(), view.read_changes(secrets).await) });
        futures_util::stream::iter(reading).buffer_unordered(self.options.parallel.max(1)).collect().await
    }
}

/// Returns the rollout of a rehearsal: all hosts at once, without a cluster, whatever the time of day.
fn relax_rollout(declared: &RolloutPolicy) -> RolloutPolicy {
    const REBOOT_LIMIT_S: u64 = 60;
    RolloutPolicy {
        max_unavailable: HostShare::Percent(100),
        reboot: declared.reboot,
        reboot_timeout_s: REBOOT_LIMIT_S,
        // A simulated reboot has no next boot of a machine.
        reboot_guard_s: None,
        span: declared.span,
        ..RolloutPolicy::default()
    }
}

/// Returns the parts of the plan that no view can rehearse: lowercase fragments.
fn list_left_out_parts(project: &Project, plan: &Plan) -> Vec<String> {
    let windows = plan.hosts.iter().any(|host| host.window.is_some());
    let reboots = plan.hosts.iter().flat_map(|host| &host.window).any(|window| !window.reboots.is_empty());
    let tested = plan.hosts.iter().flat_map(|host| &host.window).any(|window| !window.return_tests.is_empty());
    let guarded = plan.hosts.iter().flat_map(|host| &host.steps).any(|step| step.guard_s.is_some());
    let rollout = &project.rollout;
    let parts = [
        (project.cluster_member().is_some(), "steps through the cluster's API"),
        (windows && rollout.kubernetes.is_some(), "the drain of Kubernetes nodes"),
        (windows && rollout.slurm.is_some(), "the drain of Slurm nodes"),
        (windows, "the check for processes that use devices"),
        (tested, "the tests before hosts are brought back into service"),
        (rollout.canary.is_some() || rollout.hours.is_some(), "canaries, waves and hours of the rollout"),
        (reboots, "real reboots: in the view, a reboot ends all processes and starts the enabled units"),
        (guarded, "the confirmation of guarded changes by a new login"),
    ];
    parts.into_iter().filter(|(holds, _)| *holds).map(|(_, part)| part.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HostWindow;
    use crate::view::sample;

    /// A view has no devices that a test could measure.
    #[test]
    fn tests_before_return_are_named_as_left_out() {
        let project = crate::config::builtin_project();
        let list = |return_tests: &[&str]| {
            let return_tests = return_tests.iter().map(|test| (*test).to_owned()).collect();
            let mut host = sample::observed_host("gpu-01", Vec::new());
            host.window = Some(HostWindow { return_tests, ..HostWindow::default() });
            list_left_out_parts(&project, &sample::plan(vec![host]))
        };
        let devices = "the check for processes that use devices";
        assert_eq!(list(&[]), [devices]);
        assert_eq!(list(&["dcgm-diag"]), [devices, "the tests before hosts are brought back into service"]);
    }
}
