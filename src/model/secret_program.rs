//! Programs on this machine that print a secret.

use camino::Utf8PathBuf;
use std::time::Duration;

/// A program on this machine whose output is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretProgram {
    /// Its name in messages and in place of the value: `age secrets/token.age`.
    pub label: String,
    /// The program and its arguments, which contain no secret. A program with a `/` is a path, any other is searched in
    /// `PATH`.
    pub words: Vec<String>,
    /// The working directory: the folder of the inventory.
    pub folder: Utf8PathBuf,
    /// How long the program may run.
    pub limit: Duration,
    /// A file that the program needs in addition to its input: the private key of age.
    pub identity: Option<Utf8PathBuf>,
}

/// Why a program did not print a secret. Contains nothing of its standard output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretProgramError {
    /// The reason, as a lowercase fragment.
    pub why: String,
    /// The last lines of its standard error.
    pub printed: Vec<String>,
    /// Whether the program does not exist on this machine.
    pub missing: bool,
}

impl SecretProgramError {
    /// Builds an error that has only a reason.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), ..Self::default() }
    }
}
