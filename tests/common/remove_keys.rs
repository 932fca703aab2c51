//! Compares JSON documents of different runs.

use serde_json::Value;

/// Removes these keys at every depth.
pub fn remove_keys(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !keys.contains(&key.as_str()));
            map.values_mut().for_each(|value| remove_keys(value, keys));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_keys(item, keys)),
        _ => {}
    }
}
