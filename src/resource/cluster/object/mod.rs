//! Objects of the cluster's API as declared by kinds. They are compared with the result of a dry-run apply, so that
//! quantities, defaults and fields that a webhook adds are not differences.

mod assessment;
mod dependents;
mod diff;
mod field_diff;
mod former;
mod obsolete;

pub(in crate::resource) use assessment::{DesiredObjects, assess_objects};
pub(in crate::resource) use dependents::{
    dependents_probe, describe_dependents, is_dependent, list_dependents, query_kind,
};
pub(in crate::resource) use diff::ObjectsDiff;
pub(in crate::resource) use field_diff::{creation_change, render_object};
pub(in crate::resource) use former::RESTORING_KIND;
pub(in crate::resource) use obsolete::{obsolete_probes, recorded_claims};

use crate::model::{SecretStore, Value};
use crate::object::ObjectId;
use crate::probe::Probe;
use crate::resource::ProvidedItem;
use crate::resource::shared::support::sha256_hex;
use serde_json::json;

/// One declared object.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::resource) struct DeclaredObject {
    pub id: ObjectId,
    /// The object to apply, with placeholders for secrets.
    pub object: Value,
}

impl DeclaredObject {
    /// Returns the form of the object that records store. Values that a recipe writes into a Secret are replaced by
    /// their digests. Placeholders stay, so the record stores a keyed digest of the whole object.
    pub fn record_value(&self) -> Value {
        let mut object = self.object.clone();
        if self.id.kind != "Secret" || self.id.api_version != "v1" {
            return object;
        }
        for part in ["data", "stringData"] {
            for (_, value) in object.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
                let text = value.as_str().unwrap_or_default();
                if !SecretStore::has_placeholder(text) {
                    *value = json!({ "sha256": sha256_hex(text.as_bytes()) });
                }
            }
        }
        object
    }

    /// Returns the probe for the current object and the result of a dry-run apply.
    pub fn probe(&self) -> Probe {
        Probe::Object { id: Box::new(self.id.clone()), want: Some(self.object.to_string()) }
    }

    /// Returns the probe for the objects that the API deletes with this one.
    pub fn dependents_probe(&self) -> Option<Probe> {
        let serves = self.served_version().map(|(api_version, kind)| query_kind(api_version, kind));
        dependents_probe(&self.id, serves)
    }

    /// Returns the things that exist once the object is applied.
    pub fn provided_items(&self) -> Vec<ProvidedItem> {
        let mut provided = vec![ProvidedItem::Object(self.id.to_claim())];
        provided.extend(self.served_kind().map(ProvidedItem::Served));
        provided
    }

    /// Returns the kind that the API serves once the object is applied: `nvidia.com/ClusterPolicy`.
    pub fn served_kind(&self) -> Option<String> {
        let text = |pointer: &str| self.object.pointer(pointer).and_then(Value::as_str);
        let group = text("/spec/group").filter(|_| self.id.kind == "CustomResourceDefinition")?;
        Some(format!("{group}/{}", text("/spec/names/kind")?))
    }

    /// Returns an API version of that kind, and the kind.
    pub fn served_version(&self) -> Option<(String, String)> {
        let kind = self.served_kind()?;
        let (group, kind) = kind.split_once('/')?;
        let versions = self.object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let served = versions.filter(|version| version["served"] != false).find_map(|version| version["name"].as_str());
        let version = served.or_else(|| self.object.pointer("/spec/version")?.as_str())?;
        Some((format!("{group}/{version}"), kind.to_owned()))
    }
}

/// Returns the claim of an object.
pub(in crate::resource) fn object_claim(id: &ObjectId) -> (&'static str, String) {
    ("object", id.to_claim())
}
