//! The interface between the verbs and the rest of the crate, so that verbs can be tested without hosts.

use super::history_start::HistoryStart;
use super::settings::CliSettings;
use crate::config;
use crate::diag::{Diag, DiagList, SourceMap};
use crate::drift::{DriftHistory, DriftReport};
use crate::engine::{
    AcceptanceReport, ArtifactReport, BaselineError, DoctorReport, Event, ExecCommand, ExecReport, FetchReport,
    GeneratedUndo, HoldEnd, HoldReport, HostKeys, NoticeQueue, PastDurations, PastHosts, Recording, RunReport,
    SavedPlan, ShardPlan, SkippedHost, SlowDiagnosis, UndoSelection,
};
use crate::model::{HardwareBoard, HostName};
use crate::plan::{ObservedHost, Plan, RehearsalReport};
use crate::view::InventorySize;
use camino::{Utf8Path, Utf8PathBuf};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// The channel for events.
pub type VerbEvents = UnboundedSender<Event>;

/// The purpose of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservePurpose {
    /// Read what the declared steps and verifications need.
    Declared,
    /// The same, and leave sessions open for the changes that follow.
    Change,
    /// Read what the declared steps and verifications need and the state of the hardware; failed probes are retried
    /// once.
    Drift {
        /// Whether to read every fact by which hosts are compared.
        outliers: bool,
    },
    /// Read every fact.
    Facts,
}

/// The sandboxes of a project.
pub struct ProjectSandboxes {
    /// The directory on this machine that records them.
    pub root: Utf8PathBuf,
    /// Hosts that are declared as sandboxes, each with its board.
    pub hosts: Vec<(HostName, Option<HardwareBoard>)>,
}

/// Which set of acceptance tests runs on which hosts.
pub struct SetRequest<'r> {
    /// The name of the set.
    pub set: &'r str,
    /// The selected hosts.
    pub hosts: &'r [HostName],
    /// Hosts that are not tested, with the reason.
    pub skipped: Vec<SkippedHost>,
    /// The earlier run to compare with: its name, a prefix, or `last`.
    pub against: Option<&'r str>,
    /// Whether the Kubernetes nodes of the hosts are drained.
    pub drain: bool,
}

/// The library behind the verbs.
pub trait Backend {
    /// A loaded project.
    type Project;
    /// Observed hosts, with the sessions that stay open for later use.
    type HostObservations: AsRef<[ObservedHost]>;
    /// A request to stop.
    type Cancel: Clone + Default;

    /// Loads an inventory and its recipes.
    fn load_project(&self, path: &Utf8Path, settings: &CliSettings) -> (Option<Self::Project>, DiagList, SourceMap);

