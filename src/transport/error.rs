//! Why talking to a host failed, told apart by what to do about it.

use crate::model::Untrusted;

/// What went wrong. The kinds differ in what a person or the engine does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A program or folder on this machine is missing or unusable.
    Controller,
    /// The host's name has no address.
    Dns,
    /// The host answered that nobody listens.
    Refused,
    /// No route to the host, or the network is down.
    NoRoute,
    /// No answer within the connect timeout.
    ConnectTimeout,
    /// The host closed the connection before the login (too many at once, or a filter).
    Dropped,
    /// The host's key is not in the known hosts.
    HostKeyUnknown,
    /// The host's key is another one than the known hosts hold.
    HostKeyChanged,
    /// The host did not accept any key.
    Auth,
    /// The private key is locked by a passphrase, and no agent holds it.
    KeyLocked,
    /// A jump host could not be passed.
    Jump,
    /// `ssh` does not accept an option or its configuration file.
    SshConfig,
    /// `ssh` failed in a way that forge does not know.
    Connect,
    /// The connection broke after it stood.
    LinkLost,
    /// The host opens no further channel on the connection.
    Channel,
    /// No POSIX shell started for the login user.
    Shell,
    /// sudo needs a password and none is declared.
    SudoNeedsPassword,
    /// sudo refused the password.
    SudoPassword,
    /// sudo does not allow the user to become root.
    SudoDenied,
    /// The host has no sudo.
    SudoMissing,
    /// The script did not end within its limit. It may still run.
    Timeout,
    /// The script's shell was killed on the host.
    Killed,
    /// The answer is larger than forge keeps.
    TooLarge,
    /// The answer is not in the form forge wrote it in.
    Garbled,
    /// The script cannot be sent as it is.
    Script,
    /// The login user is not root and does not become root; nothing was written.
    NotRoot,
    /// The writer lock is a file of somebody else; nothing was written.
    LockForeign,
    /// The writer lock is not ours any more; nothing was run.
    LockLost,
    /// An earlier script of this run is still at work on the host; nothing was run.
    StillActing,
    /// The host cannot start a long step.
    LongStart,
    /// A long step ended without saying how, because the host rebooted or it was killed; or the host does not tell whether it runs.
    LongGone,
}

/// A failure to talk to a host. `message` and `hint` are forge's own words and names from this machine;
/// what the host or `ssh` said is in `said`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    pub kind: ErrorKind,
    pub message: String,
    pub hint: Option<String>,
    pub said: Option<Untrusted>,
    /// The address that message and hint name, where they do.
    pub address: Option<String>,
    /// Whether trying the same again may succeed without a person.
    pub retryable: bool,
    /// Whether any byte of a script may have reached the host.
    pub sent_anything: bool,
}

impl TransportError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            said: None,
            address: None,
            retryable: kind.passes(),
            sent_anything: false,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn said(mut self, text: &[u8]) -> Self {
        let text = text.trim_ascii();
        self.said = (!text.is_empty()).then(|| Untrusted::from_bytes(text));
        self
    }

    pub(super) fn sent(mut self, sent_anything: bool) -> Self {
        self.sent_anything = sent_anything;
        self
    }

    /// Returns whether the host could not be reached at all, as opposed to a script that failed there.
    pub fn is_unreachable(&self) -> bool {
        use ErrorKind as K;
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

impl ErrorKind {
    /// Whether failures of this kind pass by themselves.
    fn passes(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::NoRoute | Self::ConnectTimeout | Self::Dropped | Self::LinkLost | Self::Channel
        )
    }
}
