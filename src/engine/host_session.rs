//! A session on a host: read-only at first, writable once the host's lock is taken.
//!
//! Each kind of host has its own implementation; [`session_connector`](super::session_connector) opens them.

use super::read_only_session::{ReadOnlySession, SessionFuture};
use crate::kube::ClusterWriter;
use crate::model::{SecretStore, UntrustedText};
use crate::script::{ScriptLimit, ScriptToken, ShellFragment};
use crate::transport::{FilePayload, LockOwner, ScriptOutput, TransportError, TransportErrorKind, UnitName};
use std::time::Duration;

/// Timeout of forge's own short scripts.
pub(super) const SHORT_SCRIPT_LIMIT: Duration = Duration::from_secs(60);

/// A session that can also change its host, once its lock is taken.
pub(super) trait HostSession: ReadOnlySession {
    /// Takes the writer lock.
    fn take_lock<'s>(&'s mut self, owner: &'s LockOwner) -> SessionFuture<'s, HostLockAttempt>;

    /// Runs a script once, without the writer lock. Its result is not evaluated.
    fn run_script<'s>(
        &'s self,
        body: ShellFragment,
        limit: Duration,
        secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput>;

    /// Runs an acting script once.
    fn run_acting_script<'s>(
        &'s self,
        _body: ShellFragment,
        _limit: ScriptLimit,
        _secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async { Err(lock_not_held_error()) })
    }

    /// Runs an acting script once, with a file as its input.
    fn send_file<'s>(
        &'s self,
        _body: ShellFragment,
        _limit: Duration,
        _payload: FilePayload,
        _secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async { Err(lock_not_held_error()) })
    }

    /// Runs a long step as a transient unit and follows its log until it ends. Reconnects if the connection is lost;
    /// the step continues meanwhile.
    fn run_long_step<'s>(
        &'s mut self,
        _unit: &'s UnitName,
        _body: ShellFragment,
        _limit: Duration,
        _secrets: &'s SecretStore,
        _say: &'s mut (dyn FnMut(&str) + Send),
    ) -> SessionFuture<'s, LongStepReport> {
        Box::pin(async { Err(lock_not_held_error()) })
    }

    /// Returns the writer of the cluster, if this is a connection to one and its lock is held.
    fn cluster_writer(&self) -> Option<&ClusterWriter> {
        None
    }

    /// Reports whether a change of the host can end this session and prevent a new one.
    fn can_be_cut_off(&self) -> bool {
        false
    }

    /// Returns the interval between attempts to connect again after a reboot.
    fn reconnect_interval(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// The result of taking the writer lock.
pub(super) enum HostLockAttempt {
    Ours,
    /// Another run holds the lock: its description of itself.
    Held(UntrustedText),
    /// A job of an earlier run is still active.
    Busy(LeftoverWork),
}

/// A job that is active on a host although no run holds the lock.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LeftoverWork {
    /// A script: its owner's description of itself.
    Script(UntrustedText),
    /// A long step: its unit.
    Unit(UntrustedText),
}

/// The result of a script, with the token that frames its output.
pub(super) struct HostScriptOutput {
    pub finished: ScriptOutput,
    pub token: ScriptToken,
}

/// The result of a long step.
pub(super) struct LongStepReport {
    pub status: i32,
    pub tail: UntrustedText,
}

/// The error of an acting script on a session that does not hold the lock.
pub(super) fn lock_not_held_error() -> TransportError {
    host_side_error("the host lock is not held".to_owned())
}

/// Returns an error caused by the host rather than by the transport.
pub(super) fn host_side_error(message: String) -> TransportError {
    TransportError {
        kind: TransportErrorKind::Shell,
        message,
        hint: None,
        said: None,
        address: None,
        retryable: false,
        sent_anything: true,
    }
}

/// Returns the last lines of a script's stderr as one line, without repetitions.
pub(super) fn summarize_stderr(stderr: &[u8]) -> String {
    const LINES: usize = 3;
    let text = String::from_utf8_lossy(stderr);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lines.retain(|earlier| *earlier != line);
        lines.push(line);
    }
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

/// Returns the reason, with the host's own message.
pub(super) fn describe_transport_error(error: &TransportError) -> UntrustedText {
    match error.said.as_ref().and_then(|said| said.raw().lines().rev().find(|line| !line.trim().is_empty())) {
        Some(line) if !error.message.contains(line.trim()) => format!("{}: {}", error.message, line.trim()).into(),
        _ => error.message.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_summary_omits_repeated_lines() {
        assert_eq!(summarize_stderr(b"mkdir: no\nmkdir: no\n\nmkdir: no\n"), "mkdir: no");
        assert_eq!(summarize_stderr(b"a\nb\nc\nd\n"), "b; c; d");
        assert_eq!(summarize_stderr(b""), "");
    }
}
