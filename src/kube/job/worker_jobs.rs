//! The Jobs of workers: created, observed together, and deleted.

use super::proofs::pod_collection;
use super::reasons::WorkloadSnapshot;
use super::worker_state::{WorkerJobState, WorkerJobStates, join_reasons};
use crate::kube::lease::{ClusterLease, ClusterLockError, HeldLease, LeaseExpiry};
use crate::kube::records::own_object_name;
use crate::kube::request_error::ApiRequestError;
use crate::kube::served_kinds::ApiCollection;
use crate::kube::{ClusterApi, KubeError};
use crate::model::Value;
use crate::object::{
    ObjectId, WORKER_CLUSTER_LABEL, WORKER_ROLE_LABEL, WORKER_RUN_LABEL, WorkerRoleLabel, worker_cluster_label,
};
use crate::transport::LockOwner;
use std::time::Duration;
use tokio::time::Instant;

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the creation of a Job is tried while the API does not answer.
const CREATE_LIMIT: Duration = Duration::from_secs(60);
const CREATE_PAUSE: Duration = Duration::from_secs(2);

/// The Jobs of one run in the API's namespace.
#[derive(Clone)]
pub struct WorkerJobs {
    cluster: ClusterApi,
    inventory_cluster: String,
    run: String,
}

impl WorkerJobs {
    /// Returns the Jobs of `run` for the inventory's cluster.
    pub fn new(cluster: ClusterApi, inventory_cluster: &str, run: &str) -> Self {
        Self { cluster, inventory_cluster: inventory_cluster.to_owned(), run: run.to_owned() }
    }

    /// Takes the lock of coordinators that change the hosts of the inventory's cluster.
    ///
    /// # Errors
    /// Another run holds it, or the API refuses the request.
    pub async fn acquire_lease(
        &self,
        owner: &LockOwner,
        clock: fn() -> jiff::Timestamp,
    ) -> Result<HeldLease, ClusterLockError> {
        let name = own_object_name("engine", &self.inventory_cluster);
        let lease = ClusterLease::new(self.cluster.namespace(), name, owner, clock);
        let began = tokio::time::Instant::now();
        match lease.try_acquire(&self.cluster).await {
            Ok(None) => Ok(HeldLease::start_renewal(self.cluster.clone(), lease, LeaseExpiry::Kept, began)),
            Ok(Some(other)) => Err(ClusterLockError::Held(other)),
            Err(refusal) => Err(ClusterLockError::Failed(self.to_error(refusal))),
        }
    }

    /// Creates a Job. While the API does not answer, it is tried again: a Job of that name is then the one of an earlier
    /// attempt, because names are unique.
    ///
    /// # Errors
    /// The API refuses it, or does not answer for a minute.
    pub async fn create(&self, object: &Value) -> Result<(), KubeError> {
        let id = ObjectId::from_object(object).ok_or_else(|| KubeError::new("the Job has no name"))?;
        let end = Instant::now() + CREATE_LIMIT;
        loop {
            match self.cluster.create_object(&job_collection(), &id, object, false).await {
                Ok(_) => return Ok(()),
                Err(refusal) if refusal.has_code(409) => return Ok(()),
                Err(ApiRequestError::Away(_)) if Instant::now() < end => tokio::time::sleep(CREATE_PAUSE).await,
                Err(refusal) => return Err(self.to_error(refusal)),
            }
        }
    }

    /// Observes all Jobs of the run and their pods.
    ///
    /// # Errors
    /// The API does not answer, or refuses the request.
    pub async fn observe(&self) -> Result<WorkerJobStates, KubeError> {
        let own = format!("{WORKER_RUN_LABEL}={},{}", self.run, self.cluster_selector());
        self.list_states(&own).await.map_err(|refusal| self.to_error(refusal))
    }

    /// Describes what keeps a Job from starting: its own status, its pods, and their events.
    pub async fn explain_wait(&self, state: &WorkerJobState) -> String {
        let Some(job) = state.job.clone() else { return "its Job does not exist".to_owned() };
        let snapshot = WorkloadSnapshot { object: job, pods: state.pods.clone() };
        let reasons = self.cluster.collect_reasons(&snapshot, self.cluster.namespace()).await;
        join_reasons(reasons, || match state.pods.is_empty() {
            true => "its Job has no pod".to_owned(),
            false => "the API gives no reason".to_owned(),
        })
    }

    /// Deletes a Job and waits until its pods are gone.
    ///
    /// # Errors
    /// They are not gone within the limit, or the API does not answer: a lowercase fragment.
    pub async fn delete(&self, name: &str, limit: Duration) -> Result<(), String> {
        let selector = format!("{WORKER_RUN_LABEL}={},{}", self.run, self.cluster_selector());
        self.delete_matching(&selector, limit, |job, _| job == name).await
    }

