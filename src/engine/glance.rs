//! A read-only session: takes probes only. Used by plan, verify, facts and drift.
//!
//! Architecture Invariant: the holder of a [`Glance`] cannot change its host. It neither runs scripts nor takes the
//! lock, and cannot be converted into a `Link`.

use super::api;
use super::link::{Questions, Way, no_host, way};
use super::run::Options;
use crate::config::Project;
use crate::facts;
use crate::kube;
use crate::model::{HostName, SecretStore};
use crate::probe::{self, Observation, Probe};
use crate::transport::{Onlooker, TransportError};
use std::collections::BTreeSet;

/// A session that answers probes.
pub(super) trait Asked: Sized {
    /// Opens the session on a host.
    async fn open(
        project: &Project,
        options: &Options,
        host: &HostName,
        secrets: &SecretStore,
    ) -> Result<Self, TransportError>;

    /// Sends `probes` to the host in one round trip.
    async fn observe(&self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<Observation, TransportError>;

    async fn close(self);
}

/// A session that takes probes only.
pub(super) struct Glance {
    end: End,
    questions: Questions,
}

enum End {
    Host(Onlooker),
    Cluster(Box<kube::Onlooker>),
    /// No session: a host's recorded answers.
    Recorded(Observation),
    #[cfg(test)]
    Simulated(super::sim::Sim),
}

impl Asked for Glance {
    async fn open(
        project: &Project,
        options: &Options,
        host: &HostName,
        secrets: &SecretStore,
    ) -> Result<Self, TransportError> {
        let end = match way(project, options, host, secrets).await? {
            Way::Host(session) => End::Host(Onlooker::new(session)),
            Way::Cluster(looker) => End::Cluster(looker),
            Way::Recorded(answers) => End::Recorded(answers),
            #[cfg(test)]
            Way::Simulated(sim) => End::Simulated(sim),
        };
        Ok(Self { end, questions: Questions::of(options) })
    }

    async fn observe(&self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<Observation, TransportError> {
        if let End::Recorded(recorded) = &self.end {
            return Ok(probe::recall(recorded, probes, &facts::snippets()));
        }
        if let End::Cluster(looker) = &self.end {
            return self.questions.put(api::observe(looker, probes, self.questions.keeps(), secrets)).await;
        }
        let compiled = self.questions.compile(probes)?;
        let ask = async {
            match &self.end {
                End::Host(onlooker) => onlooker.observe(&compiled, secrets).await,
                End::Recorded(_) | End::Cluster(_) => Err(no_host()),
                #[cfg(test)]
                End::Simulated(sim) => sim.observe(&compiled, secrets).await,
            }
        };
        self.questions.put(ask).await
    }

    async fn close(self) {
        match self.end {
            End::Host(onlooker) => onlooker.close().await,
            End::Cluster(looker) => looker.close().await,
            End::Recorded(_) => {}
            #[cfg(test)]
            End::Simulated(_) => {}
        }
    }
}
