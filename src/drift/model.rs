//! The result of a drift check: findings by host, with age and cause, and what could not be evaluated.

use super::finding_severity::FindingSeverity;
use super::{ChangeSource, DriftCause, DriftNotification, KnownFinding, NotificationState};
use crate::facts::outliers::OutlierReport;
use crate::model::{DisruptionClass, ExitCode, HostName, StepVerdict, UntrustedText, VerifyLevel};
use crate::plan::{CheckRun, HostReachability, HostWarning};
use crate::resource::{ChangeMark, ChangedObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Version of the document. Compatible additions keep it; any other change increments it.
pub const DRIFT_VERSION: u32 = 1;

/// The result of `forge drift`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftReport {
    /// Format version; see `schemas/drift.json`.
    pub version: u32,
    /// The version of forge that made the report.
    pub forge: String,
    /// The run ID.
    pub run: String,
    /// The name of the cluster in the inventory.
    pub cluster: String,
    /// The path of the inventory, as given on the command line.
    pub inventory: String,
    /// When the observation of the hosts ended. RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// Simulated hosts: sandboxes on the machine that runs forge, and hosts with simulated hardware.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<HostName>,
    /// Every checked host, in inventory order.
    pub hosts: Vec<HostDrift>,
    /// By host in inventory order, then in the order of its steps.
    pub findings: Vec<DriftFinding>,
    /// Steps and verifications that could not be evaluated: they neither match nor differ.
    pub unknown: Vec<UndecidedItem>,
    /// Earlier findings that are resolved. Empty without a history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<KnownFinding>,
    /// Entries of `drift.ignore` that matched a finding, or have expired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoreRuleResult>,
    /// Steps and verifications with an ignored finding: host, recipe and step.
    #[serde(skip)]
    pub ignored_steps: BTreeSet<(HostName, String, String)>,
    /// Why no history is available: then every finding counts as new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_history: Option<String>,
    /// Recipients of notifications; empty if none are declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notified: Vec<DriftNotification>,
    /// Differences from the majority of similar hosts, if requested. They are not findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outliers: Option<OutlierReport>,
    /// Whether outliers count as drift.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outliers_count: bool,
    /// Duration of the observation of all hosts.
    pub took: Duration,
}

/// The check of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostDrift {
    /// The checked host, or `kubernetes` for the cluster's API.
    pub host: HostName,
    /// Whether the host was observed, or why not.
    pub reach: HostReachability,
    /// Steps and verifications that match.
    pub settled: usize,
    /// Steps that can be evaluated only once others match, which differ or are unknown, perhaps ignored by `drift.ignore`:
    /// they are not separate findings.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub follow: usize,
    /// Indications that this is another host than the intended one, and the hold that keeps apply from changing it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<HostWarning>,
    /// Duration of the observation of this host.
    pub took: Duration,
}

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One difference of one host from its declaration.
///
/// Host, recipe, step and attribute identify it: a finding of a later run with the same values is the same finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriftFinding {
    /// The host that differs; `kubernetes` for an object of the cluster.
    pub host: HostName,
    /// The recipe of the step or verification; `hardware`, `kubernetes`, `records`, `rollout` or `tests` for findings without
    /// a recipe.
    pub recipe: UntrustedText,
    /// The step, `step` or `step[key]`; the name of a verification; the part of the hardware.
    pub step: UntrustedText,
    /// Where the finding results from: a step, a verification, a hardware fact and so on.
    pub aspect: FindingAspect,
    /// The differing attribute: `content`, `mode`, `version` … Absent if the step differs as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// What differs, for code.
    #[serde(skip)]
    pub mark: ChangeMark,
    /// The object that differs, as the host's logs name it.
    #[serde(skip)]
    pub object: ChangedObject,
    /// The kind of resource: `file`, `package` … Empty for a verification.
    pub kind: UntrustedText,
    /// The object: `/etc/motd`, `nginx`.
    pub title: UntrustedText,
    /// The file, directory or link that the finding concerns, completely or in part; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<UntrustedText>,
    /// The assessment of the step; a failed verification is `change`.
    pub verdict: StepVerdict,
    /// A lowercase fragment that describes the difference.
    pub reason: UntrustedText,
    /// The next action for the user; absent if there is no advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The declared value; absent for objects declared as absent, and if values are withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<UntrustedText>,
    /// The observed value; absent if the object does not exist, and if values are withheld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<UntrustedText>,
    /// A unified diff of a body, without file headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<UntrustedText>,
    /// The check that reports the difference, if a script does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Box<CheckRun>>,
    /// Whether values are withheld because they are secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// The host's record of the last verified apply; absent without a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied: Option<LastApplied>,
    /// Why it differs.
    pub cause: DriftCause,
    /// Whether the cause is `recipe-changed` and the record has no value to compare with the machine: whether the machine
    /// changed too is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncompared: bool,
    /// Who made the change, if the host has evidence; absent if the machine did not change, or was not queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<ChangeSource>,
    /// How urgent the finding is.
    pub severity: FindingSeverity,
    /// Disruption class of the repair by `apply`.
    pub disruption: DisruptionClass,
    /// The verification level of the step or verification.
    pub level: VerifyLevel,
    /// The next action, for faults that no apply repairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<RepairAction>,
    /// `file:line:col` of the declaration; empty if there is none.
    pub place: String,
    /// The change since the previous run.
    #[serde(default)]
    pub standing: FindingNovelty,
    /// When it was found first, and last. RFC 3339, UTC, by the controller's clock.
    pub first_seen: String,
    /// When it was found last: the time of this run. RFC 3339, UTC, by the controller's clock.
    pub last_seen: String,
    /// How often it appeared within the last day: more than once means flapping.
    #[serde(default = "default_times", skip_serializing_if = "is_once")]
    pub times: u32,
    /// Number of further steps of the recipe that are blocked for the same reason.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub also: usize,
}

