//! The text writer for people: equal results are grouped, the worst come first.

mod causes;
pub(super) mod check_output;
mod diff;
mod doctor;
pub(super) mod drift;
mod exec;
mod explain;
mod facts;
mod fetch;
mod graph;
pub(super) mod group;
mod hold;
mod host_rows;
pub(super) mod host_values;
mod init;
pub(super) mod item_fold;
mod outliers;
mod plan;
pub(super) mod plan_sections;
pub(super) mod plan_summary;
mod problems;
mod recipes;
mod rehearsal;
mod report;
mod runs;
mod sandboxes;
pub(super) mod shared_lines;
pub(super) mod step;
#[cfg(test)]
mod tests;
mod text_writer;
mod validation;
mod why_slow;
pub(super) mod windows;

pub use text_writer::TextWriter;

use super::{InitResult, ListedRun, ManualPage, ResultWriter, SandboxList, ValidationResult};
use crate::config::{DependencyChart, RecipeDetails, RecipeSummary, SharedByHosts, StepExplanation, ValueExplanation};
use crate::diag::DiagCode;
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{
    AcceptanceReport, DoctorReport, ExecReport, FetchReport, HoldReport, PastRun, RunComparison, RunReport,
    SlowDiagnosis,
};
use crate::facts::outliers::OutlierReport;
use crate::model::ExitCode;
use crate::plan::{ObservedHost, Plan, PlanImages, RehearsalReport};
use crate::view::escape;
use std::io::{self, Write};

impl ResultWriter for TextWriter {
    fn write_rehearsal(&self, report: &RehearsalReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        rehearsal::write_rehearsal(report, out)
    }

    fn write_plan(&self, plan: &Plan, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        plan::write_plan(self, plan, out)
    }

    /// Writes one image per line and nothing else, because programs read this output too.
    fn write_images(&self, images: &PlanImages, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        images.images.keys().try_for_each(|image| writeln!(out, "{}", escape::escape_line(image)))
    }

    fn write_report(&self, report: &RunReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        report::write_report(self, report, exit, out)
    }

    fn write_facts(&self, seen: &[ObservedHost], _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        facts::write_facts(self, seen, out)
    }

    fn write_outliers(
        &self,
        seen: &[ObservedHost],
        outliers: &OutlierReport,
        _: ExitCode,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        outliers::write_outliers(self, seen, outliers, out)
    }

    fn write_sandboxes(&self, sandboxes: &SandboxList, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        sandboxes::write_sandboxes(sandboxes, out)
    }

    fn write_validation(&self, validation: &ValidationResult, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        validation::write_validation(validation, out)
    }

    fn write_graph(&self, chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
        graph::write_graph(self, chart, out)
    }

    fn write_recipes(&self, recipes: &[RecipeSummary], out: &mut dyn Write) -> io::Result<()> {
        recipes::write_recipes(recipes, out)
    }

    fn write_recipe(&self, page: &RecipeDetails, out: &mut dyn Write) -> io::Result<()> {
        recipes::write_recipe(page, out)
    }

    fn write_values(&self, pages: &[SharedByHosts<ValueExplanation>], out: &mut dyn Write) -> io::Result<()> {
        explain::write_values(pages, out)
    }

    fn write_step(&self, page: &StepExplanation, out: &mut dyn Write) -> io::Result<()> {
        explain::write_step(page, out)
    }

    fn write_error_code(&self, code: DiagCode, out: &mut dyn Write) -> io::Result<()> {
        explain::write_error_code(code, out)
    }

    fn write_manual_page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()> {
        explain::write_markdown(&page.text, out)
    }

    fn write_runs(&self, runs: &[ListedRun], out: &mut dyn Write) -> io::Result<()> {
        runs::write_runs(runs, out)
    }

    fn write_run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()> {
        runs::write_run(self, run, out)
    }

    fn write_comparison(&self, comparison: &RunComparison, out: &mut dyn Write) -> io::Result<()> {
        runs::write_comparison(comparison, out)
    }

    fn write_checkup(&self, checkup: &DoctorReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        doctor::write_checkup(self, checkup, exit, out)
    }

    fn write_drift(&self, drift: &DriftReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        drift::write_drift(self, drift, out)
    }

    fn write_drift_history(&self, history: &DriftHistory, out: &mut dyn Write) -> io::Result<()> {
        drift::write_history(history, out)
    }

    fn write_exec_report(&self, report: &ExecReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        exec::write_exec_report(report, out)
    }

    fn write_acceptance(&self, report: &AcceptanceReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        crate::view::acceptance::write_text(report, exit, out)
    }

    fn write_holds(&self, report: &HoldReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        hold::write_holds(report, out)
    }

    fn write_diagnosis(&self, diagnosis: &SlowDiagnosis, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        why_slow::write_diagnosis(diagnosis, self.verbose > 0, out)
    }

    fn write_fetch_report(&self, report: &FetchReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        fetch::write_fetch_report(self, report, out)
    }

    fn write_init_result(&self, init: &InitResult, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        init::write_init_result(self, init, out)
    }
}
