//! One run of a workload: created, watched, reported, and deleted whatever the outcome.

use super::created_workload::CreatedWorkload;
use super::logs;
use super::reasons::WorkloadSnapshot;
use super::run_object::{RunLabels, build_run_object, job_label_value};
use crate::kube::callbacks::{CallStopFn, ClusterProgressFn};
use crate::kube::request_error::{ApiRequestError, local_request_error};
use crate::kube::served_kinds::ApiKindCache;
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
        let server = self.looker.cluster.server();
        let refused = |refusal: ApiRequestError| refusal.into_kube_error(server);
        // An earlier proof is void until the new run succeeds.
        self.request_under_lock(self.looker.save_proof(&call.id, None)).await?;
        let made = self.create_from_call(call, secrets).await.map_err(refused)?;
        let end = self.watch_workload(call, &made, say, stopped).await;
        let told = match end {
            Ok(WorkloadEnd::Good(said)) => Ok(said),
            Ok(WorkloadEnd::Bad { why, seen }) => Err(self.job_failure_error((call, &made), &why, &seen).await),
            Err(refusal) => Err(refused(refusal)),
        };
        let gone = self.looker.cluster.delete_workload(&made).await;
        let said = told?;
        gone.map_err(refused)?;
        let time = (self.clock())().to_string();
        let proven = ProvenRun { digest: call.digest.clone(), time, run: self.run_id().to_owned(), said: said.clone() };
        self.request_under_lock(self.looker.save_proof(&call.id, Some(&proven))).await?;
        Ok(format!("{} {said}", call.id))
    }

    async fn create_from_call(
        &self,
        call: &JobCall,
        secrets: &SecretStore,
    ) -> Result<CreatedWorkload, ApiRequestError> {
        let labels = RunLabels { job: job_label_value(&self.looker.name, &call.id), run: self.run_id().to_owned() };
        let object = build_run_object(&call.object, &labels);
        let place = self.looker.cluster.find_collection(&call.id, &ApiKindCache::default()).await?;
        let unserved =
            || local_request_error(&format!("the API serves no `{}` of `{}`", call.id.kind, call.id.api_version));
        let object = reveal_object(&object, secrets);
        self.looker.cluster.create_workload(place.ok_or_else(unserved)?, &object, &labels).await
    }

    /// Observes the workload until the outcome is known. A failed observation is not an outcome.
    async fn watch_workload(
        &self,
        call: &JobCall,
        made: &CreatedWorkload,
        say: ClusterProgressFn<'_>,
        stopped: CallStopFn<'_>,
    ) -> Result<WorkloadEnd, ApiRequestError> {
        let (began, mut lapses, mut told) = (Instant::now(), 0, String::new());
        loop {
            match self.looker.cluster.snapshot_workload(made).await {
                Ok(None) => return Ok(failed_end("it disappeared from the API", WorkloadSnapshot::default())),
                Ok(Some(seen)) => {
                    lapses = 0;
                    if seen.summarize_state() != told {
                        told = seen.summarize_state();
                        say(&format!("{}: {told}", made.id));
                    }
                    if let Some(end) = self.detect_end((call, made), seen, began.elapsed(), stopped()).await {
                        return Ok(end);
                    }
                }
                Err(refusal) if lapses >= MAX_FAILED_POLLS || stopped() => return Err(refusal),
                Err(_) => lapses += 1,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the outcome, if the workload has one.
    async fn detect_end(
        &self,
        (call, made): (&JobCall, &CreatedWorkload),
        seen: WorkloadSnapshot,
        took: Duration,
        stopped: bool,
    ) -> Option<WorkloadEnd> {
        let (signs, limit_s) = match &call.aim {
            JobGoal::Ends { signs, within_s } => (signs, *within_s),
            JobGoal::StaysPending { signs, for_s } => (signs, *for_s),
        };
        let over = took.as_secs() >= limit_s;
        let (succeeded, failed) =
            (signs.succeeded.matches_object(&seen.object), signs.failed.matches_object(&seen.object));
        match &call.aim {
            _ if failed => Some(failed_end("it failed", seen)),
            JobGoal::Ends { .. } if succeeded => Some(self.check_success(call, seen, took).await),
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

    async fn check_success(&self, call: &JobCall, seen: WorkloadSnapshot, took: Duration) -> WorkloadEnd {
        let printed = match call.logs.expect.is_empty() && call.logs.deny.is_empty() {
            true => Vec::new(),
            false => self.looker.cluster.read_pod_logs(&seen.pods).await,
        };
        if let Some(why) = logs::find_log_mismatch(call, &printed) {
            return failed_end(&format!("it succeeded, but {why}"), seen);
        }
        let nodes = seen.node_names();
        let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
        WorkloadEnd::Good(format!("succeeded after {} s{on}", took.as_secs()))
    }

    /// Requires a reason for the pending state: a workload without a scheduler stays pending, too.
    async fn check_pending(&self, made: &CreatedWorkload, seen: WorkloadSnapshot, for_s: u64) -> WorkloadEnd {
        let reasons = self.looker.cluster.collect_reasons(&seen, &made.namespace).await;
        match reasons.first() {
            Some(first) => WorkloadEnd::Good(format!("stayed pending for {for_s} s: {first}")),
            None => failed_end("it stays pending and no reason is reported: check that its scheduler runs", seen),
        }
    }

    async fn job_failure_error(
        &self,
        (call, made): (&JobCall, &CreatedWorkload),
        why: &str,
        seen: &WorkloadSnapshot,
    ) -> KubeError {
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
        said.push_str(&logs::format_log_tails(&cluster.read_pod_logs(&begun).await, call.logs.tail));
        KubeError::new(message).with_output(said)
    }

    /// Discards the recorded proof.
    pub(in crate::kube) async fn forget_proof(&self, id: &ObjectId) -> Result<(), ApiRequestError> {
        self.looker.save_proof(id, None).await
    }
}

fn failed_end(why: &str, seen: WorkloadSnapshot) -> WorkloadEnd {
    WorkloadEnd::Bad { why: why.to_owned(), seen }
}
