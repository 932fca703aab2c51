//! A read-only session: takes probes only. Used by plan, verify, facts and drift.
//!
//! Architecture Invariant: the holder of a [`ReadOnlySession`] cannot change its host. It neither runs scripts nor takes the
//! lock, and cannot be converted into a `Link`.

use super::cluster_session;
use super::host_session::{ObservationSettings, OpenedConnection, open_connection, recording_error};
use super::run_context::RunOptions;
use crate::config::Project;
use crate::facts;
use crate::kube;
use crate::model::{HostName, SecretStore};
use crate::probe::{self, Observation, Probe};
use crate::transport::{ProbeSession, TransportError};
use std::collections::BTreeSet;

/// A session that answers probes.
pub(super) trait ObservationSession: Sized {
    /// Opens the session on a host.
    async fn open(
        project: &Project,
        options: &RunOptions,
        host: &HostName,
        secrets: &SecretStore,
    ) -> Result<Self, TransportError>;

    /// Sends `probes` to the host in one round trip.
    async fn observe(&self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<Observation, TransportError>;

    async fn close(self);
}

/// A session that takes probes only.
pub(super) struct ReadOnlySession {
    end: ReadOnlyEndpoint,
    questions: ObservationSettings,
}

enum ReadOnlyEndpoint {
    Host(ProbeSession),
    Cluster(Box<kube::ClusterReader>),
    /// No session: a host's recorded answers.
    Recorded(Observation),
    #[cfg(test)]
    Simulated(super::simulated_host::SimulatedHost),
}

impl ObservationSession for ReadOnlySession {
    async fn open(
        project: &Project,
        options: &RunOptions,
        host: &HostName,
        secrets: &SecretStore,
    ) -> Result<Self, TransportError> {
        let end = match open_connection(project, options, host, secrets).await? {
            OpenedConnection::Host(session) => ReadOnlyEndpoint::Host(ProbeSession::new(session)),
            OpenedConnection::Cluster(looker) => ReadOnlyEndpoint::Cluster(looker),
            OpenedConnection::Recorded(answers) => ReadOnlyEndpoint::Recorded(answers),
            #[cfg(test)]
            OpenedConnection::Simulated(sim) => ReadOnlyEndpoint::Simulated(sim),
        };
        Ok(Self { end, questions: ObservationSettings::from_options(options) })
    }

    async fn observe(&self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<Observation, TransportError> {
        if let ReadOnlyEndpoint::Recorded(recorded) = &self.end {
            return Ok(probe::recall_answers(recorded, probes, &facts::fact_snippets()));
        }
        if let ReadOnlyEndpoint::Cluster(looker) = &self.end {
            return self
                .questions
                .observe_and_stamp(cluster_session::observe_cluster(
                    looker,
                    probes,
                    self.questions.keeps_raw_answers(),
                    secrets,
                ))
                .await;
        }
        let compiled = self.questions.compile_probes(probes)?;
        let ask = async {
            match &self.end {
                ReadOnlyEndpoint::Host(onlooker) => onlooker.observe_host(&compiled, secrets).await,
                ReadOnlyEndpoint::Recorded(_) | ReadOnlyEndpoint::Cluster(_) => Err(recording_error()),
                #[cfg(test)]
                ReadOnlyEndpoint::Simulated(sim) => sim.observe_probes(&compiled, secrets).await,
            }
        };
        self.questions.observe_and_stamp(ask).await
    }

    async fn close(self) {
        match self.end {
            ReadOnlyEndpoint::Host(onlooker) => onlooker.close().await,
            ReadOnlyEndpoint::Cluster(looker) => looker.close().await,
            ReadOnlyEndpoint::Recorded(_) => {}
            #[cfg(test)]
            ReadOnlyEndpoint::Simulated(_) => {}
        }
    }
}
