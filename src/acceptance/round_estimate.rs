//! The remaining time of a set of tests, from the rounds that are finished.

use std::time::Duration;

/// The rounds of each test of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundEstimate {
    tests: Vec<TestRounds>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TestRounds {
    planned: usize,
    done: usize,
    spent: Duration,
}

impl RoundEstimate {
    /// Returns an estimate of tests with these numbers of rounds.
    pub fn new(planned: &[usize]) -> Self {
        Self {
            tests: planned.iter().map(|planned| TestRounds { planned: *planned, ..TestRounds::default() }).collect(),
        }
    }

    /// Adds a finished round of a test.
    pub fn finish_round(&mut self, test: usize, took: Duration) {
        if let Some(test) = self.tests.get_mut(test) {
            test.done += 1;
            test.spent += took;
        }
    }

    /// Returns the number of finished and of planned rounds.
    pub fn count_rounds(&self) -> (usize, usize) {
        let sum = |of: fn(&TestRounds) -> usize| self.tests.iter().map(of).sum();
        (sum(|test| test.done), sum(|test| test.planned))
    }

    /// Returns how long the remaining rounds take, by the mean of those of the same test, or of all if none of that test
    /// is finished. `None` before the first round is finished.
    pub fn estimate_remaining(&self) -> Option<Duration> {
        let (done, _) = self.count_rounds();
        let spent: Duration = self.tests.iter().map(|test| test.spent).sum();
        let mean = |spent: Duration, done: usize| spent.checked_div(done.try_into().ok()?);
        let overall = mean(spent, done)?;
        let remaining = self.tests.iter().map(|test| {
            let each = mean(test.spent, test.done).unwrap_or(overall);
            each * test.planned.saturating_sub(test.done).try_into().unwrap_or(u32::MAX)
        });
        Some(remaining.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_rounds_take_as_long_as_those_of_their_test() {
        let second = Duration::from_secs(1);
        let mut rounds = RoundEstimate::new(&[3, 2, 1]);
        assert_eq!((rounds.count_rounds(), rounds.estimate_remaining()), ((0, 6), None));
        rounds.finish_round(0, 10 * second);
        assert_eq!(rounds.estimate_remaining(), Some(50 * second), "nothing is known of the other tests yet");
        rounds.finish_round(0, 12 * second);
        rounds.finish_round(0, 8 * second);
        rounds.finish_round(1, 2 * second);
        // The second test has one round of 2 s left, and the third one of 32 s / 4.
        assert_eq!((rounds.count_rounds(), rounds.estimate_remaining()), ((4, 6), Some(10 * second)));
        rounds.finish_round(1, 2 * second);
        rounds.finish_round(2, second);
        assert_eq!((rounds.count_rounds(), rounds.estimate_remaining()), ((6, 6), Some(Duration::ZERO)));
        rounds.finish_round(7, second);
        assert_eq!(RoundEstimate::new(&[]).estimate_remaining(), None);
    }
}
