//! Verdicts of steps and outcomes of hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a step is impossible on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockClass {
    /// The host has not what it takes.
    Hardware,
    /// A `rule:` of the recipe does not hold.
    Rule,
    /// Something uses it now.
    Busy,
    /// Something on the host is missing or in the way: a folder, a unit, a version that apt does not offer.
    Host,
    /// What is declared makes no sense for this host: a part of a fact that does not exist, a value that does not
    /// fit its field, two names for one machine.
    Declaration,
}

impl BlockClass {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Rule => "rule",
            Self::Busy => "busy",
            Self::Host => "host",
            Self::Declaration => "declaration",
        }
    }
}

/// What a judge says of one step on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As desired.
    Ok,
    /// Differs and can be changed.
    Change,
    /// Configured, not yet effective.
    Pending,
    /// Impossible here.
    Blocked(BlockClass),
    /// Could not be judged. Never folded into `Ok`.
    Unknown,
    /// Does not concern this host.
    NotApplicable,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Change => "change",
            Self::Pending => "pending",
            Self::Blocked(_) => "blocked",
            Self::Unknown => "unknown",
            Self::NotApplicable => "not-applicable",
        }
    }

    /// Returns whether nothing is left to do or to find out.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Ok | Self::NotApplicable)
    }
}

/// What a run came to on one host. None is folded into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Changed,
    Pending,
    Blocked,
    Stale,
    Locked,
    Failed,
    Unreachable,
    Skipped,
    Cancelled,
}

impl Outcome {
    pub const ALL: [Outcome; 10] = [
        Self::Ok,
        Self::Changed,
        Self::Pending,
        Self::Blocked,
        Self::Stale,
        Self::Locked,
        Self::Failed,
        Self::Unreachable,
        Self::Skipped,
        Self::Cancelled,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Changed => "changed",
            Self::Pending => "pending",
            Self::Blocked => "blocked",
            Self::Stale => "stale",
            Self::Locked => "locked",
            Self::Failed => "failed",
            Self::Unreachable => "unreachable",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}
