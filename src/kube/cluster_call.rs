//! Changes to a cluster: calls, one after the other, each by the holder of the cluster's lock.

use super::callbacks::{ClusterProgressFn, JobStopFn};
use super::custom_kinds::ESTABLISHED;
use super::request_error::{ApiRequestError, local_request_error};
use super::served_kinds::{ApiCollection, ApiKindCache};
use super::{ClusterWriter, KubeError};
use crate::model::{SecretStore, Value};
use crate::object::ClusterCall;
use crate::object::ObjectId;
use crate::object::remove_pointers;
use crate::object::{find_condition, reveal_object};
use std::time::Duration;
use tokio::time::Instant;

/// Interval between polls.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

impl ClusterWriter {
    /// Executes one call, within `limit`. Returns a description of the outcome.
    ///
    /// # Errors
    /// The lock is lost, the API refuses the request, or the awaited condition was not reached in time.
    pub async fn execute_call(
        &self,
        call: &ClusterCall,
        limit: Duration,
        secrets: &SecretStore,
        say: ClusterProgressFn<'_>,
        stopped: JobStopFn<'_>,
    ) -> Result<String, KubeError> {
        self.check_lock()?;
        if let ClusterCall::Job(job) = call {
            // A job has its own limits, and its objects are deleted after each of them.
            return self.run_job(job, secrets, say, stopped).await;
        }
        if let ClusterCall::Release(release) = call {
            // A release has its own limit, and a running helm is not abandoned.
            return self
                .looker
                .cluster
                .execute_release_call(release, secrets, say)
                .await
                .map(|()| call.describe_call());
        }
        let done = match tokio::time::timeout(limit, self.execute_object_call(call, secrets)).await {
            Ok(done) => done,
            Err(_) => return Err(self.call_timeout_error(call, limit).await),
        };
        done.map_err(|refusal| refusal.into_kube_error(self.looker.cluster.server()))
    }

    async fn execute_object_call(&self, call: &ClusterCall, secrets: &SecretStore) -> Result<String, ApiRequestError> {
        // Discovered anew for each call: the previous call may have added a kind.
        let served = ApiKindCache::default();
        let cluster = &self.looker.cluster;
        match call {
            ClusterCall::Apply { object } => {
                let id = ObjectId::from_object(object)
                    .ok_or_else(|| local_request_error("an object has no kind or no name"))?;
                let place = self.require_collection(&id, &served).await?;
                cluster.apply_object(&place, &id, &reveal_object(object, secrets), true, false).await?;
            }
            ClusterCall::Strip { id, version, pointers } => {
                let place = self.require_collection(id, &served).await?;
                let raw = cluster
                    .get_object(&place, id)
                    .await?
                    .ok_or_else(|| local_request_error(&format!("{id} no longer exists")))?;
                if raw.pointer("/metadata/resourceVersion").and_then(Value::as_str) != Some(version) {
                    return Err(local_request_error(&format!("{id} changed in the meantime")));
                }
                cluster.replace_object(&place, id, &remove_pointers(&raw, pointers), false).await?;
            }
            ClusterCall::Delete { id, uid } => self.delete_and_wait(id, uid, &served).await?,
            ClusterCall::Await { id, condition, limit_s } => {
                self.wait_for_condition(id, condition, *limit_s, &served).await?
            }
            ClusterCall::Mark(marks) => cluster.change_node_marks(marks).await?,
            ClusterCall::Unprove { id } => self.forget_proof(id).await?,
            ClusterCall::Job(_) | ClusterCall::Release(_) => {
                return Err(local_request_error("a job or release is not an object"));
            }
        }
        Ok(call.describe_call())
    }

    async fn call_timeout_error(&self, call: &ClusterCall, limit: Duration) -> KubeError {
        let why = format!("timed out after {:.0} s: {}", limit.as_secs_f64(), call.describe_call());
        match call {
            ClusterCall::Delete { id, .. } => self.not_deleted_error(id, why).await,
            _ => KubeError::new(why),
        }
    }

    async fn require_collection(&self, id: &ObjectId, served: &ApiKindCache) -> Result<ApiCollection, ApiRequestError> {
        let place = self.looker.cluster.find_collection(id, served).await?;
        place.ok_or_else(|| local_request_error(&format!("the API serves no `{}` of `{}`", id.kind, id.api_version)))
    }

    async fn wait_for_condition(
        &self,
        id: &ObjectId,
        condition: &str,
        limit_s: u64,
        served: &ApiKindCache,
    ) -> Result<(), ApiRequestError> {
        let place = self.require_collection(id, served).await?;
        let end = Instant::now() + Duration::from_secs(limit_s);
        loop {
            let object = self.looker.cluster.get_object(&place, id).await?;
            let found = object.as_ref().and_then(|object| find_condition(object, condition));
            let holds = match &object {
                Some(definition) if condition == ESTABLISHED => {
                    self.looker.cluster.serves_definition(definition).await?
                }
                _ => found.is_some_and(|found| found["status"] == "True"),
            };
            if holds {
                return Ok(());
            }
            if Instant::now() >= end {
                let why = match found {
                    Some(found) if found["status"] == "True" => "the API serves no such kind yet",
                    found => found.and_then(|found| found["message"].as_str()).unwrap_or("condition not reported yet"),
                };
                return Err(local_request_error(&format!("{id} is not {condition} after {limit_s} s: {why}")));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
