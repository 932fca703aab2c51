//! Determines the source of changes: one more probe of changed hosts, over probe-only sessions.
//!
//! Hosts that match are not probed again. Log contents are stored neither in the history nor in a recording.

use super::glance::{ObservationSession, ReadOnlySession};
use super::link::reason;
use super::observe::{ObservedHosts, beside};
use super::run::{ReplayOptions, RunOptions};
use crate::config::Project;
use crate::drift::{self, DriftReport, EvidenceAnswer};
use crate::model::{HostName, SecretStore};
use crate::probe::{EvidenceState, Observation, Probe, ProbeReading, UnansweredReason};
use jiff::Timestamp;

/// Adds the author to each finding as far as its host's logs show it. Findings of simulated hosts are skipped: their
/// logs would be those of the machine that runs them.
pub async fn accuse(project: &Project, observed: &ObservedHosts, drift: &mut DriftReport, options: &RunOptions) {
    let now = (options.clock)();
    let real = |host: &HostName| !project.is_simulated(host) && !host.is_cluster();
    let hosts: Vec<HostName> = drift::suspects(&drift.findings).into_iter().filter(real).collect();
    let findings = &drift.findings;
    let look = EvidenceQuery { project, secrets: &observed.secrets, options: &plain(options) };
    let ask = |host: HostName| {
        let question = drift::question(&host, findings, now);
        async move { look.evidence(host, question).await }
    };
    for (host, evidence, asked) in beside(&hosts, options.parallel, ask).await {
        let answer = match &evidence {
            Ok(state) => EvidenceAnswer::Evidence(state),
            Err(why) => EvidenceAnswer::Unknown(why),
        };
        drift::accuse(&host, &mut drift.findings, &answer, asked, &observed.secrets);
    }
}

/// Disables recording: commands typed by a host's users are private beyond the finding that they explain.
fn plain(options: &RunOptions) -> RunOptions {
    let observed = options.replay.observed.clone();
    RunOptions { replay: ReplayOptions { observed, ..ReplayOptions::default() }, ..options.clone() }
}

#[derive(Clone, Copy)]
struct EvidenceQuery<'a> {
    project: &'a Project,
    secrets: &'a SecretStore,
    options: &'a RunOptions,
}

impl EvidenceQuery<'_> {
    async fn evidence(
        self,
        host: HostName,
        question: Option<Probe>,
    ) -> (HostName, Result<EvidenceState, String>, Timestamp) {
        let answer = match question {
            Some(_) if self.options.replay.observed.is_some() => {
                Err("answers come from a recording, which contains no logs".to_owned())
            }
            Some(probe) => self.ask(&host, probe).await,
            None => Err("not probed".to_owned()),
        };
        let asked = (self.options.clock)();
        (host, answer, asked)
    }

    async fn ask(self, host: &HostName, probe: Probe) -> Result<EvidenceState, String> {
        let glance = ReadOnlySession::open(self.project, self.options, host, self.secrets).await;
        let glance = glance.map_err(|error| told(&reason(&error)))?;
        let seen = glance.observe(&[probe.clone()].into(), self.secrets).await;
        glance.close().await;
        let seen: Observation = seen.map_err(|error| told(&reason(&error)))?;
        match seen.get(&probe) {
            Ok(ProbeReading::Evidence(state)) => Ok(*state.clone()),
            Ok(_) => Err("unexpected type of answer".to_owned()),
            Err(UnansweredReason { why, .. }) => Err(why),
        }
    }
}

fn told(reason: &crate::model::UntrustedText) -> String {
    reason.raw().to_owned()
}
