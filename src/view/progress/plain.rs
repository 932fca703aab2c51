//! Progress as lines with a time, for logs and pipes.

use super::{Detail, Progress, words};
use crate::engine::Event;
use std::io::Write;

/// Writes one line per event that is worth one: `12:01:33 node-01 changed base/nginx (nginx, 2.1 s)`.
pub struct Plain {
    out: Box<dyn Write + Send>,
    detail: Detail,
    /// Returns the time of day as it stands before a line.
    clock: fn() -> String,
}

impl Plain {
    pub fn new(out: Box<dyn Write + Send>, detail: Detail, clock: fn() -> String) -> Self {
        Self { out, detail, clock }
    }
}

impl Progress for Plain {
    /// A log that cannot be written to must not stop a run: its errors are dropped.
    fn event(&mut self, event: &Event) {
        let Some(line) = words::line(event) else { return };
        if self.detail >= line.from {
            let _ = writeln!(self.out, "{} {}", (self.clock)(), line.text);
            let _ = self.out.flush();
        }
    }
}

#[cfg(test)]
mod tests;
