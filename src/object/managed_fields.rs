//! Field ownership of an object, read from its `managedFields`.

use super::{AddedField, FieldManager};
use crate::model::Value;
use std::collections::BTreeSet;

/// Programs with which people change objects. Other programs set fields as part of their function.
const MANUAL_CLIENTS: [&str; 8] = ["kubectl", "k9s", "Lens", "OpenLens", "Headlamp", "Mozilla", "node-fetch", "curl"];

/// Fields that these programs set in addition to what the user changed.
const SIDE_EFFECT_FIELDS: [&str; 5] = [
    ".metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
    ".metadata.labels[kubernetes.io/metadata.name]",
    ".spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]",
    ".spec.finalizers",
    ".status",
];

/// One step of a path in an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OwnedPathStep {
    Field(String),
    /// An item of a list, identified by some of its fields: JSON text.
    Item(String),
    /// An item of a list, identified by its value: JSON text.
    Is(String),
    At(usize),
}

type OwnedFieldPath = Vec<OwnedPathStep>;

/// The fields that one manager set.
struct OwnedFields {
    manager: String,
    time: String,
    fields: BTreeSet<OwnedFieldPath>,
}

/// Returns the managers with their fields, without those of the status.
pub(crate) fn list_field_managers(object: &Value) -> Vec<FieldManager> {
    let told = |owner: OwnedFields| FieldManager {
        fields: leaf_paths(&owner.fields).map(format_field_path).collect(),
        manager: owner.manager,
        time: owner.time,
    };
    parse_owned_fields(object).into_iter().map(told).collect()
}

/// Returns the fields that were added manually, each with everything below it, if no other manager owns them and `own`
/// would not own them after an apply.
pub(crate) fn find_added_fields(object: &Value, applied: &Value, own: &str) -> Vec<AddedField> {
    let (hands, others): (Vec<OwnedFields>, Vec<OwnedFields>) =
        parse_owned_fields(object).into_iter().partition(|owner| is_manual_manager(&owner.manager));
    let wanted: Vec<OwnedFields> =
        parse_owned_fields(applied).into_iter().filter(|owner| owner.manager == own).collect();
    let kept: BTreeSet<&OwnedFieldPath> = others.iter().chain(&wanted).flat_map(|owner| &owner.fields).collect();
    let free = |path: &&OwnedFieldPath| !kept.iter().any(|kept| kept.starts_with(path)) && !is_side_effect(path);
    let mut found: Vec<(&OwnedFields, &OwnedFieldPath)> = Vec::new();
    for (owner, path) in hands.iter().flat_map(|owner| owner.fields.iter().filter(free).map(move |path| (owner, path)))
    {
        // The set is sorted: a field comes before the fields in it.
        if !found.iter().any(|(_, above)| path.starts_with(above)) {
            found.push((owner, path));
        }
    }
    found
        .into_iter()
        .filter_map(|(owner, path)| {
            let pointer = to_json_pointer(object, path)?;
            Some(AddedField {
                field: format_field_path(path),
                pointer,
                manager: owner.manager.clone(),
                time: owner.time.clone(),
            })
        })
        .collect()
}

pub(crate) fn is_manual_manager(manager: &str) -> bool {
    // It restarts pods and marks that in the object.
    manager != "kubectl-rollout" && MANUAL_CLIENTS.iter().any(|program| manager.starts_with(program))
}

fn is_side_effect(path: &OwnedFieldPath) -> bool {
    let text = format_field_path(path);
    SIDE_EFFECT_FIELDS.iter().any(|beside| text.starts_with(beside))
}

/// Returns the time at which a manager last set a field; empty if it is not recorded.
pub(crate) fn last_set_time(managers: &[FieldManager], manager: &str) -> String {
    managers.iter().filter(|known| known.manager == manager).map(|known| known.time.clone()).max().unwrap_or_default()
}

fn parse_owned_fields(object: &Value) -> Vec<OwnedFields> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of_status = |entry: &&Value| text(entry, "subresource") == "status";
    let one = |entry: &Value| {
        let mut fields = BTreeSet::new();
        collect_owned_paths(entry.get("fieldsV1").unwrap_or(&Value::Null), &mut Vec::new(), &mut fields);
        fields.retain(|path| path.first() != Some(&OwnedPathStep::Field("status".to_owned())));
        OwnedFields { manager: text(entry, "manager"), time: text(entry, "time"), fields }
    };
    entries.into_iter().flatten().filter(|entry| !of_status(entry)).map(one).collect()
}

