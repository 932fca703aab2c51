//! Differences between a live object and its manifest, and the repaired object. Pure.

use super::differ::{FieldDifference, FieldPath, find_differences};
use super::field_owners::{self, AddedLiveField};
use super::manifest::ManifestObject;
use super::redaction::Redactor;
use super::{LiveObject, ObjectChange, ObjectChangeKind};
use crate::model::Value;

/// The field manager of helm.
pub(crate) const HELM_MANAGER: &str = "helm";

/// Fields that every apply changes, or that the API manages itself.
const IGNORED_FIELDS: &[&[&str]] = &[
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
    &["metadata", "annotations", "deprecated.daemonset.template.generation"],
    &["status"],
];

/// Differences between a live object and the result of applying its manifest.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectDrift {
    pub changed: Vec<FieldDifference>,
    pub added: Vec<AddedLiveField>,
}

impl ObjectDrift {
    /// Compares. `becomes` is the result of a dry-run apply by a manager that owns no fields.
    pub fn compare_live(object: &ManifestObject, live: &Value, becomes: &Value) -> Self {
        let kept = |path: &FieldPath| IGNORED_FIELDS.iter().any(|keys| path.is_below(keys));
        let changed =
            find_differences(live, becomes).into_iter().filter(|difference| !kept(&difference.path)).collect();
        Self { changed, added: field_owners::find_manual_additions(live, &object.value) }
    }

    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty()
    }

    /// Returns the repaired object, to replace `live` if that has not changed since.
    pub fn repaired_object(&self, live: &Value, becomes: &Value) -> Value {
        let mut value = becomes.clone();
        self.added.iter().for_each(|added| added.path.remove_value(&mut value));
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
        teller: &Redactor<'_>,
    ) -> Option<LiveObject> {
        let changed = self.changed.iter().map(|difference| {
            teller.redact_difference(object.kind(), difference, field_owners::find_last_owner(live, &difference.path))
        });
        let added = self.added.iter().map(|added| {
            let difference = FieldDifference { path: added.path.clone(), from: Some(added.value.clone()), to: None };
            teller.redact_difference(object.kind(), &difference, Some(added.by.clone()))
        });
        let told = LiveObject {
            object: object.display_title(home),
            missing: false,
            changed: changed.collect(),
            added: added.collect(),
        };
        (!self.is_empty()).then_some(told)
    }
}

/// Compares two manifests, object by object.
pub(crate) fn diff_manifests(
    from: &[ManifestObject],
    to: &[ManifestObject],
    home: &str,
    teller: &Redactor<'_>,
) -> Vec<ObjectChange> {
    let find = |all: &[ManifestObject], object: &ManifestObject| {
        all.iter().find(|other| other.identity_key(home) == object.identity_key(home)).cloned()
    };
    let told = |object: &ManifestObject, what| ObjectChange { object: object.display_title(home), what };
    let before = from.iter().filter_map(|object| match find(to, object) {
        None => Some(told(object, ObjectChangeKind::Removed)),
        Some(new) => {
            let found = find_differences(&object.value, &new.value);
            let fields: Vec<_> =
                found.iter().map(|found| teller.redact_difference(object.kind(), found, None)).collect();
            (!fields.is_empty()).then(|| told(object, ObjectChangeKind::Changed(fields)))
        }
    });
    let added = to.iter().filter(|object| find(from, object).is_none());
    before.chain(added.map(|object| told(object, ObjectChangeKind::Added))).collect()
}
