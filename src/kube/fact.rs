//! Reads cluster facts from the API: one request each, without unused fields.

use super::ClusterApi;
use super::request_error::ApiRequestError;
use super::served_kinds::ApiCollection;
use crate::model::Value;
use serde_json::json;

impl ClusterApi {
    /// Reads the data of a fact.
    pub(super) async fn read_fact(&self, name: &str) -> Result<Value, ApiRequestError> {
        match name {
            "kubernetes_version" => {
                let version = self.try_request(self.client().apiserver_version()).await?;
                Ok(json!({ "gitVersion": version.git_version, "major": version.major, "minor": version.minor }))
            }
            "nodes" => {
                let nodes = self.list_objects(&ApiCollection::new("v1", "nodes", false), None, None, None).await?;
                Ok(nodes.iter().map(trim_node).collect())
            }
            _ => Err(ApiRequestError::Local("is not a fact that forge knows".to_owned())),
        }
    }
}

/// Returns the used fields of a node: its list of images alone would be most of the response.
fn trim_node(node: &Value) -> Value {
    const KEPT: [(&str, &[&str]); 3] = [
        ("metadata", &["name", "labels", "annotations"]),
        ("spec", &["unschedulable", "taints"]),
        ("status", &["capacity", "allocatable", "addresses", "nodeInfo"]),
    ];
    let mut told = json!({});
    for (part, keys) in KEPT {
        let own = keys.iter().filter_map(|key| Some(((*key).to_owned(), node.get(part)?.get(key)?.clone())));
        told[part] = Value::Object(own.collect());
    }
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    told["status"]["conditions"] =
        conditions.map(|one| json!({ "type": one["type"], "status": one["status"] })).collect();
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimmed_node_keeps_only_the_fields_in_use() {
        let whole = json!({
            "metadata": { "name": "a", "uid": "u", "managedFields": [] },
            "spec": { "podCIDR": "10.0.0.0/24" },
            "status": {
                "images": [{ "names": ["x"] }], "capacity": { "cpu": "8" },
                "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-22T10:00:00Z" }],
            },
        });
        let kept = json!({
            "metadata": { "name": "a" }, "spec": {},
            "status": { "capacity": { "cpu": "8" }, "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        assert_eq!(trim_node(&whole), kept);
    }
}
