//! Deletes an object by its uid, waits until it is gone, and reports what blocks the deletion.

use super::callbacks::{CallStopFn, ClusterProgressFn};
use super::cluster_call::POLL_INTERVAL;
use super::deletion_blocker::{DeletionBlocker, find_blocker};
use super::request_error::ApiRequestError;
use super::served_kinds::ApiKindCache;
use super::{ClusterApi, ClusterWriter, KubeError};
use crate::model::Value;
use crate::object::ObjectId;
use std::time::Duration;
use tokio::time::Instant;

/// How long a deletion takes before its progress says what blocks it.
const PATIENCE: Duration = Duration::from_secs(10);

impl ClusterWriter {
    /// Returns whether the object is gone; `false` if the user stopped the run before. The API goes on deleting it, and
    /// the next apply waits for it again.
    pub(super) async fn delete_and_wait(
        &self,
        id: &ObjectId,
        uid: &str,
        served: &ApiKindCache,
        say: ClusterProgressFn<'_>,
        stopped: CallStopFn<'_>,
    ) -> Result<bool, ApiRequestError> {
        let cluster = &self.looker.cluster;
        // Objects of a removed kind are gone.
        let Some(place) = cluster.find_collection(id, served).await? else { return Ok(true) };
        // Deleting an object that is already terminating has no effect.
        match cluster.delete_object(&place, id, uid).await {
            Err(refusal) if refusal.has_code(404) => return Ok(true),
            done => drop(done?),
        }
        let (began, mut told) = (Instant::now(), None);
        while let Some(left) = cluster.get_object(&place, id).await? {
            if !uid.is_empty() && left.pointer("/metadata/uid").and_then(Value::as_str) != Some(uid) {
                return Ok(true);
            }
            if stopped() {
                return Ok(false);
            }
            let blocker = find_blocker(&left).filter(|_| began.elapsed() >= PATIENCE).map(|blocker| blocker.text);
            if let Some(text) = blocker.as_ref().filter(|_| told != blocker) {
                say(&format!("{id} is still being deleted: {text}"));
                told.clone_from(&blocker);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(true)
    }

    /// Adds the reason that an object still exists to `why`, if the API reports one.
    pub(super) async fn not_deleted_error(&self, id: &ObjectId, why: String) -> KubeError {
        let Some(keeper) = self.looker.cluster.find_deletion_blocker(id).await.ok().flatten() else {
            return KubeError::new(why);
        };
        let error = KubeError::new(format!("{why}: {}", keeper.text));
        match keeper.finalizers {
            true => {
                error.hint("check that the controller that set the finalizer runs: it removes it after cleaning up")
            }
            false => error,
        }
    }
}

impl ClusterApi {
    async fn find_deletion_blocker(&self, id: &ObjectId) -> Result<Option<DeletionBlocker>, ApiRequestError> {
        let Some(place) = self.find_collection(id, &ApiKindCache::default()).await? else { return Ok(None) };
        Ok(self.get_object(&place, id).await?.as_ref().and_then(find_blocker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::ClusterReader;
    use crate::kube::tests::{json_reply, lock_cluster, start_api, status_reply};
    use crate::model::SecretStore;
    use crate::object::ClusterCall;
    use serde_json::json;

    /// A namespace that an object with a finalizer keeps.
    fn stuck_namespace() -> Value {
        json!({
            "kind": "Namespace", "metadata": { "name": "web", "uid": "u", "deletionTimestamp": "2026-11-22T19:00:00Z" },
            "status": { "phase": "Terminating", "conditions": [
                { "type": "NamespaceFinalizersRemaining", "status": "True",
                  "message": "Some content in the namespace has finalizers remaining: test/slow in 1 resource instances" },
            ] },
        })
    }

    /// TERM ends the wait for a namespace at once, and the error names what blocks the namespace.
    #[tokio::test]
    async fn stopped_run_does_not_wait_for_a_deletion() {
        let (cluster, _server) = start_api(|request| match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/api/v1") => json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
                { "name": "namespaces", "singularName": "", "namespaced": false, "kind": "Namespace", "verbs": ["get"] },
            ] })),
            ("GET", "/api/v1/namespaces/web") => json_reply(200, &stuck_namespace()),
            ("DELETE", _) => json_reply(200, &stuck_namespace()),
            ("POST" | "PATCH" | "PUT", _) => {
                let mut object: Value = serde_json::from_str(&request.body).unwrap_or_default();
                object["metadata"]["uid"] = json!("u1");
                object["metadata"]["resourceVersion"] = json!("1");
                json_reply(201, &object)
            }
            ("GET", path) if path.ends_with("/namespaces/forge-provisioner") => json_reply(200, &json!({ "metadata": {} })),
            _ => status_reply(404, "not found", json!({})),
        })
        .await;
        let looker = ClusterReader::new(cluster, "lab");
        let writer = lock_cluster(&looker).await;
        let id = ObjectId { api_version: "v1".into(), kind: "Namespace".into(), namespace: None, name: "web".into() };
        let call = ClusterCall::Delete { id, uid: "u".to_owned() };
        let began = Instant::now();
        let limit = Duration::from_secs(600);
        let said = writer.execute_call(&call, limit, &SecretStore::default(), &|_: &str| {}, &|| true).await;
        let error = said.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(
            error.message,
            "stopped with the run: delete Namespace web: Some content in the namespace has finalizers remaining: \
             test/slow in 1 resource instances"
        );
    }
}
