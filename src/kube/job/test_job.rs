//! A job that measures: created, watched until it ended, its logs read, and always deleted.

use super::created_workload::CreatedWorkload;
use super::logs::ContainerLog;
use super::reasons::{WorkloadSnapshot, pod_reasons, text_at};
use super::run_object::{JOB_LABEL, RUN_LABEL, RunLabels, build_run_object, job_label_value};
use super::worker_state::join_reasons;
use crate::kube::request_error::ApiRequestError;
use crate::kube::served_kinds::ApiKindCache;
use crate::kube::{CallStopFn, ClusterApi};
use crate::model::Value;
use crate::object::{JobEndPredicates, ObjectId, TEST_HOSTS_ANNOTATION, TEST_ROLE_LABEL, TestPodRole};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of consecutive failed observations: an API server may restart.
const MAX_FAILED_POLLS: usize = 10;

/// A job to run.
#[derive(Clone, Debug)]
pub struct TestJobCall {
    /// The object, without the labels of a run.
    pub object: Value,
    /// The inventory's cluster.
    pub cluster: String,
    /// The name of the measurement.
    pub run: String,
    /// Number of its pods.
    pub pod_count: usize,
    /// Seconds that they may take to start.
    pub start_within_s: u64,
    /// Seconds that the job may run once all have started.
    pub limit_s: u64,
    /// Time between two observations.
    pub poll_interval: Duration,
}

/// How a job ended. Reasons are lowercase fragments, with text of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestJobEnd {
    /// It succeeded.
    Succeeded,
    /// It failed: the reason of a pod, or of the job.
    Failed(String),
    /// Not all of its pods started in time: the reason.
    NotStarted(String),
    /// The time limit ended it.
    OutOfTime,
    /// The user stopped the run.
    Stopped,
    /// The API no longer has it, and forge did not delete it.
    Deleted,
    /// The API has no such kind.
    NoSuchKind,
    /// The API refused it, or did not answer: the reason.
    Refused(String),
}

/// The log of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestPodLog {
    /// The pod.
    pub pod: String,
    /// Whether it prints the result.
    pub has_result: bool,
    /// The log, or why it cannot be read.
    pub text: Result<String, String>,
}

/// A job that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestJobOutcome {
    /// How it ended.
    pub end: TestJobEnd,
    /// What its pods printed.
    pub logs: Vec<TestPodLog>,
    /// Why the job may still exist; `None` if it and its pods are gone.
    pub left: Option<String>,
}

/// A job that an earlier run left behind.
#[derive(Clone)]
pub struct LeftoverTestJob {
    made: CreatedWorkload,
    /// The hosts that it occupies.
    pub hosts: Vec<String>,
}

/// What the watch has seen so far.
struct WatchedJob {
    began: Instant,
    /// When all pods had started.
    started: Option<Instant>,
    /// Why pods failed: a controller may delete them before it reports the end of the job.
    pod_reasons: Vec<String>,
}

impl ClusterApi {
    /// Runs a job and deletes it, whatever its end.
    pub async fn run_test_job(&self, call: &TestJobCall, stopped: CallStopFn<'_>) -> TestJobOutcome {
        let without_job = |end| TestJobOutcome { end, logs: Vec::new(), left: None };
        let Some(id) = ObjectId::from_object(&call.object) else {
            return without_job(TestJobEnd::Refused("the job has no name".to_owned()));
        };
        let labels = RunLabels { job: job_label_value(&call.cluster, &id), run: call.run.clone() };
        let object = build_run_object(&call.object, &labels);
        let made = match self.find_collection(&id, &ApiKindCache::default()).await {
            Ok(Some(place)) => self.create_workload(place, &object, &labels).await,
            Ok(None) => return without_job(TestJobEnd::NoSuchKind),
            Err(refusal) => Err(refusal),
        };
        let made = match made {
            Ok(made) => made,
            Err(refusal) => return self.give_up_creation(refusal, &object, &labels).await,
        };
        let (end, logs) = self.watch_test_job(call, &made, stopped).await;
        let left = self.delete_workload(&made).await.err().map(|refusal| self.describe_refusal(refusal));
        TestJobOutcome { end, logs, left }
    }

