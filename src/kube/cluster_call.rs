//! Changes to a cluster: calls, one after the other, each by the holder of the cluster's lock.

use super::api::CHANGED_OBJECT_READS;
use super::callbacks::{CallStopFn, ClusterProgressFn};
use super::custom_kinds::ESTABLISHED;
use super::request_error::{ApiRequestError, local_request_error};
use super::served_kinds::{ApiCollection, ApiKindCache};
use super::{ClusterWriter, KubeError};
use crate::model::{SecretStore, Value};
use crate::object::ClusterCall;
use crate::object::ObjectId;
use crate::object::{find_condition, reveal_object};
use crate::object::{remove_pointers, restore_list_order};
use std::collections::BTreeMap;
use std::sync::PoisonError;
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
        stopped: CallStopFn<'_>,
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
        let done = match tokio::time::timeout(limit, self.execute_object_call(call, secrets, say, stopped)).await {
            Ok(Ok(Some(outcome))) => return Ok(outcome),
            Ok(done) => done.map(|_| "stopped with the run".to_owned()),
            Err(_) => Ok(format!("timed out after {:.0} s", limit.as_secs_f64())),
        };
        match done {
            Ok(why) => Err(self.unfinished_call_error(call, &why).await),
            Err(refusal) => Err(refusal.into_kube_error(self.looker.cluster.server())),
        }
    }

    /// Returns the uids of the objects that calls applied since the last time, by their claims.
    pub fn take_applied_uids(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut *self.applied.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a description of the outcome, or `None` if the user stopped the run while the call waited.
    async fn execute_object_call(
        &self,
        call: &ClusterCall,
        secrets: &SecretStore,
        say: ClusterProgressFn<'_>,
        stopped: CallStopFn<'_>,
    ) -> Result<Option<String>, ApiRequestError> {
        // Discovered anew for each call: the previous call may have added a kind.
        let served = ApiKindCache::default();
        let cluster = &self.looker.cluster;
        match call {
            ClusterCall::Apply { object } => {
                let id = ObjectId::from_object(object)
                    .ok_or_else(|| local_request_error("an object has no kind or no name"))?;
                let place = self.require_collection(&id, &served).await?;
                let applied = cluster.apply_object(&place, &id, &reveal_object(object, secrets), true, false).await?;
                if let Some(uid) = applied.pointer("/metadata/uid").and_then(Value::as_str) {
                    let mut all = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
                    all.insert(id.to_claim(), uid.to_owned());
                }
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
            ClusterCall::Order { object } => self.restore_order(object, &served, secrets).await?,
            ClusterCall::Delete { id, uid } => {
                if !self.delete_and_wait(id, uid, &served, say, stopped).await? {
                    return Ok(None);
                }
            }
            ClusterCall::Await { id, condition, limit_s } => {
                if !self.wait_for_condition(id, condition, *limit_s, &served, stopped).await? {
                    return Ok(None);
                }
            }
            ClusterCall::Mark(marks) => cluster.change_node_marks(marks).await?,
            ClusterCall::Unprove { id } => self.forget_proof(id).await?,
            ClusterCall::Job(_) | ClusterCall::Release(_) => {
                return Err(local_request_error("a job or release is not an object"));
            }
        }
        Ok(Some(call.describe_call()))
    }

    /// Restores the order of list items. The API refuses it if another client changed the object since it was read.
    async fn restore_order(
        &self,
        object: &Value,
        served: &ApiKindCache,
        secrets: &SecretStore,
    ) -> Result<(), ApiRequestError> {
        let id =
            ObjectId::from_object(object).ok_or_else(|| local_request_error("an object has no kind or no name"))?;
        let place = self.require_collection(&id, served).await?;
        let declared = reveal_object(object, secrets);
        let mut reads = 1;
        loop {
            let Some(mut live) = self.looker.cluster.get_object(&place, &id).await? else {
                return Err(local_request_error(&format!("{id} no longer exists")));
            };
            if restore_list_order(&declared, &mut live).is_empty() {
                return Ok(());
            }
            match self.looker.cluster.replace_object(&place, &id, &live, false).await {
                // Controllers write the status of the object that was just applied.
                Err(refusal) if refusal.has_code(409) && reads < CHANGED_OBJECT_READS => reads += 1,
                done => return done.map(drop),
            }
        }
    }

    async fn unfinished_call_error(&self, call: &ClusterCall, why: &str) -> KubeError {
        let why = format!("{why}: {}", call.describe_call());
        match call {
            ClusterCall::Delete { id, .. } => self.not_deleted_error(id, why).await,
            _ => KubeError::new(why),
        }
    }

    async fn require_collection(&self, id: &ObjectId, served: &ApiKindCache) -> Result<ApiCollection, ApiRequestError> {
        let place = self.looker.cluster.find_collection(id, served).await?;
        place.ok_or_else(|| local_request_error(&format!("the API serves no `{}` of `{}`", id.kind, id.api_version)))
    }

    /// Returns whether the condition holds; `false` if the user stopped the run before.
    async fn wait_for_condition(
        &self,
        id: &ObjectId,
        condition: &str,
        limit_s: u64,
        served: &ApiKindCache,
        stopped: CallStopFn<'_>,
    ) -> Result<bool, ApiRequestError> {
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
            if holds || stopped() {
                return Ok(holds);
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
