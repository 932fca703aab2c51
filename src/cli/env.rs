//! Every environment variable that forge reads, once, with its meaning.

use camino::Utf8PathBuf;

/// Names of the variables with their meanings, in the order of the help.
pub const VARIABLES: &[(&str, &str)] = &[
    ("FORGE_INVENTORY", "the inventory of verbs that are given none"),
    ("FORGE_STATE", "the folder for runs and history, `.forge` beside the inventory otherwise"),
    ("NO_COLOR", "no colours, whatever its value"),
];

/// The environment as far as forge looks at it. Colours are the stream's business.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub inventory: Option<Utf8PathBuf>,
    pub state: Option<Utf8PathBuf>,
}

impl Environment {
    /// Reads the process's environment. An empty variable is as good as none.
    pub fn read() -> Self {
        Self { inventory: variable("FORGE_INVENTORY").map(Into::into), state: variable("FORGE_STATE").map(Into::into) }
    }
}

/// Returns a variable's value, for secrets that an inventory takes from the environment too.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
