//! The text writer for people: equal results are grouped, the worst come first.

mod causes;
mod chart;
mod check;
pub(super) mod closing;
mod diff;
mod doctor;
pub(super) mod drift;
mod exec;
mod explain;
mod facts;
mod fetch;
pub(super) mod group;
pub(super) mod host_values;
mod init;
mod outliers;
mod plan;
mod problems;
mod recipes;
mod report;
mod rows;
mod runs;
mod sandboxes;
pub(super) mod sections;
pub(super) mod step;
#[cfg(test)]
mod tests;
mod validation;
pub(super) mod windows;

use super::{InitResult, ListedRun, ManualPage, ResultWriter, SandboxList, ValidationResult};
use crate::config::{DependencyChart, RecipeDetails, RecipeSummary, SharedByHosts, StepExplanation, ValueExplanation};
use crate::diag::Code;
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{DoctorReport, ExecReport, FetchReport, PastRun, RunComparison, RunReport};
use crate::facts::outliers::OutlierReport;
use crate::model::{ExitCode, HostName};
use crate::plan::{ObservedHost, Plan, PlanImages};
use crate::view::escape;
use std::io::{self, Write};

/// Writes for a terminal. Always writes colours; pass a stream that strips them if they are not wanted.
#[derive(Clone, Debug, Default)]
pub struct TextWriter {
    /// 1 or more also shows unchanged steps, and the reason and source location of every step.
    pub verbose: u8,
    /// Arguments of the suggested next command (`inventory.yaml --on gpu`), quoted for a shell.
    /// `None` suppresses the suggestion.
    pub target: Option<String>,
}

impl TextWriter {
    fn next(&self, verb: &str, out: &mut dyn Write) -> io::Result<()> {
        match self.target.as_deref() {
            None => Ok(()),
            Some("") => writeln!(out, "next: forge {verb}"),
            Some(target) => writeln!(out, "next: forge {verb} {}", super::escape::line(target)),
        }
    }
}

impl ResultWriter for TextWriter {
    fn plan(&self, plan: &Plan, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        plan::write(self, plan, out)
    }

    /// Writes one image per line and nothing else, because programs read this output too.
    fn images(&self, images: &PlanImages, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        images.images.keys().try_for_each(|image| writeln!(out, "{}", escape::line(image)))
    }

    fn report(&self, report: &RunReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        report::write(self, report, exit, out)
    }

    fn facts(&self, seen: &[ObservedHost], _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        facts::write(self, seen, out)
    }

    fn outliers(
        &self,
        seen: &[ObservedHost],
        outliers: &OutlierReport,
        _: ExitCode,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        outliers::write(self, seen, outliers, out)
    }

    fn sandboxes(&self, sandboxes: &SandboxList, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        sandboxes::write(sandboxes, out)
    }

    fn validation(&self, validation: &ValidationResult, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        validation::write(validation, out)
    }

    fn graph(&self, chart: &DependencyChart, out: &mut dyn Write) -> io::Result<()> {
        chart::write(self, chart, out)
    }

    fn recipes(&self, recipes: &[RecipeSummary], out: &mut dyn Write) -> io::Result<()> {
        recipes::list(recipes, out)
    }

    fn recipe(&self, page: &RecipeDetails, out: &mut dyn Write) -> io::Result<()> {
        recipes::page(page, out)
    }

    fn values(&self, pages: &[SharedByHosts<ValueExplanation>], out: &mut dyn Write) -> io::Result<()> {
        explain::values(pages, out)
    }

    fn step(&self, page: &StepExplanation, out: &mut dyn Write) -> io::Result<()> {
        explain::step(page, out)
    }

    fn code(&self, code: Code, out: &mut dyn Write) -> io::Result<()> {
        explain::code(code, out)
    }

    fn page(&self, page: &ManualPage, out: &mut dyn Write) -> io::Result<()> {
        explain::markdown(&page.text, out)
    }

    fn runs(&self, runs: &[ListedRun], out: &mut dyn Write) -> io::Result<()> {
        runs::list(runs, out)
    }

    fn run(&self, run: &PastRun, out: &mut dyn Write) -> io::Result<()> {
        runs::one(self, run, out)
    }

    fn comparison(&self, comparison: &RunComparison, out: &mut dyn Write) -> io::Result<()> {
        runs::comparison(comparison, out)
    }

    fn doctor(&self, checkup: &DoctorReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        doctor::write(self, checkup, exit, out)
    }

    fn drift(&self, drift: &DriftReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        drift::write(self, drift, out)
    }

    fn drift_history(&self, history: &DriftHistory, out: &mut dyn Write) -> io::Result<()> {
        drift::history(history, out)
    }

    fn exec(&self, report: &ExecReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        exec::write(report, out)
    }

    fn fetch(&self, report: &FetchReport, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        fetch::write(self, report, out)
    }

    fn init(&self, init: &InitResult, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        init::write(self, init, out)
    }
}

/// Lists simulated hosts first, before any result about them.
fn simulated<'a>(hosts: impl IntoIterator<Item = &'a HostName>, out: &mut dyn Write) -> io::Result<()> {
    let folded = super::fold::fold(hosts.into_iter().map(HostName::as_str));
    match folded.as_str() {
        "" => Ok(()),
        hosts => writeln!(out, "simulated, no real hardware: {}\n", super::escape::line(hosts)),
    }
}

/// Returns `on node-01`, or `= same on 9 hosts: gpu[02:10]`.
fn on_hosts(hosts: &[&HostName]) -> String {
    let folded = super::fold::fold(hosts.iter().map(|host| host.as_str()));
    let folded = super::escape::line(&folded);
    match hosts {
        [_] => format!("on {folded}"),
        _ => format!("= same on {}: {folded}", super::words::places_of(hosts.iter().copied())),
    }
}
