//! Objects of a cluster's API as they are: which ones are asked for.

use super::Probe;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Names objects of one kind: the one of a name, or all that have some labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectsAsked {
    /// `v1`, `apps/v1`
    pub api_version: String,
    pub kind: String,
    /// Absent for what stands in no namespace, and for all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Absent where all are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels that they have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// `Deployment web/front`, `Pod web/*`, `Pod * (app=x)`.
impl fmt::Display for ObjectsAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.iter().map(|namespace| format!("{namespace}/")).collect::<String>();
        write!(f, "{} {namespace}{}", self.kind, self.name.as_deref().unwrap_or("*"))?;
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        match labels.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", labels.join(", ")),
        }
    }
}

impl Probe {
    /// Whether it is put to the API of a cluster, and to no host.
    pub fn is_to_api(&self) -> bool {
        use Probe::{ClusterFact, Contents, Object, Objects, Release};
        matches!(self, Object { .. } | Objects(_) | ClusterFact { .. } | Contents { .. } | Release(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_has_a_name_for_people() {
        let pods = ObjectsAsked {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some("web".to_owned()),
            name: None,
            labels: [("app".to_owned(), "x".to_owned())].into(),
        };
        assert_eq!(pods.to_string(), "Pod web/* (app=x)");
        let one = ObjectsAsked { name: Some("a".to_owned()), labels: BTreeMap::new(), ..pods.clone() };
        assert_eq!(one.to_string(), "Pod web/a");
        assert_eq!(ObjectsAsked { namespace: None, ..one }.to_string(), "Pod a");
    }
}
