//! Progress on a terminal: lasting lines that scroll, and below them a live display that is redrawn at a fixed rate.

use super::frame::{self, TerminalSize};
use super::state::ProgressState;
use super::{ProgressDetail, ProgressDisplay, event_lines};
use crate::engine::Event;
use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr;

/// The interval between redraws. Events in between do not draw.
const FRAME_INTERVAL: Duration = Duration::from_millis(125);
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// Draws on a terminal, with colours if `colour` is set.
pub struct LiveProgress {
    out: Box<dyn Write + Send>,
    /// Returns the terminal's size, which may change.
    size: Box<dyn Fn() -> TerminalSize + Send>,
    state: ProgressState,
    detail: ProgressDetail,
    colour: bool,
    /// Lasting lines that are not written yet.
    lasting: Vec<String>,
    /// The live display on the terminal. The cursor is at the end of its last line.
    drawn: Vec<String>,
}

impl LiveProgress {
    /// Builds the display; draws nothing yet. `size` returns the current terminal size and is called for each frame.
    pub fn new(
        out: Box<dyn Write + Send>,
        size: Box<dyn Fn() -> TerminalSize + Send>,
        state: ProgressState,
        detail: ProgressDetail,
        colour: bool,
    ) -> Self {
        Self { out, size, state, detail, colour, lasting: Vec::new(), drawn: Vec::new() }
    }

    /// Returns the lasting line for an event, if it has one.
    fn lasting_line(&self, event: &Event) -> Option<String> {
        let line =
            event_lines::event_line(event).filter(|line| self.detail >= line.from && is_lasting(event, self.detail))?;
        Some(self.apply_colour(line.text))
    }

    fn apply_colour(&self, text: String) -> String {
        match self.colour {
            true => text,
            false => anstream::adapter::strip_str(&text).to_string(),
        }
    }

    /// Writes the lasting lines and `picture` below them, over the previous picture.
    fn draw_frame(&mut self, picture: Vec<String>, size: TerminalSize) {
        let text = redraw_sequence(&self.drawn, &self.lasting, &picture, size.columns);
        self.lasting.clear();
        self.drawn = picture;
        // A closed terminal must not stop a run.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// Returns the text that replaces one picture with the next, with `lasting` above it. Overwrites lines instead of
/// clearing them first, to avoid flicker.
fn redraw_sequence(before: &[String], lasting: &[String], picture: &[String], columns: usize) -> String {
    let mut text = "\r".to_owned();
    // A terminal that became narrower wraps the lines.
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

/// Reports whether the line of an event stays. The live display shows routine events; only relevant results stay.
fn is_lasting(event: &Event, detail: ProgressDetail) -> bool {
    match event {
        // The output of a long step would scroll everything else away. The live line of the host shows it.
        Event::StepOutput { .. } | Event::Fetching { .. } | Event::Sending { .. } => false,
        Event::ObserveStarted { .. } | Event::ExecStarted { .. } | Event::TestRound { .. } => false,
        Event::ReturnTestRound { .. } => false,
        Event::ApplyStarted { .. } | Event::AwaitingCanaries { .. } => false,
        Event::Connecting { .. } | Event::HostStarted { .. } | Event::StepStarted { .. } => false,
        Event::HostFinished { .. } => detail >= ProgressDetail::Verbose,
        _ => true,
    }
}

impl ProgressDisplay for LiveProgress {
    fn show_event(&mut self, event: &Event, now: Instant) {
        self.lasting.extend(self.lasting_line(event));
        self.state.record_event(event, now);
    }

    fn tick(&mut self, now: Instant) {
        let size = (self.size)();
        let picture: Vec<String> =
            frame::render_frame(&mut self.state, now, size).into_iter().map(|line| self.apply_colour(line)).collect();
        if picture != self.drawn || !self.lasting.is_empty() {
            self.draw_frame(picture, size);
        }
    }

    fn tick_interval(&self) -> Duration {
        FRAME_INTERVAL
    }

    fn finish(&mut self) {
        if !self.drawn.is_empty() || !self.lasting.is_empty() {
            self.draw_frame(Vec::new(), (self.size)());
        }
    }
}

/// Removes the live display if the command is interrupted.
impl Drop for LiveProgress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests;
