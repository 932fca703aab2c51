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
use crate::object::{find_condition, find_status_lag, reveal_object};
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
        let done = self.perform_call(call, limit, secrets, say, stopped).await;
        // The call may have changed a role: answers of before it do not count, nor those that another step got meanwhile.
        self.looker.cluster.clear_reviews().await;
        done
    }

    async fn perform_call(
        &self,
        call: &ClusterCall,
        limit: Duration,
        secrets: &SecretStore,
        say: ClusterProgressFn<'_>,
        stopped: CallStopFn<'_>,
    ) -> Result<String, KubeError> {
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
        let work = async {
            let done = match tokio::time::timeout(limit, self.execute_object_call(call, secrets, say, stopped)).await {
                Ok(Ok(Some(outcome))) => return Ok(outcome),
                Ok(done) => done.map(|_| "stopped with the run".to_owned()),
                Err(_) => Ok(format!("timed out after {:.0} s", limit.as_secs_f64())),
            };
            match done {
                Ok(why) => Err(self.unfinished_call_error(call, &why).await),
                Err(refusal) => Err(refusal.into_kube_error(self.looker.cluster.server())),
            }
        };
        self.work_under_lock(work).await
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
            let lag = object.as_ref().zip(found).and_then(|(object, found)| find_status_lag(object, found));
            let holds = match (&object, lag) {
                (Some(definition), _) if condition == ESTABLISHED => {
                    self.looker.cluster.serves_definition(definition).await?
                }
                (_, Some(_)) => false,
                _ => found.is_some_and(|found| found["status"] == "True"),
            };
            if holds || stopped() {
                return Ok(holds);
            }
            if Instant::now() >= end {
                let why = match (found, lag) {
                    (_, Some(lag)) => lag.to_string(),
                    (Some(found), _) if found["status"] == "True" => "the API serves no such kind yet".to_owned(),
                    (Some(found), _) => {
                        let message = found["message"].as_str().filter(|message| !message.is_empty());
                        message.map_or_else(|| format!("its status is {}", found["status"]), str::to_owned)
                    }
                    (None, _) => "condition not reported yet".to_owned(),
                };
                return Err(local_request_error(&format!("{id} is not {condition} after {limit_s} s: {why}")));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::ClusterReader;
    use crate::kube::tests::{json_reply, lock_cluster, start_api, status_reply};
    use serde_json::json;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A Deployment of generation 7 whose condition is `True`, as of the given generation.
    fn deployment(observed: i64) -> Value {
        json!({
            "kind": "Deployment", "metadata": { "name": "d", "namespace": "web", "generation": 7 },
            "status": { "observedGeneration": observed, "conditions": [{ "type": "Available", "status": "True" }] },
        })
    }

    /// Waits for at most `limit_s` while reads return the generations of `observed`. Returns the number of reads too.
    async fn wait(limit_s: u64, observed: fn(i64) -> i64) -> (Result<String, KubeError>, i64) {
        let reads = std::sync::Arc::new(AtomicI64::new(0));
        let counted = std::sync::Arc::clone(&reads);
        let (cluster, _server) = start_api(move |request| match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/apis/apps/v1") => json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "apps/v1",
                "resources": [{ "name": "deployments", "singularName": "", "namespaced": true, "kind": "Deployment", "verbs": ["get"] }] })),
            ("GET", "/apis/apps/v1/namespaces/web/deployments/d") => {
                json_reply(200, &deployment(observed(counted.fetch_add(1, Ordering::Relaxed))))
            }
            ("GET", path) if path.ends_with("/namespaces/forge-provisioner") => json_reply(200, &json!({ "metadata": {} })),
            ("POST" | "PATCH" | "PUT", _) => {
                let mut object: Value = serde_json::from_str(&request.body).unwrap_or_default();
                object["metadata"]["uid"] = json!("u1");
                object["metadata"]["resourceVersion"] = json!("1");
                json_reply(201, &object)
            }
            _ => status_reply(404, "not found", json!({})),
        })
        .await;
        let writer = lock_cluster(&ClusterReader::new(cluster, "lab")).await;
        let id = ObjectId {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some("web".into()),
            name: "d".into(),
        };
        let call = ClusterCall::Await { id, condition: "Available".to_owned(), limit_s };
        let limit = Duration::from_secs(60);
        let done = writer.execute_call(&call, limit, &SecretStore::default(), &|_: &str| {}, &|| false).await;
        (done, reads.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn condition_of_an_earlier_generation_does_not_end_the_wait() {
        let (done, reads) = wait(60, |reads| if reads < 2 { 6 } else { 7 }).await;
        assert_eq!((done.is_ok(), reads), (true, 3));
        let (done, _) = wait(0, |_| 6).await;
        assert_eq!(
            done.unwrap_err().message,
            "Deployment web/d is not Available after 0 s: its controller has not evaluated generation 7 yet (status of \
             generation 6)"
        );
    }
}
