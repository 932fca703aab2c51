//! What people and programs read: one interface, written by a text writer and a JSON writer.
//!
//! Architecture Invariant: nothing below `view` and `cli` prints, and no text of a host reaches an output
//! unescaped: it has no `Display`, and each writer escapes it for its own grammar.

pub mod escape;
pub mod fold;
mod json;
pub mod progress;
#[cfg(test)]
pub(crate) mod sample;
mod style;
mod text;
mod validation;
mod words;

pub use json::Json;
pub use text::Text;
pub use validation::{CheckedInventory, Size, Validation};
pub use words::{count, took};

use crate::engine::Report;
use crate::model::ExitCode;
use crate::plan::{HostSeen, Plan};
use std::io::{self, Write};

/// Writes the result of a verb for one kind of reader. `exit` is the code that the process ends with.
pub trait Writer {
    /// Writes what would change.
    fn plan(&self, plan: &Plan, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what a run came to.
    fn report(&self, report: &Report, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what is known of hosts.
    fn facts(&self, seen: &[HostSeen], exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what is wrong in inventories, or that nothing is.
    fn validation(&self, validation: &Validation, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
}
