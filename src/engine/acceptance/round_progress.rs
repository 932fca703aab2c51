//! Reports each round of a run of tests, with the remaining time.

use crate::acceptance::RoundEstimate;
use crate::engine::event::{Event, EventSender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The rounds of a run.
pub(super) struct RoundProgress<'e> {
    events: &'e EventSender,
    estimate: Mutex<RoundEstimate>,
}

/// One round of a test.
pub(super) struct StartedRound {
    /// The place of the test in its set; `None` for a round that isolates a fault, which was not planned.
    test: Option<usize>,
    began: Instant,
}

impl<'e> RoundProgress<'e> {
    /// `planned` has the number of rounds of each test.
    pub fn new(events: &'e EventSender, planned: &[usize]) -> Self {
        Self { events, estimate: Mutex::new(RoundEstimate::new(planned)) }
    }

    /// Reports a round of `count` measurements.
    pub fn start_round(&self, place: (usize, bool), test: &str, rail: Option<&str>, count: usize) -> StartedRound {
        let (at, isolation) = place;
        let estimate = self.estimate.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, total) = estimate.count_rounds();
        let left = estimate.estimate_remaining();
        let (test, rail) = (test.to_owned(), rail.map(str::to_owned));
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(Event::TestRound { test, rail, measurements: count, isolation, done, total, left });
        StartedRound { test: (!isolation).then_some(at), began: Instant::now() }
    }

    /// Counts a finished round.
    pub fn finish_round(&self, round: StartedRound) {
        if let Some(test) = round.test {
            let mut estimate = self.estimate.lock().unwrap_or_else(PoisonError::into_inner);
            estimate.finish_round(test, round.began.elapsed());
        }
    }
}
