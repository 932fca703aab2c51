//! Objects of the cluster's API as kinds declare them: compared by what the API says an apply would come to, so that
//! quantities, defaults and whatever a webhook adds are no difference.

mod differ;
mod former;
mod judge;
mod text;

pub(super) use differ::made;
pub(super) use former::{claimed_once, former};
pub(super) use judge::{Want, judge};

use super::Provision;
use super::support::sha256_hex;
use crate::model::{SecretStore, Value};
use crate::probe::{ObjectId, Probe};
use serde_json::json;

/// One object that is declared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    pub id: ObjectId,
    /// As it is applied; placeholders stand in it for secrets.
    pub object: Value,
}

impl Declared {
    /// Returns what records keep of it: of values that a recipe itself writes into a Secret a digest. Placeholders stay as they are,
    /// so that the whole is kept by a keyed digest.
    pub fn kept(&self) -> Value {
        let mut object = self.object.clone();
        if self.id.kind != "Secret" || self.id.api_version != "v1" {
            return object;
        }
        for part in ["data", "stringData"] {
            for (_, value) in object.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
                let text = value.as_str().unwrap_or_default();
                if !SecretStore::mentions(text) {
                    *value = json!({ "sha256": sha256_hex(text.as_bytes()) });
                }
            }
        }
        object
    }

    /// Returns the question how it is, and what an apply would come to.
    pub fn probe(&self) -> Probe {
        Probe::Object { id: self.id.clone(), want: Some(self.object.to_string()) }
    }

    /// Returns what exists once it is applied.
    pub fn provides(&self) -> Vec<Provision> {
        let mut provided = vec![Provision::Object(self.id.claim())];
        provided.extend(self.serves().map(Provision::Served));
        provided
    }

    /// Returns the kind that the API comes to know by it: `nvidia.com/ClusterPolicy`.
    pub fn serves(&self) -> Option<String> {
        let text = |pointer: &str| self.object.pointer(pointer).and_then(Value::as_str);
        let group = text("/spec/group").filter(|_| self.id.kind == "CustomResourceDefinition")?;
        Some(format!("{group}/{}", text("/spec/names/kind")?))
    }
}

/// Returns the claim of an object.
pub(super) fn claim(id: &ObjectId) -> (&'static str, String) {
    ("object", id.claim())
}
