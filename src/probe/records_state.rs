//! The typed answer about the records of a host.

use crate::model::UntrustedText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Every applied record of a host, by file name, as JSON text, and the key for digests of secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordsState {
    /// The JSON text of each record, by its file name in `/var/lib/forge/applied`. May be malformed.
    pub records: BTreeMap<String, UntrustedText>,
    /// Hex of the host's 32-byte key; never recorded or shown.
    #[serde(skip)]
    pub key: Option<String>,
    /// Running `forge-*` units: name and start time.
    pub running: Vec<(String, UntrustedText)>,
    /// The record of an open window, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<UntrustedText>,
    /// The mark of a hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldMark>,
    /// The run that holds the writer lock. Not recorded: it ends soon.
    #[serde(skip)]
    pub writer: Option<WriterTrace>,
    /// Guards of earlier runs that no session confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<GuardTrace>,
}

/// A run that holds the writer lock of a host, as it describes itself there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterTrace {
    /// The run ID.
    pub run: UntrustedText,
    /// The user, controller and process: `ops@admin (pid 812)`.
    pub by: UntrustedText,
    /// When it began.
    pub since: UntrustedText,
    /// `forge apply inventory.yaml`.
    pub what: UntrustedText,
}

impl WriterTrace {
    /// Formats it as one line: `` `forge apply a.yaml` by ops@admin (pid 812), since …, run … ``.
    pub fn describe(&self) -> String {
        format!("`{}` by {}, since {}, run {}", self.what.raw(), self.by.raw(), self.since.raw(), self.run.raw())
    }
}

/// A guard of an earlier run that no session confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardTrace {
    /// Whether it has restored the state before.
    pub state: GuardState,
    /// The run that armed it.
    pub run: UntrustedText,
    /// The guarded steps: `recipe/step[key]`.
    pub steps: Vec<UntrustedText>,
    /// Its time: `5m`.
    pub time: UntrustedText,
}

/// The state of a guard that no session confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardState {
    /// It will restore the state before, or does so now.
    Armed,
    /// It restored the state before.
    Restored,
}

impl GuardTrace {
    /// Returns the names of the steps: `` `a/b` and `c/d` ``.
    pub fn list_steps(&self) -> String {
        self.steps.iter().map(|step| format!("`{}`", step.raw())).collect::<Vec<_>>().join(" and ")
    }
}

/// The mark of a hold, with the time at which it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldMark {
    /// Its JSON text. May be malformed.
    pub text: UntrustedText,
    /// The host's clock: seconds since 1970. `None` if it could not be read.
    pub now: Option<i64>,
}

/// Omits the key.
impl std::fmt::Debug for RecordsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordsState")
            .field("records", &self.records)
            .field("running", &self.running)
            .field("window", &self.window)
            .field("hold", &self.hold)
            .field("guards", &self.guards)
            .finish_non_exhaustive()
    }
}
