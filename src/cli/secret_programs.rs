//! Runs the programs that print an inventory's secrets while it is loaded.

use crate::model::{SecretProgram, SecretProgramError};
use crate::transport;
use secrecy::SecretString;
use std::collections::BTreeSet;
use std::sync::Arc;

/// When a verb needs the secrets that programs print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretNeed {
    /// Never.
    No,
    /// Never; a warning names each secret that was not read, and why.
    Unread(&'static str),
    /// For hosts and for what they are compared with.
    Hosts,
    /// For hosts and for notifications.
    HostsAndNotify,
}

/// Runs a program and returns the secret that it prints.
///
/// # Errors
/// The program printed no secret.
pub fn run_program(
    program: &SecretProgram,
    withheld: &Arc<BTreeSet<String>>,
) -> Result<SecretString, SecretProgramError> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| SecretProgramError::new(format!("cannot start the runtime: {error}")))?;
        runtime.block_on(transport::run_secret_program(program, withheld))
    };
    // A verb may load an inventory while its own runtime works, in which no other can start.
    let done = std::thread::scope(|scope| scope.spawn(run).join());
    done.unwrap_or_else(|_| Err(SecretProgramError::new("forge failed while it ran")))
}
