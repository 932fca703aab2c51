//! A workload that a run created: created, observed, and deleted with its pods.

use super::proofs::pod_collection;
use super::reasons::WorkloadSnapshot;
use super::run_object::RunLabels;
use crate::kube::ClusterApi;
use crate::kube::request_error::{ApiRequestError, local_request_error};
use crate::kube::served_kinds::ApiCollection;
use crate::model::Value;
use crate::object::ObjectId;
use std::time::Duration;
use tokio::time::Instant;

/// Interval between observations of a workload that is being deleted.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for its pods to terminate.
const POD_EXIT_TIMEOUT: Duration = Duration::from_secs(120);

/// A workload that exists.
#[derive(Clone)]
pub(super) struct CreatedWorkload {
    pub id: ObjectId,
    pub uid: String,
    pub place: ApiCollection,
    pub namespace: String,
    /// Selects its pods.
    pub selector: String,
}

impl ClusterApi {
    /// Creates the object of a run, which has the labels of that run.
    pub(super) async fn create_workload(
        &self,
        place: ApiCollection,
        object: &Value,
        labels: &RunLabels,
    ) -> Result<CreatedWorkload, ApiRequestError> {
        let id =
            ObjectId::from_object(object).ok_or_else(|| local_request_error("an object has no kind or no name"))?;
        let there = self.create_object(&place, &id, object, false).await?;
        Ok(CreatedWorkload {
            uid: there["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            place,
            namespace: id.namespace.clone().unwrap_or_default(),
            selector: labels.to_selector(),
            id,
        })
    }

    /// Observes a workload and its pods; `None` if it was deleted.
    pub(super) async fn snapshot_workload(
        &self,
        made: &CreatedWorkload,
    ) -> Result<Option<WorkloadSnapshot>, ApiRequestError> {
        let Some(object) = self.get_object(&made.place, &made.id).await? else { return Ok(None) };
        let pods = self.list_pods_matching(&made.namespace, &made.selector).await?;
        Ok(Some(WorkloadSnapshot { object, pods }))
    }

    /// Deletes it and waits until its pods are gone: until then they occupy the requested resources.
    pub(super) async fn delete_workload(&self, made: &CreatedWorkload) -> Result<(), ApiRequestError> {
        self.request_deletion(made).await?;
        let end = Instant::now() + POD_EXIT_TIMEOUT;
        loop {
            let there = self.get_object(&made.place, &made.id).await?.is_some();
            let left = self.list_pods_matching(&made.namespace, &made.selector).await?;
            if !there && left.is_empty() {
                return Ok(());
            }
            // Pods that no garbage collector removes are deleted directly.
            for pod in left.iter().filter(|pod| !there && pod["metadata"]["deletionTimestamp"].is_null()) {
                let Some(id) = ObjectId::from_object(&with_pod_kind(pod)) else { continue };
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                match self.delete_object(&pod_collection(), &id, uid).await {
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

    /// Deletes the object. One that was deleted, or replaced by another of its name, is not an error.
    async fn request_deletion(&self, made: &CreatedWorkload) -> Result<(), ApiRequestError> {
        match self.delete_object(&made.place, &made.id, &made.uid).await {
            Err(refusal) if refusal.has_code(404) || refusal.has_code(409) => Ok(()),
            done => done.map(drop),
        }
    }
}

/// Adds `apiVersion` and `kind`: items of a list have neither.
fn with_pod_kind(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}
