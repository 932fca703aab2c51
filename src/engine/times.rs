//! How long forge worked on each host: from the beginning of its work, without the time in which it waited for others.

use crate::model::HostName;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One clock per host. A host that nothing was done on has none.
#[derive(Debug, Default)]
pub struct WorkTimes(Mutex<BTreeMap<HostName, WorkTime>>);

#[derive(Debug, Default)]
struct WorkTime {
    /// Since when the clock runs; `None` while the host waits.
    since: Option<Instant>,
    before: Duration,
}

impl WorkTimes {
    /// The host's work begins, or goes on.
    pub fn resume(&self, host: &HostName) {
        self.with(host, |time| time.resume(Instant::now()));
    }

    /// The host waits for its turn, or for another host.
    pub fn pause(&self, host: &HostName) {
        self.with(host, |time| time.pause(Instant::now()));
    }

    /// Returns how long the host was worked on until now.
    pub fn took(&self, host: &HostName) -> Duration {
        self.with(host, |time| time.took(Instant::now()))
    }

    fn with<T>(&self, host: &HostName, of: impl FnOnce(&mut WorkTime) -> T) -> T {
        of(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(host.clone()).or_default())
    }
}

impl WorkTime {
    fn resume(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    fn pause(&mut self, now: Instant) {
        self.before = self.took(now);
        self.since = None;
    }

    fn took(&self, now: Instant) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_is_counted() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut time = WorkTime::default();
        assert_eq!(time.took(began), Duration::ZERO, "nothing was done yet");
        time.resume(began);
        time.pause(began + 3 * second);
        assert_eq!(time.took(began + 60 * second), 3 * second, "it waits");
        time.pause(began + 61 * second);
        time.resume(began + 100 * second);
        assert_eq!(time.took(began + 102 * second), 5 * second);
    }
}
