//! `--report FORMAT=FILE`: findings of drift in files, in addition to the output on stdout.

use super::args::Format;
use super::backend::Backend;
use super::error::CliError;
use super::file;
use super::run::Cx;
use crate::drift::{Drift, RunLine};
use crate::model::ExitCode;
use crate::view::{self, Json, Text, Writer, drift as reports};
use camino::{Utf8Path, Utf8PathBuf};
use clap::ValueEnum;
use jiff::Timestamp;
use std::io::{self, Write};
use std::str::FromStr;

/// One report to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub format: Format,
    pub path: Utf8PathBuf,
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected `FORMAT=FILE`; formats: {}", formats().join(", "));
        let (format, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or_else(wrong)?;
        let format = Format::from_str(format, false).ok().filter(|format| is_report(*format)).ok_or_else(wrong)?;
        Ok(Self { format, path: path.into() })
    }
}

fn formats() -> Vec<&'static str> {
    Format::value_variants().iter().filter(|format| is_report(**format)).map(|format| format.name()).collect()
}

fn is_report(format: Format) -> bool {
    !matches!(format, Format::Dot | Format::Mermaid)
}

/// Checks that every report can be written to a file of its own, before work starts whose result would be lost.
///
/// # Errors
/// A file cannot be written, or two reports have the same file.
pub fn check(reports: &[Report]) -> Result<(), CliError> {
    for (at, report) in reports.iter().enumerate() {
        if reports[..at].iter().any(|other| other.path == report.path) {
            let error = CliError::usage(format!("two reports have the same file `{}`", report.path));
            return Err(error.hint("use a different file for each `--report`"));
        }
        file::check(&report.path)?;
    }
    Ok(())
}

/// The content of reports.
pub struct Found {
    pub drift: Drift,
    pub exit: ExitCode,
    runs: Vec<RunLine>,
    last_success: Option<Timestamp>,
}

impl Found {
    /// Adds the history to the findings, if one of the `formats` shows it.
    pub fn new<B: Backend>(cx: &Cx<'_, B>, project: &B::Project, drift: Drift, formats: &[Format]) -> Self {
        let exit = drift.exit_code();
        let wants = |format| formats.contains(&format);
        // Recorded answers describe an earlier state and are not part of the history.
        let is_of_today = cx.settings.replay.observed.is_none();
        let now = drift.time.parse().ok().filter(|_| is_of_today && reports::is_whole(exit));
        let is_asked = wants(Format::Html) || wants(Format::Prometheus) && now.is_none();
        let history = (is_asked && is_of_today).then(|| cx.backend.drift_history(project, None, cx.settings));
        // The findings report why there is no history.
        let runs = history.and_then(Result::ok).map(|history| history.runs).unwrap_or_default();
        let last_success = now.or_else(|| runs.iter().rev().find_map(success));
        Self { drift, exit, runs, last_success }
    }

    fn told(&self, last_success: Option<Timestamp>) -> reports::Told<'_> {
        reports::Told { drift: &self.drift, exit: self.exit, runs: &self.runs, last_success }
    }

    /// Writes every report, even after one fails.
    ///
    /// # Errors
    /// The first file that cannot be written.
    pub fn write_all(&self, reports: &[Report], text: &Text) -> Result<(), CliError> {
        let written: Vec<_> = reports.iter().map(|report| self.replace(report, text)).collect();
        written.into_iter().collect()
    }

    fn replace(&self, report: &Report, text: &Text) -> Result<(), CliError> {
        let before = match report.format {
            Format::Prometheus => earlier_success(&report.path, &self.drift.cluster),
            _ => None,
        };
        let told = self.told(self.last_success.max(before));
        file::replace(&report.path, |out| write(report.format, &told, text, out))
    }

    /// Writes in one format.
    pub fn write(&self, format: Format, text: &Text, out: &mut dyn Write) -> io::Result<()> {
        write(format, &self.told(self.last_success), text, out)
    }
}

fn success(run: &RunLine) -> Option<Timestamp> {
    let whole = [ExitCode::Done, ExitCode::Changes].iter().any(|exit| exit.code() == run.exit);
    whole.then(|| run.time.parse().ok()).flatten()
}

/// Reads the time of the last successful run from the report that is about to be replaced: only that run knew it.
fn earlier_success(path: &Utf8Path, cluster: &str) -> Option<Timestamp> {
    // Reading a pipe would block, and a pipe keeps no earlier report.
    fs_err::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    reports::last_success(&fs_err::read_to_string(path).ok()?, cluster)
}

fn write(format: Format, told: &reports::Told<'_>, text: &Text, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Json => Json.drift(told.drift, told.exit, out),
        Format::Ndjson => view::drift_messages(told.drift, told.exit, out),
        Format::Markdown => reports::markdown(told, out),
        Format::Junit => reports::junit(told, out),
        Format::Sarif => reports::sarif(told, out),
        Format::Prometheus => reports::prometheus(told, out),
        Format::Html => reports::html(told, out),
        Format::Text | Format::Dot | Format::Mermaid => plain(told, text, out),
    }
}

/// Writes text without colors, because a file is not a terminal.
fn plain(told: &reports::Told<'_>, text: &Text, out: &mut dyn Write) -> io::Result<()> {
    let mut coloured = Vec::new();
    text.drift(told.drift, told.exit, &mut coloured)?;
    let text = String::from_utf8_lossy(&coloured);
    write!(out, "{}", anstream::adapter::strip_str(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_format_and_a_file() {
        let report = |format, path: &str| Ok(Report { format, path: path.into() });
        assert_eq!("html=a=b.html".parse(), report(Format::Html, "a=b.html"));
        assert_eq!("junit=/x".parse(), report(Format::Junit, "/x"));
        let wrong = "expected `FORMAT=FILE`; formats: text, json, ndjson, markdown, junit, sarif, prometheus, html";
        for text in ["html", "html=", "dot=x", "pdf=x", "=x", ""] {
            assert_eq!(text.parse::<Report>(), Err(wrong.to_owned()), "{text}");
        }
    }
}
