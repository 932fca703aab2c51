//! Progress on a terminal: lasting lines that scroll, and below them a picture that is drawn over at a fixed rate.

use super::frame::{self, Size};
use super::state::RunState;
use super::{Detail, Progress, words};
use crate::engine::Event;
use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr;

/// Between two pictures. Events in between cost no drawing.
const PERIOD: Duration = Duration::from_millis(125);
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// Draws on a terminal. Colours are written where `colour` says so.
pub struct Live {
    out: Box<dyn Write + Send>,
    /// Tells the terminal's size, which may change.
    size: Box<dyn Fn() -> Size + Send>,
    state: RunState,
    detail: Detail,
    colour: bool,
    /// Lines that stay, and are not written yet.
    lasting: Vec<String>,
    /// The picture on the terminal. The cursor is behind its last line.
    drawn: Vec<String>,
}

impl Live {
    pub fn new(
        out: Box<dyn Write + Send>,
        size: Box<dyn Fn() -> Size + Send>,
        state: RunState,
        detail: Detail,
        colour: bool,
    ) -> Self {
        Self { out, size, state, detail, colour, lasting: Vec::new(), drawn: Vec::new() }
    }

    /// Returns the line that stays, above what moves.
    fn stays(&self, event: &Event) -> Option<String> {
        let line = words::line(event).filter(|line| self.detail >= line.from && stays(event, self.detail))?;
        Some(self.styled(line.text))
    }

    fn styled(&self, text: String) -> String {
        match self.colour {
            true => text,
            false => anstream::adapter::strip_str(&text).to_string(),
        }
    }

    /// Writes what is to stay, and `picture` below it, in the place of the picture before.
    fn draw(&mut self, picture: Vec<String>, size: Size) {
        let text = redraw(&self.drawn, &self.lasting, &picture, size.columns);
        self.lasting.clear();
        self.drawn = picture;
        // A terminal that went away must not stop a run.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// Returns what turns one picture into the next, with `lasting` above it. Lines are written over, not cleared first, so
/// that nothing flickers.
fn redraw(before: &[String], lasting: &[String], picture: &[String], columns: usize) -> String {
    let mut text = "\r".to_owned();
    // A terminal that became narrower has wrapped the lines.
    let wrapped =
        |line: &String| anstream::adapter::strip_str(line).to_string().width().div_ceil(columns.max(1)).max(1);
    let up = before.iter().map(wrapped).sum::<usize>().saturating_sub(1);
    if up > 0 {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\u{1b}[{up}A");
    }
    for line in lasting.iter().flat_map(|line| line.split('\n')) {
        text += &format!("{line}{CLEAR_LINE}\n");
    }
    text += &picture.iter().map(|line| format!("{line}{CLEAR_LINE}")).collect::<Vec<_>>().join("\n");
    text + CLEAR_BELOW
}

/// On a terminal the moving lines tell the ordinary; only what matters afterwards stays.
fn stays(event: &Event, detail: Detail) -> bool {
    match event {
        // With what a long step prints, everything else would scroll away: it is on the host's line.
        Event::StepOutput { .. } | Event::Fetching { .. } | Event::Sending { .. } => false,
        Event::ObserveStarted { .. } | Event::ExecStarted { .. } => false,
        Event::ApplyStarted { .. } | Event::AwaitingCanaries { .. } => false,
        Event::Connecting { .. } | Event::HostStarted { .. } | Event::StepStarted { .. } => false,
        Event::HostFinished { .. } => detail >= Detail::Verbose,
        _ => true,
    }
}

impl Progress for Live {
    fn event(&mut self, event: &Event, now: Instant) {
        self.lasting.extend(self.stays(event));
        self.state.event(event, now);
    }

    fn tick(&mut self, now: Instant) {
        let size = (self.size)();
        let picture: Vec<String> =
            frame::render(&mut self.state, now, size).into_iter().map(|line| self.styled(line)).collect();
        if picture != self.drawn || !self.lasting.is_empty() {
            self.draw(picture, size);
        }
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn finish(&mut self) {
        if !self.drawn.is_empty() || !self.lasting.is_empty() {
            self.draw(Vec::new(), (self.size)());
        }
    }
}

/// A verb that is interrupted leaves no picture behind.
impl Drop for Live {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests;