    /// A request without an answer may have created the job.
    async fn give_up_creation(&self, refusal: ApiRequestError, object: &Value, labels: &RunLabels) -> TestJobOutcome {
        // A repeated request finds the job that the first one created: its name is of this measurement only.
        let is_uncertain = matches!(refusal, ApiRequestError::Away(_)) || refusal.has_code(409);
        let end = TestJobEnd::Refused(self.describe_refusal(refusal));
        let mut left = None;
        if let (true, Some(id)) = (is_uncertain, ObjectId::from_object(object)) {
            left = self.delete_created(&id, labels).await.err().map(|refusal| self.describe_refusal(refusal));
        }
        TestJobOutcome { end, logs: Vec::new(), left }
    }

    async fn delete_created(&self, id: &ObjectId, labels: &RunLabels) -> Result<(), ApiRequestError> {
        let Some(place) = self.find_collection(id, &ApiKindCache::default()).await? else { return Ok(()) };
        let Some(there) = self.get_object(&place, id).await? else { return Ok(()) };
        // After a 409, an object of that name may be of another run.
        if there["metadata"]["labels"][RUN_LABEL] != labels.run.as_str() {
            return Ok(());
        }
        let (uid, namespace) = (text_at(&there, "/metadata/uid").to_owned(), id.namespace.clone().unwrap_or_default());
        let selector = labels.to_selector();
        self.delete_workload(&CreatedWorkload { id: id.clone(), uid, place, namespace, selector }).await
    }

    /// Observes the job until it ended. A failed observation is not an end.
    async fn watch_test_job(
        &self,
        call: &TestJobCall,
        made: &CreatedWorkload,
        stopped: CallStopFn<'_>,
    ) -> (TestJobEnd, Vec<TestPodLog>) {
        let mut watched = WatchedJob { began: Instant::now(), started: None, pod_reasons: Vec::new() };
        let mut lapses = 0;
        loop {
            match self.snapshot_workload(made).await {
                Ok(None) => return (TestJobEnd::Deleted, Vec::new()),
                Ok(Some(seen)) => {
                    lapses = 0;
                    watched.record(&seen, call.pod_count);
                    if let Some(end) = self.detect_test_end(call, made, (&seen, &watched), stopped()).await {
                        return (end, self.read_test_logs(&seen.pods).await);
                    }
                }
                Err(_) if stopped() => return (TestJobEnd::Stopped, Vec::new()),
                Err(refusal) if lapses >= MAX_FAILED_POLLS => {
                    return (TestJobEnd::Refused(self.describe_refusal(refusal)), Vec::new());
                }
                Err(_) => lapses += 1,
            }
            wait_or_stop(call.poll_interval, stopped).await;
        }
    }

    async fn detect_test_end(
        &self,
        call: &TestJobCall,
        made: &CreatedWorkload,
        (seen, watched): (&WorkloadSnapshot, &WatchedJob),
        stopped: bool,
    ) -> Option<TestJobEnd> {
        let ends = JobEndPredicates::for_kind(&made.id.api_version, &made.id.kind);
        let (succeeded, failed) = ends.map_or((false, false), |ends| {
            (ends.succeeded.matches_object(&seen.object), ends.failed.matches_object(&seen.object))
        });
        let is_over = |since: Instant, limit_s: u64| since.elapsed().as_secs() >= limit_s;
        match watched.started {
            _ if stopped && !succeeded => Some(TestJobEnd::Stopped),
            _ if failed => Some(TestJobEnd::Failed(self.explain_end(seen, watched, made, "the job failed").await)),
            _ if succeeded => Some(TestJobEnd::Succeeded),
            Some(started) => is_over(started, call.limit_s).then_some(TestJobEnd::OutOfTime),
            None if is_over(watched.began, call.start_within_s) => {
                let default =
                    format!("{} of {} pods exist, and the API gives no reason", seen.pods.len(), call.pod_count);
                Some(TestJobEnd::NotStarted(self.explain_end(seen, watched, made, &default).await))
            }
            None => None,
        }
    }

    /// Returns why: the reasons of pods first, because the job only says that a pod failed.
    async fn explain_end(
        &self,
        seen: &WorkloadSnapshot,
        watched: &WatchedJob,
        made: &CreatedWorkload,
        default: &str,
    ) -> String {
        let mut all = watched.pod_reasons.clone();
        for reason in self.collect_reasons(seen, &made.namespace).await {
            if !all.contains(&reason) {
                all.push(reason);
            }
        }
        join_reasons(all, || default.to_owned())
    }

