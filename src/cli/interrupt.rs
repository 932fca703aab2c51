//! Ctrl-C, and the request to end that a service manager or a pipeline sends.

use super::error::CliError;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interrupts from the moment it is made: one that comes while nobody waits is kept for the next wait.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Catches interrupts from now on. Needs the runtime.
    ///
    /// # Errors
    /// Unexpected: the machine does not let signals be caught.
    pub fn catch() -> Result<Self, CliError> {
        let catch =
            |kind| signal(kind).map_err(|error| CliError::unexpected(format!("signals cannot be caught: {error}")));
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())? })
    }

    /// Returns at the next interrupt.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
