//! Objects of a cluster's API: their names and their observed state.
//!
//! These queries go to an API and not to a host: no script sends them.

use crate::model::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names one object of the cluster's API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectId {
    /// `v1`, `apps/v1`; with `*` as version, the version that the API prefers.
    pub api_version: String,
    pub kind: String,
    /// Absent for objects without a namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    /// Returns the ID of a declared object; `None` if it has no kind or name.
    pub fn from_object(object: &Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }

    /// Returns the API's group; empty for the core group.
    pub fn api_group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the key of the object in records, `apps/Deployment/web/front`: an object of another API version has the
    /// same key.
    pub fn to_claim(&self) -> String {
        let group = if self.api_group().is_empty() { "core" } else { self.api_group() };
        format!("{group}/{}/{}/{}", self.kind, self.namespace.as_deref().unwrap_or_default(), self.name)
    }

    /// Parses the output of [`to_claim`](Self::to_claim).
    pub fn from_claim(claim: &str) -> Option<Self> {
        let [group, kind, namespace, name] = claim.split('/').collect::<Vec<_>>()[..] else { return None };
        let api_version = if group == "core" { "v1".to_owned() } else { format!("{group}/*") };
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Some(Self { api_version, kind: kind.to_owned(), namespace, name: name.to_owned() })
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

/// The API's answer about an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectState {
    /// The API does not serve this kind.
    Unserved,
    Known(Box<ObjectInfo>),
}

/// An object, and the predicted result of an apply. Secret values are withheld.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// The live object, without fields that are internal to the API; `None` if it does not exist.
    pub live: Option<Value>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Whether it is being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Which manager set which of its fields, according to the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<FieldManager>,
    /// The predicted result of applying the declaration, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry: Option<ObjectDryRun>,
    /// Fields that another manager set to a different value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ObjectFieldConflict>,
    /// Undeclared fields that were added by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<AddedField>,
    /// Why fields that were added by hand cannot be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ObjectCondition>,
}

/// A manager that set fields of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldManager {
    /// The program's own name: `forge`, `kubectl-edit`.
    pub manager: String,
    /// Its last change. RFC 3339, by the API's clock; empty if the API does not record it.
    pub time: String,
    /// `.spec.replicas`, `.spec.containers[name=main].image`.
    pub fields: Vec<String>,
}

/// The predicted result of an apply, according to the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectDryRun {
    /// The object after the apply.
    Becomes(Value),
    /// Its namespace does not exist.
    NoNamespace,
    /// The API would reject it, with this message.
    Refused(String),
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectFieldConflict {
    pub field: String,
    pub manager: String,
    /// Same format as [`FieldManager::time`].
    pub time: String,
}

/// A field that was added by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedField {
    pub field: String,
    /// The field's place in the object: a JSON pointer.
    pub pointer: String,
    pub manager: String,
    pub time: String,
}

/// A condition of an object's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectCondition {
    pub name: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    pub message: String,
}

/// The objects in a namespace, except those that every namespace has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceContents {
    /// The first few: `Deployment front`.
    pub first: Vec<String>,
    /// Whether there are more.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn object_identity_ignores_the_api_version() {
        let of = |version: &str| {
            ObjectId::from_object(
                &json!({ "apiVersion": version, "kind": "Deployment", "metadata": { "name": "a", "namespace": "n" } }),
            )
        };
        let (one, other) = (of("apps/v1").unwrap(), of("apps/v1beta1").unwrap());
        assert_eq!(one.to_claim(), "apps/Deployment/n/a");
        assert_eq!(one.to_claim(), other.to_claim());
        assert_eq!(ObjectId::from_claim(&one.to_claim()).unwrap().api_version, "apps/*");
        assert_eq!(one.to_string(), "Deployment n/a");
    }

    #[test]
    fn cluster_scoped_object_has_no_namespace() {
        let id =
            ObjectId::from_object(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } }))
                .unwrap();
        assert_eq!((id.to_claim().as_str(), id.to_string().as_str()), ("core/Namespace//web", "Namespace web"));
        assert_eq!(ObjectId::from_claim("core/Namespace//web"), Some(id));
        assert_eq!(ObjectId::from_claim("nginx"), None);
    }
}
