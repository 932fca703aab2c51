//! The connection to one host during its run: its session, and why it ended if it was lost.

use super::host_session::{HostLockAttempt, HostScriptOutput, HostSession, LongStepReport};
use crate::kube::ClusterWriter;
use crate::model::SecretStore;
use crate::probe::{Observation, Probe};
use crate::script::{ScriptLimit, ShellFragment};
use crate::transport::{FilePayload, LockOwner, TransportError, UnitName};
use std::collections::BTreeSet;
use std::time::Duration;

/// The connection to a host. Once it is lost, no further stage of the host's run begins.
pub(super) struct HostLink {
    session: Box<dyn HostSession>,
    lost: Option<TransportError>,
}

/// The connection to the host is lost; [`HostLink::loss`] contains the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkLost;

impl HostLink {
    pub fn new(session: Box<dyn HostSession>) -> Self {
        Self { session, lost: None }
    }

    /// Returns why the host cannot continue, if it cannot.
    pub fn loss(&self) -> Option<&TransportError> {
        self.lost.as_ref()
    }

    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Notes why the host cannot continue.
    pub fn mark_lost(&mut self, error: TransportError) -> LinkLost {
        self.lost = Some(error);
        LinkLost
    }

    /// Forgets the loss: the connection was expected to end.
    pub fn clear_loss(&mut self) {
        self.lost = None;
    }

    fn note_loss<T>(&mut self, done: Result<T, TransportError>) -> Result<T, LinkLost> {
        done.map_err(|error| self.mark_lost(error))
    }

    /// Returns the writer of the cluster, if this is a connection to one and its lock is held.
    pub fn cluster_writer(&self) -> Option<&ClusterWriter> {
        self.session.cluster_writer()
    }

    /// Returns the session, for work that judges lost connections itself.
    pub fn session(&self) -> &(dyn HostSession + 'static) {
        &*self.session
    }

    /// Sends `probes` in one round trip.
    pub async fn observe(&mut self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<Observation, LinkLost> {
        let seen = self.session.observe(probes, secrets).await;
        self.note_loss(seen)
    }

    /// Runs an acting script once.
    pub async fn run_acting_script(
        &mut self,
        body: ShellFragment,
        limit: impl Into<ScriptLimit>,
        secrets: &SecretStore,
    ) -> Result<HostScriptOutput, LinkLost> {
        let done = self.session.run_acting_script(body, limit.into(), secrets).await;
        self.note_loss(done)
    }

    /// Runs an acting script once, with a file as its input.
    pub async fn send_file(
        &mut self,
        body: ShellFragment,
        limit: Duration,
        payload: FilePayload,
        secrets: &SecretStore,
    ) -> Result<HostScriptOutput, LinkLost> {
        let done = self.session.send_file(body, limit, payload, secrets).await;
        self.note_loss(done)
    }

    /// Runs a long step and passes its output to `say`, line by line.
    pub async fn run_long_step(
        &mut self,
        unit: &UnitName,
        body: ShellFragment,
        limit: Duration,
        secrets: &SecretStore,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<LongStepReport, LinkLost> {
        let done = self.session.run_long_step(unit, body, limit, secrets, say).await;
        self.note_loss(done)
    }

    /// Takes the writer lock over the current session. A failure is not noted as a loss.
    pub async fn take_lock(&mut self, owner: &LockOwner) -> Result<HostLockAttempt, TransportError> {
        self.session.take_lock(owner).await
    }

    /// Continues over a new session. Returns the previous one.
    pub fn replace_session(&mut self, session: Box<dyn HostSession>) -> Box<dyn HostSession> {
        std::mem::replace(&mut self.session, session)
    }

    /// Reports whether a change of the host can end the session and prevent a new one.
    pub fn can_be_cut_off(&self) -> bool {
        self.session.can_be_cut_off()
    }

    /// Returns the interval between attempts to connect again after a reboot.
    pub fn reconnect_interval(&self) -> Duration {
        self.session.reconnect_interval()
    }

    /// Releases the lock and closes the session.
    pub async fn close(self) {
        self.session.close().await;
    }
}
