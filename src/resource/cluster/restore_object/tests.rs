//! Names of objects that an undo removes first, and a change and its undo in a simulated API.

use super::*;
use crate::object::FieldPath;
use proptest::prelude::*;
use serde_json::Map;
use std::collections::BTreeSet;

fn declare_removal(kind: &str, namespace: Option<&str>, name: &str) -> UndoDeclaration {
    let mut object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    UndoDeclaration::absent(KIND.name, json!({ "object": object }))
}

#[test]
fn removal_of_a_namespace_names_what_the_undo_removes_before() {
    let space = declare_removal("Namespace", None, "web");
    let others = [
        declare_removal("ConfigMap", Some("web"), "settings"),
        declare_removal("ConfigMap", Some("other"), "settings"),
        UndoDeclaration::present(KIND.name, declare_removal("Secret", Some("web"), "kept").fields),
    ];
    let created = BTreeMap::from([("core/Namespace//web".to_owned(), "u1".to_owned())]);
    let all: Vec<&UndoDeclaration> = others.iter().chain([&space]).collect();
    let complete = complete_declaration(&space, &created, "T", &all);
    assert_eq!(complete.fields["emptied"], json!(["ConfigMap settings"]));
    assert_eq!((&complete.fields["uid"], complete.fields.get("since")), (&json!("u1"), None));
    let unnoted = complete_declaration(&others[0], &created, "T", &all);
    assert_eq!((unnoted.fields.get("uid"), &unnoted.fields["since"]), (None, &json!("T")));
}

/// The entries of an object, each with its value and the managers that applied it.
type Entries = BTreeMap<String, (String, BTreeSet<&'static str>)>;

/// Carries out a server-side apply with force, as the API does for the entries of a map.
fn apply(entries: &Entries, manager: &'static str, data: &Map<String, Value>) -> Entries {
    let mut after = entries.clone();
    for (key, (_, owners)) in entries {
        if owners.contains(manager) && !data.contains_key(key) {
            let left: BTreeSet<&str> = owners.iter().copied().filter(|owner| *owner != manager).collect();
            match left.is_empty() {
                true => drop(after.remove(key)),
                false => drop(after.get_mut(key).map(|entry| entry.1 = left)),
            }
        }
    }
    for (key, value) in data {
        let value = value.as_str().unwrap().to_owned();
        let owners = match after.get(key) {
            // Another value takes the entry over.
            Some((old, owners)) if *old == value => owners.iter().copied().chain([manager]).collect(),
            _ => [manager].into(),
        };
        after.insert(key.clone(), (value, owners));
    }
    after
}

fn to_object(entries: &Entries) -> Value {
    let data: Map<String, Value> = entries.iter().map(|(key, (value, _))| (key.clone(), json!(value))).collect();
    let managed = ["forge", "other"].map(|manager| {
        let own = entries.iter().filter(|(_, (_, owners))| owners.contains(manager));
        let names: Map<String, Value> = own.map(|(key, _)| (format!("f:{key}"), json!({}))).collect();
        json!({ "manager": manager, "operation": "Apply", "fieldsV1": { "f:data": names } })
    });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "managedFields": managed }, "data": data })
}

fn arbitrary_entries() -> impl Strategy<Value = Entries> {
    let owners = prop_oneof![
        Just(BTreeSet::from(["forge"])),
        Just(BTreeSet::from(["other"])),
        Just(BTreeSet::from(["forge", "other"])),
    ];
    proptest::collection::btree_map("[a-e]", ("[xy]", owners), 0..5)
}

fn values(entries: &Entries) -> BTreeMap<&str, &str> {
    entries.iter().map(|(key, (value, _))| (key.as_str(), value.as_str())).collect()
}

fn data_of(object: &Value) -> Map<String, Value> {
    object["data"].as_object().cloned().unwrap_or_default()
}

proptest! {
    /// Whoever owned the entries before, the undo brings every value back, and the undo of the undo the change.
    #[test]
    fn undo_of_an_apply_restores_the_object_and_its_undo_the_change(
        before in arbitrary_entries(),
        declared in proptest::collection::btree_map("[a-e]", "[xy]", 1..5),
    ) {
        let declared: Map<String, Value> = declared.into_iter().map(|(key, value)| (key, json!(value))).collect();
        let compare = |from: &Entries, to: &Entries| FormerFields::compare(&to_object(from), &to_object(to), "forge", &[]);
        let after = apply(&before, "forge", &declared);
        let undone = apply(&after, "forge", &data_of(&compare(&before, &after).before));
        prop_assert_eq!(values(&undone), values(&before));
        let redone = apply(&undone, "forge", &data_of(&compare(&after, &undone).before));
        prop_assert_eq!(values(&redone), values(&after));
    }

    /// An entry that another manager added after the run stays.
    #[test]
    fn undo_keeps_entries_that_others_added(before in arbitrary_entries(), declared in "[a-e]") {
        let declared = Map::from_iter([(declared, json!("z"))]);
        let mut after = apply(&before, "forge", &declared);
        let former = FormerFields::compare(&to_object(&before), &to_object(&after), "forge", &[]);
        after.insert("theirs".to_owned(), ("1".to_owned(), BTreeSet::from(["other"])));
        let undone = apply(&after, "forge", &data_of(&former.before));
        prop_assert_eq!(undone["theirs"].0.as_str(), "1");
        prop_assert_eq!(FieldPath::from_keys(&["data", "theirs"]).find_value(&former.before), None);
    }
}
