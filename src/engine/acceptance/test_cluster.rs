//! The cluster in which tests run as jobs: its nodes, and the jobs that earlier runs left on the tested hosts.

use crate::config::{DeclaredTest, Project};
use crate::engine::cluster_nodes::{LazyClusterApi, find_declared_node};
use crate::engine::run_options::RunOptions;
use crate::kube::{ClusterApi, LeftoverTestJob};
use crate::model::HostName;
use crate::object::{ClusterNode, ObjectId, TEST_JOB_NAME, TestJobLaunch};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::OnceCell;

/// Jobs that one more second between two observations is for: each observation of a job is two requests.
const JOBS_PER_SECOND: usize = 20;
/// Longest time between two observations of a job.
const MAX_POLL_S: usize = 10;

/// The cluster's API as a run of tests uses it. Nothing is contacted before a test needs it.
pub(super) struct TestCluster<'r> {
    project: &'r Project,
    options: &'r RunOptions,
    api: &'r LazyClusterApi,
    /// The jobs that tests of this run create, without the suffix of a measurement.
    kinds: Vec<ObjectId>,
    /// Whether every test of the run is a job.
    jobs_only: bool,
    /// A node's name does not change, so one list serves all measurements.
    nodes: OnceCell<Vec<ClusterNode>>,
    /// The jobs that existed before this run created one.
    earlier: OnceCell<Vec<LeftoverTestJob>>,
    running: AtomicUsize,
}

/// Counts a job as long as it exists.
pub(super) struct RunningJob<'c>(&'c AtomicUsize);

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'r> TestCluster<'r> {
    pub fn new(project: &'r Project, tests: &[DeclaredTest], options: &'r RunOptions, api: &'r LazyClusterApi) -> Self {
        let launches = tests.iter().filter_map(|test| test.launch.as_kubernetes());
        let kinds: BTreeSet<ObjectId> = launches.map(test_job_id).collect();
        let kinds = kinds.into_iter().collect();
        let jobs_only = !tests.is_empty() && tests.iter().all(|test| test.launch.as_kubernetes().is_some());
        let (nodes, earlier, running) = (OnceCell::new(), OnceCell::new(), AtomicUsize::new(0));
        Self { project, options, api, kinds, jobs_only, nodes, earlier, running }
    }

    /// Returns whether every test of the run is a job. The cluster then decides which GPUs of a host are free, and the
    /// pods of the GPU operator, which hold all devices, are no work of others.
    pub fn runs_jobs_only(&self) -> bool {
        self.jobs_only
    }

    /// Returns the API's connection.
    ///
    /// # Errors
    /// The API could not be opened: a lowercase fragment.
    pub async fn open(&self) -> Result<ClusterApi, String> {
        self.api.get_cluster(self.project, self.options).await.map_err(|error| error.message)
    }

    /// Returns the nodes of hosts, in their order.
    ///
    /// # Errors
    /// A host is not a node, or the API does not answer: a lowercase fragment.
    pub async fn find_nodes(&self, hosts: &[&HostName]) -> Result<Vec<String>, String> {
        let listed = self
            .nodes
            .get_or_try_init(|| async { Ok(self.api.list_nodes(self.project, self.options).await?.1) })
            .await
            .map_err(|error: crate::kube::KubeError| format!("the nodes are unknown: {}", error.message))?;
        let find = |host: &&HostName| match find_declared_node(self.project, host, listed)? {
            Some(node) => Ok(node.name.clone()),
            None => Err(format!("`{host}` is not a node of the cluster")),
        };
        hosts.iter().map(find).collect()
    }

    /// Deletes the jobs that earlier runs left on a host. This run holds the lock of the host, so no other run measures it.
    ///
    /// # Errors
    /// They may still exist: a lowercase fragment.
    pub async fn remove_leftovers(&self, host: &HostName) -> Result<(), String> {
        if self.kinds.is_empty() {
            return Ok(());
        }
        let failed = |why: String| format!("jobs of earlier tests on this host could not be removed: {why}");
        let earlier = self.earlier.get_or_try_init(|| self.list_earlier_jobs()).await.map_err(failed)?;
        for job in earlier.iter().filter(|job| job.hosts.iter().any(|name| name == host.as_str())) {
            self.open().await.map_err(failed)?.delete_test_job(job).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn list_earlier_jobs(&self) -> Result<Vec<LeftoverTestJob>, String> {
        let cluster = self.open().await?;
        let mut all = Vec::new();
        for id in &self.kinds {
            all.extend(cluster.list_test_jobs(&self.project.cluster, id).await?);
        }
        Ok(all)
    }

    /// Counts a job. Returns the time between two observations of each job.
    pub fn start_job(&self) -> (RunningJob<'_>, Duration) {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        let seconds = (1 + running / JOBS_PER_SECOND).min(MAX_POLL_S);
        (RunningJob(&self.running), Duration::from_secs(seconds as u64))
    }
}

fn test_job_id(launch: &TestJobLaunch) -> ObjectId {
    let (api_version, kind) = launch.kind.api_kind();
    ObjectId {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some(launch.namespace.clone()),
        name: TEST_JOB_NAME.to_owned(),
    }
}
