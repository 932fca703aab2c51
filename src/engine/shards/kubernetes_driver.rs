//! Workers as pods: each task is a Job in the API that the inventory names under `worker_pods`.

use super::kubernetes_worker::{KubernetesWorker, ObservedJobs};
use super::worker_driver::{WorkerDriver, WorkerFuture, WorkerHandle};
use crate::config::Project;
use crate::engine::cancel::{CancelSignal, StopLevel};
use crate::engine::run_options::RunOptions;
use crate::kube::{ClusterApi, ClusterLockError, HeldLease, WorkerJobStates, WorkerJobs};
use crate::object::{WorkerJobObject, WorkerPods, WorkerRoleLabel};
use crate::state::WorkerChannel;
use crate::transport::{self, LockOwner};
use camino::Utf8Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often the Jobs of a run are observed: one request for all.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);
/// How long pods may take to end after their Job was deleted: the default grace period is 30 s.
const POD_END_LIMIT: Duration = Duration::from_secs(90);

/// Starts a Job for each task, and observes all of them together.
pub struct KubernetesDriver {
    jobs: WorkerJobs,
    pods: WorkerPods,
    role: WorkerRoleLabel,
    run: String,
    cluster: String,
    /// Begins the names of the Jobs. Two drivers of a run have different ones.
    prefix: String,
    started: AtomicUsize,
    owner: LockOwner,
    clock: fn() -> jiff::Timestamp,
    lease: Option<HeldLease>,
    observed: ObservedJobs,
    observer: JoinHandle<()>,
}

/// Why a coordinator did not become the only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubernetesDriverError {
    /// Another run may act on the hosts: a lowercase fragment.
    Locked(String),
    /// The API cannot be used: a lowercase fragment.
    Failed(String),
}

impl KubernetesDriver {
    /// Opens the API. The Jobs do what `role` says.
    ///
    /// # Errors
    /// The inventory declares no worker pods, or its kubeconfig cannot be used: a lowercase fragment.
    pub async fn open(project: &Project, options: &RunOptions, role: WorkerRoleLabel) -> Result<Self, String> {
        let pods = project.worker_pods.clone().ok_or("the inventory has no `worker_pods`")?;
        let api = ClusterApi::open(&pods.access).await.map_err(|error| error.to_string())?;
        let token = transport::random_token().map_err(|error| error.to_string())?;
        let jobs = WorkerJobs::new(api, &project.cluster, &options.run);
        let (sender, observed) = watch::channel(None);
        let observer = tokio::spawn(observe_jobs(jobs.clone(), sender));
        Ok(Self {
            jobs,
            pods,
            role,
            run: options.run.clone(),
            cluster: project.cluster.clone(),
            prefix: format!("forge-{}-{}", role.name(), &token.as_str()[..10]),
            started: AtomicUsize::new(0),
            owner: options.build_lock_owner(options.verb_name(), project),
            clock: options.clock,
            lease: None,
            observed,
            observer,
        })
    }

    /// Makes this run the only one with workers that change the hosts: takes the lease, and ends workers that an earlier
    /// run has left.
    ///
    /// # Errors
    /// Another run holds the lease, or its workers do not end; the API cannot be used.
    pub async fn take_over(&mut self, cancel: &CancelSignal) -> Result<(), KubernetesDriverError> {
        let lease = self.jobs.acquire_lease(&self.owner, self.clock).await.map_err(|error| match error {
            ClusterLockError::Held(other) => {
                let holder = LockOwner::describe_owner(&other);
                KubernetesDriverError::Locked(format!("locked by {}", holder.raw()))
            }
            ClusterLockError::Failed(error) => KubernetesDriverError::Failed(error.to_string()),
        })?;
        let ended = tokio::select! {
            ended = self.jobs.delete_earlier(POD_END_LIMIT) => {
                ended.map_err(|why| format!("workers of an earlier run have not ended: {why}"))
            }
            () = cancel.wait_for_level(StopLevel::Finish) => {
                Err("the run was stopped while workers of an earlier run were active".to_owned())
            }
        };
        match ended {
            Ok(()) => self.lease = Some(lease),
            Err(why) => {
                lease.release().await;
                return Err(KubernetesDriverError::Locked(why));
            }
        }
        Ok(())
    }

    /// Ends workers that a killed run has left, unless a run holds the lease: hosts that they still change would be
    /// observed halfway.
    pub async fn end_earlier_workers(&mut self) {
        // Without any, the lease stays free for a run that needs it.
        if matches!(self.jobs.has_workers_of_others().await, Ok(true))
            && self.take_over(&CancelSignal::default()).await.is_ok()
            && let Some(lease) = self.lease.take()
        {
            lease.release().await;
        }
    }

    /// Deletes the Jobs of this driver and releases the lease. A Job that cannot be deleted ends by itself: its worker
    /// notices that no coordinator is left.
    pub async fn close(mut self) {
        self.observer.abort();
        if let Err(why) = self.jobs.delete_all(self.role, POD_END_LIMIT).await {
            tracing::warn!(why, "worker Jobs are left");
        }
        if let Some(lease) = self.lease.take() {
            lease.release().await;
        }
    }

    async fn start_job(&self, task: &Utf8Path) -> Result<KubernetesWorker, String> {
        if self.lease.as_ref().is_some_and(HeldLease::is_lost) {
            return Err("another run has taken the lock of this one".to_owned());
        }
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}-{number}", self.prefix);
        let root = task.parent().and_then(Utf8Path::parent).ok_or("the task is not in a store")?;
        let channel = WorkerChannel::create(&root.join("channels").join(&name))?;
        let command =
            ["forge", "worker", task.as_str(), "--channel", channel.folder().as_str(), "--pod", "$(FORGE_POD)"];
        let user = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let object = self.pods.build_job(&WorkerJobObject {
            name: &name,
            run: &self.run,
            cluster: &self.cluster,
            role: self.role,
            command: &command.map(str::to_owned),
            user,
        });
        self.jobs.create(&object).await.map_err(|error| format!("cannot create the Job of a worker: {error}"))?;
        let start_within = Duration::from_secs(self.pods.start_within_s);
        Ok(KubernetesWorker::new(self.jobs.clone(), name, &channel, self.observed.clone(), start_within))
    }
}

impl Drop for KubernetesDriver {
    fn drop(&mut self) {
        self.observer.abort();
    }
}

impl WorkerDriver for KubernetesDriver {
    fn start_worker<'w>(&'w self, task: &'w Utf8Path) -> WorkerFuture<'w, Result<Box<dyn WorkerHandle>, String>> {
        Box::pin(async move { Ok(Box::new(self.start_job(task).await?) as Box<dyn WorkerHandle>) })
    }
}

/// Observes the Jobs until nothing follows them any more. An API that does not answer says nothing about workers: they
/// work on, and their messages arrive through the store.
async fn observe_jobs(jobs: WorkerJobs, sender: watch::Sender<Option<(Instant, WorkerJobStates)>>) {
    loop {
        let began = Instant::now();
        match jobs.observe().await {
            Ok(states) => drop(sender.send_replace(Some((began, states)))),
            Err(error) => tracing::debug!(%error, "worker Jobs cannot be observed"),
        }
        tokio::time::sleep(OBSERVE_INTERVAL).await;
    }
}
