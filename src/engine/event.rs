//! Events of a run: one closed type for all writers.

use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
use crate::plan::{CheckRun, UnreachableReason};
use crate::resource::AttributeChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// The sender of events.
pub type EventSender = UnboundedSender<Event>;

/// One event of a run. Events of one host are ordered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// The observation of `hosts` starts.
    ObserveStarted { hosts: usize },
    /// A session is being opened.
    Connecting { host: HostName },
    /// The host was observed.
    Observed { host: HostName, trips: u32, took: Duration },
    /// The host could not be reached.
    Unreachable { host: HostName, why: UnreachableReason },
    /// A read is retried after a transport error.
    Retrying { host: HostName, why: UntrustedText, attempt: u32 },
    /// A command starts on `hosts`.
    ExecStarted { hosts: usize },
    /// The apply starts on `hosts`, with `steps` steps to run in total.
    ApplyStarted { run: String, hosts: usize, steps: usize },
    /// A host's turn starts.
    HostStarted { host: HostName, steps: usize },
    /// Hosts wait until the canaries are done.
    AwaitingCanaries { hosts: Vec<HostName>, canaries: Vec<HostName> },
    /// A job of an earlier run is still active on the host, and the run waits for it. `step` is set if known.
    Reattached { host: HostName, step: Option<StepId>, what: UntrustedText },
    /// The host waits for a dependency on other hosts (a barrier, `one` on another host).
    Waiting { host: HostName, step: StepId, what: UntrustedText },
    /// A step starts.
    StepStarted { host: HostName, step: StepId, title: UntrustedText, long: bool },
    /// The commands of a step that is about to run, with secrets masked.
    StepCommands { host: HostName, step: StepId, script: UntrustedText },
    /// The output of a step's commands.
    StepPrinted { host: HostName, step: StepId, output: UntrustedText },
    /// A line of a long step's output.
    StepOutput { host: HostName, step: StepId, line: UntrustedText },
    /// Progress of an artifact's download, in bytes.
    Fetching { what: UntrustedText, done: u64, total: Option<u64> },
    /// An artifact was downloaded.
    Fetched { what: UntrustedText, bytes: u64, took: Duration },
    /// Progress of an artifact's transfer to a host, in bytes.
    Sending { host: HostName, step: StepId, done: u64, total: u64 },
    /// A step finished.
    StepFinished {
        host: HostName,
        step: StepId,
        title: UntrustedText,
        result: StepResult,
        changes: Vec<AttributeChange>,
        took: Duration,
    },
    /// A verification of the cluster does not pass yet: the reason. It is evaluated again.
    AwaitingVerification { host: HostName, recipe: String, name: String, why: UntrustedText },
    /// A verification finished.
    Verified {
        host: HostName,
        recipe: String,
        name: String,
        result: VerifyResult,
        /// The command's output, if the verification failed or could not be evaluated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<CheckRun>,
    },
    /// A host is done.
    HostFinished { host: HostName, outcome: HostOutcome, reason: UntrustedText },
    /// A host's window waits for its wave or for a free place.
    AwaitingWindow { host: HostName, wave: usize },
    /// Processes hold the host's devices; the window waits for them.
    Busy { host: HostName, holders: Vec<UntrustedText> },
    /// The host is taken out of service.
    WindowOpened { host: HostName, stops: Vec<String> },
    /// The host is back in service.
    WindowClosed { host: HostName },
    /// The host stays out of service: its window is left open.
    WindowLeftOpen { host: HostName, why: UntrustedText },
    /// The window of a host does not open, and its changes are not made.
    WindowShut { host: HostName, why: UntrustedText },
    /// The state of the host's Kubernetes node changed.
    Node { host: HostName, node: UntrustedText, news: NodeDrainEvent },
    /// The host is about to reboot for `steps`.
    Rebooting { host: HostName, steps: Vec<StepId> },
    /// The host has rebooted.
    Rebooted { host: HostName, reboot: CompletedReboot },
    /// Processes that held the host's devices were evicted, as the user requested.
    Evicted { host: HostName, holders: Vec<UntrustedText>, why: String },
    /// The user requested a stop: running steps are finished first.
    Stopping { in_flight: Vec<(HostName, StepId)> },
    /// The user requested a second stop: forge exits now; running jobs on hosts continue.
    Detached { in_flight: Vec<(HostName, StepId)> },
    /// The history cannot be written on this machine; the run continues.
    NoHistory { why: UntrustedText },
    /// An object with the cluster's records was moved to another namespace.
    RecordsMoved { host: HostName, object: UntrustedText },
    /// The failure budget is used up; hosts that have not started are skipped.
    BudgetSpent { failed: usize, allowed: usize },
}

