//! `--report FORMAT=FILE`: findings of drift in files, in addition to the output on stdout.

use super::atomic_file;
use super::backend::Backend;
use super::error::CliError;
use super::shared_args::OutputFormat;
use super::verb_context::VerbContext;
use crate::drift::{DriftReport, DriftRunSummary};
use crate::model::ExitCode;
use crate::view::{JsonWriter, RecordingFile, ResultWriter, TextWriter, drift as reports};
use camino::{Utf8Path, Utf8PathBuf};
use clap::ValueEnum;
use jiff::Timestamp;
use std::io::{self, Write};
use std::str::FromStr;

/// One report to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportTarget {
    pub format: OutputFormat,
    pub path: Utf8PathBuf,
}

impl FromStr for ReportTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected `FORMAT=FILE`; formats: {}", list_report_formats().join(", "));
        let (format, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or_else(wrong)?;
        let format =
            OutputFormat::from_str(format, false).ok().filter(|format| is_report_format(*format)).ok_or_else(wrong)?;
        Ok(Self { format, path: path.into() })
    }
}

fn list_report_formats() -> Vec<&'static str> {
    OutputFormat::value_variants()
        .iter()
        .filter(|format| is_report_format(**format))
        .map(|format| format.name())
        .collect()
}

fn is_report_format(format: OutputFormat) -> bool {
    !matches!(format, OutputFormat::Dot | OutputFormat::Mermaid | OutputFormat::Skopeo)
}

/// Checks that every report can be written to a file of its own, before work starts whose result would be lost.
///
/// # Errors
/// A file cannot be written, or two reports have the same file.
pub fn check_report_files(reports: &[ReportTarget]) -> Result<(), CliError> {
    for (at, report) in reports.iter().enumerate() {
        if reports[..at].iter().any(|other| other.path == report.path) {
            let error = CliError::usage(format!("two reports have the same file `{}`", report.path));
            return Err(error.hint("use a different file for each `--report`"));
        }
        atomic_file::check_writable(&report.path)?;
    }
    Ok(())
}

/// The content of reports.
pub struct DriftReportSource {
    pub drift: DriftReport,
    pub exit: ExitCode,
    runs: Vec<DriftRunSummary>,
    last_success: Option<Timestamp>,
    /// The recordings from which the findings are.
    recordings: Vec<RecordingFile>,
    /// Lines about them.
    head: String,
    json: JsonWriter,
}

impl DriftReportSource {
    /// Adds the history to the findings, if one of the `formats` shows it.
    pub fn new<B: Backend>(
        cx: &VerbContext<'_, B>,
        project: &B::Project,
        drift: DriftReport,
        formats: &[OutputFormat],
    ) -> Self {
        let exit = drift.exit_code();
        let wants = |format| formats.contains(&format);
        // Recorded answers describe an earlier state and are not part of the history.
        let is_of_today = cx.settings.replay.observed.is_none();
        let now = drift.time.parse().ok().filter(|_| is_of_today && reports::is_conclusive(exit));
        let is_asked = wants(OutputFormat::Html) || wants(OutputFormat::Prometheus) && now.is_none();
        let history = (is_asked && is_of_today).then(|| cx.backend.read_drift_history(project, None, cx.settings));
        // The findings report why there is no history.
        let runs = history.and_then(Result::ok).map(|history| history.runs).unwrap_or_default();
        let last_success = now.or_else(|| runs.iter().rev().find_map(success_time));
        Self {
            drift,
            exit,
            runs,
            last_success,
            recordings: cx.settings.recordings.clone(),
            head: cx.render_recordings(),
            json: JsonWriter::new(&cx.settings.recordings),
        }
    }

    fn to_report_data(&self, last_success: Option<Timestamp>) -> reports::DriftReportInput<'_> {
        let recordings = self.recordings.as_slice();
        reports::DriftReportInput { drift: &self.drift, exit: self.exit, runs: &self.runs, last_success, recordings }
    }

    /// Writes every report, even after one fails.
    ///
    /// # Errors
    /// The first file that cannot be written.
    pub fn write_report_files(&self, reports: &[ReportTarget], text: &TextWriter) -> Result<(), CliError> {
        let written: Vec<_> = reports.iter().map(|report| self.write_report_file(report, text)).collect();
        written.into_iter().collect()
    }

    fn write_report_file(&self, report: &ReportTarget, text: &TextWriter) -> Result<(), CliError> {
        let before = match report.format {
            OutputFormat::Prometheus => read_earlier_success(&report.path, &self.drift.cluster),
            _ => None,
        };
        let told = self.to_report_data(self.last_success.max(before));
        let head = if report.format == OutputFormat::Text { self.head.as_str() } else { "" };
        atomic_file::replace_file(&report.path, |out| {
            write!(out, "{head}")?;
            write_report(report.format, &told, (text, &self.json), out)
        })
    }

    /// Writes in one format.
    pub fn write_format(&self, format: OutputFormat, text: &TextWriter, out: &mut dyn Write) -> io::Result<()> {
        write_report(format, &self.to_report_data(self.last_success), (text, &self.json), out)
    }
}

fn success_time(run: &DriftRunSummary) -> Option<Timestamp> {
    let whole = [ExitCode::Done, ExitCode::Changes].iter().any(|exit| exit.code() == run.exit);
    whole.then(|| run.time.parse().ok()).flatten()
}

/// Reads the time of the last successful run from the report that is about to be replaced: only that run knew it.
fn read_earlier_success(path: &Utf8Path, cluster: &str) -> Option<Timestamp> {
    // Reading a pipe would block, and a pipe keeps no earlier report.
    fs_err::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    reports::parse_last_success(&fs_err::read_to_string(path).ok()?, cluster)
}

fn write_report(
    format: OutputFormat,
    told: &reports::DriftReportInput<'_>,
    (text, json): (&TextWriter, &JsonWriter),
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        OutputFormat::Json => json.write_drift(told.drift, told.exit, out),
        OutputFormat::Ndjson => json.write_drift_messages(told.drift, told.exit, out),
        OutputFormat::Markdown => reports::write_markdown(told, out),
        OutputFormat::Junit => reports::write_junit(told, out),
        OutputFormat::Sarif => reports::write_sarif(told, out),
        OutputFormat::Prometheus => reports::write_prometheus(told, out),
        OutputFormat::Html => reports::write_html(told, out),
        OutputFormat::Text | OutputFormat::Dot | OutputFormat::Mermaid | OutputFormat::Skopeo => {
            write_plain_text(told, text, out)
        }
    }
}

/// Writes text without colors, because a file is not a terminal.
fn write_plain_text(told: &reports::DriftReportInput<'_>, text: &TextWriter, out: &mut dyn Write) -> io::Result<()> {
    let mut coloured = Vec::new();
    text.write_drift(told.drift, told.exit, &mut coloured)?;
    let text = String::from_utf8_lossy(&coloured);
    write!(out, "{}", anstream::adapter::strip_str(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_target_is_parsed_as_format_and_file() {
        let report = |format, path: &str| Ok(ReportTarget { format, path: path.into() });
        assert_eq!("html=a=b.html".parse(), report(OutputFormat::Html, "a=b.html"));
        assert_eq!("junit=/x".parse(), report(OutputFormat::Junit, "/x"));
        let wrong = "expected `FORMAT=FILE`; formats: text, json, ndjson, markdown, junit, sarif, prometheus, html";
        for text in ["html", "html=", "dot=x", "pdf=x", "=x", ""] {
            assert_eq!(text.parse::<ReportTarget>(), Err(wrong.to_owned()), "{text}");
        }
    }
}
