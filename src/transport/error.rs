//! Errors of talking to a host, distinguished by the action they require.

use crate::model::UntrustedText;

/// Kinds of failure. Each requires a different action from the user or the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportErrorKind {
    /// A program or folder on this machine is missing or unusable.
    Controller,
    /// The host's name does not resolve.
    Dns,
    /// The host refused the connection: nothing listens on the port.
    Refused,
    /// No route to the host, or the network is down.
    NoRoute,
    /// No answer within the connect timeout.
    ConnectTimeout,
    /// The host closed the connection before the login (too many at once, or a filter).
    Dropped,
    /// The host's key is not in the known hosts.
    HostKeyUnknown,
    /// The host's key differs from the one in the known hosts.
    HostKeyChanged,
    /// The host did not accept any key.
    Auth,
    /// The private key is protected by a passphrase, and no agent holds it.
    KeyLocked,
    /// The connection through a jump host failed.
    Jump,
    /// `ssh` rejected an option or its configuration file.
    SshConfig,
    /// `ssh` failed for an unrecognized reason.
    Connect,
    /// The file with the address and the credentials of the target does not exist.
    NoLogin,
    /// The target's service does not answer.
    NoAnswer,
    /// The connection broke after it was established.
    LinkLost,
    /// The host refused to open another channel on the connection.
    Channel,
    /// No POSIX shell started for the login user.
    Shell,
    /// sudo needs a password, and none is declared.
    SudoNeedsPassword,
    /// sudo rejected the password.
    SudoPassword,
    /// sudo does not allow the user to become root.
    SudoDenied,
    /// The host has no working sudo.
    SudoMissing,
    /// The script did not end within its limit. It may still be running.
    Timeout,
    /// The script's shell was killed on the host.
    Killed,
    /// The answer is larger than forge's limit.
    TooLarge,
    /// The answer does not have the expected format.
    Garbled,
    /// The script cannot be encoded for sending; the message says why.
    Script,
    /// The login user is not root and does not become root; nothing was written.
    NotRoot,
    /// The writer lock is a file of another user; nothing was written.
    LockForeign,
    /// The target's service answered and denied the request; nothing was written.
    ApiDenied,
    /// This run no longer holds the writer lock; nothing was run.
    LockLost,
    /// An earlier script of this run is still running on the host; nothing was run.
    StillActing,
    /// The host cannot start a long step.
    LongStart,
    /// A long step ended without a status, because the host rebooted or it was killed; or the host does not report
    /// whether it is running.
    LongGone,
}

/// A failure to talk to a host. `message` and `hint` contain only forge's own text and names from this machine; `said`
/// holds the output of the host or of `ssh`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// The class of the failure.
    pub kind: TransportErrorKind,
    /// A lowercase fragment that describes the failure.
    pub message: String,
    /// How to correct the problem; `None` if no advice is known.
    pub hint: Option<String>,
    /// The output of the host or of `ssh`; `None` if there was none. It may contain secrets.
    pub said: Option<UntrustedText>,
    /// The address that message and hint name, if they name one.
    pub address: Option<String>,
    /// Whether a retry may succeed without user action.
    pub retryable: bool,
    /// Whether the host may have run a part of the script: bytes of it were sent, and a shell may have read them.
    pub sent_anything: bool,
}

impl TransportError {
    pub(super) fn new(kind: TransportErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            said: None,
            address: None,
            retryable: kind.is_transient(),
            sent_anything: false,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn with_output(mut self, text: &[u8]) -> Self {
        let text = text.trim_ascii();
        self.said = (!text.is_empty()).then(|| UntrustedText::from_bytes(text));
        self
    }

    pub(super) fn with_sent(mut self, sent_anything: bool) -> Self {
        self.sent_anything = sent_anything;
        self
    }

    /// Reports whether the host could not be reached at all, as opposed to a script that failed there.
    pub fn is_unreachable(&self) -> bool {
        use TransportErrorKind as K;
        matches!(
            self.kind,
            K::Dns
                | K::Refused
                | K::NoRoute
                | K::ConnectTimeout
                | K::Dropped
                | K::HostKeyUnknown
                | K::HostKeyChanged
                | K::Auth
                | K::KeyLocked
                | K::Jump
                | K::SshConfig
                | K::Connect
                | K::LinkLost
        )
    }
}

/// The error of a connection that broke.
pub(super) fn link_lost_error() -> TransportError {
    TransportError::new(TransportErrorKind::LinkLost, "the connection to the host was lost")
}

impl TransportErrorKind {
    /// Reports whether failures of this kind are transient.
    fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::NoRoute | Self::ConnectTimeout | Self::Dropped | Self::LinkLost | Self::Channel
        )
    }
}
