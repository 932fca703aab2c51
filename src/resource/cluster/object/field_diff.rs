//! Differences between an object's current state and its state after an apply, field by field.

use super::yaml_text::{format_scalar, render_yaml};
use crate::model::Value;
use crate::resource::AttributeChange;
use crate::resource::shared::diff;
use std::collections::BTreeSet;

/// Maximum number of fields to list one by one.
const MAX_SHOWN_FIELDS: usize = 40;

/// Returns the fields that differ. `of` names the object if a step has several.
pub(super) fn diff_fields(of: &str, live: &Value, becomes: &Value) -> Vec<AttributeChange> {
    let mut changes = Vec::new();
    collect_differences(&mut Vec::new(), Some(live), Some(becomes), of, &mut changes);
    let more = changes.len().saturating_sub(MAX_SHOWN_FIELDS);
    if more > 0 {
        changes.truncate(MAX_SHOWN_FIELDS);
        changes.push(AttributeChange::new(&qualify_field(of, "…"), Some(&format!("{more} more fields")), None));
    }
    changes
}

/// Returns the change that creates an object, with its text as a diff.
pub(in crate::resource) fn creation_change(of: &str, object: &Value) -> AttributeChange {
    let text = render_yaml(&mask_secret_data(object));
    AttributeChange {
        diff: diff::unified_diff(b"", text.as_bytes()).map(Into::into),
        ..AttributeChange::new(of, None, Some("declared"))
    }
}

/// Hides secrets: placeholders, and the values of a Secret.
fn mask_secret_data(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] == "Secret" && object["apiVersion"] == "v1" {
        for part in ["data", "stringData"] {
            let values = object.get_mut(part).and_then(Value::as_object_mut);
            values.into_iter().flatten().for_each(|(_, value)| *value = Value::from("(secret)"));
        }
    }
    mask_placeholders(&object)
}

fn mask_placeholders(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(crate::model::SecretStore::mask_placeholders(text)),
        Value::Array(items) => items.iter().map(mask_placeholders).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), mask_placeholders(value))).collect())
        }
        other => other.clone(),
    }
}

pub(super) fn qualify_field(of: &str, field: &str) -> String {
    if of.is_empty() { field.to_owned() } else { format!("{of} {field}") }
}

fn collect_differences(
    at: &mut Vec<String>,
    live: Option<&Value>,
    becomes: Option<&Value>,
    of: &str,
    into: &mut Vec<AttributeChange>,
) {
    match (live, becomes) {
        (live, becomes) if live == becomes => {}
        (Some(Value::Object(live)), Some(Value::Object(becomes))) => {
            let keys: Vec<&String> = live.keys().chain(becomes.keys().filter(|key| !live.contains_key(*key))).collect();
            for key in keys {
                at.push(path_segment(key));
                collect_differences(at, live.get(key), becomes.get(key), of, into);
                at.pop();
            }
        }
        (Some(Value::Array(live)), Some(Value::Array(becomes))) if is_named_list(live) && is_named_list(becomes) => {
            let names: BTreeSet<&str> = live.iter().chain(becomes).filter_map(item_name).collect();
            for one in names {
                let find = |list: &'_ [Value]| list.iter().position(|item| item_name(item) == Some(one));
                at.push(format!("[name={one}]"));
                collect_differences(at, find(live).map(|at| &live[at]), find(becomes).map(|at| &becomes[at]), of, into);
                at.pop();
            }
        }
        (live, becomes) => into.push(value_change(&qualify_field(of, &at.concat()), live, becomes)),
    }
}

fn is_named_list(list: &[Value]) -> bool {
    let names: BTreeSet<&str> = list.iter().filter_map(item_name).collect();
    names.len() == list.len()
}

fn item_name(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

fn path_segment(key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain { format!(".{key}") } else { format!("[{key}]") }
}

fn value_change(attribute: &str, live: Option<&Value>, becomes: Option<&Value>) -> AttributeChange {
    let secret = |value: &&Value| value.as_str().is_some_and(|text| text.starts_with("(secret"));
    if live.filter(secret).or(becomes.filter(secret)).is_some() {
        return AttributeChange { secret: true, ..AttributeChange::new(attribute, None, None) };
    }
    let large =
        |value: &Value| value.is_object() || value.is_array() || value.as_str().is_some_and(|text| text.contains('\n'));
    if !live.into_iter().chain(becomes).any(large) {
        let text = |value: Option<&Value>| value.map(format_scalar);
        return AttributeChange::new(attribute, text(live).as_deref(), text(becomes).as_deref());
    }
    let text = |value: Option<&Value>| {
        value.map(|value| value.as_str().map_or_else(|| render_yaml(value), str::to_owned)).unwrap_or_default()
    };
    let unified = diff::unified_diff(text(live).as_bytes(), text(becomes).as_bytes());
    AttributeChange {
        diff: unified.map(Into::into),
        ..AttributeChange::new(attribute, live.map(|_| "current"), becomes.map(|_| "declared"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changed_fields_are_listed_individually() {
        let live = json!({ "spec": { "replicas": 1, "containers": [{ "name": "a", "image": "x:1" }, { "name": "b" }] }, "data": { "t": "(secret)", "m": "1\n" } });
        let becomes = json!({ "spec": { "replicas": 2, "containers": [{ "name": "a", "image": "x:2" }] }, "data": { "t": "(secret, another one)", "m": "2\n" } });
        let told: Vec<(String, Option<String>, Option<String>, bool)> = diff_fields("", &live, &becomes)
            .into_iter()
            .map(|c| {
                (
                    c.attribute.to_string(),
                    c.from.map(|t| t.raw().to_owned()),
                    c.to.map(|t| t.raw().to_owned()),
                    c.secret,
                )
            })
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            told,
            [
                (".spec.replicas".to_owned(), some("1"), some("2"), false),
                (".spec.containers[name=a].image".to_owned(), some("x:1"), some("x:2"), false),
                (".spec.containers[name=b]".to_owned(), some("current"), None, false),
                (".data.t".to_owned(), None, None, true),
                (".data.m".to_owned(), some("current"), some("declared"), false),
            ]
        );
    }

    #[test]
    fn diff_of_a_new_secret_hides_its_values() {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": "MQ==" } });
        assert!(!creation_change("Secret n/a", &secret).diff.unwrap().raw().contains("MQ=="));
    }
}
