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
            .finish_non_exhaustive()
    }
}
