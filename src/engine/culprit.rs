//! Asking who did it: one more question, to the hosts that somebody changed, by sessions that take probes only.
//!
//! Hosts that are as declared are not asked again. What the logs say is neither kept in history nor in a recording.

use super::glance::{Asked, Glance};
use super::link::reason;
use super::observe::{Observed, beside};
use super::run::{Options, Replay};
use crate::config::Project;
use crate::drift::{self, Answer, Drift};
use crate::model::{HostName, SecretStore};
use crate::probe::{EvidenceState, Observation, Probe, Reading, Unknown};
use jiff::Timestamp;

/// Tells of each finding who made it, as far as its host says. Findings of hosts that are not real are left as they are: their logs would be those
/// of the machine below.
pub async fn accuse(project: &Project, observed: &Observed, drift: &mut Drift, options: &Options) {
    let now = (options.clock)();
    let real = |host: &HostName| !project.is_simulated(host) && !host.is_cluster();
    let hosts: Vec<HostName> = drift::suspects(&drift.findings).into_iter().filter(real).collect();
    let findings = &drift.findings;
    let look = Look { project, secrets: &observed.secrets, options: &plain(options) };
    let ask = |host: HostName| {
        let question = drift::question(&host, findings, now);
        async move { look.evidence(host, question).await }
    };
    for (host, evidence, asked) in beside(&hosts, options.parallel, ask).await {
        let answer = match &evidence {
            Ok(state) => Answer::Evidence(state),
            Err(why) => Answer::Unknown(why),
        };
        drift::accuse(&host, &mut drift.findings, &answer, asked, &observed.secrets);
    }
}

/// What users of a host typed is nobody's business beyond the finding that it explains.
fn plain(options: &Options) -> Options {
    let observed = options.replay.observed.clone();
    Options { replay: Replay { observed, ..Replay::default() }, ..options.clone() }
}

#[derive(Clone, Copy)]
struct Look<'a> {
    project: &'a Project,
    secrets: &'a SecretStore,
    options: &'a Options,
}

impl Look<'_> {
    async fn evidence(
        self,
        host: HostName,
        question: Option<Probe>,
    ) -> (HostName, Result<EvidenceState, String>, Timestamp) {
        let answer = match question {
            Some(_) if self.options.replay.observed.is_some() => {
                Err("answers come from a recording, which holds no logs".to_owned())
            }
            Some(probe) => self.ask(&host, probe).await,
            None => Err("nobody was asked".to_owned()),
        };
        let asked = (self.options.clock)();
        (host, answer, asked)
    }

    async fn ask(self, host: &HostName, probe: Probe) -> Result<EvidenceState, String> {
        let glance = Glance::open(self.project, self.options, host, self.secrets).await;
        let glance = glance.map_err(|error| told(&reason(&error)))?;
        let seen = glance.observe(&[probe.clone()].into(), self.secrets).await;
        glance.close().await;
        let seen: Observation = seen.map_err(|error| told(&reason(&error)))?;
        match seen.get(&probe) {
            Ok(Reading::Evidence(state)) => Ok(*state.clone()),
            Ok(_) => Err("the answer is of another kind".to_owned()),
            Err(Unknown { why, .. }) => Err(why),
        }
    }
}

fn told(reason: &crate::model::Untrusted) -> String {
    reason.raw().to_owned()
}
