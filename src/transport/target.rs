//! Where a host is and how it is reached: what the transport needs to know of it.

use super::Surroundings;
use super::sandbox::Board;
use camino::Utf8PathBuf;
use std::time::Duration;

/// How one host is reached. The configuration's `connect:` is converted into this.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    pub kind: Kind,
    /// Host name, address or alias of an ssh configuration file.
    pub address: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// Private key, or the public half of a key that an agent holds. Absolute.
    pub identity: Option<Utf8PathBuf>,
    /// `ssh -F FILE` instead of `~/.ssh/config`.
    pub config: Option<Utf8PathBuf>,
    pub known_hosts: Option<Utf8PathBuf>,
    /// Jump hosts, first hop first, each `[user@]host[:port]`.
    pub jump: Vec<String>,
    pub host_key: HostKey,
    pub sudo: Sudo,
    /// How long connecting may take, from the first packet to the login; zero where nothing is declared: the user's ssh
    /// configuration holds, else [`Target::CONNECT_TIMEOUT`].
    pub timeout: Duration,
    /// How long an idle connection is kept for the next run; zero for not at all. Whole seconds.
    pub keep: Duration,
    /// Where control sockets live, from [`control_dir`](super::control_dir); empty for its default.
    pub control_dir: Utf8PathBuf,
    /// What programs on this machine are given of forge's environment.
    pub surroundings: Surroundings,
    pub paths: HostPaths,
}

/// Where forge keeps what it needs on a host. The defaults are part of the contract; tests use others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// The writer lock; beside it stands `LOCK.act`, held while a script acts.
    pub lock: String,
    /// Folder of running long steps: script (0700, gone when it ends), pid, result. On a tmpfs.
    pub run: String,
    /// Folder of the logs of long steps.
    pub log: String,
}

impl Default for HostPaths {
    fn default() -> Self {
        Self { lock: "/run/lock/forge".into(), run: "/run/forge".into(), log: "/var/lib/forge/log".into() }
    }
}

impl Target {
    /// How long connecting may take if neither the inventory nor the user's ssh configuration says so.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

    /// Returns how long connecting may take as far as the inventory decides.
    pub fn connect_timeout(&self) -> Duration {
        if self.timeout.is_zero() { Self::CONNECT_TIMEOUT } else { self.timeout }
    }

    /// Returns the folder of control sockets.
    pub(super) fn sockets(&self) -> Utf8PathBuf {
        match self.control_dir.as_str() {
            "" => super::control_dir(None),
            _ => self.control_dir.clone(),
        }
    }

    /// Returns the login user for messages.
    pub(super) fn user_name(&self) -> String {
        self.user.as_ref().map_or_else(|| "the login user".to_owned(), |user| format!("`{user}`"))
    }
}

/// What carries bytes to a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Kind {
    /// The machine's own `ssh`.
    #[default]
    Ssh,
    /// This machine.
    Local,
    /// A program that gives a shell on its stdin, with its arguments: `docker exec -i c1 sh`.
    Command(Vec<String>),
    /// A view of this machine, kept by a process that this folder on it names. It is made when it is not there, with a
    /// board's cards where one is named.
    Sandbox(Utf8PathBuf, Option<Board>),
}

/// What happens with a host key that is not known. A changed key is always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKey {
    /// Refused, with a hint.
    #[default]
    Strict,
    /// Taken and kept.
    AcceptNew,
}

/// How root is reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sudo {
    /// The login user is root, or needs none.
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
    fn the_default_timeout_is_the_documented_one() {
        let documented =
            format!("`ConnectTimeout` of your ssh configuration, else `{}s`)", Target::CONNECT_TIMEOUT.as_secs());
        assert!(include_str!("../../docs/recipes.md").contains(&documented), "{documented}");
    }
}
