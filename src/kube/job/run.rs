//! One run of a workload: created, watched, reported, and deleted whatever the outcome.

use super::logs;
use super::proofs::pod_collection;
use super::reasons::WorkloadSnapshot;
use super::run_object::{RUN_LABEL, build_run_object, job_label_value};
use crate::kube::callbacks::{CallStopFn, ClusterProgressFn};
use crate::kube::request_error::{ApiRequestError, local_request_error};
use crate::kube::served_kinds::{ApiCollection, ApiKindCache};
use crate::kube::{ClusterWriter, KubeError};
use crate::model::{SecretStore, Value};
use crate::object::reveal_object;
use crate::object::{JobCall, JobGoal};
use crate::object::{ObjectId, ProvenRun};
use std::time::Duration;
use tokio::time::Instant;

/// Interval between observations.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of consecutive failed observations: an API server may restart.
const MAX_FAILED_POLLS: usize = 10;
/// Time limit for its pods to terminate.
const POD_EXIT_TIMEOUT: Duration = Duration::from_secs(120);

/// A workload that this run created.
struct CreatedWorkload<'c> {
    call: &'c JobCall,
    id: ObjectId,
    uid: String,
    place: ApiCollection,
    namespace: String,
    /// Selects its pods.
    selector: String,
}

/// The outcome, if known.
enum WorkloadEnd {
    Good(String),
    Bad { why: String, seen: WorkloadSnapshot },
}

impl ClusterWriter {
    /// Runs a workload and deletes it. Returns a description of the outcome.
    ///
    /// # Errors
    /// The workload failed, did not end in time, or did not have the expected outcome: the reason, with the last lines
    /// of its logs; the user stopped it; or the API refuses a request.
    pub(in crate::kube) async fn run_job(
        &self,
        call: &JobCall,
        secrets: &SecretStore,
        say: ClusterProgressFn<'_>,
        stopped: CallStopFn<'_>,
    ) -> Result<String, KubeError> {
        self.check_lock()?;
        let server = self.looker.cluster.server();
        let refused = |refusal: ApiRequestError| refusal.into_kube_error(server);
        // An earlier proof is void until the new run succeeds.
        self.looker.save_proof(&call.id, None).await.map_err(refused)?;
        let made = self.create_workload(call, secrets).await.map_err(refused)?;
        let end = self.watch_workload(&made, say, stopped).await;
        let told = match end {
            Ok(WorkloadEnd::Good(said)) => Ok(said),
            Ok(WorkloadEnd::Bad { why, seen }) => Err(self.job_failure_error(&made, &why, &seen).await),
            Err(refusal) => Err(refused(refusal)),
        };
        let gone = self.delete_workload(&made).await;
        let said = told?;
        gone.map_err(refused)?;
        let time = (self.clock())().to_string();
        let proven = ProvenRun { digest: call.digest.clone(), time, run: self.run_id().to_owned(), said: said.clone() };
        self.looker.save_proof(&call.id, Some(&proven)).await.map_err(refused)?;
        Ok(format!("{} {said}", call.id))
    }

