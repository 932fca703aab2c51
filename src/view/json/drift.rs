//! Drift as one document, and as one message per line: the version first, then the results, then the end.

use super::{Exit, formatter};
use crate::drift::{Counts, Drift, Finding, History, HostDrift, IgnoredLine, Known, Unsure, VERSION};
use crate::model::{ExitCode, HostName};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

#[derive(Serialize, JsonSchema)]
pub struct DriftBody<'a> {
    pub counts: Counts,
    pub drift: &'a Drift,
}

#[derive(Serialize, JsonSchema)]
pub struct HistoryBody<'a> {
    pub drift_history: &'a History,
}

/// One line of `drift --format ndjson`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "message")]
pub enum Message<'a> {
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
    },
    /// One per observed host.
    Host {
        #[serde(flatten)]
        host: &'a HostDrift,
    },
    Finding {
        #[serde(flatten)]
        finding: &'a Finding,
    },
    /// A step or verification that could not be evaluated.
    Unknown {
        #[serde(flatten)]
        unknown: &'a Unsure,
    },
    /// A finding of an earlier run that no longer exists.
    Resolved {
        #[serde(flatten)]
        resolved: &'a Known,
    },
    /// An entry of `drift.ignore` that matched a finding or is expired.
    Ignored {
        #[serde(flatten)]
        ignored: &'a IgnoredLine,
    },
    /// The last line. A stream without it is incomplete.
    End { counts: Counts, exit: Exit, took: Duration },
}

/// Writes one message per line.
pub fn messages(drift: &Drift, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    let Drift { forge, run, cluster, inventory, time, simulated, .. } = drift;
    line(&Message::Version { version: VERSION, forge, run, cluster, inventory, time, simulated }, out)?;
    drift.hosts.iter().try_for_each(|host| line(&Message::Host { host }, out))?;
    drift.findings.iter().try_for_each(|finding| line(&Message::Finding { finding }, out))?;
    drift.unknown.iter().try_for_each(|unknown| line(&Message::Unknown { unknown }, out))?;
    drift.resolved.iter().try_for_each(|resolved| line(&Message::Resolved { resolved }, out))?;
    drift.ignored.iter().try_for_each(|ignored| line(&Message::Ignored { ignored }, out))?;
    line(&Message::End { counts: drift.counts(), exit: Exit::of(exit), took: drift.took }, out)
}

fn line(message: &Message<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter::Harmless::compact());
    message.serialize(&mut serializer)?;
    writeln!(out)
}
