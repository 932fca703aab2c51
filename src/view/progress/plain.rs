//! Progress as lines with a time, for logs and pipes.

use super::heartbeat::heartbeat;
use super::{Detail, Progress, RunState, words};
use crate::engine::Event;
use std::io::Write;
use std::time::{Duration, Instant};

/// After so long without a line, one says what still goes on.
const SILENCE: Duration = Duration::from_secs(30);

/// Writes one line per event that is worth one: `12:01:33 node-01 changed base/nginx (nginx, 2.1 s)`.
pub struct Plain {
    out: Box<dyn Write + Send>,
    state: RunState,
    detail: Detail,
    /// Returns the time of day as it stands before a line.
    clock: fn() -> String,
    /// When the last line was written.
    last: Option<Instant>,
}

impl Plain {
    pub fn new(out: Box<dyn Write + Send>, state: RunState, detail: Detail, clock: fn() -> String) -> Self {
        Self { out, state, detail, clock, last: None }
    }

    /// A log that cannot be written to must not stop a run: its errors are dropped.
    fn write(&mut self, text: &str, now: Instant) {
        self.last = Some(now);
        let _ = writeln!(self.out, "{} {text}", (self.clock)());
        let _ = self.out.flush();
    }
}

impl Progress for Plain {
    fn event(&mut self, event: &Event, now: Instant) {
        self.state.event(event, now);
        if let Some(line) = words::line(event).filter(|line| self.detail >= line.from) {
            self.write(&line.text, now);
        }
    }

    fn tick(&mut self, now: Instant) {
        let last = *self.last.get_or_insert(now);
        if self.detail == Detail::Quiet || now.saturating_duration_since(last) < SILENCE {
            return;
        }
        if let Some(text) = heartbeat(&mut self.state, now) {
            self.write(&text, now);
        }
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests;
