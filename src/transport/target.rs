//! Where a host is and how to reach it.

use super::ProgramEnvironment;
use crate::model::HardwareBoard;
use camino::Utf8PathBuf;
use std::time::Duration;

/// How to reach one host. The configuration's `connect:` is converted into this.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectionTarget {
    /// The way to the host: ssh, this machine, a program or a sandbox.
    pub kind: ConnectionKind,
    /// Host name, address or alias of an ssh configuration file.
    pub address: String,
    /// The login user; `None` for ssh's own choice.
    pub user: Option<String>,
    /// The TCP port of sshd; `None` for ssh's own choice.
    pub port: Option<u16>,
    /// Private key, or the public half of a key that an agent holds. Absolute.
    pub identity: Option<Utf8PathBuf>,
    /// `ssh -F FILE` instead of `~/.ssh/config`.
    pub config: Option<Utf8PathBuf>,
    /// The file of known host keys; `None` for the user's own files.
    pub known_hosts: Option<Utf8PathBuf>,
    /// Jump hosts, first hop first, each `[user@]host[:port]`.
    pub jump: Vec<String>,
    /// What to do with a host key that is not known yet.
    pub host_key: HostKeyCheck,
    /// How scripts become root on the host.
    pub sudo: ConnectionSudo,
    /// Timeout of connecting, from the first packet to the login. Zero if none is declared: then the user's ssh
    /// configuration decides, or else [`ConnectionTarget::CONNECT_TIMEOUT`].
    pub timeout: Duration,
    /// How long an idle connection is kept for the next run; zero to close it. Whole seconds.
    pub keep: Duration,
    /// Folder of control sockets, from [`control_dir`](super::control_dir); empty for the default.
    pub control_dir: Utf8PathBuf,
    /// Which of forge's environment variables are passed to programs on this machine.
    pub surroundings: ProgramEnvironment,
    /// Where forge keeps its files on the host.
    pub paths: HostPaths,
}

/// Forge's paths on a host. The defaults are part of the contract; tests use others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// The writer lock; next to it is `LOCK.act`, held while a script acts.
    pub lock: String,
    /// Folder of running long steps: script (0700, removed when it ends), pid, result. On a tmpfs.
    pub run: String,
    /// Folder of the logs of long steps.
    pub log: String,
}

impl Default for HostPaths {
    fn default() -> Self {
        Self { lock: "/run/lock/forge".into(), run: "/run/forge".into(), log: "/var/lib/forge/log".into() }
    }
}

impl ConnectionTarget {
    /// Connect timeout if neither the inventory nor the user's ssh configuration sets one.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

    /// Returns the connect timeout that the inventory sets, or the default.
    pub fn connect_timeout(&self) -> Duration {
        if self.timeout.is_zero() { Self::CONNECT_TIMEOUT } else { self.timeout }
    }

    /// Returns the folder of control sockets.
    pub(super) fn socket_folder(&self) -> Utf8PathBuf {
        match self.control_dir.as_str() {
            "" => super::control_dir(None),
            _ => self.control_dir.clone(),
        }
    }

    /// Returns the login user's name for messages.
    pub(super) fn user_name(&self) -> String {
        self.user.as_ref().map_or_else(|| "the login user".to_owned(), |user| format!("`{user}`"))
    }
}

/// The transport that carries bytes to a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ConnectionKind {
    /// This machine's `ssh`.
    #[default]
    Ssh,
    /// This machine.
    Local,
    /// A program that runs a shell on its stdin, with its arguments: `docker exec -i c1 sh`.
    Command(Vec<String>),
    /// A view of this machine, kept by a process that is recorded in this folder. Created if it does not exist, with
    /// the cards of a board if one is named.
    Sandbox(Utf8PathBuf, Option<HardwareBoard>),
}

/// How to treat an unknown host key. A changed key is always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKeyCheck {
    /// Refused, with a hint.
    #[default]
    Strict,
    /// Accepted and saved.
    AcceptNew,
}

/// How to become root.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ConnectionSudo {
    /// The login user is root or does not need root.
    #[default]
    None,
    /// `sudo -n`.
    NoPassword,
    /// `sudo` with a password: its placeholder in the secret store.
    Password(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_timeout_matches_the_docs() {
        let documented = format!(
            "`ConnectTimeout` of your ssh configuration, else `{}s`)",
            ConnectionTarget::CONNECT_TIMEOUT.as_secs()
        );
        assert!(include_str!("../../docs/recipe-reference.md").contains(&documented), "{documented}");
    }
}
