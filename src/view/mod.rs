//! Output for people and programs: one interface, implemented by a text writer and a JSON writer.
//!
//! Architecture Invariant: only `view` and `cli` print, and no text of a host reaches an output unescaped: it has no
//! `Display`, and each writer escapes it for its own grammar.

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

/// A past run in a list. Unreadable runs are shown with the reason, never omitted.
#[derive(Debug)]
pub enum Listed {
    Read(Box<PastRun>),
    Broken { run: String, cluster: String, why: String },
}

/// The sandboxes of a cluster on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandboxes {
    /// Whether this command ended them.
    pub ended: bool,
    /// Sorted by name, each in its previous state.
    pub list: Vec<Sandbox>,
}

/// Writes the result of a verb in one format. `exit` is the exit code of the process.
pub trait Writer {
    /// Writes a plan.
    fn plan(&self, plan: &Plan, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the container images that a plan needs.
    fn images(&self, images: &Images, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the report of a run.
    fn report(&self, report: &Report, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the facts of hosts.
    fn facts(&self, seen: &[HostSeen], exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the values that differ from the majority of similar hosts.
    fn outliers(&self, seen: &[HostSeen], outliers: &Outliers, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the list of sandboxes, or of ended sandboxes.
    fn sandboxes(&self, sandboxes: &Sandboxes, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of validating inventories.
    fn validation(&self, validation: &Validation, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the dependency graph.
    fn graph(&self, chart: &Chart, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the list of recipes.
    fn recipes(&self, recipes: &[RecipeLine], out: &mut dyn Write) -> io::Result<()>;
    /// Writes the declarations of a recipe.
    fn recipe(&self, page: &RecipePage, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the origin of a value.
    fn values(&self, pages: &[OnHosts<ValuePage>], out: &mut dyn Write) -> io::Result<()>;
    /// Writes the description of a step.
    fn step(&self, page: &StepPage, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the explanation of an error code.
    fn code(&self, code: Code, out: &mut dyn Write) -> io::Result<()>;
    /// Writes a page of the documentation.
    fn page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the list of past runs.
    fn runs(&self, runs: &[Listed], out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of a past run.
    fn run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the differences between two runs.
    fn comparison(&self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `doctor`.
    fn doctor(&self, checkup: &Checkup, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the detected drift.
    fn drift(&self, drift: &Drift, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the drift history.
    fn drift_history(&self, history: &History, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `exec`.
    fn exec(&self, report: &ExecReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `fetch`.
    fn fetch(&self, report: &FetchReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `init`.
    fn init(&self, init: &Init, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
}
