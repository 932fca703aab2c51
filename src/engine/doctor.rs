//! Checks whether hosts and the cluster's API are reachable and ready, and whether this machine meets the
//! prerequisites. Each finding has a hint.
//!
//! Changes nothing and evaluates no declared step. A check that could not be evaluated is a finding of its own.

mod cluster;
mod here;
mod judge;

use super::observe::observe_for;
use super::prove::facts_used;
use super::run::{Events, Options};
use crate::config::Project;
use crate::model::{ExitCode, HostName, Untrusted};
use crate::plan::{Reach, Unreachable};
use camino::Utf8Path;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Severity of a finding, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Prevents an apply.
    Problem,
    /// Could not be evaluated.
    Unknown,
    /// Works, but worth knowing.
    Note,
    Ok,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// The check's name, one word: `tools`, `room`, `clock` …
    pub check: &'static str,
    pub weight: Weight,
    /// A lowercase fragment.
    pub what: Untrusted,
    /// How to fix it.
    pub hint: Option<Untrusted>,
}

impl Finding {
    fn new(weight: Weight, check: &'static str, what: impl Into<Untrusted>) -> Self {
        Self { check, weight, what: what.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<Untrusted>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Findings of one host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostHealth {
    pub host: HostName,
    pub reach: Reach,
    /// Empty if the host was not reached.
    pub findings: Vec<Finding>,
}

impl HostHealth {
    /// Returns whether an apply can start on the host, as far as the findings show.
    pub fn is_ready(&self) -> bool {
        self.reach == Reach::Observed && self.findings.iter().all(|finding| finding.weight >= Weight::Note)
    }
}

/// Findings of this machine, the cluster and the hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Checkup {
    /// This machine.
    pub here: Vec<Finding>,
    /// The cluster's API; empty if none is declared.
    pub cluster: Vec<Finding>,
    /// In the order of the inventory.
    pub hosts: Vec<HostHealth>,
    /// Hosts that are sandboxes, not machines.
    pub simulated: Vec<HostName>,
    pub took: Duration,
}

impl Checkup {
    /// Returns the exit code for the findings.
    pub fn exit_code(&self) -> ExitCode {
        let here = self.here.iter().filter(|finding| finding.weight == Weight::Problem).map(|_| ExitCode::Unexpected);
        let cluster = self.cluster.iter().map(code);
        ExitCode::worst(here.chain(cluster).chain(self.hosts.iter().flat_map(codes)))
    }
}

fn codes(host: &HostHealth) -> impl Iterator<Item = ExitCode> {
    let away = (host.reach != Reach::Observed).then_some(ExitCode::Unreachable);
    away.into_iter().chain(host.findings.iter().map(code))
}

fn code(finding: &Finding) -> ExitCode {
    match finding.weight {
        Weight::Problem => ExitCode::HostsFailed,
        Weight::Unknown => ExitCode::Unknown,
        Weight::Note | Weight::Ok => ExitCode::Done,
    }
}

/// Checks this machine, then all `hosts` concurrently. `state` is the folder for runs; `can_ask` says whether stdin is
/// an interactive terminal.
pub async fn doctor(
    project: &Project,
    hosts: &[HostName],
    options: &Options,
    state: &Utf8Path,
    can_ask: bool,
    events: &Events,
) -> Checkup {
    let began = Instant::now();
    let here = here::findings(project, hosts, options, state, can_ask).await;
    let cluster = match &project.kubernetes {
        Some(access) => cluster::findings(project, access, options).await,
        None => Vec::new(),
    };
    let seen = observe_for(project, hosts, &judge::probes(&facts_used(project)), options, events).await;
    let simulated = hosts.iter().filter(|host| project.is_simulated(host)).cloned().collect();
    let hosts = seen.seen.iter().map(|seen| HostHealth {
        host: seen.host.clone(),
        reach: advised(&seen.reach),
        findings: if seen.is_observed() { judge::findings(seen) } else { Vec::new() },
    });
    Checkup { here, cluster, hosts: hosts.collect(), simulated, took: began.elapsed() }
}

/// Adds a general hint if neither ssh nor the host gave a reason.
fn advised(reach: &Reach) -> Reach {
    match reach {
        Reach::Unreachable(why) if why.hint.is_none() => {
            let hint = "check that the host is up, its `address` and firewalls; `connect.timeout` allows more time";
            Reach::Unreachable(Unreachable { hint: Some(hint.into()), ..why.clone() })
        }
        _ => reach.clone(),
    }
}

#[cfg(test)]
mod tests;
