//! Events of a run: one closed type for all writers.

use crate::acceptance::TestVerdict;
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
    ObserveStarted {
        /// Number of hosts, without the cluster's API.
        hosts: usize,
    },
    /// A session is being opened.
    Connecting {
        /// The host that is connected to.
        host: HostName,
    },
    /// The host was observed.
    Observed {
        /// The host that was observed.
        host: HostName,
        /// Number of round trips that the observation took.
        trips: u32,
        /// Time from the start of its connection.
        took: Duration,
    },
    /// The host could not be reached.
    Unreachable {
        /// The host that could not be reached.
        host: HostName,
        /// The reason, with a hint if there is one.
        why: UnreachableReason,
    },
    /// A failed change is tried again, as the `retries` of its step allow.
    Retrying {
        /// The host that is changed.
        host: HostName,
        /// The step that failed.
        step: StepId,
        /// The error of the previous attempt, a lowercase fragment.
        why: UntrustedText,
        /// Number of the attempt that starts now; the first try was attempt 1.
        attempt: u32,
    },
    /// A command starts on `hosts`.
    ExecStarted {
        /// Number of hosts that the command runs on.
        hosts: usize,
    },
    /// A round of acceptance tests starts.
    TestRound {
        /// The test: `ib-write-bw`.
        test: String,
        /// The adapter, if the test runs on each.
        rail: Option<String>,
        /// Number of measurements that run at the same time.
        measurements: usize,
        /// Whether it searches for the bad part, after the planned rounds of the test.
        isolation: bool,
        /// Number of finished rounds of the run.
        done: usize,
        /// Number of planned rounds of the run.
        total: usize,
        /// Estimated duration of the remaining planned rounds; absent before the first one is finished.
        left: Option<Duration>,
    },
    /// The apply starts on `hosts`, with `steps` steps to run in total.
    ApplyStarted {
        /// Name of the run: `20261121T093015-4f2a`.
        run: String,
        /// Number of hosts with steps to run, without the cluster's API.
        hosts: usize,
        /// Number of steps to run on these hosts and through the cluster's API.
        steps: usize,
    },
    /// A host's turn starts.
    HostStarted {
        /// The host that starts.
        host: HostName,
        /// Number of its steps to run.
        steps: usize,
    },
    /// Hosts wait until the canaries are done.
    AwaitingCanaries {
        /// The hosts that wait.
        hosts: Vec<HostName>,
        /// The hosts that are changed first.
        canaries: Vec<HostName>,
    },
    /// A job of an earlier run is still active on the host, and the run waits for it. `step` is set if known.
    Reattached {
        /// The host on which the job runs.
        host: HostName,
        /// The step of this run's plan that the job belongs to; `None` if none matches, or if the job is a script.
        step: Option<StepId>,
        /// The job for people: `` `base/install` of run 20261121T093015-4f2a ``, or the owner of a script.
        what: UntrustedText,
    },
    /// Workers that a killed run left on this machine are still active; the run begins once they have ended.
    AwaitingWorkers {
        /// The longest wait.
        limit: Duration,
    },
    /// The host waits for a dependency on other hosts (a barrier, `one` on another host).
    Waiting {
        /// The host that waits.
        host: HostName,
        /// Its step that cannot start yet.
        step: StepId,
        /// The awaited step and its host, or their number: `` `kubeadm/init` on cp-1 ``.
        what: UntrustedText,
    },
    /// A step starts.
    StepStarted {
        /// The host that the step runs on.
        host: HostName,
        /// The step that starts.
        step: StepId,
        /// The resource that the step manages, such as a path or the names of packages.
        title: UntrustedText,
        /// Whether it runs in a unit of its own, which continues if the connection is lost.
        long: bool,
    },
    /// The commands of a step that is about to run, with secrets masked.
    StepCommands {
        /// The host that the commands run on.
        host: HostName,
        /// The step that they belong to.
        step: StepId,
        /// Shell text, or one line per request for a step that runs through the cluster's API.
        script: UntrustedText,
    },
    /// The output of a step's commands.
    StepPrinted {
        /// The host that the commands ran on.
        host: HostName,
        /// The step that they belong to.
        step: StepId,
        /// What the commands printed. A step that exports a secret has no such event.
        output: UntrustedText,
    },
    /// A line of a long step's output.
    StepOutput {
        /// The host that the step runs on.
        host: HostName,
        /// The running step.
        step: StepId,
        /// One line, without its line break.
        line: UntrustedText,
    },
    /// Progress of an artifact's download, in bytes.
    Fetching {
        /// The artifact: its URL or path.
        what: UntrustedText,
        /// Bytes received so far.
        done: u64,
        /// Size in bytes; `None` if the server does not report it.
        total: Option<u64>,
    },
    /// An artifact was downloaded.
    Fetched {
        /// The artifact by its URL or path, or the chart with its version.
        what: UntrustedText,
        /// Its size in bytes.
        bytes: u64,
        /// Duration of the download.
        took: Duration,
    },
    /// Progress of an artifact's transfer to a host, in bytes.
    Sending {
        /// The host that receives the artifact.
        host: HostName,
        /// The step that needs it.
        step: StepId,
        /// Bytes that the host has so far, including those of an interrupted transfer.
        done: u64,
        /// Size of the artifact in bytes.
        total: u64,
    },
    /// A step finished.
    StepFinished {
        /// The host that the step belongs to.
        host: HostName,
        /// The step that finished.
        step: StepId,
        /// The resource that the step manages, such as a path or the names of packages.
        title: UntrustedText,
        /// How the step ended: changed, failed, skipped …
        result: StepResult,
        /// How to fix it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// The check that says that its change is not effective yet, if it is pending and a check says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<Box<CheckRun>>,
        /// Attributes that differed when its turn came, observed and desired; empty if none did.
        changes: Vec<AttributeChange>,
        /// Duration of its actions. Steps that ran in one script each have the duration of the whole script.
        took: Duration,
    },
    /// A verification of the cluster does not pass yet: the reason. It is evaluated again.
    AwaitingVerification {
        /// The cluster's API, on which the verification is evaluated.
        host: HostName,
        /// The recipe that declares the verification.
        recipe: String,
        /// The name of the verification in the recipe.
        name: String,
        /// Why it does not pass yet, a lowercase fragment.
        why: UntrustedText,
    },
    /// A verification finished.
    Verified {
        /// The host on which it was evaluated, or the cluster's API.
        host: HostName,
        /// The recipe that declares it.
        recipe: String,
        /// Its name in the recipe.
        name: String,
        /// Whether it passed, and why not.
        result: VerifyResult,
        /// The command's output, if the verification failed or could not be evaluated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<CheckRun>,
    },
    /// A host is done.
    HostFinished {
        /// The host that is done.
        host: HostName,
        /// Its outcome as a whole.
        outcome: HostOutcome,
        /// Why, if the outcome needs a reason, such as the first failure; empty otherwise.
        reason: UntrustedText,
    },
    /// A host's window waits for its wave or for a free place.
    AwaitingWindow {
        /// The host that waits.
        host: HostName,
        /// The wave that its window belongs to, counted from 0.
        wave: usize,
    },
    /// Processes hold the host's devices; the window waits for them.
    Busy {
        /// The host whose devices are in use.
        host: HostName,
        /// The processes: `pid 4711 (python3) of alice, Slurm job 123, holds /dev/nvidia0`.
        holders: Vec<UntrustedText>,
    },
    /// The host is taken out of service.
    WindowOpened {
        /// The host that is out of service now.
        host: HostName,
        /// Units that were running and that the window stopped; the end of the window starts them again.
        stops: Vec<String>,
    },
    /// The host is tested before it is brought back into service.
    ReturnTestsStarted {
        /// The host.
        host: HostName,
        /// The names of the tests.
        tests: Vec<String>,
    },
    /// A test of the host starts, before it is brought back into service.
    ReturnTestRound {
        /// The host.
        host: HostName,
        /// The test: `dcgm-diag`.
        test: String,
        /// The adapter, if the test runs on each.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rail: Option<String>,
        /// Number of finished rounds of the host.
        done: usize,
        /// Number of planned rounds of the host.
        total: usize,
        /// Estimated duration of the remaining rounds; absent before the first one is finished.
        left: Option<Duration>,
    },
    /// The tests of a host are done.
    ReturnTestsFinished {
        /// The host.
        host: HostName,
        /// Their results.
        tests: Vec<ReturnTest>,
    },
    /// The host is back in service.
    WindowClosed {
        /// The host that is in service again.
        host: HostName,
    },
    /// The host stays out of service: its window is left open.
    WindowLeftOpen {
        /// The host that stays out of service.
        host: HostName,
        /// The reason, a lowercase fragment.
        why: UntrustedText,
    },
    /// The window of a host does not open, and its changes are not made.
    WindowShut {
        /// The host whose window does not open.
        host: HostName,
        /// The reason, a lowercase fragment.
        why: UntrustedText,
    },
    /// The state of the host's Kubernetes node changed.
    Node {
        /// The host of the inventory.
        host: HostName,
        /// Name of the node in the cluster; empty if the host is not a node.
        node: UntrustedText,
        /// What changed.
        news: NodeDrainEvent,
    },
    /// The host is about to reboot for `steps`.
    Rebooting {
        /// The host that reboots.
        host: HostName,
        /// The steps that need the reboot to take effect.
        steps: Vec<StepId>,
    },
    /// The host has rebooted.
    Rebooted {
        /// The host that is back.
        host: HostName,
        /// The proof of the reboot.
        reboot: CompletedReboot,
    },
    /// Processes that held the host's devices were evicted, as the user requested.
    Evicted {
        /// The host on which they ran.
        host: HostName,
        /// The evicted processes, as in `busy`.
        holders: Vec<UntrustedText>,
        /// The user's reason, from `--evict-busy`.
        why: String,
    },
    /// The user requested a stop: running steps are finished first.
    Stopping {
        /// The steps that are still running, each with its host.
        in_flight: Vec<(HostName, StepId)>,
    },
    /// The user requested a second stop: forge exits now; running jobs on hosts continue.
    Detached {
        /// The steps that continue on their hosts without forge.
        in_flight: Vec<(HostName, StepId)>,
    },
    /// The history cannot be written on this machine; the run continues.
    NoHistory {
        /// Why it cannot be written, a lowercase fragment.
        why: UntrustedText,
    },
    /// An object with the cluster's records was moved to another namespace.
    RecordsMoved {
        /// The cluster's API.
        host: HostName,
        /// The object and its new namespace: `ConfigMap NAME from FORMER to NEW`.
        object: UntrustedText,
    },
    /// The failure budget is used up; hosts that have not started are skipped.
    BudgetSpent {
        /// Number of hosts that failed, at least 1.
        failed: usize,
        /// Number of failed hosts that the rollout allows; 0 if a canary did not succeed.
        allowed: usize,
        /// The canary that did not succeed, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        canary: Option<HostName>,
    },
}

