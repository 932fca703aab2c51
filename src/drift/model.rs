//! Drift as a value: what was found on which host, since when, why, and what could not be told.

use super::{Cause, Culprit, Known, Notified, Telling};
use crate::facts::outliers::Outliers;
use crate::model::{Disruption, ExitCode, HostName, Level, Untrusted, Verdict};
use crate::plan::{Reach, Warning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The form of the document. Additions keep it; anything else raises it.
pub const VERSION: u32 = 1;

/// What a run of `drift` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Of the form; see `schemas/drift.json`.
    pub version: u32,
    pub forge: String,
    /// Names the run.
    pub run: String,
    pub cluster: String,
    pub inventory: String,
    /// When the hosts had been looked at. RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// Hosts that are not real: sandboxes on the machine that forge ran on, and hosts whose hardware is a stand-in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// Every host that was looked at, in inventory order.
    pub hosts: Vec<HostDrift>,
    /// By host in inventory order, then in the order of its steps.
    pub findings: Vec<Finding>,
    /// What could not be told: never the same as "as declared".
    pub unknown: Vec<Unsure>,
    /// What was found before and is gone. Empty where no history is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<Known>,
    /// Entries of `drift.ignore` that passed something over, or whose time is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredLine>,
    /// Why no history is kept: then every finding looks new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_history: Option<String>,
    /// Who was told of what changed; empty where nobody is declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notified: Vec<Notified>,
    /// What differs from the majority of hosts that are alike, where it was asked for. It is no finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// Whether it was asked that outliers count as found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outliers_count: bool,
    pub took: Duration,
}

/// How one host was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostDrift {
    pub host: HostName,
    pub reach: Reach,
    /// Steps and verifications that are as declared.
    pub settled: usize,
    /// Steps that are judged only once a finding of the host is repaired: they are no findings of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub follow: usize,
    /// What makes one doubt that this is the host that is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    pub took: Duration,
}

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One thing on one host that is not as declared.
///
/// Host, recipe, step and attribute name it: the finding of a later run with the same names is the same finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub host: HostName,
    pub recipe: Untrusted,
    /// The step, `step` or `step[key]`; the name of a verification; the part of the hardware.
    pub step: Untrusted,
    pub aspect: Aspect,
    /// What differs: `content`, `mode`, `version` … Absent where the step is not as declared as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// The kind of resource: `file`, `package` … Empty for a verification.
    pub kind: Untrusted,
    /// What it is about: `/etc/motd`, `nginx`.
    pub title: Untrusted,
    /// The file, directory or link that the finding is about, or about a part of; absent where it is about none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Untrusted>,
    pub verdict: Verdict,
    /// A lowercase fragment: what is not as declared.
    pub reason: Untrusted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What is declared; absent for what is to be gone, and where values are withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<Untrusted>,
    /// What was seen; absent where nothing is there, and where values are withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Untrusted>,
    /// A unified diff of a body, without file headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Untrusted>,
    /// Whether values are withheld because they are secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// What the host's record says of the last verified apply; absent without a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied: Option<LastApplied>,
    pub cause: Cause,
    /// Who made the change, as far as the host tells; absent where the machine did not change, or nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Culprit>,
    pub severity: Severity,
    /// Of the repair by `apply`.
    pub disruption: Disruption,
    pub level: Level,
    /// What to do about it, for faults that no apply repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// `file:line:col` of the declaration; empty for what nobody declares.
    pub place: String,
    /// What is new about it.
    #[serde(default)]
    pub standing: Standing,
    /// When it was found first, and now. RFC 3339, UTC, by the controller's clock.
    pub first_seen: String,
    pub last_seen: String,
    /// How often it came within the last day: more than once is flapping.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u32,
    /// How many further steps of the recipe are blocked for the same reason.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub also: usize,
}

fn once() -> u32 {
    1
}

fn is_once(times: &u32) -> bool {
    *times == 1
}

/// What is new about a finding, against what was found before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It was not there before.
    #[default]
    New,
    /// It was gone for less than a day: it flaps.
    Again,
    /// It is another value now, or has another cause.
    Changed,
    /// It is as it was found before.
    Same,
}

/// An entry of `drift.ignore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IgnoredLine {
    /// `path /etc/motd` or `step base/banner`, as written.
    pub what: String,
    pub why: String,
    /// The last day on which it holds: `2027-01-31`.
    pub until: String,
    /// How many findings and unknowns it passed over.
    pub count: usize,
    /// Whether its time is over: then it passes nothing over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// `file:line:col` of the entry.
    pub place: String,
}

/// Of what a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// A step that is not as declared.
    Step,
    /// A verification that does not hold.
    Verification,
    /// Something that was applied once and is declared no more.
    Undeclared,
    /// What the hardware says of itself.
    Health,
    /// The host's node of Kubernetes, which a run drained and did not give back.
    Node,
}

