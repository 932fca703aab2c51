//! Records of proofs in the cluster: a ConfigMap for each inventory, and labels on the objects that runs create.

use super::shape::{JOB, RUN, mark};
use crate::kube::ClusterReader;
use crate::kube::api::{ApiCollection, ApiKindCache, ApiRequestError};
use crate::kube::records::{key_of, name_of};
use crate::model::Value;
use crate::probe::{LeftoverObject, ObjectId, ProofState, ProvenRun};
use serde_json::{Map, json};

impl ClusterReader {
    /// Returns the last recorded proof, and the objects that runs left behind.
    pub(in crate::kube) async fn proof(
        &self,
        id: &ObjectId,
        served: &ApiKindCache,
    ) -> Result<ProofState, ApiRequestError> {
        let kept = self.cluster.read_own("ConfigMap", &name_of("proven", &self.name)).await?;
        let text = kept.as_ref().and_then(|map| map["data"].get(key_of(&id.claim()))?.as_str());
        // An unreadable record proves nothing.
        let proven = text.and_then(|text| serde_json::from_str::<ProvenRun>(text).ok());
        Ok(ProofState { proven, left: self.left(id, served).await? })
    }

    /// Returns the objects of earlier runs that still exist: first the workload itself, then pods.
    pub(super) async fn left(
        &self,
        id: &ObjectId,
        served: &ApiKindCache,
    ) -> Result<Vec<LeftoverObject>, ApiRequestError> {
        let selector = format!("{JOB}={}", mark(&self.name, id));
        let mut left = Vec::new();
        if let Some(place) = self.cluster.place(id, served).await? {
            left.extend(self.found(&place, id, &selector).await?);
        }
        if id.kind != "Pod" {
            let pod = ObjectId { api_version: "v1".to_owned(), kind: "Pod".to_owned(), ..id.clone() };
            left.extend(self.found(&pods(), &pod, &selector).await?);
        }
        Ok(left)
    }

    async fn found(
        &self,
        place: &ApiCollection,
        like: &ObjectId,
        selector: &str,
    ) -> Result<Vec<LeftoverObject>, ApiRequestError> {
        let namespace = like.namespace.as_deref().unwrap_or_default();
        let items = self.cluster.every(place, Some(namespace), Some(selector), None).await?;
        let text = |item: &Value, key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
        let one = |item: &Value| LeftoverObject {
            id: ObjectId { name: text(item, "name"), ..like.clone() },
            uid: text(item, "uid"),
            run: item["metadata"]["labels"][RUN].as_str().unwrap_or_default().to_owned(),
        };
        Ok(items.iter().map(one).collect())
    }

    /// Records a proof; `None` discards it.
    pub(super) async fn keep(&self, id: &ObjectId, proven: Option<&ProvenRun>) -> Result<(), ApiRequestError> {
        let (place, map) = self.cluster.own_object("ConfigMap", &name_of("proven", &self.name));
        let text = proven.and_then(|proven| serde_json::to_string(proven).ok());
        let data = Value::Object(Map::from_iter([(key_of(&id.claim()), json!(text))]));
        match self.cluster.get(&place, &map).await? {
            Some(_) => self.cluster.merge(&place, &map, &json!({ "data": data })).await.map(drop),
            None if text.is_none() => Ok(()),
            None => {
                let metadata = json!({ "name": map.name, "namespace": map.namespace, "labels": { "app.kubernetes.io/managed-by": "forge" } });
                let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
                self.cluster.create(&place, &map, &object, false).await.map(drop)
            }
        }
    }
}

/// Returns the collection of pods.
pub(super) fn pods() -> ApiCollection {
    ApiCollection::new("v1", "pods", true)
}
