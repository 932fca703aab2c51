//! Field ownership of live objects: the owner of a field, and fields that were added manually.

use super::FieldOwner;
use super::differ::{FieldPath, PathStep, has_fields};
use super::drift::HELM_MANAGER;
use super::managed_fields::is_manual_manager;
use crate::model::Value;

/// Fields that are never declared.
const IGNORED_ADDITIONS: &[&[&str]] = &[
    &["status"],
    &["metadata", "finalizers"],
    &["metadata", "ownerReferences"],
    &["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"],
    // A restart is an action, not desired state.
    &["spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"],
];

/// One manager's fields.
struct ManagedFieldsEntry<'v> {
    manager: FieldOwner,
    fields: &'v Value,
}

fn parse_entries(live: &Value) -> impl Iterator<Item = ManagedFieldsEntry<'_>> {
    let all = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|entry| {
        let name = entry.get("manager")?.as_str()?;
        let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
        Some(ManagedFieldsEntry { manager: FieldOwner { name: name.into(), time }, fields: entry.get("fieldsV1")? })
    })
}

/// Returns the last manager of the field at `path`; `None` if it is helm itself: a value that differs from helm's was
/// set in a way for which the API records no owner.
pub(crate) fn find_last_owner(live: &Value, path: &FieldPath) -> Option<FieldOwner> {
    let owners = parse_entries(live).filter(|entry| owns_path(entry.fields, live, &path.0));
    let last = owners.max_by(|a, b| a.manager.time.cmp(&b.manager.time))?.manager;
    (last.name.raw() != HELM_MANAGER).then_some(last)
}

fn owns_path(fields: &Value, live: &Value, path: &[PathStep]) -> bool {
    let Some((step, rest)) = path.split_first() else { return true };
    // The owner of a whole value owns every field in it.
    if fields.as_object().is_some_and(serde_json::Map::is_empty) {
        return true;
    }
    let item = step.select_value(live);
    let found = fields.as_object().into_iter().flatten().find(|(key, _)| match (step, key.split_once(':')) {
        (PathStep::Key(name), Some(("f", key))) => name == key,
        (_, Some(("k", wanted))) => {
            item.zip(parse_item_keys(wanted)).is_some_and(|(item, wanted)| has_fields(item, &wanted))
        }
        _ => false,
    });
    found.is_some_and(|(_, fields)| owns_path(fields, item.unwrap_or(&Value::Null), rest))
}

fn parse_item_keys(text: &str) -> Option<serde_json::Map<String, Value>> {
    serde_json::from_str(text).ok()
}

/// A field that is not in the manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AddedLiveField {
    pub path: FieldPath,
    pub value: Value,
    pub by: FieldOwner,
}

/// Returns the fields of a live object that were added manually and are not in `declared`. Controllers set fields as
/// part of their function, so theirs do not count.
pub(crate) fn find_manual_additions(live: &Value, declared: &Value) -> Vec<AddedLiveField> {
    let mut found = Vec::new();
    for entry in parse_entries(live).filter(|entry| is_manual_manager(entry.manager.name.raw())) {
        for path in find_undeclared_paths(entry.fields, live, declared) {
            let noise = IGNORED_ADDITIONS.iter().any(|keys| path.is_below(keys));
            let value = path.find_value(live).cloned();
            if let Some(value) =
                value.filter(|_| !noise && found.iter().all(|other: &AddedLiveField| other.path != path))
            {
                found.push(AddedLiveField { path, value, by: entry.manager.clone() });
            }
        }
    }
    found
}

fn find_undeclared_paths(fields: &Value, live: &Value, declared: &Value) -> Vec<FieldPath> {
    let mut found = Vec::new();
    collect_undeclared(&FieldPath::default(), fields, live, Some(declared), &mut found);
    found
}

fn collect_undeclared(
    path: &FieldPath,
    fields: &Value,
    live: &Value,
    declared: Option<&Value>,
    found: &mut Vec<FieldPath>,
) {
    for (key, below) in fields.as_object().into_iter().flatten() {
        let Some(step) = parse_path_step(key, live) else { continue };
        let (path, Some(own)) = (path.with_step(step.clone()), step.select_value(live)) else { continue };
        let declared = declared.and_then(|declared| step.select_value(declared));
        let whole =
            below.as_object().is_none_or(|map| map.is_empty() || map.contains_key(".") && !is_key_value_map(key));
        match declared {
            None if whole => found.push(path),
            declared => collect_undeclared(&path, below, own, declared, found),
        }
    }
}