    /// Returns the loaded project, for verbs that only read it.
    fn project<'p>(&self, project: &'p Self::Project) -> &'p config::Project;

    /// Returns the number of declared hosts, recipes and steps.
    fn project_size(&self, project: &Self::Project) -> InventorySize;

    /// Returns the hosts that `--on` selects, in inventory order; all hosts without `--on`. `past` has more names.
    ///
    /// # Errors
    /// A selector, or a pattern of `--step` or `--skip`, is malformed or matches nothing.
    fn select_hosts(
        &self,
        project: &Self::Project,
        settings: &CliSettings,
        past: Option<&PastHosts>,
    ) -> Result<Vec<HostName>, Box<Diag>>;

    /// Returns the hosts of the last run by outcome; `None` if there was no run.
    ///
    /// # Errors
    /// The history cannot be read: a lowercase fragment.
    fn find_past_hosts(&self, project: &Self::Project, settings: &CliSettings) -> Result<Option<PastHosts>, String>;

    /// Returns the project's sandboxes.
    fn list_sandboxes(&self, project: &Self::Project, settings: &CliSettings) -> ProjectSandboxes;

    /// Observes hosts.
    fn observe_hosts(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        ask: ObservePurpose,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> impl Future<Output = Self::HostObservations>;

    /// Returns the raw answers of an observation that recorded them.
    fn build_recording(&self, project: &Self::Project, seen: &Self::HostObservations) -> Recording;

    /// Returns the hosts' keys for digests of secrets, for the coordinator of a worker.
    fn list_host_keys(&self, seen: &Self::HostObservations) -> HostKeys;

    /// Returns the raw answers with machine ids, UUIDs and serial numbers replaced.
    ///
    /// # Errors
    /// A search pattern is invalid: a lowercase fragment.
    fn build_redacted_recording(
        &self,
        project: &Self::Project,
        seen: &Self::HostObservations,
    ) -> Result<Recording, String>;

    /// Computes the plan without contacting a host.
    fn plan(&self, project: &Self::Project, seen: &Self::HostObservations, settings: &CliSettings) -> Plan;

    /// Returns the plan with all its inputs, to be saved. `plan` is a pair: the plan, and the plan computed from the
    /// recording alone.
    fn build_saved_plan(
        &self,
        project: &Self::Project,
        seen: &Self::HostObservations,
        plan: (&Plan, &Plan),
        recording: Recording,
        settings: &CliSettings,
    ) -> SavedPlan;

    /// Returns the changed files and artifacts among the inputs of a plan. `seen` is the replay of the plan's own
    /// answers.
    fn list_changed_inputs(
        &self,
        project: &Self::Project,
        saved: &SavedPlan,
        seen: &Self::HostObservations,
        settings: &CliSettings,
    ) -> Vec<String>;

    /// Returns the plan to apply to the hosts in their current state, and marks stale hosts in `seen` with the reason.
    fn bind_saved_plan(
        &self,
        project: &Self::Project,
        saved: &SavedPlan,
        seen: &mut Self::HostObservations,
        replay: bool,
        settings: &CliSettings,
    ) -> Plan;

    /// Returns the part of a plan for `hosts` that a worker carries out in their current state, and marks stale hosts in
    /// `seen`.
    fn bind_shard_plan(
        &self,
        project: &Self::Project,
        shard: &ShardPlan,
        hosts: &[HostName],
        seen: &mut Self::HostObservations,
        settings: &CliSettings,
    ) -> Plan;

    /// Returns why workers of the requested kind cannot run with this inventory, if so: an error and a hint.
    fn refuse_engine_kind(&self, project: &Self::Project, settings: &CliSettings) -> Option<(String, &'static str)>;

    /// Returns why workers cannot carry out a plan, if they cannot.
    fn refuse_engine(
        &self,
        project: &Self::Project,
        plan: &Plan,
        seen: &Self::HostObservations,
        settings: &CliSettings,
    ) -> Option<String>;

    /// Detects drift and its causes.
    fn detect_drift(
        &self,
        project: &Self::Project,
        seen: &Self::HostObservations,
        settings: &CliSettings,
    ) -> DriftReport;

    /// Determines who changed what drift found: collects evidence only from hosts on which the machine changed.
    fn attribute_changes(
        &self,
        project: &Self::Project,
        seen: &Self::HostObservations,
        drift: &mut DriftReport,
        settings: &CliSettings,
    ) -> impl Future<Output = ()>;

    /// Returns the notification for each recipient of `drift.notify`.
    ///
    /// # Errors
    /// The history cannot be read or written: the reason.
    fn plan_notifications(
        &self,
        project: &Self::Project,
        drift: &DriftReport,
        settings: &CliSettings,
    ) -> Result<NoticeQueue, String>;

    /// Stores on hosts when their findings were first seen, if the inventory declares it. Returns the hosts that
    /// failed, with the reasons.
    fn store_findings(
        &self,
        project: &Self::Project,
        seen: &Self::HostObservations,
        settings: &CliSettings,
    ) -> impl Future<Output = Vec<(HostName, String)>>;

    /// Returns the current time.
    fn current_time(&self) -> jiff::Timestamp;

    /// Returns the history of findings.
    ///
    /// # Errors
    /// The state directory cannot be read: the reason.
    fn read_drift_history(
        &self,
        project: &Self::Project,
        since: Option<HistoryStart>,
        settings: &CliSettings,
    ) -> Result<DriftHistory, String>;

    /// Returns the durations of steps in past runs; empty if there are none.
    fn read_past_durations(&self, project: &Self::Project, settings: &CliSettings) -> PastDurations;

    /// Applies a plan and verifies it.
    fn apply(
        &self,
        project: &Self::Project,
        plan: &Plan,
        seen: Self::HostObservations,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: Self::Cancel,
    ) -> impl Future<Output = RunReport>;

    /// Runs the steps of a plan in views of its hosts, whose observation was `seen`.
    fn rehearse(
        &self,
        project: Self::Project,
        plan: &Plan,
        seen: &Self::HostObservations,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: Self::Cancel,
    ) -> impl Future<Output = RehearsalReport>;

    /// Evaluates the declared steps and verifications.
    fn verify(
        &self,
        project: &Self::Project,
        seen: Self::HostObservations,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: Self::Cancel,
    ) -> impl Future<Output = RunReport>;

    /// Runs a command on hosts.
    fn exec_command(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        command: &ExecCommand,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: Self::Cancel,
    ) -> impl Future<Output = ExecReport>;

    /// Puts hosts on hold with a reason and an end, or releases them.
    ///
    /// # Errors
    /// The end is in the past: a lowercase fragment.
    fn set_hold(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        hold: Option<(&str, Option<HoldEnd>)>,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: Self::Cancel,
    ) -> impl Future<Output = Result<HoldReport, String>>;

    /// Reads what hosts kept before a run, and returns the recipes that undo it: the steps that the filter of the
    /// settings includes.
    fn read_undo(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        selection: UndoSelection<'_>,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: Self::Cancel,
    ) -> impl Future<Output = GeneratedUndo>;

    /// Like [`load_project`](Self::load_project), with the built-in sets of acceptance tests.
    fn load_for_tests(&self, path: &Utf8Path, settings: &CliSettings) -> (Option<Self::Project>, DiagList, SourceMap);

    /// Runs a set of acceptance tests and stores the report.
    ///
    /// # Errors
    /// The earlier run cannot be read: the reason.
    fn run_tests(
        &self,
        project: &Self::Project,
        request: SetRequest<'_>,
        settings: &CliSettings,
        events: VerbEvents,
        cancel: Self::Cancel,
    ) -> impl Future<Output = Result<AcceptanceReport, BaselineError>>;

    /// Asks hosts why a job is slow: of all `hosts`, or of those with the job's pods.
    ///
    /// # Errors
    /// The pods of the job cannot be read: a lowercase fragment.
    fn find_slow_causes(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        job: Option<(&str, &str)>,
        pause: Duration,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> impl Future<Output = Result<SlowDiagnosis, String>>;

    /// Checks whether hosts and this machine are ready. `can_ask`: a user is at a terminal.
    fn check_hosts(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        can_ask: bool,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> impl Future<Output = DoctorReport>;

    /// Like [`load_project`](Self::load_project), but accepts artifacts without a declared digest, to compute it.
    fn load_for_digests(&self, path: &Utf8Path, settings: &CliSettings)
    -> (Option<Self::Project>, DiagList, SourceMap);

    /// Fetches the declared artifacts into the cache; with `lock`, writes computed digests to the inventory's lock
    /// file.
    ///
    /// # Errors
    /// The digests cannot be written: the reason.
    fn fetch_artifacts(
        &self,
        project: &Self::Project,
        hosts: &[HostName],
        lock: bool,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> impl Future<Output = Result<FetchReport, String>>;

    /// Fetches the artifacts that a plan sends. Returns the unavailable ones.
    fn fetch_plan_artifacts(
        &self,
        project: &Self::Project,
        plan: &Plan,
        seen: &Self::HostObservations,
        settings: &CliSettings,
        events: VerbEvents,
    ) -> impl Future<Output = Vec<ArtifactReport>>;

    /// Requests a stop: the first request finishes running steps, the second leaves them running.
    fn request_stop(&self, cancel: &Self::Cancel);
}
