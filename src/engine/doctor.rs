//! Whether hosts and the cluster's API can be reached and worked on, and whether this machine can do it: each finding with
//! what to do.
//!
//! Nothing is changed, and nothing that a recipe declares is judged. What could not be told is a finding of its own.

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

/// How a finding weighs, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// In the way of an apply.
    Problem,
    /// Could not be told.
    Unknown,
    /// Works, and is worth knowing.
    Note,
    Ok,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What was looked at, in a word: `tools`, `room`, `clock` …
    pub check: &'static str,
    pub weight: Weight,
    /// A lowercase fragment.
    pub what: Untrusted,
    /// What to do about it.
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

/// What was found of a host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostHealth {
    pub host: HostName,
    pub reach: Reach,
    /// Empty where the host was not reached.
    pub findings: Vec<Finding>,
}

impl HostHealth {
    /// Returns whether an apply can begin there, as far as that can be told.
    pub fn is_ready(&self) -> bool {
        self.reach == Reach::Observed && self.findings.iter().all(|finding| finding.weight >= Weight::Note)
    }
}

/// What was found here and on the hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Checkup {
    /// This machine.
    pub here: Vec<Finding>,
    /// The cluster's API; empty where none is declared.
    pub cluster: Vec<Finding>,
    /// In the order of the inventory.
    pub hosts: Vec<HostHealth>,
    /// Hosts that are sandboxes, not machines.
    pub simulated: Vec<HostName>,
    pub took: Duration,
}

impl Checkup {
    /// Returns the exit code that the findings mean.
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

/// Looks at this machine, then at `hosts` beside each other. `state` is the folder for runs, `can_ask` whether somebody
/// is at a terminal.
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

/// Where neither ssh nor the host says more than that nothing came back.
fn advised(reach: &Reach) -> Reach {
    match reach {
        Reach::Unreachable(why) if why.hint.is_none() => {
            let hint =
                "check that it is up, its `address`, and what filters on the way; `connect.timeout` gives it more time";
            Reach::Unreachable(Unreachable { hint: Some(hint.into()), ..why.clone() })
        }
        _ => reach.clone(),
    }
}

#[cfg(test)]
mod tests;
