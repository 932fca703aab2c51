//! Interrupts: Ctrl-C, the termination signal of a service manager or pipeline, and a closed terminal.

use super::error::CliError;
use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals since creation: one that arrives between two waits is returned by the next wait.
pub struct InterruptSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` once it no longer counts.
    hangup: Option<Signal>,
}

impl InterruptSignals {
    /// Starts to catch interrupts. Requires the runtime.
    ///
    /// # Errors
    /// Unexpected: the system refuses a signal handler.
    pub fn start_listening() -> Result<Self, CliError> {
        let catch = |kind| signal(kind).context("cannot catch signals").map_err(CliError::unexpected);
        let hangup = if ignores_hangup() { None } else { Some(catch(SignalKind::hangup())?) };
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())?, hangup })
    }

    /// Returns at the next interrupt. A closed terminal counts as one interrupt: the kernel and the shell both send a
    /// signal for it, and the second must not count as the request to abandon running steps.
    pub async fn next_interrupt(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = next_signal(&mut self.hangup) => self.hangup = None,
        }
    }
}

async fn next_signal(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Reports whether forge was started by `nohup` or similar: it must then outlive the terminal, and catching the signal
/// would undo that. Returns false if the system does not report ignored signals.
fn ignores_hangup() -> bool {
    fs_err::read_to_string("/proc/self/status").is_ok_and(|status| is_hangup_ignored(&status))
}

/// Parses the mask of ignored signals in `/proc/PID/status`; signal 1 is its lowest bit.
fn is_hangup_ignored(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_detected() {
        assert!(is_hangup_ignored("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!is_hangup_ignored("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!is_hangup_ignored(""));
    }
}
