//! Drift as one document, and as one message per line: the version first, then the results, then the end.

use super::exit_info::ExitInfo;
use super::formatter;
use super::read_recording::ReadRecording;
use crate::drift::{
    DRIFT_VERSION, DriftCounts, DriftFinding, DriftHistory, DriftReport, HostDrift, IgnoreRuleResult, KnownFinding,
    UndecidedItem,
};
use crate::model::{ExitCode, HostName};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

#[derive(Serialize, JsonSchema)]
pub struct DriftBody<'a> {
    pub counts: DriftCounts,
    pub drift: &'a DriftReport,
}

#[derive(Serialize, JsonSchema)]
pub struct HistoryBody<'a> {
    pub drift_history: &'a DriftHistory,
}

/// One line of `drift --format ndjson`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum DriftMessage<'a> {
    /// The first line: the format version of the other lines, and the run.
    Version {
        version: u32,
        forge: &'a str,
        run: &'a str,
        cluster: &'a str,
        inventory: &'a str,
        /// RFC 3339, UTC.
        time: &'a str,
        simulated: &'a [HostName],
        /// The recordings that the findings are from, with `--observed`; absent without it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        recordings: Vec<ReadRecording<'a>>,
    },
    /// One per observed host.
    Host {
        #[serde(flatten)]
        host: &'a HostDrift,
    },
    Finding {
        #[serde(flatten)]
        finding: &'a DriftFinding,
    },
    /// A step or verification that could not be evaluated.
    Unknown {
        #[serde(flatten)]
        unknown: &'a UndecidedItem,
    },
    /// A finding of an earlier run that no longer exists.
    Resolved {
        #[serde(flatten)]
        resolved: &'a KnownFinding,
    },
    /// An entry of `drift.ignore` that matched a finding or is expired.
    Ignored {
        #[serde(flatten)]
        ignored: &'a IgnoreRuleResult,
    },
    /// The last line. A stream without it is incomplete.
    End { counts: DriftCounts, exit: ExitInfo, took: Duration },
}

/// Writes one message per line.
pub fn write_drift_messages<'a>(
    drift: &'a DriftReport,
    exit: ExitCode,
    recordings: Vec<ReadRecording<'a>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let DriftReport { forge, run, cluster, inventory, time, simulated, .. } = drift;
    write_message(
        &DriftMessage::Version { version: DRIFT_VERSION, forge, run, cluster, inventory, time, simulated, recordings },
        out,
    )?;
    drift.hosts.iter().try_for_each(|host| write_message(&DriftMessage::Host { host }, out))?;
    drift.findings.iter().try_for_each(|finding| write_message(&DriftMessage::Finding { finding }, out))?;
    drift.unknown.iter().try_for_each(|unknown| write_message(&DriftMessage::Unknown { unknown }, out))?;
    drift.resolved.iter().try_for_each(|resolved| write_message(&DriftMessage::Resolved { resolved }, out))?;
    drift.ignored.iter().try_for_each(|ignored| write_message(&DriftMessage::Ignored { ignored }, out))?;
    write_message(
        &DriftMessage::End { counts: drift.count_findings(), exit: ExitInfo::from_code(exit), took: drift.took },
        out,
    )
}

fn write_message(message: &DriftMessage<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::EscapingFormatter::compact());
    message.serialize(&mut serializer)?;
    writeln!(out)
}
