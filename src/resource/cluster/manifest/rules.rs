//! Checks of an object before forge contacts the API.

use crate::diag::Diag;
use crate::model::{SecretStore, Value};
use crate::object::ObjectId;
use crate::resource::shared::support::bad_value;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use std::collections::HashSet;
use std::fmt;

/// Cluster-scoped kinds of Kubernetes itself.
const CLUSTER_SCOPED_KINDS: [&str; 17] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "StorageClass",
    "PriorityClass",
    "RuntimeClass",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "APIService",
    "CSIDriver",
    "VolumeAttachment",
    "PodSecurityPolicy",
];

pub(super) fn is_cluster_scoped(kind: &str) -> bool {
    CLUSTER_SCOPED_KINDS.contains(&kind)
}

/// Checks one object.
pub(super) fn check_object(id: &ObjectId, object: &Value) -> Result<(), Diag> {
    check_images(id, object)?;
    visit_maps(object, &mut |map| check_rdma_tokens(id, map))?;
    visit_maps(object, &mut |map| check_locked_memory(id, map))?;
    match id.kind.as_str() {
        "ConfigMap" => check_config_map(id, object),
        _ => Ok(()),
    }
}

/// Checks that every container image of a pod names a version.
fn check_images(id: &ObjectId, value: &Value) -> Result<(), Diag> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| match (key.as_str(), value) {
            ("containers" | "initContainers" | "ephemeralContainers", Value::Array(list)) => {
                list.iter().try_for_each(|container| check_image(id, container))
            }
            (_, value) => check_images(id, value),
        }),
        Value::Array(items) => items.iter().try_for_each(|item| check_images(id, item)),
        _ => Ok(()),
    }
}

fn check_image(id: &ObjectId, container: &Value) -> Result<(), Diag> {
    let Some(image) = container.get("image").and_then(Value::as_str) else { return Ok(()) };
    let digest = image.contains("@sha256:");
    let last = image.rsplit('/').next().unwrap_or_default();
    let why = match last.split('@').next().unwrap_or_default().split_once(':') {
        _ if digest => return Ok(()),
        Some((_, "latest")) => "its tag is `latest`",
        Some((_, tag)) if !tag.is_empty() => return Ok(()),
        _ => "it has neither tag nor digest",
    };
    Err(bad_value(format!("image `{image}` of {id} is not pinned: {why}"))
        .hint("set a version: `repository/name:1.2.3`, or better `…@sha256:…`"))
}

/// Host directories that give a pod access to devices without a resource request.
const DEVICE_FOLDERS: [&str; 2] = ["/dev", "/var/lib/kubelet"];

/// Checks a workload: it must request devices from the scheduler.
pub(in crate::resource) fn check_workload(id: &ObjectId, object: &Value) -> Result<(), Diag> {
    check_object(id, object)?;
    visit_maps(object, &mut |map| {
        let path = map.get("hostPath").and_then(|volume| volume.get("path")).and_then(Value::as_str);
        match path.filter(|path| DEVICE_FOLDERS.iter().any(|folder| is_below(path, folder))) {
            Some(path) => Err(bad_value(format!("{id} mounts the host's `{path}`, which bypasses the scheduler"))
                .hint("request them as resources: `limits: { nvidia.com/gpu: 8, rdma/ib: 1 }`")),
            None => Ok(()),
        }
    })
}

