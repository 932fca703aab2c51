//! Determines the source of changes: one more probe of changed hosts, over probe-only sessions.
//!
//! Hosts that match are not probed again. Log contents are stored neither in the history nor in a recording.

use super::host_session::describe_transport_error;
use super::observe::run_on_hosts;
use super::observed_hosts::ObservedHosts;
use super::read_only_session::ReadOnlySession;
use super::run_options::{ReplayOptions, RunOptions, SessionRequest};
use super::session_connector::OpenSession;
use crate::config::Project;
use crate::drift::{self, DriftReport, EvidenceAnswer};
use crate::model::{HostName, SecretStore};
use crate::probe::{EvidenceState, Observation, Probe, ProbeReading, UnansweredReason};
use jiff::Timestamp;

/// Adds the author to each finding as far as its host's logs show it. Findings of simulated hosts are skipped: their
/// logs would be those of the machine that runs them.
pub async fn attribute_changes(
    project: &Project,
    observed: &ObservedHosts,
    drift: &mut DriftReport,
    options: &RunOptions,
) {
    let now = (options.clock)();
    let real = |host: &HostName| !project.is_simulated(host) && !host.is_cluster();
    let hosts: Vec<HostName> = drift::list_changed_hosts(&drift.findings).into_iter().filter(real).collect();
    let findings = &drift.findings;
    let look = EvidenceQuery { project, secrets: &observed.secrets, options: &without_recording(options) };
    let ask = |host: HostName| {
        let question = drift::build_evidence_probe(&host, findings, now);
        async move { look.read_evidence(host, question).await }
    };
    for (host, evidence, asked) in run_on_hosts(&hosts, options.parallel, ask).await {
        let answer = match &evidence {
            Ok(state) => EvidenceAnswer::Evidence(state),
            Err(why) => EvidenceAnswer::Unknown(why),
        };
        drift::attribute_host_changes(&host, &mut drift.findings, &answer, asked, &observed.secrets);
    }
}

/// Disables recording: commands typed by a host's users are private beyond the finding that they explain.
fn without_recording(options: &RunOptions) -> RunOptions {
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
    async fn read_evidence(
        self,
        host: HostName,
        question: Option<Probe>,
    ) -> (HostName, Result<EvidenceState, String>, (Timestamp, Timestamp)) {
        let asked = (self.options.clock)();
        let answer = match question {
            Some(_) if self.options.replay.observed.is_some() => {
                Err("answers come from a recording, which contains no logs".to_owned())
            }
            Some(probe) => self.query_host(&host, probe).await,
            None => Err("not probed".to_owned()),
        };
        (host, answer, (asked, (self.options.clock)()))
    }

    fn session_request<'s>(&'s self, host: &'s HostName) -> SessionRequest<'s> {
        SessionRequest { project: self.project, options: self.options, host, secrets: self.secrets, logs_in: false }
    }

    async fn query_host(self, host: &HostName, probe: Probe) -> Result<EvidenceState, String> {
        let glance = <dyn ReadOnlySession>::open(self.session_request(host)).await;
        let glance = glance.map_err(|error| error_text(&describe_transport_error(&error)))?;
        let seen = glance.observe(&[probe.clone()].into(), self.secrets).await;
        glance.close().await;
        let seen: Observation = seen.map_err(|error| error_text(&describe_transport_error(&error)))?;
        match seen.get(&probe) {
            Ok(ProbeReading::Evidence(state)) => Ok(*state.clone()),
            Ok(_) => Err("unexpected type of answer".to_owned()),
            Err(UnansweredReason { why, .. }) => Err(why),
        }
    }
}

fn error_text(reason: &crate::model::UntrustedText) -> String {
    reason.raw().to_owned()
}
