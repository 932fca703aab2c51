//! What a run says while it goes: one closed type, for every writer.

use crate::model::{HostName, Outcome, StepId, Untrusted};
use crate::plan::{CheckRun, Unreachable};
use crate::resource::Change;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One thing that happened in a run. Events of one host come in order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// Observation of `hosts` begins.
    ObserveStarted { hosts: usize },
    /// A session is being opened.
    Connecting { host: HostName },
    /// The host was observed.
    Observed { host: HostName, trips: u32, took: Duration },
    /// The host cannot be reached.
    Unreachable { host: HostName, why: Unreachable },
    /// A read was tried again after a transport error.
    Retrying { host: HostName, why: Untrusted, attempt: u32 },
    /// A command begins on `hosts`.
    ExecStarted { hosts: usize },
    /// Carrying out begins on `hosts`, with `steps` steps to run in all.
    ApplyStarted { run: String, hosts: usize, steps: usize },
    /// A host's turn has come.
    HostStarted { host: HostName, steps: usize },
    /// Hosts wait until the canaries are done.
    AwaitingCanaries { hosts: Vec<HostName>, canaries: Vec<HostName> },
    /// Something that an earlier run left is still at work on the host; it is waited for. `step` where it is known.
    Reattached { host: HostName, step: Option<StepId>, what: Untrusted },
    /// The host waits for something outside it (a barrier, `one` on another host).
    Waiting { host: HostName, step: StepId, what: Untrusted },
    /// A step begins.
    StepStarted { host: HostName, step: StepId, title: Untrusted, long: bool },
    /// The commands of a step, secrets masked; about to run.
    StepCommands { host: HostName, step: StepId, script: Untrusted },
    /// What the commands of a step printed.
    StepPrinted { host: HostName, step: StepId, output: Untrusted },
    /// A line that a long step printed.
    StepOutput { host: HostName, step: StepId, line: Untrusted },
    /// An artifact comes from its server: how far it is, in bytes.
    Fetching { what: Untrusted, done: u64, total: Option<u64> },
    /// An artifact came.
    Fetched { what: Untrusted, bytes: u64, took: Duration },
    /// An artifact goes to a host: how far it is, in bytes.
    Sending { host: HostName, step: StepId, done: u64, total: u64 },
    /// A step ended.
    StepFinished {
        host: HostName,
        step: StepId,
        title: Untrusted,
        result: StepResult,
        changes: Vec<Change>,
        took: Duration,
    },
    /// A verification of the cluster does not hold yet: why. It is looked at again.
    AwaitingVerification { host: HostName, recipe: String, name: String, why: Untrusted },
    /// A verification ended.
    Verified {
        host: HostName,
        recipe: String,
        name: String,
        result: VerifyResult,
        /// What its command printed, where it does not hold or could not be told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<CheckRun>,
    },
    /// A host is done.
    HostFinished { host: HostName, outcome: Outcome, reason: Untrusted },
    /// A host's window waits for its wave, or until there is room for it.
    AwaitingWindow { host: HostName, wave: usize },
    /// Somebody holds the host's devices; the window waits for them.
    Busy { host: HostName, holders: Vec<Untrusted> },
    /// The host is taken out of service.
    WindowOpened { host: HostName, stops: Vec<String> },
    /// The host is back in service.
    WindowClosed { host: HostName },
    /// The host stays out of service: its window is left open.
    WindowLeftOpen { host: HostName, why: Untrusted },
    /// The window of a host does not open, and its changes are not made.
    WindowShut { host: HostName, why: Untrusted },
    /// Something happened to the node of Kubernetes that the host is.
    Node { host: HostName, node: Untrusted, news: NodeNews },
    /// The host is told to reboot, for `steps`.
    Rebooting { host: HostName, steps: Vec<StepId> },
    /// The host booted anew.
    Rebooted { host: HostName, reboot: Rebooted },
    /// Those who held the host's devices were ended, since the user said so.
    Evicted { host: HostName, holders: Vec<Untrusted>, why: String },
    /// The user asked to stop: running steps are finished first.
    Stopping { in_flight: Vec<(HostName, StepId)> },
    /// The user asked twice: forge leaves now; what runs on the hosts goes on.
    Detached { in_flight: Vec<(HostName, StepId)> },
    /// History cannot be kept on this machine; the run goes on.
    NoHistory { why: Untrusted },
    /// An object in which the cluster keeps records now lies in another namespace.
    RecordsMoved { host: HostName, object: Untrusted },
    /// The failure budget is used up; hosts that have not begun are left alone.
    BudgetSpent { failed: usize, allowed: usize },
}

