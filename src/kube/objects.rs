//! Live objects with their status, for verification, without secrets.

use super::ClusterApi;
use super::request_error::ApiRequestError;
use super::served_kinds::ApiKindCache;
use crate::model::{SecretStore, Value};
use crate::object::ObjectId;
use crate::object::redact_object;
use crate::probe::ObjectsQuery;

impl ClusterApi {
    /// Returns the requested objects; `None` if the API does not serve the kind.
    pub(super) async fn query_objects(
        &self,
        asked: &ObjectsQuery,
        served: &ApiKindCache,
        secrets: &SecretStore,
    ) -> Result<Option<Vec<Value>>, ApiRequestError> {
        let id = ObjectId {
            api_version: asked.api_version.clone(),
            kind: asked.kind.clone(),
            namespace: asked.namespace.clone(),
            name: asked.name.clone().unwrap_or_default(),
        };
        let Some(place) = self.find_collection(&id, served).await? else { return Ok(None) };
        let found = match &asked.name {
            Some(_) => self.get_object(&place, &id).await?.into_iter().collect(),
            None => {
                let labels: Vec<String> = asked.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let labels = (!labels.is_empty()).then(|| labels.join(","));
                self.list_objects(&place, asked.namespace.as_deref(), labels.as_deref(), None).await?
            }
        };
        let kind = |mut object: Value| {
            // Items of a list have neither `apiVersion` nor `kind`.
            object["apiVersion"] = asked.api_version.as_str().into();
            object["kind"] = asked.kind.as_str().into();
            redact_object(object, secrets)
        };
        Ok(Some(found.into_iter().map(kind).collect()))
    }
}
