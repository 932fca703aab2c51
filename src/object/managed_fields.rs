//! Field ownership of an object, read from its `managedFields`.

use super::cleanup::{is_bookkeeping, is_object_link};
use super::field_path::{FieldPath, PathStep};
use super::{AddedField, FieldManager, FieldOwner};
use crate::model::Value;
use std::collections::BTreeSet;

/// Programs with which people change objects. Other programs set fields as part of their function.
const MANUAL_CLIENTS: [&str; 8] = ["kubectl", "k9s", "Lens", "OpenLens", "Headlamp", "Mozilla", "node-fetch", "curl"];

/// Those of them that are libraries: operators report their names, too, and tie objects to others as their function.
const LIBRARY_CLIENTS: [&str; 3] = ["Mozilla", "node-fetch", "curl"];

/// The fields that one manager set.
struct OwnedFields {
    manager: String,
    /// `Apply` or `Update`.
    operation: String,
    time: String,
    fields: BTreeSet<FieldPath>,
}

/// A field that was added by hand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AddedLiveField {
    pub path: FieldPath,
    pub value: Value,
    pub manager: String,
    /// RFC 3339; empty if the API does not record it.
    pub time: String,
}

impl AddedLiveField {
    /// Returns the field as an observation lists it; `None` if `object` does not have it.
    pub(crate) fn to_added_field(&self, object: &Value) -> Option<AddedField> {
        let pointer = self.path.to_json_pointer(object)?;
        let (manager, time) = (self.manager.clone(), self.time.clone());
        Some(AddedField { field: self.path.to_string(), pointer, manager, time })
    }

    /// Returns the manager that added the field.
    pub(crate) fn owner(&self) -> FieldOwner {
        let time = Some(self.time.clone()).filter(|time| !time.is_empty());
        FieldOwner { name: self.manager.as_str().into(), time }
    }
}

/// Returns the managers with their fields, without those of the status.
pub(crate) fn list_field_managers(object: &Value) -> Vec<FieldManager> {
    let convert = |owner: OwnedFields| FieldManager {
        fields: leaf_paths(&owner.fields).map(FieldPath::to_string).collect(),
        manager: owner.manager,
        time: owner.time,
    };
    parse_owned_fields(object).into_iter().map(convert).collect()
}

/// Returns the fields that were added manually, each with everything below it, if no other manager owns them, the manager
/// `own` would not own them after its apply, and they are not `declared`. All that `author` sets is declared: a list item
/// that replaces another in a change by hand can have both as owners (measured with Kubernetes 1.20).
pub(crate) fn find_added_fields(
    object: &Value,
    applied: &Value,
    own: &str,
    author: &str,
    declared: &Value,
) -> Vec<AddedLiveField> {
    let (hands, others): (Vec<OwnedFields>, Vec<OwnedFields>) =
        parse_owned_fields(object).into_iter().partition(|owner| is_manual_manager(&owner.manager));
    let is_wanted = |owner: &OwnedFields| owner.manager == own && owner.operation != "Update";
    let wanted: Vec<OwnedFields> = parse_owned_fields(applied).into_iter().filter(is_wanted).collect();
    let others = others.iter().filter(|owner| owner.manager != author);
    let kept: BTreeSet<&FieldPath> = others.chain(&wanted).flat_map(|owner| &owner.fields).collect();
    let free = |path: &&FieldPath| {
        // The set is sorted: the fields in a field come right after it.
        let owned = kept.range::<FieldPath, _>(*path..).next().is_some_and(|kept| kept.starts_with(path));
        !owned && !is_entry_map(path) && !is_bookkeeping(path) && path.find_value(declared).is_none()
    };
    let mut found: Vec<AddedLiveField> = Vec::new();
    let is_library = |owner: &OwnedFields| LIBRARY_CLIENTS.iter().any(|client| owner.manager.starts_with(client));
    for (owner, path) in hands.iter().flat_map(|owner| owner.fields.iter().filter(free).map(move |path| (owner, path)))
    {
        if is_object_link(path) && is_library(owner) {
            continue;
        }
        // A field comes before the fields in it.
        if found.iter().any(|above| path.starts_with(&above.path)) {
            continue;
        }
        if let Some(value) = path.find_value(object) {
            let (path, value) = (path.clone(), value.clone());
            found.push(AddedLiveField { path, value, manager: owner.manager.clone(), time: owner.time.clone() });
        }
    }
    found
}

