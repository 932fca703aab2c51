//! The fields that a manager applied, as the tree of names in `metadata.managedFields`, and their values in an object.
//! What an apply changes is in such a tree: the fields that the manager applied before, and those that it applies now.

use super::field_path::{FieldPath, PathStep};
use crate::model::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

/// The fields of an object that an apply may change, and their values before and after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FormerFields {
    /// The tree of their names, in the form of the API's `fieldsV1`.
    pub names: Value,
    /// The object with only these fields, before the apply.
    pub before: Value,
    /// The same, after the apply, as a dry run predicts it.
    pub after: Value,
}

impl FormerFields {
    /// Returns the fields that an apply of `manager` may change in `live`, which the dry run `applied` shows after it.
    /// Fields at `removed` are removed from the object before the apply.
    pub(crate) fn compare(live: &Value, applied: &Value, manager: &str, removed: &[FieldPath]) -> Self {
        let mut names = collect_applied_names(live, manager);
        merge_names(&mut names, collect_applied_names(applied, manager));
        removed.iter().for_each(|path| merge_names(&mut names, names_of_path(path)));
        let mut after = applied.clone();
        // From the end of each list, so that positions stay valid.
        removed.iter().rev().for_each(|path| path.remove_value(&mut after));
        let names = Value::Object(names);
        Self { before: extract_fields(live, &names), after: extract_fields(&after, &names), names }
    }
}

/// Returns the object with its names and only the fields of a tree. Items of lists keep the fields that name them.
pub(crate) fn extract_fields(object: &Value, names: &Value) -> Value {
    let empty = Map::new();
    let mut found = extract_value(object, names.as_object().unwrap_or(&empty)).unwrap_or_default();
    if !found.is_object() {
        found = json!({});
    }
    for key in ["apiVersion", "kind"] {
        found[key] = object[key].clone();
    }
    for key in ["name", "namespace"] {
        if let Some(value) = object["metadata"].get(key) {
            found["metadata"][key] = value.clone();
        }
    }
    found
}

/// Returns the fields that `manager` set with server-side applies, without those of the status. Other changes give no
/// ownership that an apply would act on.
fn collect_applied_names(object: &Value, manager: &str) -> Map<String, Value> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let own = entries.filter(|entry| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].as_str().is_none()
    });
    let mut names = Map::new();
    own.filter_map(|entry| entry["fieldsV1"].as_object()).for_each(|own| merge_names(&mut names, own.clone()));
    names.shift_remove("f:status");
    names
}

/// Adds the names of another tree. A name without names below it stands for the whole value.
fn merge_names(into: &mut Map<String, Value>, other: Map<String, Value>) {
    for (key, below) in other {
        match (into.get_mut(&key), below) {
            (Some(Value::Object(own)), Value::Object(below)) if own.is_empty() || below.is_empty() => own.clear(),
            (Some(Value::Object(own)), Value::Object(below)) => merge_names(own, below),
            (_, below) => drop(into.insert(key, below)),
        }
    }
}

/// Returns the tree with one name.
fn names_of_path(path: &FieldPath) -> Map<String, Value> {
    let wrap = |below: Map<String, Value>, step: &PathStep| Map::from_iter([(step.to_managed_key(), below.into())]);
    path.steps().iter().rev().fold(Map::new(), wrap)
}

fn extract_value(value: &Value, names: &Map<String, Value>) -> Option<Value> {
    let is_whole = names.is_empty();
    match value {
        Value::Object(map) if !is_whole => {
            let below = names.iter().filter_map(|(key, below)| {
                let Some(PathStep::Key(key)) = PathStep::parse_managed_key(key) else { return None };
                let found = extract_value(map.get(&key)?, below.as_object()?)?;
                Some((key, found))
            });
            let found: Map<String, Value> = below.collect();
            (!found.is_empty() || names.contains_key(".")).then_some(Value::Object(found))
        }
        Value::Array(items) if !is_whole => {
            let mut found: Vec<(usize, Value)> = names
                .iter()
                .filter_map(|(key, below)| {
                    let step = PathStep::parse_managed_key(key)?;
                    let at = step.find_index(items)?;
                    Some((at, extract_item(&step, &items[at], below.as_object()?)?))
                })
                .collect();
            found.sort_by_key(|(at, _)| *at);
            found.dedup_by_key(|(at, _)| *at);
            let found: Vec<Value> = found.into_iter().map(|(_, item)| item).collect();
            (!found.is_empty() || names.contains_key(".")).then_some(Value::Array(found))
        }
        whole => Some(whole.clone()),
    }
}

