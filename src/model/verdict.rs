//! Verdicts on steps and outcomes of hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason why a step is impossible on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockClass {
    /// The host lacks the required hardware.
    Hardware,
    /// A `rule:` of the recipe is not satisfied.
    Rule,
    /// The resource is in use.
    Busy,
    /// Something on the host is missing or conflicts: a directory, a unit, a version that apt does not offer.
    Host,
    /// The declaration is invalid for this host: a part of a fact that does not exist, a value that does not fit its
    /// field, two names for one machine.
    Declaration,
}

impl BlockClass {
    /// Returns the name in machine formats.
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

/// The assessment of one step on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepVerdict {
    /// Matches the declared state.
    Ok,
    /// Differs and can be changed.
    Change,
    /// Configured, not yet effective.
    Pending,
    /// Impossible on this host.
    Blocked(BlockClass),
    /// Could not be evaluated. Never counted as `Ok`.
    Unknown,
    /// Does not apply to this host.
    NotApplicable,
}

impl StepVerdict {
    /// Returns the name in machine formats. A blocked step is `blocked` for every class.
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

    /// Reports whether no change or evaluation is outstanding.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Ok | Self::NotApplicable)
    }
}

/// The outcome of a run on one host. Outcomes are never merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostOutcome {
    /// Nothing had to be changed, and nothing failed.
    Ok,
    /// At least one step was changed, and nothing failed or is pending.
    Changed,
    /// Changes are done, but a reload, restart or reboot that this run does not allow is still needed.
    Pending,
    /// A step is impossible on this host, or forge may not change the host.
    Blocked,
    /// The host changed since the plan was made, so that a step or the whole host was not executed.
    Stale,
    /// Another run holds the host's writer lock, so that this run changed nothing on it.
    Locked,
    /// A step, a verification or the return to service failed, or a reachable host could not be worked on.
    Failed,
    /// The host could not be contacted, or its connection was lost during the run.
    Unreachable,
    /// A step or a verification could not be evaluated; nothing failed. Other steps may have been changed.
    Unknown,
    /// A step was skipped; nothing failed, and nothing is unknown.
    Skipped,
    /// The run ended before the host was finished.
    Cancelled,
    /// The run still works on the host, or has not begun there: only in a run that is read while it is in progress.
    Running,
}

impl HostOutcome {
    /// Every outcome, the successful ones first.
    pub const ALL: [HostOutcome; 12] = [
        Self::Ok,
        Self::Changed,
        Self::Pending,
        Self::Blocked,
        Self::Stale,
        Self::Locked,
        Self::Failed,
        Self::Unreachable,
        Self::Unknown,
        Self::Skipped,
        Self::Cancelled,
        Self::Running,
    ];

    /// Returns the name in machine formats.
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
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Running => "running",
        }
    }
}
