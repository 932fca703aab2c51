//! Records of proofs in the cluster: a ConfigMap for each inventory, and labels on the objects that runs create.

use super::run_object::{JOB_LABEL, RUN_LABEL, job_label_value};
use crate::kube::ClusterReader;
use crate::kube::records::{own_object_name, record_map_key};
use crate::kube::request_error::ApiRequestError;
use crate::kube::served_kinds::{ApiCollection, ApiKindCache};
use crate::model::Value;
use crate::object::{LeftoverObject, ObjectId, ProofState, ProvenRun};
use serde_json::{Map, json};

impl ClusterReader {
    /// Returns the last recorded proof, and the objects that runs left behind.
    pub(in crate::kube) async fn read_proof(
        &self,
        id: &ObjectId,
        served: &ApiKindCache,
    ) -> Result<ProofState, ApiRequestError> {
        let kept = self.cluster.read_own_object("ConfigMap", &own_object_name("proven", &self.name)).await?;
        let text = kept.as_ref().and_then(|map| map["data"].get(record_map_key(&id.to_claim()))?.as_str());
        // An unreadable record proves nothing.
        let proven = text.and_then(|text| serde_json::from_str::<ProvenRun>(text).ok());
        Ok(ProofState { proven, left: self.list_leftovers(id, served).await? })
    }

    /// Returns the objects of earlier runs that still exist: first the workload itself, then pods.
    pub(super) async fn list_leftovers(
        &self,
        id: &ObjectId,
        served: &ApiKindCache,
    ) -> Result<Vec<LeftoverObject>, ApiRequestError> {
        let selector = format!("{JOB_LABEL}={}", job_label_value(&self.name, id));
        let mut left = Vec::new();
        if let Some(place) = self.cluster.find_collection(id, served).await? {
            left.extend(self.list_labeled(&place, id, &selector).await?);
        }
        if id.kind != "Pod" {
            let pod = ObjectId { api_version: "v1".to_owned(), kind: "Pod".to_owned(), ..id.clone() };
            left.extend(self.list_labeled(&pod_collection(), &pod, &selector).await?);
        }
        Ok(left)
    }

    async fn list_labeled(
        &self,
        place: &ApiCollection,
        like: &ObjectId,
        selector: &str,
    ) -> Result<Vec<LeftoverObject>, ApiRequestError> {
        let namespace = like.namespace.as_deref().unwrap_or_default();
        let items = self.cluster.list_objects(place, Some(namespace), Some(selector), None).await?;
        let text = |item: &Value, key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
        let one = |item: &Value| LeftoverObject {
            id: ObjectId { name: text(item, "name"), ..like.clone() },
            uid: text(item, "uid"),
            run: item["metadata"]["labels"][RUN_LABEL].as_str().unwrap_or_default().to_owned(),
        };
        Ok(items.iter().map(one).collect())
    }

    /// Records a proof; `None` discards it.
    pub(super) async fn save_proof(&self, id: &ObjectId, proven: Option<&ProvenRun>) -> Result<(), ApiRequestError> {
        let (place, map) = self.cluster.locate_own_object("ConfigMap", &own_object_name("proven", &self.name));
        let text = proven.and_then(|proven| serde_json::to_string(proven).ok());
        let data = Value::Object(Map::from_iter([(record_map_key(&id.to_claim()), json!(text))]));
        match self.cluster.get_object(&place, &map).await? {
            Some(_) => self.cluster.merge_object(&place, &map, &json!({ "data": data })).await.map(drop),
            None if text.is_none() => Ok(()),
            None => {
                let metadata = json!({ "name": map.name, "namespace": map.namespace, "labels": { "app.kubernetes.io/managed-by": "forge" } });
                let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
                self.cluster.create_object(&place, &map, &object, false).await.map(drop)
            }
        }
    }
}

/// Returns the collection of pods.
pub(super) fn pod_collection() -> ApiCollection {
    ApiCollection::new("v1", "pods", true)
}
