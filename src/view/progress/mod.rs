//! Progress of a run: a live display on a terminal, timestamped lines elsewhere.

mod event_lines;
mod frame;
mod heartbeat;
mod live;
mod plain;
mod progress_line;
mod state;
mod time_left;
mod windows;

pub use frame::TerminalSize;
pub use live::LiveProgress;
pub use plain::PlainProgress;
pub use state::ProgressState;

use crate::engine::Event;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;

/// Shows events as they come.
pub trait ProgressDisplay {
    /// Shows one event that happened at `now`.
    fn show_event(&mut self, event: &Event, now: Instant);
    /// Updates elapsed times. Called once every [`tick_interval`](Self::tick_interval).
    fn tick(&mut self, now: Instant);
    /// Returns the interval between calls of [`tick`](Self::tick).
    fn tick_interval(&self) -> Duration;
    /// Removes the live display. Called once, after the last event.
    fn finish(&mut self) {}
}

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgressDetail {
    /// Only problems.
    Quiet,
    /// Changes and problems.
    Normal,
    /// Also unchanged steps, and each output line of long steps.
    Verbose,
    /// Also the commands of each step.
    Commands,
    /// Also the output of the commands.
    Output,
}

impl ProgressDetail {
    /// Returns the detail level for `--quiet` and the number of `-v`.
    pub fn from_flags(quiet: bool, verbose: u8) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (false, 0) => Self::Normal,
            (false, 1) => Self::Verbose,
            (false, 2) => Self::Commands,
            (false, _) => Self::Output,
        }
    }
}

/// Shows events until the sender is dropped.
pub async fn show_events(mut events: UnboundedReceiver<Event>, progress: &mut dyn ProgressDisplay) {
    let mut ticks = tokio::time::interval(progress.tick_interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => progress.show_event(&event, Instant::now()),
                None => break,
            },
            _ = ticks.tick() => progress.tick(Instant::now()),
        }
    }
    progress.finish();
}
