//! Checks whether hosts and the cluster's API are reachable and ready, and whether this machine meets the
//! prerequisites. Each finding has a hint.
//!
//! Changes nothing and evaluates no declared step. A check that could not be evaluated is a finding of its own.

mod cluster;
mod controller;
mod finding;
mod host_checks;

pub use finding::{DoctorFinding, DoctorSeverity};

use super::event::EventSender;
use super::facts_used::list_facts_used;
use super::observe::observe_probes;
use super::run_options::RunOptions;
use crate::config::Project;
use crate::model::{ExitCode, HostName};
use crate::plan::{HostReachability, UnreachableReason};
use crate::probe::Probe;
use camino::Utf8Path;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Findings of one host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostHealth {
    /// The checked host.
    pub host: HostName,
    /// Whether it was reached, and why not.
    pub reach: HostReachability,
    /// Empty if the host was not reached.
    pub findings: Vec<DoctorFinding>,
}

impl HostHealth {
    /// Returns whether an apply can start on the host, as far as the findings show.
    pub fn is_ready(&self) -> bool {
        self.reach == HostReachability::Observed
            && self.findings.iter().all(|finding| finding.weight >= DoctorSeverity::Note)
    }
}

/// Findings of this machine, the cluster and the hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// This machine.
    pub here: Vec<DoctorFinding>,
    /// The cluster's API; empty if none is declared.
    pub cluster: Vec<DoctorFinding>,
    /// In the order of the inventory.
    pub hosts: Vec<HostHealth>,
    /// Hosts that are sandboxes, not machines.
    pub simulated: Vec<HostName>,
    /// Duration of all checks together.
    pub took: Duration,
}

impl DoctorReport {
    /// Returns the exit code for the findings.
    pub fn exit_code(&self) -> ExitCode {
        let here =
            self.here.iter().filter(|finding| finding.weight == DoctorSeverity::Problem).map(|_| ExitCode::Unexpected);
        let cluster = self.cluster.iter().map(finding_exit_code);
        ExitCode::pick_worst(here.chain(cluster).chain(self.hosts.iter().flat_map(list_host_exit_codes)))
    }
}

fn list_host_exit_codes(host: &HostHealth) -> impl Iterator<Item = ExitCode> {
    let away = (host.reach != HostReachability::Observed).then_some(ExitCode::Unreachable);
    away.into_iter().chain(host.findings.iter().map(finding_exit_code))
}

fn finding_exit_code(finding: &DoctorFinding) -> ExitCode {
    match finding.weight {
        DoctorSeverity::Problem => ExitCode::HostsFailed,
        DoctorSeverity::Unknown => ExitCode::Unknown,
        DoctorSeverity::Note | DoctorSeverity::Ok => ExitCode::Done,
    }
}

/// Checks this machine, then all `hosts` concurrently. `state` is the folder for runs; `can_ask` says whether stdin is
/// an interactive terminal.
pub async fn doctor(
    project: &Project,
    hosts: &[HostName],
    options: &RunOptions,
    state: &Utf8Path,
    can_ask: bool,
    events: &EventSender,
) -> DoctorReport {
    let began = Instant::now();
    let here = controller::check_controller(project, hosts, options, state, can_ask).await;
    let cluster = match &project.kubernetes {
        Some(access) => cluster::check_cluster(project, access, options).await,
        None => Vec::new(),
    };
    let probes = host_checks::list_doctor_probes(&list_facts_used(project));
    let second = BTreeSet::from([Probe::Account]);
    let seen = observe_probes(project, hosts, [&probes, &second], options, events).await;
    let simulated = hosts.iter().filter(|host| project.is_simulated(host)).cloned().collect();
    let hosts = seen.seen.iter().map(|seen| HostHealth {
        host: seen.host.clone(),
        reach: add_connect_hint(&seen.reach),
        findings: if seen.is_observed() { host_checks::check_host(seen) } else { Vec::new() },
    });
    DoctorReport { here, cluster, hosts: hosts.collect(), simulated, took: began.elapsed() }
}

/// Adds a general hint if neither ssh nor the host gave a reason.
fn add_connect_hint(reach: &HostReachability) -> HostReachability {
    match reach {
        HostReachability::Unreachable(why) if why.hint.is_none() => {
            let hint = "check that the host is up, its `address` and firewalls; `connect.timeout` allows more time";
            HostReachability::Unreachable(UnreachableReason { hint: Some(hint.into()), ..why.clone() })
        }
        _ => reach.clone(),
    }
}

#[cfg(test)]
mod tests;
