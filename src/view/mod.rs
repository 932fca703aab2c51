//! What people and programs read: one interface, written by a text writer and a JSON writer.
//!
//! Architecture Invariant: nothing below `view` and `cli` prints, and no text of a host reaches an output
//! unescaped: it has no `Display`, and each writer escapes it for its own grammar.

mod drawing;
pub mod drift;
pub mod escape;
pub mod fold;
mod init;
mod json;
mod manual;
pub mod markdown;
pub mod notify;
mod odd;
pub mod progress;
pub mod recipe;
#[cfg(test)]
pub(crate) mod sample;
pub mod schemas;
pub mod starting;
mod style;
mod text;
mod validation;
mod words;

pub use drawing::{dot, mermaid};
pub use init::{Init, RecipeFile};
pub use json::{Json, drift_messages, save};
pub use manual::{ManualPage, manual_page, manual_topics};
pub use text::Text;
pub use validation::{CheckedInventory, Size, Validation};
pub use words::{count, places, size, took};

use crate::config::{Chart, OnHosts, RecipeLine, RecipePage, StepPage, ValuePage};
use crate::diag::Code;
use crate::drift::{Drift, History};
use crate::engine::{Checkup, Comparison, ExecReport, FetchReport, PastRun, Report};
use crate::facts::outliers::Outliers;
use crate::model::ExitCode;
use crate::plan::{HostSeen, Images, Plan};
use crate::transport::Sandbox;
use std::io::{self, Write};

/// A run of the past in a list. One that cannot be read is shown with the reason, never left out.
#[derive(Debug)]
pub enum Listed {
    Read(Box<PastRun>),
    Broken { run: String, cluster: String, why: String },
}

/// The sandboxes of a cluster on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandboxes {
    /// Whether they were ended just now.
    pub ended: bool,
    /// By name; each as it was before.
    pub list: Vec<Sandbox>,
}

/// Writes the result of a verb for one kind of reader. `exit` is the code that the process ends with.
pub trait Writer {
    /// Writes what would change.
    fn plan(&self, plan: &Plan, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes which container images a plan needs.
    fn images(&self, images: &Images, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what a run came to.
    fn report(&self, report: &Report, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what is known of hosts.
    fn facts(&self, seen: &[HostSeen], exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what differs from the majority of hosts that are alike.
    fn outliers(&self, seen: &[HostSeen], outliers: &Outliers, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes which sandboxes there are, or were ended.
    fn sandboxes(&self, sandboxes: &Sandboxes, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what is wrong in inventories, or that nothing is.
    fn validation(&self, validation: &Validation, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes who waits for whom.
    fn graph(&self, chart: &Chart, out: &mut dyn Write) -> io::Result<()>;
    /// Writes which recipes there are.
    fn recipes(&self, recipes: &[RecipeLine], out: &mut dyn Write) -> io::Result<()>;
    /// Writes what a recipe declares.
    fn recipe(&self, page: &RecipePage, out: &mut dyn Write) -> io::Result<()>;
    /// Writes where a value came from.
    fn values(&self, pages: &[OnHosts<ValuePage>], out: &mut dyn Write) -> io::Result<()>;
    /// Writes what a step is.
    fn step(&self, page: &StepPage, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what an error code means.
    fn code(&self, code: Code, out: &mut dyn Write) -> io::Result<()>;
    /// Writes a page of the documentation.
    fn page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()>;
    /// Writes which runs there were.
    fn runs(&self, runs: &[Listed], out: &mut dyn Write) -> io::Result<()>;
    /// Writes what a run of the past came to.
    fn run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what differs between two runs.
    fn comparison(&self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()>;
    /// Writes whether hosts are ready.
    fn doctor(&self, checkup: &Checkup, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what is not as declared any more.
    fn drift(&self, drift: &Drift, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what drift found over time.
    fn drift_history(&self, history: &History, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what a command came to.
    fn exec(&self, report: &ExecReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes which artifacts are at hand.
    fn fetch(&self, report: &FetchReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes what was made to begin with.
    fn init(&self, init: &Init, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
}
