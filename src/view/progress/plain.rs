//! Progress as timestamped lines, for logs and pipes.

use super::heartbeat::format_heartbeat;
use super::{ProgressDetail, ProgressDisplay, ProgressState, event_lines};
use crate::engine::Event;
use std::io::Write;
use std::time::{Duration, Instant};

/// After this time without a line, a status line is written.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);

/// Writes one line per relevant event: `12:01:33 node-01 changed base/nginx (nginx, 2.1 s)`.
pub struct PlainProgress {
    out: Box<dyn Write + Send>,
    state: ProgressState,
    detail: ProgressDetail,
    /// Returns the formatted time of day of a line's event.
    clock: fn(Instant) -> String,
    /// When the last line was written.
    last: Option<Instant>,
}

impl PlainProgress {
    /// Builds the display; writes nothing yet. `clock` returns the time of day that begins each line, from the time of its event.
    pub fn new(
        out: Box<dyn Write + Send>,
        state: ProgressState,
        detail: ProgressDetail,
        clock: fn(Instant) -> String,
    ) -> Self {
        Self { out, state, detail, clock, last: None }
    }

    /// Writes a line. Errors are ignored, because an unwritable log must not stop a run.
    fn write_line(&mut self, text: &str, now: Instant) {
        self.last = Some(now);
        let _ = writeln!(self.out, "{} {text}", (self.clock)(now));
        let _ = self.out.flush();
    }
}

impl ProgressDisplay for PlainProgress {
    fn show_event(&mut self, event: &Event, now: Instant) {
        self.state.record_event(event, now);
        if let Some(line) = event_lines::event_line(event).filter(|line| self.detail >= line.from) {
            self.write_line(&line.text, now);
        }
    }

    fn tick(&mut self, now: Instant) {
        let last = *self.last.get_or_insert(now);
        if self.detail == ProgressDetail::Quiet || now.saturating_duration_since(last) < HEARTBEAT_INTERVAL {
            return;
        }
        if let Some(text) = format_heartbeat(&mut self.state, now) {
            self.write_line(&text, now);
        }
    }

    fn tick_interval(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests;
