//! The acting half: a session that holds the host's writer lock.

use super::conversation::{OutputSink, ScriptOutput};
use super::lock::{HeldLock, LockError, LockOwner};
use super::output_buffer::OutputLimit;
use super::session::ScriptRequest;
use super::shell_wrapper::ShellWrapper;
use super::unit_name::UnitName;
use super::{FilePayload, HostReader, TransportError, TransportSession};
use crate::model::SecretStore;
use crate::probe::{CompiledProbes, Observation};
use crate::script::ShellScript;
use std::time::Duration;

/// Bytes kept of each output stream of an acting script.
const OUTPUT_TAIL: usize = 1024 * 1024;

/// How long the host may take to end a script that ran longer than its limit.
const STOP_GRACE: Duration = Duration::from_secs(45);

/// A [`HostReader`] that took the host's writer lock. Only it runs acting scripts.
pub struct HostWriter {
    reader: HostReader,
    owner: LockOwner,
    hold: HeldLock,
}

impl HostReader {
    /// Takes the host's writer lock. A running long step named `ours` does not count as another writer.
    ///
    /// # Errors
    /// Another run holds the lock, or a script or long step of an earlier run is still running; or the transport
    /// failed.
    pub async fn acquire_lock(&self, owner: &LockOwner, ours: Option<&UnitName>) -> Result<HostWriter, LockError> {
        let hold = HeldLock::acquire_lock(self.session(), owner, ours, None).await?;
        Ok(HostWriter { reader: self.clone(), owner: owner.clone(), hold })
    }
}

impl HostWriter {
    /// Returns the reading end, to observe the host while the lock is held.
    pub fn reader(&self) -> &HostReader {
        &self.reader
    }

    /// Returns the session, whose scripts do not check the lock.
    pub fn session(&self) -> &TransportSession {
        self.reader.session()
    }

    /// Like [`HostReader::observe_host`].
    ///
    /// # Errors
    /// Those of [`HostReader::observe_host`].
    pub async fn observe_host(
        &self,
        asked: &CompiledProbes,
        secrets: &SecretStore,
    ) -> Result<Observation, TransportError> {
        self.reader.observe_host(asked, secrets).await
    }

    /// Runs an acting script, once. The host first checks that this run still holds the lock and that no other script
    /// acts; otherwise nothing is run. Keeps the last MiB of each output stream; `sink` receives everything.
    ///
    /// # Errors
    /// Those of [`TransportSession::run_script`], [`LockLost`](super::TransportErrorKind::LockLost) and
    /// [`StillActing`](super::TransportErrorKind::StillActing). It is never retried: after an error whose `sent_anything` is
    /// set, only a new observation shows how far the script got.
    pub async fn run_acting_script(
        &self,
        script: &ShellScript,
        secrets: &SecretStore,
        sink: Option<OutputSink<'_>>,
    ) -> Result<ScriptOutput, TransportError> {
        let boot = ShellWrapper::Acting { token: &self.hold.token, stop_after: None };
        let ask = ScriptRequest { boot, keep: OutputLimit::Tail(OUTPUT_TAIL), limit: script.limit };
        self.session().run_request(ask, script, secrets, sink).await
    }

    /// Like [`run_acting_script`](Self::run_acting_script), but the host ends a script that runs longer than its limit:
    /// with SIGTERM, and 30 s later with SIGKILL. The status is 124 or 137 then.
    ///
    /// # Errors
    /// Those of [`run_acting_script`](Self::run_acting_script).
    pub async fn run_stoppable_script(
        &self,
        script: &ShellScript,
        secrets: &SecretStore,
    ) -> Result<ScriptOutput, TransportError> {
        let boot = ShellWrapper::Acting { token: &self.hold.token, stop_after: Some(script.limit) };
        let limit = script.limit + STOP_GRACE;
        let ask = ScriptRequest { boot, keep: OutputLimit::Tail(OUTPUT_TAIL), limit };
        self.session().run_request(ask, script, secrets, None).await
    }

    /// Like [`run_acting_script`](Self::run_acting_script), with a file after the script, which reads it as its descriptor 7.
    ///
    /// # Errors
    /// Those of [`run_acting_script`](Self::run_acting_script).
    pub async fn run_with_payload(
        &self,
        script: &ShellScript,
        payload: FilePayload,
        secrets: &SecretStore,
    ) -> Result<ScriptOutput, TransportError> {
        let boot = ShellWrapper::Receiving { token: &self.hold.token };
        let ask = ScriptRequest { boot, keep: OutputLimit::Tail(OUTPUT_TAIL), limit: script.limit };
        self.session().run_request_with_payload(ask, script, payload, secrets).await
    }

    /// Reports whether the channel that holds the lock is known to be gone; if so, call [`reacquire_lock`](Self::reacquire_lock).
    pub fn is_lock_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Retakes the lock after its connection was lost; ends a hold of this run that the host has not released yet.
    ///
    /// # Errors
    /// Those of [`HostReader::acquire_lock`]. Changes on the host in the meantime must be observed.
    pub async fn reacquire_lock(&mut self, ours: Option<&UnitName>) -> Result<(), LockError> {
        self.hold = HeldLock::acquire_lock(self.session(), &self.owner, ours, Some(&self.hold.token)).await?;
        Ok(())
    }

    /// Releases the lock.
    pub async fn release_lock(self) -> HostReader {
        self.hold.release_lock().await;
        self.reader
    }
}
