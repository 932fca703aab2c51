//! The user's options for a run, and how it connects to hosts.

use super::host_session::HostSession;
use super::read_only_session::{ReadOnlySession, SessionFuture};
use super::recording::Recording;
use super::shards::{OutsideState, WorkerRole};
use super::undo_request::UndoRequest;
use crate::config::{Project, StepFilter};
use crate::model::{HostName, SecretStore};
use crate::plan::PlanPolicy;
use crate::transport::{LockOwner, ProcessMark};
use std::sync::Arc;
use std::time::Duration;

/// The user's options for a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The number of hosts worked on in parallel.
    pub parallel: usize,
    /// The default for checks and steps without a timeout of their own.
    pub timeout: Option<Duration>,
    /// Whether recipes' checks run in a read-only sandbox.
    pub confined: bool,
    /// The steps to include, from `--step` and `--skip`.
    pub filter: StepFilter,
    /// How much the run may disrupt.
    pub policy: PlanPolicy,
    /// The user's reason for evicting processes that hold a host's devices, if the user allows it.
    pub evict_busy: Option<String>,
    /// The run's name: time and random text, `20261121T093015-4f2a`.
    pub run: String,
    /// The boot id of the machine that forge runs on, if it has one. That machine is never rebooted.
    pub boot_id: Option<String>,
    /// The host name of the machine that runs forge, for records and locks.
    pub controller: String,
    /// The user who runs forge, or `uid N` if the environment does not name one.
    pub user: String,
    /// Returns the current time, for records and the lock's owner.
    pub clock: fn() -> jiff::Timestamp,
    /// The folder for control sockets: see [`crate::transport::control_dir`].
    pub control_dir: camino::Utf8PathBuf,
    /// Environment variables passed to ssh in addition to the defaults: see [`crate::transport::SSH_VARIABLES`].
    pub ssh_variables: Arc<[String]>,
    /// The folder in which the cluster's sandboxes are registered: see [`crate::transport::list_sandboxes`].
    pub sandboxes: camino::Utf8PathBuf,
    /// Opens sessions on hosts.
    pub connector: HostConnector,
    /// Whether the hosts are views of hosts: then each script notes its steps for the report.
    pub rehearsal: bool,
    /// The run that an undo reverts; `None` for other runs.
    pub undo: Option<Arc<UndoRequest>>,
    /// Whether raw answers are stored, or are read from a recording.
    pub replay: ReplayOptions,
    /// The role of a worker, if this run works for a coordinator.
    pub worker: Option<Arc<WorkerRole>>,
    /// The store that artifacts are taken from.
    pub depot: Arc<crate::artifact::ArtifactFetcher>,
    /// What helm answered about charts during this run.
    pub chart_answers: crate::kube::ChartAnswers,
}

impl RunOptions {
    /// Returns the verb of a run that changes hosts, or views of hosts: `apply`, `undo` or `rehearse`.
    pub fn verb_name(&self) -> &'static str {
        match (self.rehearsal, &self.undo) {
            (true, _) => "rehearse",
            (false, Some(_)) => "undo",
            (false, None) => "apply",
        }
    }

    /// Returns the policy of its plans. A worker plans for a part of the hosts.
    pub(super) fn plan_policy(&self) -> PlanPolicy {
        PlanPolicy { is_part: self.replay.outside.chosen.is_some(), ..self.policy }
    }

    /// Returns this run's description of itself for other runs, which find a host locked: `verb` is `apply`.
    pub(super) fn build_lock_owner(&self, verb: &str, project: &Project) -> LockOwner {
        LockOwner {
            run: self.run.clone(),
            user: self.user.clone(),
            controller: self.controller.clone(),
            pid: std::process::id(),
            process: ProcessMark::current_process(),
            since: (self.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            what: format!("forge {verb} {}", project.inventory),
        }
    }
}

/// Whether hosts are probed, and whether their raw answers are stored.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Stores raw answers and probes all facts.
    pub record: bool,
    /// Stores raw answers and probes only the facts that are needed.
    pub keep: bool,
    /// Other workers observe the other hosts of the run.
    pub part: bool,
    /// What is known of those.
    pub outside: OutsideState,
    /// Answers are read from here; no session is opened.
    pub observed: Option<Arc<Recording>>,
    /// The cluster's API is not asked: the cluster is empty and has this release of Kubernetes.
    pub assumed_kubernetes: Option<String>,
}

impl ReplayOptions {
    /// Releases the recorded answers once all hosts are observed: those of many hosts are large. Only a saved plan needs
    /// them afterwards.
    pub fn release_answers(&mut self) {
        if let Some(recording) = &mut self.observed {
            *recording = Arc::new(recording.narrow_to_hosts(&[]));
        }
    }
}

/// What a session is opened for.
#[derive(Clone, Copy)]
pub(super) struct SessionRequest<'s> {
    pub project: &'s Project,
    pub options: &'s RunOptions,
    pub host: &'s HostName,
    pub secrets: &'s SecretStore,
    /// Whether the session must log in by itself, even if a connection of an earlier run is kept.
    pub logs_in: bool,
}

impl SessionRequest<'_> {
    /// Returns the request of a session that logs in by itself.
    pub fn without_kept_connection(self) -> Self {
        Self { logs_in: true, ..self }
    }
}

/// Opens sessions on hosts. Tests have their own.
pub(super) trait SessionConnector: Send + Sync {
    /// Opens a session that may take the host's lock.
    fn open_session<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn HostSession>>;

    /// Opens a session that takes probes only.
    fn open_read_only<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn ReadOnlySession>>;
}

/// How a run connects to its hosts.
#[derive(Clone)]
pub struct HostConnector(Arc<dyn SessionConnector>);

impl HostConnector {
    pub(super) fn new(connector: impl SessionConnector + 'static) -> Self {
        Self(Arc::new(connector))
    }

    pub(super) fn get(&self) -> &dyn SessionConnector {
        &*self.0
    }
}

impl std::fmt::Debug for HostConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostConnector")
    }
}
