//! Names of objects of a cluster's API.

use crate::model::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names one object of the cluster's API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectId {
    /// `v1`, `apps/v1`; with `*` as version, the version that the API prefers.
    pub api_version: String,
    /// The kind of the object: `ConfigMap`, `Deployment`.
    pub kind: String,
    /// Absent for objects without a namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object, unique for its kind within its namespace.
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

    /// Returns the object as recipes name it: `Namespace/web`, `ConfigMap/web/settings`.
    pub fn to_path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}/{namespace}/{}", self.kind, self.name),
            None => format!("{}/{}", self.kind, self.name),
        }
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