/// A change of a Kubernetes node's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeDrainEvent {
    /// The host is declared to be a node but is not one: nothing is drained.
    Absent,
    /// The cluster does not exist yet: nothing is drained.
    NoCluster,
    /// Pods cannot be evicted yet, each with the reason.
    Waits {
        /// One text per pod: the pod, and the disruption budget that does not allow its eviction yet.
        pods: Vec<UntrustedText>,
    },
    /// The node is cordoned, and `pods` were evicted. `cordoned` says whether forge cordoned it rather than another
    /// user before.
    Drained {
        /// Number of pods that were evicted.
        pods: usize,
        /// Whether forge cordoned the node.
        cordoned: bool,
    },
    /// The node is not uncordoned yet: its missing declared resources.
    Lacks {
        /// What is missing, one fragment each.
        what: Vec<UntrustedText>,
    },
    /// The node is released; `cordoned` says that it stays cordoned because another user cordoned it.
    Returned {
        /// Whether the node is still cordoned.
        cordoned: bool,
    },
}

/// A run's changes to the host's Kubernetes node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrainedNode {
    /// The node's name in the cluster.
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
            NodeDrainEvent::Absent
            | NodeDrainEvent::NoCluster
            | NodeDrainEvent::Waits { .. }
            | NodeDrainEvent::Lacks { .. } => before,
            NodeDrainEvent::Drained { pods, .. } => Some(Self { name, pods: *pods, returned: false }),
            NodeDrainEvent::Returned { .. } => Some(Self { name, pods, returned: true }),
        }
    }
}