fn default_times() -> u32 {
    1
}

fn is_once(times: &u32) -> bool {
    *times == 1
}

/// The state of a finding compared with earlier runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingNovelty {
    /// It was not found before.
    #[default]
    New,
    /// It was resolved for less than a day: it flaps.
    Again,
    /// It has another value or another cause now.
    Changed,
    /// It is unchanged.
    Same,
}

/// An entry of `drift.ignore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IgnoreRuleResult {
    /// `path /etc/motd` or `step base/banner`, as written.
    pub what: String,
    /// The reason given in the entry.
    pub why: String,
    /// The last day on which the entry is effective: `2027-01-31`.
    pub until: String,
    /// Number of findings and unknowns that it ignored.
    pub count: usize,
    /// Whether it has expired: then it ignores nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// `file:line:col` of the entry.
    pub place: String,
}

/// The origin of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingAspect {
    /// A step that differs.
    Step,
    /// A failed verification.
    Verification,
    /// An object that was applied and is no longer declared.
    Undeclared,
    /// A hardware fault.
    Health,
    /// The host's Kubernetes node, which a run drained and did not uncordon.
    Node,
    /// The host's window, which a run left open: the host is out of service.
    Window,
    /// A set of acceptance tests that is due.
    Proof,
}

impl FindingAspect {
    /// Reports whether an apply changes what such a finding is about.
    pub fn is_changed_by_apply(self) -> bool {
        match self {
            Self::Step | Self::Verification | Self::Undeclared | Self::Node | Self::Window => true,
            Self::Health | Self::Proof => false,
        }
    }
}

/// The record of the last verified apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LastApplied {
    /// The attribute's value at that time, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<UntrustedText>,
    /// When it was applied. RFC 3339, UTC.
    pub time: UntrustedText,
    /// The ID of the run that applied it.
    pub run: UntrustedText,
    /// Who applied it, and from which machine.
    pub user: UntrustedText,
    /// The machine that forge ran on.
    pub controller: UntrustedText,
}

/// The next action for a hardware fault, the least disruptive first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RepairAction {
    /// Check the cable, the port, the switch.
    Inspect,
    /// Check fans, airflow and the temperature of the room.
    Cool,
    /// Reset the GPU when it is idle.
    Reset,
    /// Drain the host, and reset its GPUs.
    Drain,
    /// Reboot the host when it is idle.
    Reboot,
    /// Power-cycle the host when it is idle, for parts that a reset does not restore.
    PowerCycle,
    /// Replace the part.
    Rma,
}

impl RepairAction {
    /// Returns the name in machine formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Cool => "cool",
            Self::Reset => "reset",
            Self::Drain => "drain",
            Self::Reboot => "reboot",
            Self::PowerCycle => "power-cycle",
            Self::Rma => "rma",
        }
    }

    /// Returns a lowercase fragment for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Inspect => "check slot, cable, switch and power",
            Self::Cool => "check fans, airflow and inlet temperature of the host",
            Self::Reset => "drain the host and reset the GPU",
            Self::Drain => "drain the host, then reset its GPUs",
            Self::Reboot => "drain the host and reboot it",
            Self::PowerCycle => "drain the host and power-cycle it; replace parts that stay missing",
            Self::Rma => "take the host out of service and replace the part",
        }
    }
}

/// A step or verification that could not be evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndecidedItem {
    /// The host on which it could not be evaluated; `kubernetes` for the cluster's API.
    pub host: HostName,
    /// The recipe of the step or verification; `hardware`, `kubernetes`, `records`, `rollout` or `tests` for items without a
    /// recipe.
    pub recipe: UntrustedText,
    /// The step, or the name of a verification.
    pub step: UntrustedText,
    /// What could not be evaluated: a step, a verification, a hardware fact and so on.
    pub aspect: FindingAspect,
    /// A lowercase fragment.
    pub reason: UntrustedText,
    /// How to make it possible to evaluate; absent if there is no advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// `file:line:col` of the declaration; empty if there is none.
    pub place: String,
}

