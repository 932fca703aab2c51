//! The acting half: a session that holds the host's writer lock.

use super::boot::Boot;
use super::kept::Keep;
use super::lock::{Hold, LockError, Owner};
use super::long::UnitName;
use super::session::Ask;
use super::talk::{Finished, Sink};
use super::{Payload, Reader, Session, TransportError};
use crate::model::SecretStore;
use crate::probe::{Compiled, Observation};
use crate::script::Script;

/// Bytes kept of each output stream of an acting script.
const TAIL: usize = 1024 * 1024;

/// A [`Reader`] that took the host's writer lock. Only it runs acting scripts.
pub struct Writer {
    reader: Reader,
    owner: Owner,
    hold: Hold,
}

impl Reader {
    /// Takes the host's writer lock. A running long step named `ours` does not count as another writer.
    ///
    /// # Errors
    /// Somebody else holds it, or something of an earlier run is still at work; or the transport failed.
    pub async fn lock(&self, owner: &Owner, ours: Option<&UnitName>) -> Result<Writer, LockError> {
        let hold = Hold::take(self.session(), owner, ours, None).await?;
        Ok(Writer { reader: self.clone(), owner: owner.clone(), hold })
    }
}

impl Writer {
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub fn session(&self) -> &Session {
        self.reader.session()
    }

    /// As [`Reader::observe`].
    ///
    /// # Errors
    /// As [`Reader::observe`].
    pub async fn observe(&self, asked: &Compiled, secrets: &SecretStore) -> Result<Observation, TransportError> {
        self.reader.observe(asked, secrets).await
    }

    /// Runs an acting script, once. The host checks first that the lock is still ours and that no other
    /// script acts; else nothing is run. Keeps the last MiB of each output stream; `sink` sees all.
    ///
    /// # Errors
    /// As [`Session::run`], [`LockLost`](super::ErrorKind::LockLost) and
    /// [`StillActing`](super::ErrorKind::StillActing). It is never tried again: after an error whose
    /// `sent_anything` is set, only a new observation tells how far the script came.
    pub async fn act(
        &self,
        script: &Script,
        secrets: &SecretStore,
        sink: Option<Sink<'_>>,
    ) -> Result<Finished, TransportError> {
        let boot = Boot::Acting { token: &self.hold.token };
        let ask = Ask { boot, keep: Keep::Tail(TAIL), limit: script.limit };
        self.session().ask(ask, script, secrets, sink).await
    }

    /// As [`act`](Self::act), with a file behind the script, which reads it as its descriptor 7.
    ///
    /// # Errors
    /// As [`act`](Self::act).
    pub async fn send(
        &self,
        script: &Script,
        payload: Payload,
        secrets: &SecretStore,
    ) -> Result<Finished, TransportError> {
        let boot = Boot::Receiving { token: &self.hold.token };
        let ask = Ask { boot, keep: Keep::Tail(TAIL), limit: script.limit };
        self.session().ask_with(ask, script, payload, secrets).await
    }

    /// Returns whether the channel that holds the lock is known to be gone; then [`relock`](Self::relock).
    pub fn is_lock_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Takes the lock anew after its connection was lost; a hold of our own that the host has not given up
    /// yet is ended.
    ///
    /// # Errors
    /// As [`Reader::lock`]. What happened on the host meanwhile must be observed.
    pub async fn relock(&mut self, ours: Option<&UnitName>) -> Result<(), LockError> {
        self.hold = Hold::take(self.session(), &self.owner, ours, Some(&self.hold.token)).await?;
        Ok(())
    }

    /// Gives the lock up.
    pub async fn unlock(self) -> Reader {
        self.hold.release().await;
        self.reader
    }
}