fn extract_item(step: &PathStep, item: &Value, names: &Map<String, Value>) -> Option<Value> {
    let mut found = extract_value(item, names)?;
    if let (PathStep::Item(keys), Some(found)) = (step, found.as_object_mut()) {
        for (key, _) in keys {
            if let Some(value) = item.get(key) {
                found.insert(key.clone(), value.clone());
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managed(fields: Value) -> Value {
        json!([{ "manager": "forge", "operation": "Apply", "fieldsV1": fields },
               { "manager": "forge", "operation": "Update", "fieldsV1": { "f:data": { "f:merged": {} } } },
               { "manager": "sidecars", "operation": "Apply", "fieldsV1": { "f:data": { "f:theirs": {} } } }])
    }

    #[test]
    fn former_fields_are_those_applied_before_and_after() {
        let live = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "namespace": "n", "labels": { "x": "1" }, "managedFields": managed(json!({
                "f:data": { "f:gone": {}, "f:text": {} } })) },
            "data": { "gone": "1", "text": "old", "taken": "kubectl", "theirs": "t", "added": "by hand" },
        });
        let applied = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "namespace": "n", "labels": { "x": "1" }, "managedFields": managed(json!({
                "f:data": { "f:text": {}, "f:taken": {}, "f:new": {} } })) },
            "data": { "text": "new", "taken": "forge", "new": "n", "theirs": "t", "added": "by hand" },
        });
        let found = FormerFields::compare(&live, &applied, "forge", &[FieldPath::from_keys(&["data", "added"])]);
        let names = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "n" } });
        let with = |data: Value| {
            let mut object = names.clone();
            object["data"] = data;
            object
        };
        assert_eq!(
            found.before,
            with(json!({ "gone": "1", "text": "old", "taken": "kubectl", "added": "by hand" })),
            "fields of others are not part of it"
        );
        assert_eq!(found.after, with(json!({ "text": "new", "taken": "forge", "new": "n" })));
    }

    #[test]
    fn list_items_keep_their_names_and_atomic_lists_are_whole() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
            "spec": { "containers": [
                { "name": "sidecar", "image": "s:1" },
                { "name": "main", "image": "m:1", "args": ["a", "b"], "ports": [{ "containerPort": 80, "protocol": "TCP", "name": "http" }] },
            ], "finalizers": ["mine", "theirs"] },
        });
        let names = json!({ "f:spec": {
            "f:containers": { "k:{\"name\":\"main\"}": { ".": {}, "f:args": {}, "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { "f:name": {} } } },
                              "k:{\"name\":\"gone\"}": { "f:image": {} } },
            "f:finalizers": { "v:\"mine\"": {} } } });
        let main = json!({ "name": "main", "args": ["a", "b"], "ports": [{ "name": "http", "containerPort": 80, "protocol": "TCP" }] });
        assert_eq!(
            extract_fields(&object, &names),
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
                    "spec": { "containers": [main], "finalizers": ["mine"] } })
        );
    }

    #[test]
    fn names_of_several_applies_are_merged() {
        let mut names = json!({ "f:a": { "f:b": {} }, "f:whole": {} }).as_object().unwrap().clone();
        merge_names(&mut names, json!({ "f:a": { "f:c": {} }, "f:whole": { "f:x": {} } }).as_object().unwrap().clone());
        assert_eq!(Value::Object(names), json!({ "f:a": { "f:b": {}, "f:c": {} }, "f:whole": {} }));
        let mut path = FieldPath::from_keys(&["spec", "env"]);
        path.push(PathStep::item_named("name", "A"));
        assert_eq!(Value::Object(names_of_path(&path)), json!({ "f:spec": { "f:env": { "k:{\"name\":\"A\"}": {} } } }));
    }
}
