//! What is seen while a run goes: live lines on a terminal, plain lines with a time elsewhere.

mod live;
mod plain;
mod windows;
mod words;

pub use live::Live;
pub use plain::Plain;

use crate::engine::Event;
use tokio::sync::mpsc::UnboundedReceiver;

/// Shows events as they come.
pub trait Progress {
    /// Shows one event.
    fn event(&mut self, event: &Event);
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
    while let Some(event) = events.recv().await {
        progress.event(&event);
    }
    progress.finish();
}
