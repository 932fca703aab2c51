//! Normalizes objects for comparison and display: without server-side bookkeeping, and without secrets.

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

/// Annotations that controllers and tools manage themselves.
const TOOL_ANNOTATIONS: [&str; 3] = [
    "deprecated.daemonset.template.generation",
    "deployment.kubernetes.io/revision",
    "kubectl.kubernetes.io/last-applied-configuration",
];

const MASKED_SECRET: &str = "(secret)";
const MASKED_OTHER_SECRET: &str = "(secret, another one)";

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

/// Reports whether a condition of the object is `True`.
pub(crate) fn is_condition_true(object: &Value, name: &str) -> bool {
    find_condition(object, name).is_some_and(|found| found["status"] == "True")
}

/// Returns the object with its status in a form that may be shown and stored: without known secrets, the values of a
/// Secret, and the bookkeeping of the API and `kubectl`.
pub(crate) fn redact_object(mut object: Value, secrets: &SecretStore) -> Value {
    if is_secret_object(&object) {
        let values = object.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten();
        values.for_each(|(_, value)| *value = json!(MASKED_SECRET));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove(TOOL_ANNOTATIONS[2]);
        }
    }
    scrub_strings(&mut object, secrets);
    object
}

fn scrub_strings(value: &mut Value, secrets: &SecretStore) {
    match value {
        Value::String(text) => *text = secrets.scrub_secrets(text),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub_strings(item, secrets)),
        Value::Object(map) => map.iter_mut().for_each(|(_, value)| scrub_strings(value, secrets)),
        _ => {}
    }
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

fn is_secret_object(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

/// Masks secrets in the live object and in the predicted one: only whether they differ stays visible. `want` shows
/// where secrets are.
pub(crate) fn mask_secret_values(live: &mut Option<Value>, dry: &mut Option<Value>, want: Option<&Value>) {
    if live.as_ref().or(dry.as_ref()).is_some_and(is_secret_object) {
        let mut keys = Vec::new();
        for object in [&*live, &*dry].into_iter().flatten() {
            keys.extend(object["data"].as_object().into_iter().flatten().map(|(key, _)| key.clone()));
        }
        keys.iter().for_each(|key| mask_path(live, dry, &["data".to_owned(), key.clone()]));
    }
    let mut paths = Vec::new();
    want.iter().for_each(|want| collect_placeholder_paths(want, &mut Vec::new(), &mut paths));
    paths.iter().for_each(|path| mask_path(live, dry, path));
}

/// Finds the paths of placeholders. A list with a placeholder is masked as a whole: its items have no names.
fn collect_placeholder_paths(want: &Value, at: &mut Vec<String>, into: &mut Vec<Vec<String>>) {
    match want {
        Value::String(text) if SecretStore::has_placeholder(text) => into.push(at.clone()),
        Value::Array(_) if SecretStore::has_placeholder(&want.to_string()) => into.push(at.clone()),
        Value::Object(map) => {
            for (key, value) in map {
                at.push(key.clone());
                collect_placeholder_paths(value, at, into);
                at.pop();
            }
        }
        _ => {}
    }
}

fn mask_path(live: &mut Option<Value>, dry: &mut Option<Value>, path: &[String]) {
    fn find<'v>(object: &'v mut Option<Value>, path: &[String]) -> Option<&'v mut Value> {
        path.iter().try_fold(object.as_mut()?, |value, key| value.get_mut(key))
    }
    match (find(live, path), find(dry, path)) {
        (Some(live), Some(dry)) => {
            let same = live == dry;
            (*live, *dry) = (json!(MASKED_SECRET), json!(if same { MASKED_SECRET } else { MASKED_OTHER_SECRET }));
        }
        (Some(one), None) | (None, Some(one)) => *one = json!(MASKED_SECRET),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    #[test]
    fn server_fields_are_stripped() {
        let object = json!({ "metadata": { "name": "a", "uid": "u", "generation": 2, "annotations": { "deployment.kubernetes.io/revision": "3" } }, "status": {}, "data": {} });
        assert_eq!(strip_server_fields(object), json!({ "metadata": { "name": "a" }, "data": {} }));
    }

    #[test]
    fn masked_secret_values_still_show_whether_they_differ() {
        let secret =
            |a: &str, b: &str| Some(json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": a, "b": b } }));
        let (mut live, mut dry) = (secret("MQ==", "Mg=="), secret("MQ==", "Mw=="));
        mask_secret_values(&mut live, &mut dry, None);
        assert_eq!(live, secret(MASKED_SECRET, MASKED_SECRET));
        assert_eq!(dry, secret(MASKED_SECRET, MASKED_OTHER_SECRET));
    }

    #[test]
    fn shown_object_keeps_its_status_but_no_secrets() {
        let mut secrets = SecretStore::default();
        secrets.insert("TOKEN", SecretString::from("hunter2".to_owned()));
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Running" }, "spec": { "args": ["--token=hunter2"] },
            "metadata": { "managedFields": [1], "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b" } },
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "status": { "phase": "Running" }, "spec": { "args": ["--token=(secret TOKEN)"] },
            "metadata": { "annotations": { "a": "b" } },
        });
        assert_eq!(redact_object(pod, &secrets), expected);
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "MQ==" } });
        assert_eq!(redact_object(secret, &secrets)["data"]["a"], MASKED_SECRET);
    }

    #[test]
    fn values_from_placeholders_are_masked() {
        let mut secrets = SecretStore::default();
        let placeholder = secrets.insert("TOKEN", SecretString::from("hunter2\"".to_owned())).0;
        let want = json!({ "data": { "token": format!("x {placeholder}"), "b": "2" }, "list": [1, placeholder] });
        let applied = reveal_object(&want, &secrets);
        assert_eq!(applied["data"]["token"], "x hunter2\"");
        let (mut live, mut dry) =
            (Some(json!({ "data": { "token": "old", "b": "1" }, "list": [1, "old"] })), Some(applied));
        mask_secret_values(&mut live, &mut dry, Some(&want));
        assert_eq!(live, Some(json!({ "data": { "token": MASKED_SECRET, "b": "1" }, "list": MASKED_SECRET })));
        assert_eq!(
            dry,
            Some(json!({ "data": { "token": MASKED_OTHER_SECRET, "b": "2" }, "list": MASKED_OTHER_SECRET }))
        );
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