/// A change of a Kubernetes node's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeDrainEvent {
    /// The host is declared to be a node but is not one: nothing is drained.
    Absent,
    /// Pods cannot be evicted yet, each with the reason.
    Waits { pods: Vec<UntrustedText> },
    /// The node is cordoned, and `pods` were evicted. `cordoned` says whether forge cordoned it rather than another
    /// user before.
    Drained { pods: usize, cordoned: bool },
    /// The node is not uncordoned yet: its missing declared resources.
    Lacks { what: Vec<UntrustedText> },
    /// The node is released; `cordoned` says that it stays cordoned because another user cordoned it.
    Returned { cordoned: bool },
}

/// A run's changes to the host's Kubernetes node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrainedNode {
    pub name: UntrustedText,
    /// Pods that were evicted.
    pub pods: usize,
    /// Whether the node was released by the end.
    pub returned: bool,
}

impl DrainedNode {
    /// Returns the summary after one more event.
    pub(super) fn after_event(before: Option<Self>, name: UntrustedText, news: &NodeDrainEvent) -> Option<Self> {
        let pods = before.as_ref().map_or(0, |before| before.pods);
        match news {
            NodeDrainEvent::Absent | NodeDrainEvent::Waits { .. } | NodeDrainEvent::Lacks { .. } => before,
            NodeDrainEvent::Drained { pods, .. } => Some(Self { name, pods: *pods, returned: false }),
            NodeDrainEvent::Returned { .. } => Some(Self { name, pods, returned: true }),
        }
    }
}

/// A reboot, as observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompletedReboot {
    /// The boot id before.
    pub from: UntrustedText,
    /// The boot id that was read over a new session.
    pub to: UntrustedText,
    pub took: Duration,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum StepResult {
    /// Changed and verified.
    Changed,
    /// Already matched when its turn came.
    AlreadyOk { reason: UntrustedText },
    /// Configured; waits for a reload or reboot.
    Pending { reason: UntrustedText },
    /// Cannot run on this host.
    Blocked { class: crate::model::BlockClass, reason: UntrustedText },
    /// Could not be evaluated.
    Unknown { reason: UntrustedText },
    /// A precondition changed since the plan.
    Stale { reason: UntrustedText },
    /// Its commands failed, or the state does not match after them.
    Failed { failure: StepFailure },
    /// A dependency is missing.
    Skipped { reason: UntrustedText },
    /// Deferred by the user's limits: hours or disruption class.
    Held { reason: UntrustedText },
    /// Its `when` is false on this host.
    NotApplicable { reason: UntrustedText },
    /// The run was stopped before its turn.
    Cancelled,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepFailure {
    /// A lowercase fragment: `exit status 100`, `still differs after the change`.
    pub why: UntrustedText,
    /// The last lines of the host's output.
    pub tail: UntrustedText,
    pub hint: Option<UntrustedText>,
    /// Path of the whole log on the host, for long steps.
    pub log: Option<String>,
    /// Whether a required artifact is not available or does not match its declaration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub artifact: bool,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum VerifyResult {
    Held,
    Failed {
        reason: UntrustedText,
    },
    /// Could not be evaluated; counts as failed.
    Unknown {
        reason: UntrustedText,
    },
    /// Not evaluated, as its recipe did not succeed.
    Skipped {
        reason: UntrustedText,
    },
    NotApplicable {
        reason: UntrustedText,
    },
}