/// What the record of the last verified apply says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LastApplied {
    /// The attribute's value then, where the record tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Untrusted>,
    /// When it was applied. RFC 3339, UTC: by then it was as the record says.
    pub time: Untrusted,
    pub run: Untrusted,
    /// Who applied it, from where.
    pub user: Untrusted,
    pub controller: Untrusted,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Known and meant, or of little consequence: an apply is due.
    Low,
    /// Something is not as declared.
    Medium,
    /// A verification does not hold, or the repair takes the host out of service.
    High,
    /// The hardware is at fault.
    Critical,
}

impl Severity {
    pub const WORST_FIRST: [Severity; 4] = [Self::Critical, Self::High, Self::Medium, Self::Low];

    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// The next action for a fault of hardware, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Look at the cable, the port, the switch.
    Inspect,
    /// Reset the GPU once nobody uses it.
    Reset,
    /// Give the host no more work, and reset its GPUs.
    Drain,
    /// Reboot the host once nobody uses it.
    Reboot,
    /// Cut the host's power once nobody uses it: what a reset does not bring back.
    PowerCycle,
    /// Have the part replaced.
    Rma,
}

impl Action {
    pub fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Reset => "reset",
            Self::Drain => "drain",
            Self::Reboot => "reboot",
            Self::PowerCycle => "power-cycle",
            Self::Rma => "rma",
        }
    }

    /// Returns a lowercase fragment for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Inspect => "look at it: slot, cable, switch, power",
            Self::Reset => "drain the host and reset the GPU",
            Self::Drain => "give the host no more work, then reset its GPUs",
            Self::Reboot => "drain the host and reboot it",
            Self::PowerCycle => "drain the host and power-cycle it; what stays away is replaced",
            Self::Rma => "take the host out of service and have the part replaced",
        }
    }
}

/// What could not be told of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unsure {
    pub host: HostName,
    pub recipe: Untrusted,
    /// The step, or the name of a verification.
    pub step: Untrusted,
    pub aspect: Aspect,
    /// A lowercase fragment.
    pub reason: Untrusted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub place: String,
}

/// How many of what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub hosts: usize,
    pub unreachable: usize,
    /// Hosts with at least one finding.
    pub drifted: usize,
    pub findings: usize,
    pub unknown: usize,
    /// Steps and verifications that are as declared.
    pub settled: usize,
    /// Findings and unknowns that `drift.ignore` passed over, and what was put right since the run before.
    #[serde(default)]
    pub ignored: usize,
    #[serde(default)]
    pub resolved: usize,
    /// Findings by the name of their cause, and of their severity.
    pub by_cause: BTreeMap<String, usize>,
    pub by_severity: BTreeMap<String, usize>,
}

impl Drift {
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            hosts: self.hosts.iter().filter(|host| !host.host.is_cluster()).count(),
            unreachable: self.hosts.iter().filter(|host| host.reach != Reach::Observed).count(),
            findings: self.findings.len(),
            unknown: self.unknown.len(),
            ignored: self.ignored.iter().map(|line| line.count).sum(),
            resolved: self.resolved.len(),
            settled: self.hosts.iter().map(|host| host.settled).sum(),
            ..Counts::default()
        };
        let drifted: std::collections::BTreeSet<_> = self.findings.iter().map(|finding| &finding.host).collect();
        counts.drifted = drifted.iter().filter(|host| !host.is_cluster()).count();
        for finding in &self.findings {
            *counts.by_cause.entry(finding.cause.name().to_owned()).or_default() += 1;
            *counts.by_severity.entry(finding.severity.name().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Returns the exit code that the printed drift means.
    pub fn exit_code(&self) -> ExitCode {
        let unreachable = self.hosts.iter().any(|host| host.reach != Reach::Observed);
        let holds = [
            // What was found stands; but nobody may take silence for "nothing changed".
            (self.notified.iter().any(|one| one.state == Telling::Failed), ExitCode::Unexpected),
            (unreachable, ExitCode::Unreachable),
            (!self.unknown.is_empty(), ExitCode::Unknown),
            (!self.findings.is_empty() || self.is_odd(), ExitCode::Changes),
        ];
        ExitCode::worst(holds.into_iter().filter(|(holds, _)| *holds).map(|(_, code)| code))
    }
}

impl Drift {
    /// Returns whether hosts differ from the majority, and it was asked that this counts.
    fn is_odd(&self) -> bool {
        self.outliers_count && self.outliers.as_ref().is_some_and(|outliers| !outliers.odd.is_empty())
    }
}

impl Finding {
    /// Returns whether no apply repairs it: the hardware is at fault.
    pub fn is_fault(&self) -> bool {
        self.cause == Cause::HardwareFault
    }

    /// Returns whether a plan has something to say of it.
    pub fn is_repairable(&self) -> bool {
        !matches!(self.cause, Cause::HardwareFault | Cause::NoLongerDeclared)
    }
}
