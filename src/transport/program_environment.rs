//! Which of forge's own environment variables are passed to programs that it starts on this machine: some may hold
//! secrets.

use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::process::Command;

/// Variables that ssh reads itself, and those it hands to the user's programs: agents, passphrase prompts, Kerberos. A
/// `*` at the end matches any suffix.
pub const SSH_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS*",
    "SSH_SK_*",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_*",
    "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "GPG_TTY",
    "KRB5*",
];

/// Selects the variables that are passed to programs on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramEnvironment {
    /// Names of variables for ssh in addition to [`SSH_VARIABLES`].
    pub more: Arc<[String]>,
    /// Variables that hold secrets of the inventory: they are passed to no program.
    pub withheld: Arc<BTreeSet<String>>,
}

impl ProgramEnvironment {
    /// Passes to a program of OpenSSH only the variables that it needs. A persistent master outlives forge, and every
    /// user who may inspect it can read its environment.
    pub(super) fn set_ssh_variables(&self, command: &mut Command) {
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| self.is_for_ssh(name))));
    }

    /// Removes secrets from the environment of a program that the user named; it may need any other variable.
    pub fn remove_secrets(&self, command: &mut Command) {
        self.withheld.iter().for_each(|name| {
            command.env_remove(name);
        });
    }

    fn is_for_ssh(&self, name: &str) -> bool {
        let own = SSH_VARIABLES.iter().copied();
        let mut patterns = own.chain(self.more.iter().map(String::as_str));
        !self.withheld.contains(name) && patterns.any(|pattern| matches_pattern(pattern, name))
    }
}

fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_receives_only_listed_variables_and_no_secrets() {
        let more = ["AWS_*", "ROLE"].map(str::to_owned).into();
        let withheld = BTreeSet::from(["AWS_SECRET".to_owned(), "LC_PIN".to_owned()]).into();
        let surroundings = ProgramEnvironment { more, withheld };
        for name in ["PATH", "SSH_AUTH_SOCK", "SSH_ASKPASS_REQUIRE", "LC_ALL", "AWS_PROFILE", "ROLE"] {
            assert!(surroundings.is_for_ssh(name), "{name}");
        }
        for name in ["DB_PASSWORD", "AWS_SECRET", "LC_PIN", "ROLES", "PATHS", "FORGE_STATE"] {
            assert!(!surroundings.is_for_ssh(name), "{name}");
        }
    }
}
