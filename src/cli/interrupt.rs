//! Ctrl-C, the request to end that a service manager or a pipeline sends, and a terminal that was closed.

use super::error::CliError;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interrupts from the moment it is made: one that comes while nobody waits is kept for the next wait.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where it counts no more.
    hangup: Option<Signal>,
}

impl Interrupts {
    /// Catches interrupts from now on. Needs the runtime.
    ///
    /// # Errors
    /// Unexpected: the machine does not let signals be caught.
    pub fn catch() -> Result<Self, CliError> {
        let catch =
            |kind| signal(kind).map_err(|error| CliError::unexpected(format!("signals cannot be caught: {error}")));
        let hangup = if ignores_hangup() { None } else { Some(catch(SignalKind::hangup())?) };
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())?, hangup })
    }

    /// Returns at the next interrupt. A closed terminal is one interrupt: the kernel and the shell both send a signal for
    /// it, and the second must not count as the wish to leave running steps.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = next_of(&mut self.hangup) => self.hangup = None,
        }
    }
}

async fn next_of(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns whether forge was started by `nohup` or the like: then it is to outlive the terminal, and to catch the signal
/// would undo that. Where the system does not tell, it was not.
fn ignores_hangup() -> bool {
    fs_err::read_to_string("/proc/self/status").is_ok_and(|status| is_hangup_ignored(&status))
}

/// Reads the mask of ignored signals of `/proc/PID/status`; signal 1 is its lowest bit.
fn is_hangup_ignored(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        assert!(is_hangup_ignored("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!is_hangup_ignored("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!is_hangup_ignored(""));
    }
}
