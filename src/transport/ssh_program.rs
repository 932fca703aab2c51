//! Programs of OpenSSH on this machine.

use super::ConnectionTarget;
use tokio::process::Command;

/// Returns a command for a program of OpenSSH.
pub(super) fn ssh_command(name: &str, target: &ConnectionTarget) -> Command {
    let mut command = Command::new(name);
    target.surroundings.set_ssh_variables(&mut command);
    command
}