    /// Deletes all Jobs of the run, and waits until their pods are gone.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub async fn delete_all(&self, role: WorkerRoleLabel, limit: Duration) -> Result<(), String> {
        let role = format!("{WORKER_ROLE_LABEL}={}", role.name());
        let selector = format!("{WORKER_RUN_LABEL}={},{},{role}", self.run, self.cluster_selector());
        self.delete_matching(&selector, limit, |_, _| true).await
    }

    /// Reports whether workers of other runs may change hosts.
    ///
    /// # Errors
    /// The API does not answer, or refuses the request.
    pub async fn has_workers_of_others(&self) -> Result<bool, KubeError> {
        let role = format!("{WORKER_ROLE_LABEL}={}", WorkerRoleLabel::Apply.name());
        let selector = format!("{WORKER_RUN_LABEL}!={},{},{role}", self.run, self.cluster_selector());
        let states = self.list_states(&selector).await.map_err(|refusal| self.to_error(refusal))?;
        Ok(!states.is_empty())
    }

    /// Deletes what earlier runs left: workers that change hosts, and finished observers. Waits until their pods are gone.
    /// The caller holds the lock, so no other run needs them.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub async fn delete_earlier(&self, limit: Duration) -> Result<(), String> {
        let selector = format!("{WORKER_RUN_LABEL}!={},{}", self.run, self.cluster_selector());
        let is_left = |_: &str, state: &WorkerJobState| {
            let role = state
                .job
                .iter()
                .chain(&state.pods)
                .find_map(|object| object.get("metadata")?.get("labels")?.get(WORKER_ROLE_LABEL)?.as_str());
            role != Some(WorkerRoleLabel::Observe.name()) || state.find_end("", None).is_some()
        };
        self.delete_matching(&selector, limit, is_left).await
    }

    async fn delete_matching(
        &self,
        selector: &str,
        limit: Duration,
        matches: impl Fn(&str, &WorkerJobState) -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + limit;
        let describe = |refusal: ApiRequestError| self.to_error(refusal).to_string();
        loop {
            let states = self.list_states(selector).await.map_err(describe)?;
            let left: Vec<_> = states.into_iter().filter(|(name, state)| matches(name, state)).collect();
            let Some((name, first)) = left.first() else { return Ok(()) };
            for state in left.iter().map(|(_, state)| state) {
                self.delete_state(state).await.map_err(describe)?;
            }
            if Instant::now() >= end {
                let pod = first.pods.first().and_then(|pod| pod["metadata"]["name"].as_str());
                let what = pod.map_or_else(|| format!("Job {name}"), |pod| format!("pod {pod}"));
                return Err(format!("{what} still exists {} s after it was deleted", limit.as_secs()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Deletes the Job. The API's garbage collector then deletes its pods: forge needs no right to delete pods.
    async fn delete_state(&self, state: &WorkerJobState) -> Result<(), ApiRequestError> {
        let Some(job) = state.job.as_ref().filter(|job| job["metadata"]["deletionTimestamp"].is_null()) else {
            return Ok(());
        };
        let text = |key: &str| job["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = ("batch/v1".to_owned(), "Job".to_owned());
        let id = ObjectId { api_version, kind, namespace: Some(text("namespace")), name: text("name") };
        match self.cluster.delete_object(&job_collection(), &id, &text("uid")).await {
            Err(refusal) if refusal.has_code(404) || refusal.has_code(409) => Ok(()),
            done => done.map(drop),
        }
    }

    async fn list_states(&self, selector: &str) -> Result<WorkerJobStates, ApiRequestError> {
        let namespace = Some(self.cluster.namespace());
        // Pods first: a Job that is listed without pods then has none, or new ones.
        let pods = self.cluster.list_objects(&pod_collection(), namespace, Some(selector), None).await?;
        let jobs = self.cluster.list_objects(&job_collection(), namespace, Some(selector), None).await?;
        let mut states = WorkerJobStates::new();
        for job in jobs {
            let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            states.entry(name).or_default().job = Some(job);
        }
        for pod in pods {
            let labels = &pod["metadata"]["labels"];
            let name = ["batch.kubernetes.io/job-name", "job-name"].iter().find_map(|label| labels[*label].as_str());
            let name = name.unwrap_or_default().to_owned();
            states.entry(name).or_default().pods.push(pod);
        }
        Ok(states)
    }

    fn cluster_selector(&self) -> String {
        format!("{WORKER_CLUSTER_LABEL}={}", worker_cluster_label(&self.inventory_cluster))
    }

    fn to_error(&self, refusal: ApiRequestError) -> KubeError {
        refusal.into_kube_error(self.cluster.server())
    }
}

fn job_collection() -> ApiCollection {
    ApiCollection::new("batch/v1", "jobs", true)
}