/// Totals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriftCounts {
    /// Number of checked hosts, without the cluster's API.
    pub hosts: usize,
    /// Number of hosts that could not be observed, including the cluster's API.
    pub unreachable: usize,
    /// Hosts with at least one finding.
    pub drifted: usize,
    /// Number of findings.
    pub findings: usize,
    /// Number of steps and verifications that could not be evaluated.
    pub unknown: usize,
    /// Steps and verifications that match.
    pub settled: usize,
    /// Findings and unknowns that `drift.ignore` ignored, and findings resolved since the previous run.
    #[serde(default)]
    pub ignored: usize,
    /// Number of findings that were resolved since the previous run.
    #[serde(default)]
    pub resolved: usize,
    /// Steps and verifications that can be evaluated only once others match.
    #[serde(default)]
    pub follow: usize,
    /// Findings by the name of their cause, and by the name of their severity.
    pub by_cause: BTreeMap<String, usize>,
    /// Number of findings by the name of their severity; a severity without findings is absent.
    pub by_severity: BTreeMap<String, usize>,
}

impl DriftReport {
    /// Returns the steps, `recipe/step`, of which `drift.ignore` ignores every finding.
    pub fn list_ignored_steps(&self) -> BTreeSet<String> {
        let name = |recipe: &str, step: &str| format!("{recipe}/{}", step.split('[').next().unwrap_or(step));
        let own = self.findings.iter().filter(|finding| finding.aspect == FindingAspect::Step);
        let found: BTreeSet<String> = own.map(|finding| name(finding.recipe.raw(), finding.step.raw())).collect();
        let ignored = self.ignored_steps.iter().map(|(_, recipe, step)| name(recipe, step));
        ignored.filter(|step| !found.contains(step)).collect()
    }

    /// Computes the totals of the report.
    pub fn count_findings(&self) -> DriftCounts {
        let mut counts = DriftCounts {
            hosts: self.hosts.iter().filter(|host| !host.host.is_cluster()).count(),
            unreachable: self.hosts.iter().filter(|host| host.reach != HostReachability::Observed).count(),
            findings: self.findings.len(),
            unknown: self.unknown.len(),
            ignored: self.ignored.iter().map(|line| line.count).sum(),
            resolved: self.resolved.len(),
            settled: self.hosts.iter().map(|host| host.settled).sum(),
            follow: self.hosts.iter().map(|host| host.follow).sum(),
            ..DriftCounts::default()
        };
        let drifted: BTreeSet<_> = self.findings.iter().map(|finding| &finding.host).collect();
        counts.drifted = drifted.iter().filter(|host| !host.is_cluster()).count();
        for finding in &self.findings {
            *counts.by_cause.entry(finding.cause.name().to_owned()).or_default() += 1;
            *counts.by_severity.entry(finding.severity.name().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Returns the exit code of the result.
    pub fn exit_code(&self) -> ExitCode {
        let unreachable = self.hosts.iter().any(|host| host.reach != HostReachability::Observed);
        let holds = [
            // The findings are still valid, but a missing notification must not look like "nothing changed".
            (self.notified.iter().any(|one| one.state == NotificationState::Failed), ExitCode::Unexpected),
            (unreachable, ExitCode::Unreachable),
            (!self.unknown.is_empty(), ExitCode::Unknown),
            (!self.findings.is_empty() || self.has_counted_outliers(), ExitCode::Changes),
        ];
        ExitCode::pick_worst(holds.into_iter().filter(|(holds, _)| *holds).map(|(_, code)| code))
    }
}

impl DriftReport {
    /// Reports whether hosts differ from the majority, and outliers count as drift.
    fn has_counted_outliers(&self) -> bool {
        self.outliers_count && self.outliers.as_ref().is_some_and(|outliers| !outliers.odd.is_empty())
    }
}

impl DriftFinding {
    /// Returns a finding about a step that was first seen at `now`, with nothing known about what differs.
    pub(super) fn blank(host: &HostName, (recipe, step): (&str, &str), aspect: FindingAspect, now: &str) -> Self {
        Self {
            host: host.clone(),
            recipe: recipe.into(),
            step: step.into(),
            aspect,
            attribute: None,
            mark: ChangeMark::default(),
            object: ChangedObject::Nameless,
            kind: UntrustedText::default(),
            title: UntrustedText::default(),
            path: None,
            verdict: StepVerdict::Change,
            reason: UntrustedText::default(),
            hint: None,
            desired: None,
            observed: None,
            diff: None,
            check: None,
            secret: false,
            last_applied: None,
            cause: DriftCause::Unknown,
            uncompared: false,
            culprit: None,
            severity: FindingSeverity::Medium,
            disruption: DisruptionClass::D0,
            level: VerifyLevel::L0,
            action: None,
            place: String::new(),
            standing: FindingNovelty::New,
            first_seen: now.to_owned(),
            last_seen: now.to_owned(),
            times: 1,
            also: 0,
        }
    }

    /// Reports whether it is a hardware fault, which no apply repairs.
    pub fn is_hardware_fault(&self) -> bool {
        self.cause == DriftCause::HardwareFault
    }

    /// Reports whether a plan can repair it.
    pub fn is_repairable(&self) -> bool {
        !matches!(self.cause, DriftCause::HardwareFault | DriftCause::NoLongerDeclared | DriftCause::TestDue)
    }
}