    async fn create_workload<'c>(
        &self,
        call: &'c JobCall,
        secrets: &SecretStore,
    ) -> Result<CreatedWorkload<'c>, ApiRequestError> {
        let cluster = &self.looker.cluster;
        let place = cluster.find_collection(&call.id, &ApiKindCache::default()).await?;
        let unserved =
            || local_request_error(&format!("the API serves no `{}` of `{}`", call.id.kind, call.id.api_version));
        let place = place.ok_or_else(unserved)?;
        let object = build_run_object(&call.object, &job_label_value(&self.looker.name, &call.id), self.run_id());
        let id =
            ObjectId::from_object(&object).ok_or_else(|| local_request_error("an object has no kind or no name"))?;
        let there = cluster.create_object(&place, &id, &reveal_object(&object, secrets), false).await?;
        Ok(CreatedWorkload {
            call,
            uid: there["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            place,
            namespace: call.id.namespace.clone().unwrap_or_default(),
            selector: format!(
                "{RUN_LABEL}={},{}={}",
                self.run_id(),
                super::run_object::JOB_LABEL,
                job_label_value(&self.looker.name, &call.id)
            ),
            id,
        })
    }

    /// Observes the workload until the outcome is known. A failed observation is not an outcome.
    async fn watch_workload(
        &self,
        made: &CreatedWorkload<'_>,
        say: ClusterProgressFn<'_>,
        stopped: CallStopFn<'_>,
    ) -> Result<WorkloadEnd, ApiRequestError> {
        let (began, mut lapses, mut told) = (Instant::now(), 0, String::new());
        loop {
            match self.snapshot_workload(made).await {
                Ok(None) => return Ok(failed_end("another user deleted it", WorkloadSnapshot::default())),
                Ok(Some(seen)) => {
                    lapses = 0;
                    if seen.summarize_state() != told {
                        told = seen.summarize_state();
                        say(&format!("{}: {told}", made.id));
                    }
                    if let Some(end) = self.detect_end(made, seen, began.elapsed(), stopped()).await {
                        return Ok(end);
                    }
                }
                Err(refusal) if lapses >= MAX_FAILED_POLLS || stopped() => return Err(refusal),
                Err(_) => lapses += 1,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn snapshot_workload(&self, made: &CreatedWorkload<'_>) -> Result<Option<WorkloadSnapshot>, ApiRequestError> {
        let cluster = &self.looker.cluster;
        let Some(object) = cluster.get_object(&made.place, &made.id).await? else { return Ok(None) };
        let pods = cluster.list_pods_matching(&made.namespace, &made.selector).await?;
        Ok(Some(WorkloadSnapshot { object, pods }))
    }

    /// Returns the outcome, if the workload has one.
    async fn detect_end(
        &self,
        made: &CreatedWorkload<'_>,
        seen: WorkloadSnapshot,
        took: Duration,
        stopped: bool,
    ) -> Option<WorkloadEnd> {
        let (signs, limit_s) = match &made.call.aim {
            JobGoal::Ends { signs, within_s } => (signs, *within_s),
            JobGoal::StaysPending { signs, for_s } => (signs, *for_s),
        };
        let over = took.as_secs() >= limit_s;
        let (succeeded, failed) =
            (signs.succeeded.matches_object(&seen.object), signs.failed.matches_object(&seen.object));
        match &made.call.aim {
            _ if failed => Some(failed_end("it failed", seen)),
            JobGoal::Ends { .. } if succeeded => Some(self.check_success(made, seen, took).await),
            JobGoal::StaysPending { .. } if succeeded || seen.find_started_pod().is_some() => {
                let pod = seen.find_started_pod().and_then(|pod| pod["metadata"]["name"].as_str());
                let what = pod.map_or_else(|| "it".to_owned(), |pod| format!("pod {pod}"));
                Some(failed_end(&format!("expected to stay pending, but {what} started"), seen))
            }
            _ if stopped => Some(failed_end("stopped with the run", seen)),
            JobGoal::Ends { .. } if over => Some(failed_end(&format!("not finished within {limit_s} s"), seen)),
            JobGoal::StaysPending { .. } if over => Some(self.check_pending(made, seen, limit_s).await),
            _ => None,
        }
    }

    async fn check_success(&self, made: &CreatedWorkload<'_>, seen: WorkloadSnapshot, took: Duration) -> WorkloadEnd {
        let printed = match made.call.logs.expect.is_empty() && made.call.logs.deny.is_empty() {
            true => Vec::new(),
            false => self.looker.cluster.read_pod_logs(&seen.pods).await,
        };
        if let Some(why) = logs::find_log_mismatch(made.call, &printed) {
            return failed_end(&format!("it succeeded, but {why}"), seen);
        }
        let nodes = seen.node_names();
        let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
        WorkloadEnd::Good(format!("succeeded after {} s{on}", took.as_secs()))
    }

    /// Requires a reason for the pending state: a workload without a scheduler stays pending, too.
    async fn check_pending(&self, made: &CreatedWorkload<'_>, seen: WorkloadSnapshot, for_s: u64) -> WorkloadEnd {
        let reasons = self.looker.cluster.collect_reasons(&seen, &made.namespace).await;
        match reasons.first() {
            Some(first) => WorkloadEnd::Good(format!("stayed pending for {for_s} s: {first}")),
            None => failed_end("it stays pending and no reason is reported: check that its scheduler runs", seen),
        }
    }

    async fn job_failure_error(&self, made: &CreatedWorkload<'_>, why: &str, seen: &WorkloadSnapshot) -> KubeError {
        let cluster = &self.looker.cluster;
        let reasons = cluster.collect_reasons(seen, &made.namespace).await;
        let mut message = format!("{}: {why}", made.id);
        if let Some(first) = reasons.first() {
            message.push_str(&format!(": {first}"));
        }
        // If some pods failed, only their logs are shown: the last lines of successful pods say little.
        let failed: Vec<Value> = seen
            .pods
            .iter()
            .filter(|pod| pod.pointer("/status/phase").is_some_and(|p| p == "Failed"))
            .cloned()
            .collect();
        let of = if failed.is_empty() { &seen.pods } else { &failed };
        let begun: Vec<Value> =
            of.iter().filter(|pod| pod.pointer("/status/phase").is_some_and(|p| p != "Pending")).cloned().collect();
        let mut said: String = reasons.iter().skip(1).map(|reason| format!("{reason}\n")).collect();
        said.push_str(&logs::format_log_tails(&cluster.read_pod_logs(&begun).await, made.call.logs.tail));
        KubeError::new(message).with_output(said)
    }

    /// Deletes it and waits until its pods are gone: until then they occupy the requested resources.
    async fn delete_workload(&self, made: &CreatedWorkload<'_>) -> Result<(), ApiRequestError> {
        let cluster = &self.looker.cluster;
        match cluster.delete_object(&made.place, &made.id, &made.uid).await {
            Err(refusal) if refusal.has_code(404) || refusal.has_code(409) => {}
            done => drop(done?),
        }
        let end = Instant::now() + POD_EXIT_TIMEOUT;
        loop {
            let there = cluster.get_object(&made.place, &made.id).await?.is_some();
            let left = cluster.list_pods_matching(&made.namespace, &made.selector).await?;
            if !there && left.is_empty() {
                return Ok(());
            }
            // Pods that no garbage collector removes are deleted directly.
            for pod in left.iter().filter(|pod| !there && pod["metadata"]["deletionTimestamp"].is_null()) {
                let Some(id) = ObjectId::from_object(&with_pod_kind(pod)) else { continue };
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                match cluster.delete_object(&pod_collection(), &id, uid).await {
                    Err(refusal) if refusal.has_code(404) || refusal.has_code(409) => {}
                    done => drop(done?),
                }
            }
            if Instant::now() >= end {
                let what = left.first().and_then(|pod| pod["metadata"]["name"].as_str());
                let what = what.map_or_else(|| made.id.to_string(), |pod| format!("pod {pod}"));
                return Err(local_request_error(&format!(
                    "{what} still exists {} s after it was deleted",
                    POD_EXIT_TIMEOUT.as_secs()
                )));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Discards the recorded proof.
    pub(in crate::kube) async fn forget_proof(&self, id: &ObjectId) -> Result<(), ApiRequestError> {
        self.looker.save_proof(id, None).await
    }
}

fn failed_end(why: &str, seen: WorkloadSnapshot) -> WorkloadEnd {
    WorkloadEnd::Bad { why: why.to_owned(), seen }
}

/// Adds `apiVersion` and `kind`: items of a list have neither.
fn with_pod_kind(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}
