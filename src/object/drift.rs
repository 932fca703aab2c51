//! Differences between a live object and its manifest, the repaired object, and the differences of two manifests.

use super::cleanup::{is_helm_metadata, is_object_link, strip_server_fields};
use super::differ::{FieldDifference, find_differences};
use super::list_order::{ListOrder, find_order_differences, restore_list_order};
use super::managed_fields::{AddedLiveField, find_added_fields, find_last_owner};
use super::manifest::ManifestObject;
use super::redaction::Redactor;
use super::{FieldChange, FieldOwner, LiveObject, ObjectChange, ObjectChangeKind};
use crate::model::{SecretStore, Value};

/// The field manager of helm.
pub(crate) const HELM_MANAGER: &str = "helm";
/// A manager that owns no field: its apply results in the values of the manifest and removes nothing.
pub(crate) const COMPARISON_MANAGER: &str = "forge-drift";

/// Differences between a live object and the result of applying its manifest.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectDrift {
    pub changed: Vec<FieldDifference>,
    pub added: Vec<AddedLiveField>,
    pub orders: Vec<ListOrder>,
}

impl ObjectDrift {
    /// Compares. `becomes` is the result of a dry-run apply by [`COMPARISON_MANAGER`].
    pub fn compare_live(object: &ManifestObject, live: &Value, becomes: &Value) -> Self {
        let changed = find_differences(&strip_server_fields(live.clone()), &strip_server_fields(becomes.clone()));
        let mut added = find_added_fields(live, becomes, COMPARISON_MANAGER, HELM_MANAGER, &object.value);
        // Hooks and scripts of charts set finalizers and owners with the programs of people, too.
        added.retain(|added| !is_helm_metadata(&added.path) && !is_object_link(&added.path));
        Self { changed, added, orders: find_order_differences(&object.value, live) }
    }

    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.orders.is_empty()
    }

    /// Reports whether an apply of the manifest does not repair all of it.
    pub fn is_repaired_by_replace(&self) -> bool {
        !self.added.is_empty() || !self.orders.is_empty()
    }

    /// Drops what the API restores by itself: `left` is the result of a dry run of the repair.
    pub fn drop_restored(&mut self, object: &ManifestObject, live: &Value, left: &Value) {
        self.added.retain(|added| added.path.find_value(left) != added.path.find_value(live));
        let kept = find_order_differences(&object.value, left);
        self.orders.retain(|order| kept.iter().all(|kept| kept.field != order.field));
    }

    /// Returns the repaired object, to replace `live` if that has not changed since.
    pub fn repaired_object(&self, object: &ManifestObject, live: &Value, becomes: &Value) -> Value {
        let mut value = becomes.clone();
        self.added.iter().for_each(|added| added.path.remove_value(&mut value));
        restore_list_order(&object.value, &mut value);
        let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return value };
        metadata.shift_remove("managedFields");
        if let Some(version) = live.pointer("/metadata/resourceVersion") {
            metadata.insert("resourceVersion".to_owned(), version.clone());
        }
        value
    }

    /// Returns the differences for display; `None` if there are none.
    pub fn to_live_object(
        &self,
        object: &ManifestObject,
        home: &str,
        live: &Value,
        secrets: &SecretStore,
    ) -> Option<LiveObject> {
        let redactor = Redactor::for_object(&object.value, Some(secrets));
        let changed = self.changed.iter().map(|difference| {
            let owner = find_last_owner(live, &difference.path, HELM_MANAGER);
            field_change(&redactor, difference.clone(), owner)
        });
        let orders = self.orders.iter().map(|order| FieldChange {
            path: format!("{} order", order.field.trim_start_matches('.')),
            from: Some(order.current.join(", ").into()),
            to: Some(order.declared.join(", ").into()),
            secret: false,
            by: None,
        });
        let added = self.added.iter().map(|added| {
            let (path, from) = (added.path.clone(), Some(added.value.clone()));
            field_change(&redactor, FieldDifference { path, from, to: None }, Some(added.owner()))
        });
        let shown = LiveObject {
            object: object.display_title(home),
            missing: false,
            changed: changed.chain(orders).collect(),
            added: added.collect(),
        };
        (!self.is_empty()).then_some(shown)
    }
}

/// Returns a difference for display, without secrets.
fn field_change(redactor: &Redactor<'_>, difference: FieldDifference, by: Option<FieldOwner>) -> FieldChange {
    let (FieldDifference { path, from, to }, secret) = redactor.redact_difference(difference);
    let text = |value: Option<Value>| value.map(|value| value.to_string().into());
    FieldChange { path: path.to_relative_text(), from: text(from), to: text(to), secret, by }
}

/// Compares the values of a release with the declared ones.
pub(crate) fn diff_values(from: &Value, to: &Value, secrets: &SecretStore) -> Vec<FieldChange> {
    let redactor = Redactor::for_values(to, secrets);
    find_differences(from, to).into_iter().map(|found| field_change(&redactor, found, None)).collect()
}

/// Compares two manifests, object by object.
pub(crate) fn diff_manifests(
    from: &[ManifestObject],
    to: &[ManifestObject],
    home: &str,
    secrets: &SecretStore,
) -> Vec<ObjectChange> {
    let find = |all: &[ManifestObject], object: &ManifestObject| {
        all.iter().find(|other| other.identity_key(home) == object.identity_key(home)).cloned()
    };
    let change = |object: &ManifestObject, what| ObjectChange { object: object.display_title(home), what };
    let before = from.iter().filter_map(|object| match find(to, object) {
        None => Some(change(object, ObjectChangeKind::Removed)),
        Some(new) => {
            let found = find_differences(&object.value, &new.value);
            let redactor = Redactor::for_object(&new.value, Some(secrets));
            let fields: Vec<_> = found.into_iter().map(|found| field_change(&redactor, found, None)).collect();
            (!fields.is_empty()).then(|| change(object, ObjectChangeKind::Changed(fields)))
        }
    });
    let added = to.iter().filter(|object| find(from, object).is_none());
    before.chain(added.map(|object| change(object, ObjectChangeKind::Added))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn release_keeps_finalizers_and_metadata_of_helm() {
        let fields = json!({ "f:metadata": { "f:finalizers": { ".": {}, "v:\"x\"": {} },
            "f:labels": { "f:app.kubernetes.io/managed-by": {}, "f:mine": {} } } });
        let live = json!({ "metadata": { "finalizers": ["x"], "labels": { "app.kubernetes.io/managed-by": "Helm", "mine": "1" },
            "managedFields": [{ "manager": "kubectl-label", "operation": "Update", "fieldsV1": fields }] } });
        let object = ManifestObject { text: String::new(), value: json!({}) };
        let drift = ObjectDrift::compare_live(&object, &live, &live);
        let added: Vec<String> = drift.added.iter().map(|added| added.path.to_string()).collect();
        assert_eq!(added, [".metadata.labels.mine"]);
    }

    #[test]
    fn order_of_variables_is_a_difference_of_a_release() {
        let env = |names: [&str; 2]| json!({ "env": names.map(|name| json!({ "name": name })) });
        let object = ManifestObject { text: String::new(), value: env(["A", "B"]) };
        let live = env(["B", "A"]);
        let mut drift = ObjectDrift::compare_live(&object, &live, &live);
        assert!(drift.changed.is_empty() && drift.is_repaired_by_replace());
        assert_eq!(drift.repaired_object(&object, &live, &live), env(["A", "B"]));
        drift.drop_restored(&object, &live, &live);
        assert!(drift.is_empty(), "a webhook sorts them");
    }
}
