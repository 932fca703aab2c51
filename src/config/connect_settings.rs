//! How a host is reached.

use crate::model::HardwareBoard;
use camino::Utf8PathBuf;

/// Connection settings of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectSettings {
    /// How sessions reach the host.
    pub transport: TransportKind,
    /// Host name, address or `~/.ssh/config` alias; defaults to the host's name.
    pub address: String,
    /// The login user; `None` leaves it to the ssh configuration.
    pub user: Option<String>,
    /// The TCP port; `None` leaves it to the ssh configuration.
    pub port: Option<u16>,
    /// The file of the private key; `None` leaves it to the ssh configuration.
    pub identity: Option<Utf8PathBuf>,
    /// `ssh -F FILE` instead of `~/.ssh/config`.
    pub config: Option<Utf8PathBuf>,
    /// The file of known host keys; `None` leaves it to the ssh configuration.
    pub known_hosts: Option<Utf8PathBuf>,
    /// Jump hosts, first hop first.
    pub jump: Vec<String>,
    /// Whether a host key that is not known yet is accepted.
    pub host_key: HostKeyPolicy,
    /// How the login user becomes root. A sandbox ignores it: forge is root there.
    pub sudo: SudoMode,
    /// The board whose devices a sandbox simulates.
    pub hardware: Option<HardwareBoard>,
    /// Connection timeout; 0 if none is declared. Seconds.
    pub timeout_s: u64,
    /// How long to keep a session open for the next run; 0 to close it. Seconds.
    pub keep_s: u64,
}

/// How sessions reach a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TransportKind {
    /// The `ssh` program of the machine that runs forge.
    #[default]
    Ssh,
    /// No connection: the machine that runs forge is the host.
    Local,
    /// A copy-on-write view of the machine that runs forge.
    Sandbox,
    /// A program that runs a shell on its stdin.
    Command(Vec<String>),
}

/// How an unknown host key is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKeyPolicy {
    /// Reject it, with a hint.
    #[default]
    Strict,
    /// Accept and store a new key; reject a changed one.
    AcceptNew,
}

/// How forge becomes root.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SudoMode {
    /// Without sudo: the login user is root or does not need root.
    #[default]
    None,
    /// `sudo -n`.
    NoPassword,
    /// `sudo` with a password. Holds its placeholder in the secret store.
    Password(String),
}
