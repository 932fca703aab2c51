//! Rate limit for progress reports of a transfer.

use std::time::{Duration, Instant};

/// Interval between two reports of one transfer.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Permits one report per [`REPORT_INTERVAL`]; a shorter transfer reports nothing.
#[derive(Debug)]
pub(super) struct TransferThrottle(Instant);

impl Default for TransferThrottle {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TransferThrottle {
    /// Returns whether a report is due.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now.duration_since(self.0) >= REPORT_INTERVAL;
        if due {
            self.0 = now;
        }
        due
    }
}
