//! Drift reports in file formats: one module per format, each a pure function of the same value.
//!
//! Architecture Invariant: the texts about a finding are collected once, in `about`; a format only lays them out. A
//! text that is added there appears in every format.

#[cfg(test)]
pub(in crate::view) mod empty_fields;
pub(in crate::view) mod finding_details;
pub(in crate::view) mod html;
mod junit;
mod markdown;
mod prometheus;
mod sarif;
#[cfg(test)]
mod tests;

pub use html::write_html;
pub use junit::write_junit;
pub use markdown::write_markdown;
pub use prometheus::{parse_last_success, write_prometheus};
pub use sarif::write_sarif;

use crate::drift::{DriftReport, DriftRunSummary};
use crate::model::{ExitCode, HostName};
use crate::view::recording_files::{RecordingFile, list_recording_files};
use jiff::Timestamp;

/// The input of a drift report.
#[derive(Clone, Copy, Debug)]
pub struct DriftReportInput<'a> {
    /// The result of this run.
    pub drift: &'a DriftReport,
    /// The exit code of the process.
    pub exit: ExitCode,
    /// Past runs, oldest first, this run last. Empty without a history.
    pub runs: &'a [DriftRunSummary],
    /// When a run last evaluated every host completely. `None` if unknown.
    pub last_success: Option<Timestamp>,
    /// The recordings that the findings are from; empty if the hosts were contacted.
    pub recordings: &'a [RecordingFile],
}

impl DriftReportInput<'_> {
    /// Returns an unescaped description of each recording.
    fn list_recordings(&self) -> Vec<String> {
        // Without the time of the run, no recording has an age.
        let now = self.drift.time.parse().unwrap_or(Timestamp::MIN);
        list_recording_files(self.recordings, now)
    }
}

/// Reports whether a run with this exit code evaluated every host completely, with or without findings.
pub fn is_conclusive(exit: ExitCode) -> bool {
    matches!(exit, ExitCode::Done | ExitCode::Changes)
}

/// Returns hosts folded to ranges, unescaped.
fn fold_hosts(hosts: &[&HostName]) -> String {
    super::fold::fold_names(hosts.iter().map(|host| host.as_str()))
}
