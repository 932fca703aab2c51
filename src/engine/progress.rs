//! How often a transfer speaks of itself.

use std::time::{Duration, Instant};

/// Between two reports of one transfer.
const PAUSE: Duration = Duration::from_millis(500);

/// Lets one report in [`PAUSE`] through; a transfer that is quicker than that says nothing.
#[derive(Debug)]
pub(super) struct Pace(Instant);

impl Default for Pace {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Pace {
    /// Returns whether it is time for a report.
    pub fn due(&mut self) -> bool {
        let now = Instant::now();
        let due = now.duration_since(self.0) >= PAUSE;
        if due {
            self.0 = now;
        }
        due
    }
}