/// What happened to a node of Kubernetes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeNews {
    /// The host is declared to be a node, and is none: nothing is drained.
    Absent,
    /// Pods may not leave yet: what keeps each of them.
    Waits { pods: Vec<Untrusted> },
    /// It takes no new pods, and `pods` had to leave. `cordoned` by forge, or by somebody else before.
    Drained { pods: usize, cordoned: bool },
    /// It is not given back yet: what of the declared it does not offer.
    Lacks { what: Vec<Untrusted> },
    /// It is given back; `cordoned` still, since somebody else did that.
    Returned { cordoned: bool },
}

/// What a run did to the node of Kubernetes that a host is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrainedNode {
    pub name: Untrusted,
    /// Pods that had to leave.
    pub pods: usize,
    /// Whether it was given back by the end.
    pub returned: bool,
}

impl DrainedNode {
    /// Returns what is to be told after one more piece of news.
    pub(super) fn after(before: Option<Self>, name: Untrusted, news: &NodeNews) -> Option<Self> {
        let pods = before.as_ref().map_or(0, |before| before.pods);
        match news {
            NodeNews::Absent | NodeNews::Waits { .. } | NodeNews::Lacks { .. } => before,
            NodeNews::Drained { pods, .. } => Some(Self { name, pods: *pods, returned: false }),
            NodeNews::Returned { .. } => Some(Self { name, pods, returned: true }),
        }
    }
}

/// A reboot as it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rebooted {
    /// The boot id before.
    pub from: Untrusted,
    /// The boot id that was read over a new session.
    pub to: Untrusted,
    pub took: Duration,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum StepResult {
    /// Changed and verified.
    Changed,
    /// Was already as desired when its turn came.
    AlreadyOk { reason: Untrusted },
    /// Configured, waits for a reload or reboot.
    Pending { reason: Untrusted },
    /// Impossible here.
    Blocked { class: crate::model::BlockClass, reason: Untrusted },
    /// Could not be judged.
    Unknown { reason: Untrusted },
    /// What it relied on moved since the plan.
    Stale { reason: Untrusted },
    /// Its commands failed, or it is not as desired after them.
    Failed { failure: Failure },
    /// Something it needs is not there.
    Skipped { reason: Untrusted },
    /// Held back by what the user allows: the hours, the disruption.
    Held { reason: Untrusted },
    /// Its `when` is false here.
    NotApplicable { reason: Untrusted },
    /// The run was stopped before its turn.
    Cancelled,
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// A lowercase fragment: `exit status 100`, `still differs after the change`.
    pub why: Untrusted,
    /// The last lines the host printed.
    pub tail: Untrusted,
    pub hint: Option<Untrusted>,
    /// Where the whole log lies on the host, for long steps.
    pub log: Option<String>,
    /// Whether an artifact that it needs cannot be had, or is not what is declared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub artifact: bool,
}

/// How a verification ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum VerifyResult {
    Held,
    Failed {
        reason: Untrusted,
    },
    /// Could not be told; counts as not held.
    Unknown {
        reason: Untrusted,
    },
    /// Not judged, since its recipe did not get through.
    Skipped {
        reason: Untrusted,
    },
    NotApplicable {
        reason: Untrusted,
    },
}