fn is_below(path: &str, folder: &str) -> bool {
    let path = path.trim_end_matches('/');
    path.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks tokens of the shared device plugin. One token shows all adapters; more tokens do not give more adapters, and
/// other pods cannot use them.
fn check_rdma_tokens(id: &ObjectId, map: &serde_json::Map<String, Value>) -> Result<(), Diag> {
    let asked = ["limits", "requests"].into_iter().filter_map(|part| map.get(part)?.as_object()).flatten();
    for (name, count) in asked.filter(|(name, _)| name.starts_with("rdma/")) {
        let count = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
        if count != "1" {
            return Err(bad_value(format!("{id} requests {count} of `{name}`, which counts tokens, not adapters"))
                .hint("request 1: a pod with one token sees every adapter of that resource"));
        }
    }
    Ok(())
}

/// Checks that containers with RDMA devices may lock memory: verbs register the memory that they send, and the limit of
/// the container runtime differs between nodes.
fn check_locked_memory(id: &ObjectId, map: &serde_json::Map<String, Value>) -> Result<(), Diag> {
    let lists = ["containers", "initContainers"].into_iter().filter_map(|key| map.get(key)?.as_array());
    match lists.flatten().find(|container| uses_verbs(container) && !may_lock_memory(container)) {
        None => Ok(()),
        Some(container) => {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            Err(bad_value(format!("container `{name}` of {id} has RDMA devices and lacks the capability `IPC_LOCK`"))
                .hint("add `securityContext: { capabilities: { add: [IPC_LOCK] } }`: verbs lock the memory that they register"))
        }
    }
}

fn uses_verbs(container: &Value) -> bool {
    let parts = ["/resources/limits", "/resources/requests"].into_iter();
    let names = parts.filter_map(|at| container.pointer(at)?.as_object()).flat_map(serde_json::Map::keys);
    names.into_iter().any(|name| name.starts_with("rdma/"))
}

fn may_lock_memory(container: &Value) -> bool {
    let context = |at: &str| container.pointer(&format!("/securityContext/{at}"));
    let added = context("capabilities/add").and_then(Value::as_array).into_iter().flatten();
    let locks = |name: &Value| matches!(name.as_str(), Some("IPC_LOCK" | "CAP_IPC_LOCK" | "ALL"));
    context("privileged").and_then(Value::as_bool) == Some(true) || added.into_iter().any(locks)
}

/// Calls `look` for every table of a value.
fn visit_maps(
    value: &Value,
    look: &mut impl FnMut(&serde_json::Map<String, Value>) -> Result<(), Diag>,
) -> Result<(), Diag> {
    match value {
        Value::Object(map) => {
            look(map)?;
            map.values().try_for_each(|value| visit_maps(value, look))
        }
        Value::Array(items) => items.iter().try_for_each(|item| visit_maps(item, look)),
        _ => Ok(()),
    }
}

fn check_config_map(id: &ObjectId, object: &Value) -> Result<(), Diag> {
    let entries = object.get("data").and_then(Value::as_object);
    for (key, value) in entries.into_iter().flatten() {
        let Some(text) = value.as_str() else {
            return Err(
                bad_value(format!("`{key}` of {id} is not text")).hint("quote it, or write it as a block with `|`")
            );
        };
        if key.ends_with(".json")
            && !SecretStore::has_placeholder(text)
            && let Err(error) = serde_json::from_str::<StrictJson>(text)
        {
            return Err(bad_value(format!("`{key}` of {id} is not JSON: {error}")));
        }
    }
    Ok(())
}

/// JSON without duplicate keys: most readers take the last one, some the first.
struct StrictJson;

impl<'de> Deserialize<'de> for StrictJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictJsonVisitor)
    }
}

struct StrictJsonVisitor;

