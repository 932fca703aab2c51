//! A read-only session: takes probes only. Used by plan, verify, facts and drift.
//!
//! Architecture Invariant: the holder of a [`ReadOnlySession`] cannot change its host. It neither runs scripts nor takes
//! the lock, and cannot be converted into a `HostSession`.

use crate::model::SecretStore;
use crate::probe::{Observation, Probe};
use crate::transport::TransportError;
use std::collections::BTreeSet;
use std::pin::Pin;

/// The future of a session's method. Boxed, so that every kind of session has the same type.
pub(super) type SessionFuture<'s, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + 's>>;

/// The future of closing a session.
pub(super) type SessionClosing = Pin<Box<dyn Future<Output = ()>>>;

/// A session that answers probes.
pub(super) trait ReadOnlySession: Send + Sync {
    /// Sends `probes` to the host in one round trip.
    fn observe<'s>(&'s self, probes: &'s BTreeSet<Probe>, secrets: &'s SecretStore) -> SessionFuture<'s, Observation>;

    /// Releases the writer lock if it was taken, and closes the session.
    fn close(self: Box<Self>) -> SessionClosing;
}
