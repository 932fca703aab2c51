//! Custom kinds: a kind is ready once objects of it can be written, a moment after the server reports its definition as
//! established.

use super::ClusterApi;
use super::request_error::ApiRequestError;
use super::served_kinds::ApiKindCache;
use crate::model::Value;
use crate::object::is_condition_true;

/// The condition of a definition that the server accepted.
pub(super) const ESTABLISHED: &str = "Established";

impl ClusterApi {
    /// Reports whether objects of the kind in `definition` can be written, in every version that it declares as served.
    pub(super) async fn serves_definition(&self, definition: &Value) -> Result<bool, ApiRequestError> {
        if !is_condition_true(definition, ESTABLISHED) {
            return Ok(false);
        }
        let text = |value: &Value, pointer: &str| value.pointer(pointer)?.as_str().map(str::to_owned);
        let (group, kind) = (text(definition, "/spec/group"), text(definition, "/spec/names/kind"));
        // Discovered anew each time: the kind may have appeared since.
        let served = ApiKindCache::default();
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        for version in versions.into_iter().flatten().filter(|version| version["served"] == true) {
            let version =
                format!("{}/{}", group.as_deref().unwrap_or_default(), text(version, "/name").unwrap_or_default());
            let kinds = match self.list_kinds(&version, &served).await {
                // The group is still being set up.
                Err(refusal) if refusal.has_code(503) => return Ok(false),
                kinds => kinds?,
            };
            if !kinds.iter().flatten().any(|known| Some(&known.kind) == kind.as_ref()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {

    use crate::kube::tests::{json_reply, start_api, status_reply};
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn definition_is_served_only_once_discovery_lists_its_kind() {
        let asked = AtomicUsize::new(0);
        let (cluster, _server) = start_api(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => status_reply(404, "the server could not find the requested resource", json!({})),
            1 => json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "custom.example/v1", "resources": [] })),
            _ => json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "custom.example/v1", "resources": [
                { "name": "pages", "singularName": "page", "namespaced": true, "kind": "Page", "verbs": ["get", "patch"] },
            ] })),
        })
        .await;
        let mut definition = json!({
            "kind": "CustomResourceDefinition",
            "spec": { "group": "custom.example", "names": { "plural": "pages", "kind": "Page" }, "versions": [
                { "name": "v1", "served": true }, { "name": "v1alpha1", "served": false },
            ] },
        });
        assert!(!cluster.serves_definition(&definition).await.unwrap(), "not established yet");
        definition["status"] = json!({ "conditions": [{ "type": "Established", "status": "True" }] });
        let mut said = Vec::new();
        for _ in 0..3 {
            said.push(cluster.serves_definition(&definition).await.unwrap());
        }
        assert_eq!(said, [false, false, true]);
    }
}
