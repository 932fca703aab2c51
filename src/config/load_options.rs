//! Options of loading a project.

use crate::model::{SecretProgram, SecretProgramError};
use secrecy::SecretString;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Runs a program that prints a secret, without the environment variables of other secrets.
pub type RunSecretProgram<'a> =
    &'a dyn Fn(&SecretProgram, &Arc<BTreeSet<String>>) -> Result<SecretString, SecretProgramError>;

/// Whether the programs that print secrets run.
#[derive(Clone, Copy)]
pub enum SecretPrograms<'a> {
    /// No program runs, and their secrets have no value: nothing uses them.
    Skip,
    /// The same, and each secret is reported, with this reason.
    Report(&'static str),
    /// Programs run once each, if the inventory is valid.
    Run {
        /// Runs one of them.
        run: RunSecretProgram<'a>,
        /// Whether secrets that only notifications need are read too.
        for_notify: bool,
    },
}

/// What a load may do in addition to reading files of the inventory's tree.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Whether an inventory may run programs on the controller (`--trust`).
    pub trust: bool,
    /// Built-in recipes: name and text. A recipe of the inventory overrides the built-in recipe of the same name.
    pub embedded: &'a [(&'a str, &'a str)],
    /// Looks up an environment variable, for secrets. The value of one that is set may be empty.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Runs the programs that print secrets.
    pub programs: SecretPrograms<'a>,
}

impl LoadOptions<'_> {
    /// Returns the value of an environment variable, unless it is empty.
    pub(in crate::config) fn read_variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }
}