impl<'de> Visitor<'de> for StrictJsonVisitor {
    type Value = StrictJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StrictJson, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(de::Error::custom(format!("duplicate key `{key}`")));
            }
            seen.insert(key);
            map.next_value::<StrictJson>()?;
        }
        Ok(StrictJson)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StrictJson, A::Error> {
        while list.next_element::<StrictJson>()?.is_some() {}
        Ok(StrictJson)
    }

    fn visit_bool<E>(self, _: bool) -> Result<StrictJson, E> {
        Ok(StrictJson)
    }

    fn visit_i64<E>(self, _: i64) -> Result<StrictJson, E> {
        Ok(StrictJson)
    }

    fn visit_u64<E>(self, _: u64) -> Result<StrictJson, E> {
        Ok(StrictJson)
    }

    fn visit_f64<E>(self, _: f64) -> Result<StrictJson, E> {
        Ok(StrictJson)
    }

    fn visit_str<E>(self, _: &str) -> Result<StrictJson, E> {
        Ok(StrictJson)
    }

    fn visit_unit<E>(self) -> Result<StrictJson, E> {
        Ok(StrictJson)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<StrictJson, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| StrictJson)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_error(object: &Value) -> Option<String> {
        let id = ObjectId {
            api_version: "v1".into(),
            kind: object["kind"].as_str().unwrap().into(),
            namespace: None,
            name: "a".into(),
        };
        check_object(&id, object).err().map(|diag| diag.message)
    }

    fn make_pod(image: &str) -> Value {
        json!({ "kind": "Pod", "spec": { "initContainers": [{ "image": image }] } })
    }

    #[test]
    fn unpinned_image_is_rejected() {
        for image in ["a:1", "registry.example:5000/a/b:v1", "a@sha256:00", "registry.example:5000/a:latest@sha256:00"]
        {
            assert_eq!(check_error(&make_pod(image)), None, "{image}");
        }
        assert_eq!(
            check_error(&make_pod("a:latest")).unwrap(),
            "image `a:latest` of Pod a is not pinned: its tag is `latest`"
        );
        let bare = "image `registry.example:5000/a` of Pod a is not pinned: it has neither tag nor digest";
        assert_eq!(check_error(&make_pod("registry.example:5000/a")).unwrap(), bare);
    }

    fn make_rdma_pod(count: Value, context: Value) -> Value {
        let container = json!({
            "name": "verbs", "image": "a:1", "resources": { "limits": { "rdma/ib": count } }, "securityContext": context,
        });
        json!({ "kind": "Deployment", "spec": { "template": { "spec": { "containers": [container] } } } })
    }

    #[test]
    fn more_than_one_rdma_token_is_rejected_in_any_object() {
        let locks = json!({ "capabilities": { "add": ["IPC_LOCK"] } });
        for one in [json!(1), json!("1")] {
            assert_eq!(check_error(&make_rdma_pod(one, locks.clone())), None);
        }
        for (count, text) in [(json!(4), "4"), (json!("2048"), "2048")] {
            assert_eq!(
                check_error(&make_rdma_pod(count, locks.clone())).unwrap(),
                format!("Deployment a requests {text} of `rdma/ib`, which counts tokens, not adapters")
            );
        }
    }

    #[test]
    fn container_with_rdma_devices_needs_the_right_to_lock_memory() {
        let said = "container `verbs` of Deployment a has RDMA devices and lacks the capability `IPC_LOCK`";
        for context in [json!({}), Value::Null, json!({ "capabilities": { "add": ["NET_RAW"] } })] {
            assert_eq!(check_error(&make_rdma_pod(json!(1), context)).unwrap(), said);
        }
        for context in [json!({ "privileged": true }), json!({ "capabilities": { "add": ["NET_RAW", "IPC_LOCK"] } })] {
            assert_eq!(check_error(&make_rdma_pod(json!(1), context)), None);
        }
    }

    #[test]
    fn invalid_json_in_a_config_map_is_rejected() {
        let map = |text: &str| json!({ "kind": "ConfigMap", "data": { "config.json": text } });
        assert_eq!(check_error(&map("{\"a\": [1, 2.5, null, true, \"x\"]}")), None);
        assert_eq!(
            check_error(&map("{\"a\": 1,}")).unwrap(),
            "`config.json` of ConfigMap a is not JSON: trailing comma at line 1 column 9"
        );
        assert_eq!(
            check_error(&map("{\"a\": {\"b\": 1, \"b\": 2}}")).unwrap(),
            "`config.json` of ConfigMap a is not JSON: duplicate key `b` at line 1 column 18"
        );
        assert_eq!(
            check_error(&json!({ "kind": "ConfigMap", "data": { "a": 1 } })).unwrap(),
            "`a` of ConfigMap a is not text"
        );
    }
}