    async fn read_test_logs(&self, pods: &[Value]) -> Vec<TestPodLog> {
        let role = |pod: &Value| pod["metadata"]["labels"][TEST_ROLE_LABEL].as_str().unwrap_or_default().to_owned();
        // A launcher prints what all processes print. The workers' own logs are those of their sshd.
        let has_launcher = pods.iter().any(|pod| role(pod) == TestPodRole::Launcher.name());
        let has_result =
            |pod: &Value| [TestPodRole::Launcher.name(), TestPodRole::FirstRank.name()].contains(&role(pod).as_str());
        let is_read = |pod: &&Value| text_at(pod, "/status/phase") != "Pending" && (!has_launcher || has_result(pod));
        let read: Vec<Value> = pods.iter().filter(is_read).cloned().collect();
        let printed = self.read_pod_logs(&read).await;
        let of_pod = |name: &str| read.iter().find(|pod| text_at(pod, "/metadata/name") == name);
        let build = |log: ContainerLog| TestPodLog {
            has_result: of_pod(&log.pod).is_some_and(has_result),
            pod: log.pod,
            text: log.text,
        };
        printed.into_iter().map(build).collect()
    }

    /// Lists the jobs that measurements of the inventory's cluster left behind, or still use. `id` is that of an object
    /// without the suffix of a run. A kind that the API does not have has none.
    ///
    /// # Errors
    /// The API does not answer, or refuses the request: a lowercase fragment.
    pub async fn list_test_jobs(&self, cluster: &str, id: &ObjectId) -> Result<Vec<LeftoverTestJob>, String> {
        let found = self.find_collection(id, &ApiKindCache::default()).await;
        let Some(place) = found.map_err(|refusal| self.describe_refusal(refusal))? else { return Ok(Vec::new()) };
        let job = job_label_value(cluster, id);
        let selector = format!("{JOB_LABEL}={job}");
        let items = self.list_objects(&place, id.namespace.as_deref(), Some(&selector), None).await;
        let build = |item: Value| {
            let run = item["metadata"]["labels"][RUN_LABEL].as_str().unwrap_or_default().to_owned();
            let hosts = item["metadata"]["annotations"][TEST_HOSTS_ANNOTATION].as_str().unwrap_or_default();
            let made = CreatedWorkload {
                id: ObjectId { name: text_at(&item, "/metadata/name").to_owned(), ..id.clone() },
                uid: text_at(&item, "/metadata/uid").to_owned(),
                place: place.clone(),
                namespace: id.namespace.clone().unwrap_or_default(),
                selector: RunLabels { job: job.clone(), run }.to_selector(),
            };
            LeftoverTestJob { made, hosts: serde_json::from_str(hosts).unwrap_or_default() }
        };
        items.map(|items| items.into_iter().map(build).collect()).map_err(|refusal| self.describe_refusal(refusal))
    }

    /// Deletes a job that was left behind, and waits until its pods are gone.
    ///
    /// # Errors
    /// The API does not answer, or refuses the request, or the pods do not end: a lowercase fragment.
    pub async fn delete_test_job(&self, job: &LeftoverTestJob) -> Result<(), String> {
        self.delete_workload(&job.made).await.map_err(|refusal| self.describe_refusal(refusal))
    }

    fn describe_refusal(&self, refusal: ApiRequestError) -> String {
        refusal.into_kube_error(self.server()).message
    }
}

impl WatchedJob {
    fn record(&mut self, seen: &WorkloadSnapshot, pod_count: usize) {
        let has_started = |pod: &&Value| matches!(text_at(pod, "/status/phase"), "Running" | "Succeeded" | "Failed");
        if self.started.is_none() && seen.pods.iter().filter(has_started).count() >= pod_count {
            self.started = Some(Instant::now());
        }
        let failed = seen.pods.iter().filter(|pod| text_at(pod, "/status/phase") == "Failed");
        let reasons: Vec<String> = failed.flat_map(pod_reasons).collect();
        if !reasons.is_empty() {
            self.pod_reasons = reasons;
        }
    }
}

/// Waits for the next observation, in short steps, so that a stop request does not wait for it.
async fn wait_or_stop(interval: Duration, stopped: CallStopFn<'_>) {
    let end = Instant::now() + interval;
    while Instant::now() < end && !stopped() {
        tokio::time::sleep(Duration::from_millis(200).min(interval)).await;
    }
}

#[cfg(test)]
mod tests;
