//! Reports each round of a run of tests, with the remaining time.

use crate::acceptance::RoundEstimate;
use crate::engine::event::{Event, EventSender};
use crate::model::HostName;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The rounds of a run.
pub(super) struct RoundProgress<'e> {
    events: &'e EventSender,
    /// The only host, if it is tested before it is brought back into service.
    host: Option<HostName>,
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
    pub fn new(events: &'e EventSender, host: Option<HostName>, planned: &[usize]) -> Self {
        Self { events, host, estimate: Mutex::new(RoundEstimate::new(planned)) }
    }

    /// Reports a round of `count` measurements.
    pub fn start_round(&self, place: (usize, bool), test: &str, rail: Option<&str>, count: usize) -> StartedRound {
        let (at, isolation) = place;
        let estimate = self.estimate.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, total) = estimate.count_rounds();
        let left = estimate.estimate_remaining();
        let (test, rail) = (test.to_owned(), rail.map(str::to_owned));
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(match self.host.clone() {
            Some(host) => Event::ReturnTestRound { host, test, rail, done, total, left },
            None => Event::TestRound { test, rail, measurements: count, isolation, done, total, left },
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_a_returning_host_name_it() {
        let (events, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let progress = RoundProgress::new(&events, Some(HostName::new("gpu-01")), &[1, 2]);
        progress.finish_round(progress.start_round((0, false), "dcgm-diag", None, 1));
        progress.start_round((1, false), "ib-write-bw-loopback", Some("mlx5_0"), 1);
        let mut next = || match seen.try_recv().unwrap() {
            Event::ReturnTestRound { host, test, rail, done, total, left } => {
                (host.as_str().to_owned(), test, rail, done, total, left.is_some())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(next(), ("gpu-01".into(), "dcgm-diag".into(), None, 0, 3, false));
        let rail = Some("mlx5_0".to_owned());
        assert_eq!(next(), ("gpu-01".into(), "ib-write-bw-loopback".into(), rail, 1, 3, true));
    }
}
