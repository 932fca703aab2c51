//! Reports of drift for other programs than a terminal: one file per format, each a pure function of the same value.
//!
//! Architecture Invariant: what is told of a finding is collected once (`about`); a format only says how it looks. So what
//! is added there stands in every format.

pub(in crate::view) mod about;
#[cfg(test)]
pub(in crate::view) mod holes;
mod html;
mod junit;
mod markdown;
mod prometheus;
mod sarif;
#[cfg(test)]
mod tests;

pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use prometheus::{last_success, prometheus};
pub use sarif::sarif;

use crate::drift::{Drift, RunLine};
use crate::model::{ExitCode, HostName};
use jiff::Timestamp;

/// What a report is written from.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    pub drift: &'a Drift,
    /// The code that the process ends with.
    pub exit: ExitCode,
    /// Runs of the past, oldest first, this one last; empty where no history is kept.
    pub runs: &'a [RunLine],
    /// When a run last told everything of every host; `None` where none is known.
    pub last_success: Option<Timestamp>,
}

/// Returns whether a run that ended so told everything of every host: it found nothing, or what it found is all there is.
pub fn is_whole(exit: ExitCode) -> bool {
    matches!(exit, ExitCode::Done | ExitCode::Changes)
}

/// Returns hosts folded to ranges, as they came: raw.
fn folded(hosts: &[&HostName]) -> String {
    super::fold::fold(hosts.iter().map(|host| host.as_str()))
}
