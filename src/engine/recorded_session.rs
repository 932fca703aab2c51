//! A host's recorded answers instead of a session.

use super::host_session::{HostLockAttempt, HostScriptOutput, HostSession, host_side_error};
use super::read_only_session::{ReadOnlySession, SessionClosing, SessionFuture};
use crate::facts;
use crate::model::SecretStore;
use crate::probe::{self, Observation, Probe};
use crate::script::ShellFragment;
use crate::transport::{LockOwner, TransportError};
use std::collections::BTreeSet;
use std::time::Duration;

/// The answers of a recording. Nothing else is possible on it.
pub(super) struct RecordedSession {
    answers: Observation,
}

impl RecordedSession {
    pub fn new(answers: Observation) -> Self {
        Self { answers }
    }
}

impl ReadOnlySession for RecordedSession {
    fn observe<'s>(&'s self, probes: &'s BTreeSet<Probe>, _: &'s SecretStore) -> SessionFuture<'s, Observation> {
        Box::pin(async move { Ok(probe::recall_answers(&self.answers, probes, &facts::fact_snippets())) })
    }

    fn close(self: Box<Self>) -> SessionClosing {
        Box::pin(async {})
    }
}

impl HostSession for RecordedSession {
    fn take_lock<'s>(&'s mut self, _: &'s LockOwner) -> SessionFuture<'s, HostLockAttempt> {
        Box::pin(async { Err(recording_error()) })
    }

    fn run_script<'s>(
        &'s self,
        _: ShellFragment,
        _: Duration,
        _: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async { Err(recording_error()) })
    }
}

/// The error of any action on a recording, which supports probes only.
fn recording_error() -> TransportError {
    host_side_error("a recording is read-only: it is not a host".to_owned())
}
