//! Normalizes objects for comparison: without the bookkeeping of the server, and with secrets where they are sent.

use super::StatusLag;
use super::field_path::FieldPath;
use crate::model::{SecretStore, Value};
use base64::Engine as _;
use secrecy::ExposeSecret;
use serde_json::json;

/// Fields in `metadata` that the API manages itself.
const SERVER_METADATA: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The annotation in which `kubectl apply` keeps the whole object, with its secrets.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Annotations that controllers and tools manage themselves.
const TOOL_ANNOTATIONS: [&str; 3] =
    ["deprecated.daemonset.template.generation", "deployment.kubernetes.io/revision", LAST_APPLIED];

/// Fields that people do not declare: programs set them, also when people use these programs.
const BOOKKEEPING: [&[&str]; 5] = [
    &["status"],
    &["metadata", "annotations", LAST_APPLIED],
    &["metadata", "labels", "kubernetes.io/metadata.name"],
    &["spec", "finalizers"],
    // A restart is an action, not desired state.
    &["spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"],
];

/// Reports whether a field is part of the bookkeeping of programs: nobody added it by hand.
pub(super) fn is_bookkeeping(path: &FieldPath) -> bool {
    BOOKKEEPING.iter().any(|keys| path.is_below(keys))
}

/// Reports whether a field ties the life of the object to another object or to a controller.
pub(super) fn is_object_link(path: &FieldPath) -> bool {
    path.is_below(&["metadata", "finalizers"]) || path.is_below(&["metadata", "ownerReferences"])
}

/// Metadata by which helm recognizes its objects. People set it, too, to give an object to a release.
const HELM_METADATA: [&[&str]; 3] = [
    &["metadata", "labels", "app.kubernetes.io/managed-by"],
    &["metadata", "annotations", "meta.helm.sh/release-name"],
    &["metadata", "annotations", "meta.helm.sh/release-namespace"],
];

/// Reports whether helm recognizes its objects by the field.
pub(super) fn is_helm_metadata(path: &FieldPath) -> bool {
    HELM_METADATA.iter().any(|keys| path.is_below(keys))
}

/// Returns the object in the form that is compared.
pub(crate) fn strip_server_fields(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        SERVER_METADATA.iter().for_each(|key| drop(metadata.shift_remove(*key)));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            TOOL_ANNOTATIONS.iter().for_each(|key| drop(annotations.shift_remove(*key)));
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
    }
    object
}

/// Returns a condition from the status of an object.
pub(crate) fn find_condition<'o>(object: &'o Value, name: &str) -> Option<&'o Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|one| one["type"] == *name)
}

/// Returns how far a condition lags behind its object, as `kubectl wait` determines it: by the `observedGeneration` of
/// the condition, else by that of the status. `None` if it is up to date, or if the controller reports no generation.
pub(crate) fn find_status_lag(object: &Value, condition: &Value) -> Option<StatusLag> {
    let number = |value: Option<&Value>| value.and_then(Value::as_i64);
    let generation = number(object.pointer("/metadata/generation"))?;
    let own = number(condition.get("observedGeneration"));
    let observed = own.or_else(|| number(object.pointer("/status/observedGeneration")))?;
    (observed < generation).then_some(StatusLag { observed, generation })
}

/// Reports whether a condition of the object is `True`.
pub(crate) fn is_condition_true(object: &Value, name: &str) -> bool {
    find_condition(object, name).is_some_and(|found| found["status"] == "True")
}

/// Replaces placeholders with secrets, and converts `stringData` of a Secret to `data`, as the API stores it.
pub(crate) fn reveal_object(object: &Value, secrets: &SecretStore) -> Value {
    let mut object = reveal_value(object, secrets);
    if is_secret_object(&object)
        && let Some(Value::Object(texts)) = object.as_object_mut().and_then(|map| map.shift_remove("stringData"))
    {
        for (key, value) in texts {
            let text = value.as_str().unwrap_or_default();
            object["data"][key] = json!(base64::engine::general_purpose::STANDARD.encode(text));
        }
    }
    object
}

/// Replaces placeholders with secrets.
pub(crate) fn reveal_value(value: &Value, secrets: &SecretStore) -> Value {
    match value {
        Value::String(text) if SecretStore::has_placeholder(text) => {
            json!(secrets.reveal_placeholders(text).expose_secret())
        }
        Value::Array(items) => items.iter().map(|item| reveal_value(item, secrets)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), reveal_value(value, secrets))).collect())
        }
        other => other.clone(),
    }
}

pub(super) fn is_secret_object(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_fields_are_stripped() {
        let object = json!({ "metadata": { "name": "a", "uid": "u", "generation": 2, "annotations": { "deployment.kubernetes.io/revision": "3" } }, "status": {}, "data": {} });
        assert_eq!(strip_server_fields(object), json!({ "metadata": { "name": "a" }, "data": {} }));
    }

    #[test]
    fn condition_of_an_earlier_generation_lags() {
        let lag = |observed, generation| Some(StatusLag { observed, generation });
        let cases = [
            (json!({ "metadata": { "generation": 7 }, "status": { "observedGeneration": 6 } }), json!({}), lag(6, 7)),
            (json!({ "metadata": { "generation": 7 }, "status": { "observedGeneration": 7 } }), json!({}), None),
            // A condition's own generation counts: controllers renew conditions one by one.
            (
                json!({ "metadata": { "generation": 7 }, "status": { "observedGeneration": 7 } }),
                json!({ "observedGeneration": 5 }),
                lag(5, 7),
            ),
            (
                json!({ "metadata": { "generation": 7 }, "status": { "observedGeneration": 6 } }),
                json!({ "observedGeneration": 7 }),
                None,
            ),
            // A Job, an APIService and many custom resources report no generation.
            (json!({ "metadata": { "generation": 7 }, "status": {} }), json!({}), None),
            (json!({ "metadata": {}, "status": { "observedGeneration": 6 } }), json!({}), None),
        ];
        for (object, condition, expected) in cases {
            assert_eq!(find_status_lag(&object, &condition), expected, "{object} {condition}");
        }
        let text = "its controller has not evaluated generation 7 yet (status of generation 6)";
        assert_eq!(lag(6, 7).unwrap().to_string(), text);
    }

    #[test]
    fn string_data_of_a_secret_is_written_as_base64_data() {
        let want = json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "a": "1" } });
        assert_eq!(
            reveal_object(&want, &SecretStore::default()),
            json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "MQ==" } })
        );
    }
}
