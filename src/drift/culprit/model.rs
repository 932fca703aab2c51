//! Who changed something, as a value: the actor, the time, and how sure it is.

use crate::model::Untrusted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who made a change on a machine, and when, as far as the host's own evidence tells.
///
/// All texts were said by the host. Secrets that forge knows are masked, long command lines cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    pub sure: Sure,
    /// The account on the host: `alice`, `root`. Absent where the evidence names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Untrusted>,
    /// By which means: `sudo`, `apt`, `unattended-upgrades`, `dpkg`, `systemd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Untrusted>,
    /// The command line, or what the program said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Untrusted>,
    /// When it happened. RFC 3339, UTC, by the host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What says so: `/var/log/apt/history.log`, `journal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Untrusted>,
    /// Why nobody is named: what was looked through in vain, or what could not be read. A lowercase fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Untrusted>,
}

/// How sure it is who made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sure {
    /// The evidence speaks of this very thing.
    Named,
    /// It happened around the same time, and may have nothing to do with it.
    Near,
    /// The evidence was read and names nobody.
    Nobody,
    /// The evidence could not be read: why.
    Unknown,
}