/// Collects the fields that were set: those without children, and those marked with a dot.
fn collect_owned_paths(node: &Value, at: &mut OwnedFieldPath, into: &mut BTreeSet<OwnedFieldPath>) {
    let Value::Object(map) = node else { return };
    if !at.is_empty() && (map.is_empty() || map.contains_key(".")) {
        into.insert(at.clone());
    }
    for (key, below) in map {
        let Some(part) = parse_path_step(key) else { continue };
        at.push(part);
        collect_owned_paths(below, at, into);
        at.pop();
    }
}

fn parse_path_step(key: &str) -> Option<OwnedPathStep> {
    let (kind, rest) = key.split_once(':')?;
    Some(match kind {
        "f" => OwnedPathStep::Field(rest.to_owned()),
        "k" => OwnedPathStep::Item(rest.to_owned()),
        "v" => OwnedPathStep::Is(rest.to_owned()),
        "i" => OwnedPathStep::At(rest.parse().ok()?),
        _ => return None,
    })
}

/// Returns the fields that contain no other field of the set.
fn leaf_paths(fields: &BTreeSet<OwnedFieldPath>) -> impl Iterator<Item = &OwnedFieldPath> {
    fields.iter().filter(|path| !fields.iter().any(|other| other.len() > path.len() && other.starts_with(path)))
}

/// Formats a path for people: `.spec.containers[name=main].image`.
fn format_field_path(path: &OwnedFieldPath) -> String {
    let mut text = String::new();
    for part in path {
        match part {
            OwnedPathStep::Field(name) if is_plain_name(name) => text.push_str(&format!(".{name}")),
            OwnedPathStep::Field(name) => text.push_str(&format!("[{name}]")),
            OwnedPathStep::Item(keys) => text.push_str(&format!("[{}]", format_item_keys(keys))),
            OwnedPathStep::Is(value) => text.push_str(&format!("[={}]", value.trim_matches('"'))),
            OwnedPathStep::At(at) => text.push_str(&format!("[{at}]")),
        }
    }
    text
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn format_item_keys(keys: &str) -> String {
    let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return keys.to_owned() };
    let one = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    };
    keys.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Returns the JSON pointer of a field in the object; `None` if the field does not exist.
fn to_json_pointer(object: &Value, path: &OwnedFieldPath) -> Option<String> {
    let (mut at, mut pointer) = (object, String::new());
    for part in path {
        let step = match part {
            OwnedPathStep::Field(name) => name.replace('~', "~0").replace('/', "~1"),
            OwnedPathStep::At(index) => index.to_string(),
            OwnedPathStep::Is(value) => {
                let value: Value = serde_json::from_str(value).ok()?;
                find_item_index(at, |item| *item == value)?.to_string()
            }
            OwnedPathStep::Item(keys) => {
                let keys: Value = serde_json::from_str(keys).ok()?;
                let fits = |item: &Value| {
                    keys.as_object().is_some_and(|keys| keys.iter().all(|(key, value)| item.get(key) == Some(value)))
                };
                find_item_index(at, fits)?.to_string()
            }
        };
        pointer.push('/');
        pointer.push_str(&step);
        at = object.pointer(&pointer)?;
    }
    Some(pointer)
}

fn find_item_index(list: &Value, fits: impl Fn(&Value) -> bool) -> Option<usize> {
    list.as_array()?.iter().position(fits)
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

    #[test]
    fn added_fields_are_reported_as_whole_subtrees() {
        let found = find_added_fields(&object(), &object(), "forge");
        let told: Vec<(&str, &str)> =
            found.iter().map(|added| (added.field.as_str(), added.pointer.as_str())).collect();
        assert_eq!(
            told,
            [
                (".metadata.labels[team/by-hand]", "/metadata/labels/team~1by-hand"),
                (".spec.containers[name=main].env", "/spec/containers/0/env"),
                (".spec.containers[name=side]", "/spec/containers/1"),
            ]
        );
        assert!(found.iter().all(|added| (added.manager.as_str(), added.time.as_str()) == ("kubectl-edit", "T2")));
    }

    #[test]
    fn declared_fields_are_not_reported_as_added() {
        let mut applied = object();
        applied["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"]["k:{\"name\":\"side\"}"] =
            json!({ ".": {}, "f:name": {} });
        let found = find_added_fields(&object(), &applied, "forge");
        assert!(found.iter().all(|added| added.field != ".spec.containers[name=side]"), "{found:?}");
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
        let pointers =
            find_added_fields(&object(), &object(), "forge").into_iter().map(|added| added.pointer).collect::<Vec<_>>();
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
}
