//! Every environment variable that forge reads, with its meaning.

use camino::Utf8PathBuf;

/// Names and meanings of the variables, in the order of the help text.
pub const VARIABLES: &[(&str, &str)] = &[
    ("FORGE_INVENTORY", "default inventory file"),
    ("FORGE_STATE", "state directory for runs and history; defaults to `.forge` next to the inventory"),
    ("FORGE_SSH_ENV", "names of additional variables passed to ssh and its child processes: `AWS_* TEAM`"),
    ("FORGE_AGE_IDENTITY", "age identity that decrypts secrets; defaults to ~/.config/forge/age.key"),
    ("NO_COLOR", "disables colors if set to any value"),
    ("XDG_RUNTIME_DIR", "directory for connection sockets; defaults to /tmp/forge-UID"),
    ("HOME", "location of your age identity and, for `drift --install-timer`, of your systemd user units"),
    ("SUDO_USER, USER, LOGNAME", "user name recorded on hosts and shown as lock holder"),
];

/// The environment variables that forge uses. The output stream handles `NO_COLOR`.
#[derive(Clone, Debug, Default)]
pub struct CliEnvironment {
    pub inventory: Option<Utf8PathBuf>,
    pub state: Option<Utf8PathBuf>,
    pub runtime: Option<Utf8PathBuf>,
    pub ssh_variables: Vec<String>,
    pub home: Option<Utf8PathBuf>,
    pub user: Option<String>,
}

impl CliEnvironment {
    /// Reads the process's environment. An empty variable counts as unset.
    pub fn from_process() -> Self {
        let path = |name| read_variable(name).map(Into::into);
        Self {
            inventory: path("FORGE_INVENTORY"),
            state: path("FORGE_STATE"),
            runtime: path("XDG_RUNTIME_DIR"),
            ssh_variables: read_variable("FORGE_SSH_ENV")
                .map(|names| names.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            home: path("HOME"),
            user: read_variable("SUDO_USER").or_else(|| read_variable("USER")).or_else(|| read_variable("LOGNAME")),
        }
    }
}

/// Returns a variable's value, unless it is empty.
pub fn read_variable(name: &str) -> Option<String> {
    read_any_variable(name).filter(|value| !value.is_empty())
}

/// Returns a variable's value, for the secrets that an inventory takes from the environment.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn read_any_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