/// Reports whether the key is a map whose entries are listed individually; the map disappears with its last entry.
fn is_key_value_map(key: &str) -> bool {
    matches!(key, "f:labels" | "f:annotations")
}

/// Parses one key of a field set: `f:NAME`, `k:{…}`, `v:…`.
fn parse_path_step(key: &str, live: &Value) -> Option<PathStep> {
    match key.split_once(':')? {
        ("f", name) => Some(PathStep::Key(name.to_owned())),
        ("k", wanted) => parse_item_keys(wanted).map(PathStep::Item),
        ("v", value) => {
            let value: Value = serde_json::from_str(value).ok()?;
            live.as_array()?.iter().position(|item| *item == value).map(PathStep::At)
        }
        ("i", at) => at.parse().ok().map(PathStep::At),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::differ::find_differences;
    use super::*;
    use serde_json::json;

    fn live() -> Value {
        json!({
            "metadata": { "labels": { "app": "a", "by-hand": "x" }, "managedFields": [
                { "manager": "helm", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {
                    "f:spec": { "f:replicas": {}, "f:containers": { "k:{\"name\":\"main\"}": { ".": {}, "f:image": {} } } } } },
                { "manager": "kube-controller-manager", "time": "2026-01-02T00:00:00Z", "fieldsV1": {
                    "f:metadata": { "f:annotations": { "f:deployment.kubernetes.io/revision": {} } } } },
                { "manager": "kubectl-edit", "operation": "Update", "time": "2026-01-03T00:00:00Z", "fieldsV1": {
                    "f:metadata": { "f:labels": { "f:by-hand": {} } },
                    "f:spec": { "f:replicas": {}, "f:containers": { "k:{\"name\":\"main\"}": { "f:env": { ".": {},
                        "k:{\"name\":\"X\"}": { ".": {}, "f:name": {}, "f:value": {} } } } } } } },
            ] },
            "spec": { "replicas": 3, "containers": [{ "name": "main", "image": "i", "env": [{ "name": "X", "value": "1" }] }] },
        })
    }

    fn declared(containers: Value) -> Value {
        json!({ "metadata": { "labels": { "app": "a" } }, "spec": { "replicas": 1, "containers": containers } })
    }

    fn list_additions(declared: &Value) -> Vec<String> {
        find_manual_additions(&live(), declared)
            .iter()
            .map(|a| format!("{} {} {}", a.path, a.value, a.by.name.raw()))
            .collect()
    }

    #[test]
    fn manual_additions_are_found_with_their_field_manager() {
        let none = declared(json!([{ "name": "main", "image": "i" }]));
        assert_eq!(
            list_additions(&none),
            [
                r#"metadata.labels.by-hand "x" kubectl-edit"#,
                r#"spec.containers[name=main].env [{"name":"X","value":"1"}] kubectl-edit"#,
            ]
        );
        let one = declared(json!([{ "name": "main", "image": "i", "env": [{ "name": "A", "value": "1" }] }]));
        assert_eq!(
            list_additions(&one)[1],
            r#"spec.containers[name=main].env[name=X] {"name":"X","value":"1"} kubectl-edit"#
        );
        // A declared field is not an addition, whoever owns it.
        let both = declared(json!([{ "name": "main", "env": [{ "name": "X", "value": "2" }] }]));
        assert_eq!(list_additions(&both).len(), 1);
    }

    #[test]
    fn last_owner_of_a_field_is_found() {
        let path = |from: Value, to: Value| find_differences(&from, &to)[0].path.clone();
        let replicas = path(json!({ "spec": { "replicas": 3 } }), json!({ "spec": { "replicas": 1 } }));
        let named = |path: &FieldPath| find_last_owner(&live(), path).map(|manager| manager.name.raw().to_owned());
        assert_eq!(named(&replicas).as_deref(), Some("kubectl-edit"));
        let image = |image: &str| json!({ "spec": { "containers": [{ "name": "main", "image": image }] } });
        assert_eq!(named(&path(image("i"), image("j"))), None);
        assert_eq!(named(&path(json!({ "data": 1 }), json!({ "data": 2 }))), None);
    }

    #[test]
    fn owner_of_a_map_owns_the_fields_in_it() {
        let live = json!({ "spec": { "driver": { "enabled": true } }, "metadata": { "managedFields": [
            { "manager": "kubectl-patch", "fieldsV1": { "f:spec": { "f:driver": {} } } }] } });
        let path = find_differences(
            &live,
            &json!({ "spec": { "driver": { "enabled": false } }, "metadata": live["metadata"] }),
        );
        assert_eq!(find_last_owner(&live, &path[0].path).unwrap().name.raw(), "kubectl-patch");
    }
}
