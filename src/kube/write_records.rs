//! Writes the applied records and the key, by the holder of the cluster's lock.

use super::records::{APPLIED, DIGEST_KEY_SECRET, RECORDS_LABEL, own_object_name, read_digest_key, record_map_key};
use super::request_error::ApiRequestError;
use super::{ClusterWriter, KubeError};
use crate::model::Value;
use base64::Engine as _;
use serde_json::json;

/// Size limit of the records, in bytes. The API rejects objects above 1 MiB.
const MAX_RECORDS_BYTES: usize = 900 * 1024;

impl ClusterWriter {
    /// Returns the key for digests of secrets, and creates it if it does not exist.
    ///
    /// # Errors
    /// The lock is lost, or the API refuses the request.
    pub async fn ensure_digest_key(&self) -> Result<String, KubeError> {
        self.request_under_lock(self.read_or_create_key()).await
    }

    async fn read_or_create_key(&self) -> Result<String, ApiRequestError> {
        let cluster = &self.looker.cluster;
        if let Some(key) = read_digest_key(cluster).await? {
            return Ok(key);
        }
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| ApiRequestError::Away(KubeError::new(format!("no random numbers available: {error}"))))?;
        let (place, id) = cluster.locate_own_object("Secret", DIGEST_KEY_SECRET);
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": DIGEST_KEY_SECRET, "namespace": id.namespace }, "data": { "key": data } });
        match cluster.create_object(&place, &id, &object, false).await {
            // A run of another inventory was faster.
            Err(refusal) if refusal.has_code(409) => {}
            made => drop(made?),
        }
        read_digest_key(cluster).await?.ok_or_else(|| {
            ApiRequestError::Away(
                KubeError::new(format!("the Secret `{}/{DIGEST_KEY_SECRET}` has no valid key", cluster.namespace()))
                    .hint("delete the Secret: the next apply creates it again"),
            )
        })
    }

    /// Adds records, by name, to the records in the cluster; those without a text are removed.
    ///
    /// # Errors
    /// The lock is lost, the records grow too large, or the API refuses the request.
    pub async fn write_records(&self, records: &[(String, Option<String>)]) -> Result<(), KubeError> {
        let server = self.looker.cluster.server();
        for _ in 0..3 {
            match self.work_under_lock(self.try_write_records(records)).await? {
                Ok(()) => return Ok(()),
                Err(refusal) if refusal.has_code(409) => {}
                Err(refusal) => return Err(refusal.into_kube_error(server)),
            }
        }
        Err(KubeError::new(format!(
            "another process writes the records in `{}` at the same time",
            self.looker.cluster.namespace()
        )))
    }

    async fn try_write_records(
        &self,
        records: &[(String, Option<String>)],
    ) -> Result<Result<(), ApiRequestError>, KubeError> {
        let cluster = &self.looker.cluster;
        let (place, id) = cluster.locate_own_object("ConfigMap", &own_object_name(APPLIED, &self.looker.name));
        let there = match cluster.get_object(&place, &id).await {
            Ok(there) => there,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut data = there.as_ref().and_then(|map| map["data"].as_object()).cloned().unwrap_or_default();
        for (name, text) in records {
            match text {
                Some(text) => drop(data.insert(record_map_key(name), Value::from(text.as_str()))),
                None => drop(data.shift_remove(&record_map_key(name))),
            }
        }
        let size: usize = data.iter().map(|(key, text)| key.len() + text.as_str().map_or(0, str::len)).sum();
        if size > MAX_RECORDS_BYTES {
            let error = KubeError::new(format!(
                "the records of this cluster need {} kB, more than an object of the API can hold (1 MiB)",
                size / 1024
            ));
            return Err(error.hint("declare large objects as a chart, or in a separate inventory"));
        }
        let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": id.name, "namespace": id.namespace, "labels": { RECORDS_LABEL: APPLIED } }, "data": data });
        if let Some(version) = there.as_ref().and_then(|map| map.pointer("/metadata/resourceVersion")) {
            object["metadata"]["resourceVersion"] = version.clone();
        }
        Ok(cluster.apply_object(&place, &id, &object, true, false).await.map(drop))
    }
}
