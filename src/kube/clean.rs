//! Normalizes objects for comparison and display: without server-side bookkeeping, and without secrets.

use crate::model::{SecretStore, Value};
use base64::Engine as _;
use secrecy::ExposeSecret;
use serde_json::json;

/// Fields in `metadata` that the API manages itself.
const KEPT: [&str; 8] = [
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
const ANNOTATIONS: [&str; 3] = [
    "deprecated.daemonset.template.generation",
    "deployment.kubernetes.io/revision",
    "kubectl.kubernetes.io/last-applied-configuration",
];

const SECRET: &str = "(secret)";
const OTHER: &str = "(secret, another one)";

/// Returns the object in the form that is compared.
pub(super) fn clean(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        KEPT.iter().for_each(|key| drop(metadata.shift_remove(*key)));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            ANNOTATIONS.iter().for_each(|key| drop(annotations.shift_remove(*key)));
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
    }
    object
}

/// Returns a condition from the status of an object.
pub(super) fn condition<'o>(object: &'o Value, name: &str) -> Option<&'o Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|one| one["type"] == *name)
}

/// Reports whether a condition of the object is `True`.
pub(super) fn is_true(object: &Value, name: &str) -> bool {
    condition(object, name).is_some_and(|found| found["status"] == "True")
}

/// Returns the object with its status in a form that may be shown and stored: without known secrets, the values of a
/// Secret, and the bookkeeping of the API and `kubectl`.
pub(super) fn shown(mut object: Value, secrets: &SecretStore) -> Value {
    if is_secret(&object) {
        let values = object.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten();
        values.for_each(|(_, value)| *value = json!(SECRET));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove(ANNOTATIONS[2]);
        }
    }
    scrubbed(&mut object, secrets);
    object
}

fn scrubbed(value: &mut Value, secrets: &SecretStore) {
    match value {
        Value::String(text) => *text = secrets.scrub(text),
        Value::Array(items) => items.iter_mut().for_each(|item| scrubbed(item, secrets)),
        Value::Object(map) => map.iter_mut().for_each(|(_, value)| scrubbed(value, secrets)),
        _ => {}
    }
}

/// Replaces placeholders with secrets, and converts `stringData` of a Secret to `data`, as the API stores it.
pub(super) fn revealed(object: &Value, secrets: &SecretStore) -> Value {
    let mut object = with_secrets(object, secrets);
    if is_secret(&object)
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
pub(super) fn with_secrets(value: &Value, secrets: &SecretStore) -> Value {
    match value {
        Value::String(text) if SecretStore::mentions(text) => json!(secrets.reveal(text).expose_secret()),
        Value::Array(items) => items.iter().map(|item| with_secrets(item, secrets)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), with_secrets(value, secrets))).collect())
        }
        other => other.clone(),
    }
}

fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

/// Masks secrets in the live object and in the predicted one: only whether they differ stays visible. `want` shows
/// where secrets are.
pub(super) fn withheld(live: &mut Option<Value>, dry: &mut Option<Value>, want: Option<&Value>) {
    if live.as_ref().or(dry.as_ref()).is_some_and(is_secret) {
        let mut keys = Vec::new();
        for object in [&*live, &*dry].into_iter().flatten() {
            keys.extend(object["data"].as_object().into_iter().flatten().map(|(key, _)| key.clone()));
        }
        keys.iter().for_each(|key| mask(live, dry, &["data".to_owned(), key.clone()]));
    }
    let mut paths = Vec::new();
    want.iter().for_each(|want| placeholders(want, &mut Vec::new(), &mut paths));
    paths.iter().for_each(|path| mask(live, dry, path));
}

/// Finds the paths of placeholders. A list with a placeholder is masked as a whole: its items have no names.
fn placeholders(want: &Value, at: &mut Vec<String>, into: &mut Vec<Vec<String>>) {
    match want {
        Value::String(text) if SecretStore::mentions(text) => into.push(at.clone()),
        Value::Array(_) if SecretStore::mentions(&want.to_string()) => into.push(at.clone()),
        Value::Object(map) => {
            for (key, value) in map {
                at.push(key.clone());
                placeholders(value, at, into);
                at.pop();
            }
        }
        _ => {}
    }
}

fn mask(live: &mut Option<Value>, dry: &mut Option<Value>, path: &[String]) {
    fn find<'v>(object: &'v mut Option<Value>, path: &[String]) -> Option<&'v mut Value> {
        path.iter().try_fold(object.as_mut()?, |value, key| value.get_mut(key))
    }
    match (find(live, path), find(dry, path)) {
        (Some(live), Some(dry)) => {
            let same = live == dry;
            (*live, *dry) = (json!(SECRET), json!(if same { SECRET } else { OTHER }));
        }
        (Some(one), None) | (None, Some(one)) => *one = json!(SECRET),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::SecretString;

    #[test]
    fn what_the_api_keeps_for_itself_is_no_difference() {
        let object = json!({ "metadata": { "name": "a", "uid": "u", "generation": 2, "annotations": { "deployment.kubernetes.io/revision": "3" } }, "status": {}, "data": {} });
        assert_eq!(clean(object), json!({ "metadata": { "name": "a" }, "data": {} }));
    }

    #[test]
    fn of_secrets_only_is_told_whether_they_differ() {
        let secret =
            |a: &str, b: &str| Some(json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": a, "b": b } }));
        let (mut live, mut dry) = (secret("MQ==", "Mg=="), secret("MQ==", "Mw=="));
        withheld(&mut live, &mut dry, None);
        assert_eq!(live, secret(SECRET, SECRET));
        assert_eq!(dry, secret(SECRET, OTHER));
    }

    #[test]
    fn what_is_shown_has_its_status_and_no_secrets() {
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
        assert_eq!(shown(pod, &secrets), expected);
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "MQ==" } });
        assert_eq!(shown(secret, &secrets)["data"]["a"], SECRET);
    }

    #[test]
    fn a_placeholder_says_where_a_secret_is() {
        let mut secrets = SecretStore::default();
        let placeholder = secrets.insert("TOKEN", SecretString::from("hunter2\"".to_owned())).0;
        let want = json!({ "data": { "token": format!("x {placeholder}"), "b": "2" }, "list": [1, placeholder] });
        let applied = revealed(&want, &secrets);
        assert_eq!(applied["data"]["token"], "x hunter2\"");
        let (mut live, mut dry) =
            (Some(json!({ "data": { "token": "old", "b": "1" }, "list": [1, "old"] })), Some(applied));
        withheld(&mut live, &mut dry, Some(&want));
        assert_eq!(live, Some(json!({ "data": { "token": SECRET, "b": "1" }, "list": SECRET })));
        assert_eq!(dry, Some(json!({ "data": { "token": OTHER, "b": "2" }, "list": OTHER })));
    }

    #[test]
    fn text_of_a_secret_is_written_as_the_api_keeps_it() {
        let want = json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "a": "1" } });
        assert_eq!(
            revealed(&want, &SecretStore::default()),
            json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "MQ==" } })
        );
    }
}
