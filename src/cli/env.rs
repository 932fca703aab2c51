//! Every environment variable that forge reads, once, with its meaning.

use camino::Utf8PathBuf;

/// Names of the variables with their meanings, in the order of the help.
pub const VARIABLES: &[(&str, &str)] = &[
    ("FORGE_INVENTORY", "the inventory of verbs that are given none"),
    ("FORGE_STATE", "the folder for runs and history, `.forge` beside the inventory otherwise"),
    ("FORGE_SSH_ENV", "more variables for ssh and what it starts, by name: `AWS_* TEAM`"),
    ("NO_COLOR", "no colours, whatever its value"),
    ("XDG_RUNTIME_DIR", "where sockets of open connections live; /tmp/forge-UID otherwise"),
    ("HOME", "where your own systemd units lie, for `drift --install-timer`"),
    ("SUDO_USER, USER, LOGNAME", "who runs forge, for the records on hosts and the lock's owner"),
];

/// The environment as far as forge looks at it. Colours are the stream's business.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub inventory: Option<Utf8PathBuf>,
    pub state: Option<Utf8PathBuf>,
    pub runtime: Option<Utf8PathBuf>,
    pub ssh_variables: Vec<String>,
    pub home: Option<Utf8PathBuf>,
    pub user: Option<String>,
}

impl Environment {
    /// Reads the process's environment. An empty variable is as good as none.
    pub fn read() -> Self {
        let path = |name| variable(name).map(Into::into);
        Self {
            inventory: path("FORGE_INVENTORY"),
            state: path("FORGE_STATE"),
            runtime: path("XDG_RUNTIME_DIR"),
            ssh_variables: variable("FORGE_SSH_ENV")
                .map(|names| names.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            home: path("HOME"),
            user: variable("SUDO_USER").or_else(|| variable("USER")).or_else(|| variable("LOGNAME")),
        }
    }
}

/// Returns a variable's value, for secrets that an inventory takes from the environment too.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
