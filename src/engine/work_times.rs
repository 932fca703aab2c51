//! Working time of each host: from the start of its work, excluding the time in which it waited for other hosts.

use crate::model::HostName;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One clock per host. A host without any work has none.
#[derive(Debug, Default)]
pub struct WorkTimes(Mutex<BTreeMap<HostName, WorkTime>>);

#[derive(Debug, Default)]
struct WorkTime {
    /// The time at which the clock was started; `None` while the host waits.
    since: Option<Instant>,
    before: Duration,
}

impl WorkTimes {
    /// Starts or continues a host's clock.
    pub fn resume(&self, host: &HostName) {
        self.with_timer(host, |time| time.resume(Instant::now()));
    }

    /// Stops a host's clock while it waits for its turn or for another host.
    pub fn pause(&self, host: &HostName) {
        self.with_timer(host, |time| time.pause(Instant::now()));
    }

    /// Returns the host's working time up to now.
    pub fn time_worked(&self, host: &HostName) -> Duration {
        self.with_timer(host, |time| time.time_worked(Instant::now()))
    }

    fn with_timer<T>(&self, host: &HostName, of: impl FnOnce(&mut WorkTime) -> T) -> T {
        of(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(host.clone()).or_default())
    }
}

impl WorkTime {
    fn resume(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    fn pause(&mut self, now: Instant) {
        self.before = self.time_worked(now);
        self.since = None;
    }

    fn time_worked(&self, now: Instant) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_time_excludes_waiting() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut time = WorkTime::default();
        assert_eq!(time.time_worked(began), Duration::ZERO, "not started yet");
        time.resume(began);
        time.pause(began + 3 * second);
        assert_eq!(time.time_worked(began + 60 * second), 3 * second, "it waits");
        time.pause(began + 61 * second);
        time.resume(began + 100 * second);
        assert_eq!(time.time_worked(began + 102 * second), 5 * second);
    }
}
