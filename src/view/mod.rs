//! Output for people and programs: one interface, implemented by a text writer and a JSON writer.
//!
//! Architecture Invariant: only `view` and `cli` print, and no text of a host reaches an output unescaped: it has no
//! `Display`, and each writer escapes it for its own grammar.

pub mod acceptance;
pub mod drift;
pub mod escape;
pub mod fold;
mod formatting;
mod graph_export;
mod init;
mod json;
mod junit_xml;
mod manual;
pub mod markdown;
pub mod notify;
mod outlier_text;
pub mod progress;
pub mod recipe;
mod recording_files;
mod rehearsal_lines;
#[cfg(test)]
mod rehearsal_tests;
#[cfg(test)]
pub(crate) mod sample;
pub mod schemas;
pub mod skopeo;
pub mod starter_inventory;
mod style;
mod text;
mod validation;

pub use formatting::{format_count, format_duration, format_host_count, format_size};
pub use graph_export::{write_dot, write_mermaid};
pub use init::{InitResult, RecipeFile};
pub use json::{JsonWriter, write_saved_plan};
pub use manual::{ManualPage, find_manual_page, list_manual_topics};
pub use recording_files::{RecordingFile, list_recording_files, render_recording_files};
pub use text::TextWriter;
pub use validation::{CheckedInventory, InventorySize, ValidationResult};

use crate::config::{DependencyChart, RecipeDetails, RecipeSummary, SharedByHosts, StepExplanation, ValueExplanation};
use crate::diag::DiagCode;
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{
    AcceptanceReport, DoctorReport, ExecReport, FetchReport, HoldReport, PastRun, RunComparison, RunReport,
    SlowDiagnosis, UndoRefusal,
};
use crate::facts::outliers::OutlierReport;
use crate::model::{ExitCode, UntrustedText};
use crate::plan::{ObservedHost, Plan, PlanImages, RehearsalReport};
use crate::transport::Sandbox;
use std::io::{self, Write};

/// A past run in a list. Unreadable runs are shown with the reason, never omitted.
#[derive(Debug)]
pub enum ListedRun {
    /// A run whose files could be read.
    Read(Box<PastRun>),
    /// A run of tests.
    Tests(Box<AcceptanceReport>),
    /// A run whose files could not be read.
    Broken {
        /// The run ID, which is the name of the run's folder.
        run: String,
        /// The cluster, by the name of its folder.
        cluster: String,
        /// Why the run could not be read: a lowercase fragment.
        why: String,
    },
}

/// The sandboxes of a cluster on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxList {
    /// Whether this command ended them.
    pub ended: bool,
    /// Sorted by name, each in its previous state.
    pub list: Vec<Sandbox>,
}

/// The changes of a run that cannot be undone, so that nothing is.
#[derive(Clone, Copy, Debug)]
pub struct UndoRefusalList<'a> {
    /// The run.
    pub run: &'a str,
    /// Each change on each host.
    pub refused: &'a [UndoRefusal],
}

/// Writes the result of a verb in one format. `exit` is the exit code of the process.
pub trait ResultWriter {
    /// Writes a plan.
    fn write_plan(&self, plan: &Plan, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the container images that a plan needs.
    fn write_images(&self, images: &PlanImages, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the report of a run.
    fn write_report(&self, report: &RunReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the report of a run that has just ended. `no_history` says why its history could not be written; for people,
    /// the progress has shown it.
    fn write_apply_report(
        &self,
        report: &RunReport,
        _no_history: Option<&UntrustedText>,
        exit: ExitCode,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.write_report(report, exit, out)
    }
    /// Writes why a run is not undone. For people, the error that follows says it.
    fn write_undo_refusal(&self, _refusal: &UndoRefusalList<'_>, _: ExitCode, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
    /// Writes the result of `rehearse`.
    fn write_rehearsal(&self, report: &RehearsalReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the facts of hosts.
    fn write_facts(&self, seen: &[ObservedHost], exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the values that differ from the majority of similar hosts.
    fn write_outliers(
        &self,
        seen: &[ObservedHost],
        outliers: &OutlierReport,
        exit: ExitCode,
        out: &mut dyn Write,
    ) -> io::Result<()>;
    /// Writes the list of sandboxes, or of ended sandboxes.
    fn write_sandboxes(&self, sandboxes: &SandboxList, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of validating inventories.
    fn write_validation(&self, validation: &ValidationResult, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the dependency graph.
    fn write_graph(&self, chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the list of recipes.
    fn write_recipes(&self, recipes: &[RecipeSummary], out: &mut dyn Write) -> io::Result<()>;
    /// Writes the declarations of a recipe.
    fn write_recipe(&self, page: &RecipeDetails, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the origin of a value.
    fn write_values(&self, pages: &[SharedByHosts<ValueExplanation>], out: &mut dyn Write) -> io::Result<()>;
    /// Writes the description of a step.
    fn write_step(&self, page: &StepExplanation, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the explanation of an error code.
    fn write_error_code(&self, code: DiagCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes a page of the documentation.
    fn write_manual_page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the list of past runs.
    fn write_runs(&self, runs: &[ListedRun], out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of a past run.
    fn write_run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the differences between two runs.
    fn write_comparison(&self, comparison: &RunComparison, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `doctor`.
    fn write_checkup(&self, checkup: &DoctorReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the detected drift.
    fn write_drift(&self, drift: &DriftReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the drift history.
    fn write_drift_history(&self, history: &DriftHistory, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `exec`.
    fn write_exec_report(&self, report: &ExecReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `test`.
    fn write_acceptance(&self, report: &AcceptanceReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `hold` and `release`.
    fn write_holds(&self, report: &HoldReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `why-slow`.
    fn write_diagnosis(&self, diagnosis: &SlowDiagnosis, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `fetch`.
    fn write_fetch_report(&self, report: &FetchReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
    /// Writes the result of `init`.
    fn write_init_result(&self, init: &InitResult, exit: ExitCode, out: &mut dyn Write) -> io::Result<()>;
}
