//! What is seen while a run goes: a picture that moves on a terminal, plain lines with a time elsewhere.

mod frame;
mod heartbeat;
mod live;
mod plain;
mod state;
mod windows;
mod words;

pub use frame::Size;
pub use live::Live;
pub use plain::Plain;
pub use state::RunState;

use crate::engine::Event;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::MissedTickBehavior;

/// Shows events as they come.
pub trait Progress {
    /// Shows one event, which came at `now`.
    fn event(&mut self, event: &Event, now: Instant);
    /// Shows that time goes on; called once in every [`period`](Self::period).
    fn tick(&mut self, now: Instant);
    /// Returns how long after each other two calls of [`tick`](Self::tick) are.
    fn period(&self) -> Duration;
    /// Takes away what is only of the moment; called once, after the last event.
    fn finish(&mut self) {}
}

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Only what went wrong.
    Quiet,
    /// What changed and what went wrong.
    Normal,
    /// Also what was as declared, and each line of long steps.
    Verbose,
    /// Also the commands of each step.
    Commands,
    /// Also what they printed.
    Output,
}

impl Detail {
    /// Returns the detail that `--quiet` and a number of `-v` ask for.
    pub fn of(quiet: bool, verbose: u8) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (false, 0) => Self::Normal,
            (false, 1) => Self::Verbose,
            (false, 2) => Self::Commands,
            (false, _) => Self::Output,
        }
    }
}

/// Shows events until the sender is gone.
pub async fn consume(mut events: UnboundedReceiver<Event>, progress: &mut dyn Progress) {
    let mut ticks = tokio::time::interval(progress.period());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => progress.event(&event, Instant::now()),
                None => break,
            },
            _ = ticks.tick() => progress.tick(Instant::now()),
        }
    }
    progress.finish();
}
