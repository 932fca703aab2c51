//! Current objects of a cluster's API: which ones to request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Selects objects of one kind: the one with a name, or all with some labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectsQuery {
    /// `v1`, `apps/v1`
    pub api_version: String,
    /// `Deployment`, `Pod`
    pub kind: String,
    /// Absent for objects without a namespace, and for all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Absent to select all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels that they must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// `Deployment web/front`, `Pod web/*`, `Pod * (app=x)`.
impl fmt::Display for ObjectsQuery {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_displayed_with_kind_name_and_labels() {
        let pods = ObjectsQuery {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some("web".to_owned()),
            name: None,
            labels: [("app".to_owned(), "x".to_owned())].into(),
        };
        assert_eq!(pods.to_string(), "Pod web/* (app=x)");
        let one = ObjectsQuery { name: Some("a".to_owned()), labels: BTreeMap::new(), ..pods.clone() };
        assert_eq!(one.to_string(), "Pod web/a");
        assert_eq!(ObjectsQuery { namespace: None, ..one }.to_string(), "Pod a");
    }
}
