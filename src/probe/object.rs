//! Objects of a cluster's API: how they are named, and what is known of one.
//!
//! These questions go to an API and not to a host: no script asks them.

use super::Probe;
use crate::model::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names one object of the cluster's API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectId {
    /// `v1`, `apps/v1`; with `*` as version whichever the API prefers.
    pub api_version: String,
    pub kind: String,
    /// Absent for what stands in no namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    /// Returns the name of an object as it is declared; `None` where it has no kind or name.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }

    /// Returns the API's group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the name under which records keep it, `apps/Deployment/web/front`: another version of its API is the same
    /// object.
    pub fn claim(&self) -> String {
        let group = if self.group().is_empty() { "core" } else { self.group() };
        format!("{group}/{}/{}/{}", self.kind, self.namespace.as_deref().unwrap_or_default(), self.name)
    }

    /// Reads what [`claim`](Self::claim) wrote.
    pub fn of_claim(claim: &str) -> Option<Self> {
        let [group, kind, namespace, name] = claim.split('/').collect::<Vec<_>>()[..] else { return None };
        let api_version = if group == "core" { "v1".to_owned() } else { format!("{group}/*") };
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Some(Self { api_version, kind: kind.to_owned(), namespace, name: name.to_owned() })
    }

    /// Returns the question how it is now.
    pub fn probe(&self) -> Probe {
        Probe::Object { id: self.clone(), want: None }
    }
}

/// `ConfigMap web/settings`, `Namespace web`.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// What the API says of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectState {
    /// It knows no such kind.
    Unserved,
    Known(Box<ObjectInfo>),
}

/// An object, and what would become of it. What is secret in it is withheld.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// As it is, without what the API keeps for itself; `None` where there is none.
    pub live: Option<Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Whether it is on its way out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Who set which of its fields, by what the API keeps of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<FieldManager>,
    /// What would become of it, where something is wanted of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry: Option<Dry>,
    /// Fields that are wanted otherwise by whoever set them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Held>,
    /// Fields that somebody put there by hand and nobody declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Added>,
    /// Why fields that were added by hand cannot be taken out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Who set fields of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldManager {
    /// The program, as it calls itself: `forge`, `kubectl-edit`.
    pub manager: String,
    /// When it did last. RFC 3339, by the API's clock; empty where that is not kept.
    pub time: String,
    /// `.spec.replicas`, `.spec.containers[name=main].image`.
    pub fields: Vec<String>,
}

/// What an apply would come to, by the API's own word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dry {
    /// The object as it would be.
    Becomes(Value),
    /// Its namespace does not exist.
    NoNamespace,
    /// The API would refuse it: its words.
    Refused(String),
}

/// A field that somebody else holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub field: String,
    pub manager: String,
    /// As of [`FieldManager::time`].
    pub time: String,
}

/// A field that was added by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    pub field: String,
    /// Where it stands in the object: a JSON pointer.
    pub pointer: String,
    pub manager: String,
    pub time: String,
}

/// A condition of an object's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    pub name: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    pub message: String,
}

/// What stands in a namespace, beside what every namespace has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The first of them: `Deployment front`.
    pub first: Vec<String>,
    /// Whether there are more.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn another_version_of_its_api_is_the_same_object() {
        let of = |version: &str| {
            ObjectId::of(
                &json!({ "apiVersion": version, "kind": "Deployment", "metadata": { "name": "a", "namespace": "n" } }),
            )
        };
        let (one, other) = (of("apps/v1").unwrap(), of("apps/v1beta1").unwrap());
        assert_eq!(one.claim(), "apps/Deployment/n/a");
        assert_eq!(one.claim(), other.claim());
        assert_eq!(ObjectId::of_claim(&one.claim()).unwrap().api_version, "apps/*");
        assert_eq!(one.to_string(), "Deployment n/a");
    }

    #[test]
    fn what_stands_in_no_namespace_has_none() {
        let id =
            ObjectId::of(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } })).unwrap();
        assert_eq!((id.claim().as_str(), id.to_string().as_str()), ("core/Namespace//web", "Namespace web"));
        assert_eq!(ObjectId::of_claim("core/Namespace//web"), Some(id));
        assert_eq!(ObjectId::of_claim("nginx"), None);
    }
}