/// Reports whether the field is a map whose entries are listed one by one; the map disappears with its last entry.
fn is_entry_map(path: &FieldPath) -> bool {
    matches!(path.steps().last(), Some(PathStep::Key(key)) if key == "labels" || key == "annotations")
}

/// Reports whether the manager is a program with which people change objects.
pub(crate) fn is_manual_manager(manager: &str) -> bool {
    // It restarts pods and marks that in the object.
    manager != "kubectl-rollout" && MANUAL_CLIENTS.iter().any(|program| manager.starts_with(program))
}

/// Returns the time at which a manager last set a field; empty if it is not recorded.
pub(crate) fn last_set_time(managers: &[FieldManager], manager: &str) -> String {
    managers.iter().filter(|known| known.manager == manager).map(|known| known.time.clone()).max().unwrap_or_default()
}

fn manager_entries(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

fn parse_owned_fields(object: &Value) -> Vec<OwnedFields> {
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let one = |entry: &Value| {
        let mut fields = BTreeSet::new();
        collect_owned_paths(entry.get("fieldsV1").unwrap_or(&Value::Null), &mut FieldPath::default(), &mut fields);
        fields.retain(|path| !path.is_below(&["status"]));
        OwnedFields {
            manager: text(entry, "manager"),
            operation: text(entry, "operation"),
            time: text(entry, "time"),
            fields,
        }
    };
    manager_entries(object).filter(|entry| text(entry, "subresource") != "status").map(one).collect()
}

/// Collects the fields that were set: those without children, and those marked with a dot.
fn collect_owned_paths(node: &Value, at: &mut FieldPath, into: &mut BTreeSet<FieldPath>) {
    let Value::Object(map) = node else { return };
    if !at.steps().is_empty() && (map.is_empty() || map.contains_key(".")) {
        into.insert(at.clone());
    }
    for (key, below) in map {
        let Some(step) = PathStep::parse_managed_key(key) else { continue };
        at.push(step);
        collect_owned_paths(below, at, into);
        at.pop();
    }
}

/// Returns the fields that contain no other field of the set.
fn leaf_paths(fields: &BTreeSet<FieldPath>) -> impl Iterator<Item = &FieldPath> {
    let mut next = fields.iter().skip(1);
    fields.iter().filter(move |path| !next.next().is_some_and(|next| next.starts_with(path)))
}

/// Returns the last manager of the field at `path`; `None` if it is `own`: another value was then set in a way for
/// which the API records no owner.
pub(crate) fn find_last_owner(live: &Value, path: &FieldPath, own: &str) -> Option<FieldOwner> {
    let owners = manager_entries(live).filter_map(|entry| {
        let name = entry.get("manager")?.as_str()?;
        let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
        owns_path(entry.get("fieldsV1")?, live, path.steps()).then_some(FieldOwner { name: name.into(), time })
    });
    owners.max_by(|a, b| a.time.cmp(&b.time)).filter(|last| last.name.raw() != own)
}

fn owns_path(fields: &Value, live: &Value, path: &[PathStep]) -> bool {
    let Some((step, rest)) = path.split_first() else { return true };
    // The owner of a whole value owns every field in it.
    if fields.as_object().is_some_and(serde_json::Map::is_empty) {
        return true;
    }
    // The differ and the API may name a list item by different fields.
    let item = step.select_value(live);
    let same = |key: &str| match (PathStep::parse_managed_key(key), step) {
        (Some(PathStep::Key(key)), PathStep::Key(name)) => key == *name,
        (Some(PathStep::Key(_)) | None, _) => false,
        (Some(named), _) => item.is_some() && named.select_value(live) == item,
    };
    let found = fields.as_object().into_iter().flatten().find(|(key, _)| same(key));
    found.is_some_and(|(_, fields)| owns_path(fields, item.unwrap_or(&Value::Null), rest))
}

/// Returns the object without the fields at `pointers`.
pub(crate) fn remove_pointers(object: &Value, pointers: &[String]) -> Value {
    let mut object = object.clone();
    let mut sorted: Vec<&String> = pointers.iter().collect();
    // Remove from the end of each list, so that the remaining indexes stay valid.
    sorted.sort_by_key(|pointer| {
        std::cmp::Reverse(
            pointer.split('/').map(|part| (part.parse::<usize>().unwrap_or(0), part.to_owned())).collect::<Vec<_>>(),
        )
    });
    for pointer in sorted {
        let Some((above, last)) = pointer.rsplit_once('/') else { continue };
        match object.pointer_mut(above) {
            Some(Value::Object(map)) => drop(map.shift_remove(&last.replace("~1", "/").replace("~0", "~"))),
            Some(Value::Array(items)) => {
                if let Some(at) = last.parse().ok().filter(|at| *at < items.len()) {
                    items.remove(at);
                }
            }
            _ => {}
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::super::differ::find_differences;
    use super::*;
    use serde_json::json;

    fn object() -> Value {
        json!({
            "metadata": {
                "labels": { "app": "a", "team/by-hand": "x" },
                "managedFields": [
                    { "manager": "forge", "time": "T1", "fieldsV1": {
                        "f:metadata": { "f:labels": { "f:app": {} } },
                        "f:spec": { "f:containers": { "k:{\"name\":\"main\"}": { ".": {}, "f:name": {}, "f:image": {} } } } } },
                    { "manager": "kubectl-edit", "time": "T2", "fieldsV1": {
                        "f:metadata": { "f:labels": { "f:team/by-hand": {} } },
                        "f:spec": { "f:containers": {
                            "k:{\"name\":\"main\"}": { "f:env": { ".": {}, "k:{\"name\":\"A\"}": { ".": {}, "f:name": {}, "f:value": {} } } },
                            "k:{\"name\":\"side\"}": { ".": {}, "f:name": {} } } } } },
                    { "manager": "kubelet", "time": "T3", "subresource": "status", "fieldsV1": { "f:status": {} } },
                ],
            },
            "spec": { "containers": [
                { "name": "main", "image": "a:1", "env": [{ "name": "A", "value": "1" }] },
                { "name": "side" },
            ] },
        })
    }

    /// Returns each added field with its JSON pointer.
    fn list_added(applied: &Value) -> Vec<(String, String)> {
        let found = find_added_fields(&object(), applied, "forge", "forge", &Value::Null);
        assert!(found.iter().all(|added| (added.manager.as_str(), added.time.as_str()) == ("kubectl-edit", "T2")));
        found.iter().map(|added| (added.path.to_string(), added.path.to_json_pointer(&object()).unwrap())).collect()
    }

    #[test]
    fn added_fields_are_reported_as_whole_subtrees() {
        let found = list_added(&object());
        let told: Vec<(&str, &str)> = found.iter().map(|(field, pointer)| (field.as_str(), pointer.as_str())).collect();
        assert_eq!(
            told,
            [
                (".metadata.labels[team/by-hand]", "/metadata/labels/team~1by-hand"),
                (".spec.containers[name=main].env", "/spec/containers/0/env"),
                (".spec.containers[name=side]", "/spec/containers/1"),
            ]
        );
    }

    #[test]
    fn declared_fields_are_not_reported_as_added() {
        let mut applied = object();
        applied["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"]["k:{\"name\":\"side\"}"] =
            json!({ ".": {}, "f:name": {} });
        let found = list_added(&applied);
        assert!(found.iter().all(|(field, _)| field != ".spec.containers[name=side]"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn field_managers_are_listed_without_status_fields() {
        let managers = list_field_managers(&object());
        assert_eq!(managers.len(), 2);
        assert_eq!(
            managers[0].fields,
            [".metadata.labels.app", ".spec.containers[name=main].image", ".spec.containers[name=main].name"]
        );
        assert_eq!(last_set_time(&managers, "kubectl-edit"), "T2");
        assert_eq!(last_set_time(&managers, "nobody"), "");
    }

    #[test]
    fn list_items_are_removed_from_the_end_first() {
        let pointers = list_added(&object()).into_iter().map(|(_, pointer)| pointer).collect::<Vec<_>>();
        let left = remove_pointers(&object(), &pointers);
        assert_eq!(left["spec"], json!({ "containers": [{ "name": "main", "image": "a:1" }] }));
        assert_eq!(left["metadata"]["labels"], json!({ "app": "a" }));
        let list = json!({ "a": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] });
        let left = remove_pointers(&list, &["/a/2".to_owned(), "/a/10".to_owned(), "/a/9".to_owned()]);
        assert_eq!(left, json!({ "a": [0, 1, 3, 4, 5, 6, 7, 8] }));
    }

    #[test]
    fn rollout_restart_is_not_a_manual_change() {
        assert!(
            is_manual_manager("kubectl-edit")
                && is_manual_manager("kubectl")
                && !is_manual_manager("kubectl-rollout")
                && !is_manual_manager("kube-controller-manager")
        );
    }

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
        find_added_fields(&live(), &Value::Null, "forge-drift", "helm", declared)
            .iter()
            .map(|a| format!("{} {} {}", a.path, a.value, a.manager))
            .collect()
    }

    #[test]
    fn manual_additions_are_found_with_their_field_manager() {
        let none = declared(json!([{ "name": "main", "image": "i" }]));
        assert_eq!(
            list_additions(&none),
            [
                r#".metadata.labels.by-hand "x" kubectl-edit"#,
                r#".spec.containers[name=main].env [{"name":"X","value":"1"}] kubectl-edit"#,
            ]
        );
        let one = declared(json!([{ "name": "main", "image": "i", "env": [{ "name": "A", "value": "1" }] }]));
        assert_eq!(
            list_additions(&one)[1],
            r#".spec.containers[name=main].env[name=X] {"name":"X","value":"1"} kubectl-edit"#
        );
        // A declared field is not an addition, whoever owns it.
        let both = declared(json!([{ "name": "main", "env": [{ "name": "X", "value": "2" }] }]));
        assert_eq!(list_additions(&both).len(), 1);
    }

    /// `kubectl set env A- B=2` replaces an item of a release: 1.20 lists helm as an owner of B, too.
    #[test]
    fn item_that_replaces_a_declared_one_is_an_addition() {
        let owner = |manager: &str, fields: Value| json!({ "manager": manager, "operation": "Update", "time": "T", "fieldsV1": fields });
        let item = json!({ "f:env": { ".": {}, "k:{\"name\":\"B\"}": { ".": {}, "f:name": {} } } });
        let live = json!({ "env": [{ "name": "B", "value": "2" }], "metadata": { "managedFields": [
            owner("helm", item.clone()), owner("kubectl-set", item) ] } });
        let find = |author: &str| {
            let declared = json!({ "env": [{ "name": "A", "value": "1" }] });
            let found = find_added_fields(&live, &Value::Null, "forge-drift", author, &declared);
            found.into_iter().map(|added| format!("{} {}", added.path, added.manager)).collect::<Vec<_>>()
        };
        assert_eq!(find("helm"), [".env[name=B] kubectl-set"]);
        assert_eq!(find("operator"), Vec::<String>::new(), "another program may need it");
    }

    #[test]
    fn finalizers_and_owners_set_by_hand_are_additions() {
        let owner = |manager: &str, metadata: Value| json!({ "manager": manager, "operation": "Update", "fieldsV1": { "f:metadata": metadata } });
        let live = json!({ "metadata": {
            "finalizers": ["kubernetes.io/pvc-protection", "x.example/hold"],
            "ownerReferences": [{ "uid": "u1", "kind": "Service" }],
            "managedFields": [
                owner("kube-controller-manager", json!({ "f:finalizers": { ".": {}, "v:\"kubernetes.io/pvc-protection\"": {} } })),
                owner("kubectl-patch", json!({ "f:finalizers": { "v:\"x.example/hold\"": {} },
                    "f:ownerReferences": { ".": {}, "k:{\"uid\":\"u1\"}": { ".": {}, "f:kind": {}, "f:uid": {} } } })),
            ],
        } });
        let found = find_added_fields(&live, &Value::Null, "forge", "forge", &json!({}));
        let pointers: Vec<String> = found.iter().map(|added| added.path.to_json_pointer(&live).unwrap()).collect();
        assert_eq!(pointers, ["/metadata/finalizers/1", "/metadata/ownerReferences"]);
    }

    #[test]
    fn last_owner_of_a_field_is_found() {
        let path = |from: Value, to: Value| find_differences(&from, &to)[0].path.clone();
        let replicas = path(json!({ "spec": { "replicas": 3 } }), json!({ "spec": { "replicas": 1 } }));
        let named =
            |path: &FieldPath| find_last_owner(&live(), path, "helm").map(|manager| manager.name.raw().to_owned());
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
        assert_eq!(find_last_owner(&live, &path[0].path, "helm").unwrap().name.raw(), "kubectl-patch");
    }
}