/// A measurement before a host is brought back into service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReturnTest {
    /// The name of the test.
    pub test: String,
    /// The adapter, if the test measures each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail: Option<String>,
    /// The result.
    pub verdict: TestVerdict,
    /// The unit of its value; empty for a plain number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// What the programs printed, unless it passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<UntrustedText>,
}

/// A reboot, as observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompletedReboot {
    /// The boot id before.
    pub from: UntrustedText,
    /// The boot id that was read over a new session.
    pub to: UntrustedText,
    /// Time from the start of the reboot until the host was back.
    pub took: Duration,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum StepResult {
    /// Changed and verified.
    Changed,
    /// Already matched when its turn came.
    AlreadyOk {
        /// What was observed, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Configured; waits for a reload or reboot.
    Pending {
        /// What it waits for, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Cannot run on this host.
    Blocked {
        /// The kind of obstacle: the host, its hardware, a rule, the declaration, or use by others.
        class: crate::model::BlockClass,
        /// The obstacle, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Could not be evaluated.
    Unknown {
        /// Why it could not be evaluated, a lowercase fragment.
        reason: UntrustedText,
    },
    /// A precondition changed since the plan.
    Stale {
        /// What changed since the plan, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Its commands failed, or the state does not match after them.
    Failed {
        /// The error, with the last output and a hint.
        failure: StepFailure,
    },
    /// A dependency is missing.
    Skipped {
        /// Why it did not run: the missing dependency or the earlier failure, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Deferred by the user's limits: hours or disruption class.
    Held {
        /// The limit that defers it, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Its `when` is false on this host.
    NotApplicable {
        /// Why it does not apply, a lowercase fragment.
        reason: UntrustedText,
    },
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
    /// How to fix it, if the recipe or forge knows the failure.
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
    /// Passed.
    Held,
    /// The command failed, or the state does not match.
    Failed {
        /// What does not match, with the values that `shows` of the verification renders, if any.
        reason: UntrustedText,
    },
    /// Could not be evaluated; counts as failed.
    Unknown {
        /// Why it could not be evaluated, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Not evaluated, as its recipe did not succeed.
    Skipped {
        /// Why its recipe did not succeed, a lowercase fragment.
        reason: UntrustedText,
    },
    /// Does not apply here, in most cases because its `when` is false.
    NotApplicable {
        /// Why it does not apply, a lowercase fragment.
        reason: UntrustedText,
    },
}
