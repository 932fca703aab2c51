//! Adds default limits to a workload that does not set them.

use crate::model::Value;
use serde_json::{Map, json};

/// Seconds after which a finished workload is deleted.
const RETENTION_S: u64 = 600;
/// Seconds that a workload and its pods may run beyond the time for which forge waits: their own limits end them only if
/// forge is gone. A controller that ends a workload deletes its pods, and with them the reason why they did not run.
const GRACE_S: u64 = 60;

/// Adds limits to a workload for which forge waits `limit_s` seconds.
pub fn add_workload_bounds(object: &mut Value, limit_s: u64) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let group =
        object["apiVersion"].as_str().unwrap_or_default().rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let limit_s = limit_s + GRACE_S;
    bound_pods(object, limit_s);
    let own: &[(&str, Value)] = &match (group.as_str(), kind.as_str()) {
        ("batch", "Job") => vec![
            ("activeDeadlineSeconds", json!(limit_s)),
            ("ttlSecondsAfterFinished", json!(RETENTION_S)),
            ("backoffLimit", json!(0)),
        ],
        ("batch.volcano.sh", "Job") => vec![("ttlSecondsAfterFinished", json!(RETENTION_S))],
        ("kubeflow.org", _) => vec![(
            "runPolicy",
            json!({ "activeDeadlineSeconds": limit_s, "ttlSecondsAfterFinished": RETENTION_S, "cleanPodPolicy": "None" }),
        )],
        _ => Vec::new(),
    };
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    own.iter().for_each(|(key, value)| fill_missing(spec, key, value));
}

/// Sets keys that are not set.
fn fill_missing(map: &mut Map<String, Value>, key: &str, value: &Value) {
    match (map.get_mut(key), value) {
        (None, _) => drop(map.insert(key.to_owned(), value.clone())),
        (Some(Value::Object(there)), Value::Object(more)) => {
            more.iter().for_each(|(key, value)| fill_missing(there, key, value))
        }
        _ => {}
    }
}

/// Limits the run time of pods and disables restarts, unless the pod sets these.
fn bound_pods(value: &mut Value, limit_s: u64) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(|below| bound_pods(below, limit_s));
            if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut)
                && spec.get("containers").is_some_and(Value::is_array)
            {
                fill_missing(spec, "activeDeadlineSeconds", &json!(limit_s));
                fill_missing(spec, "restartPolicy", &json!("Never"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| bound_pods(item, limit_s)),
        _ => {}
    }
}
