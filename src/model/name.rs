//! Names of hosts and steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The name of a host in the inventory. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct HostName(Arc<str>);

impl HostName {
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(Arc::from(name.as_ref()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name under which a cluster's API stands beside the hosts. No host has it.
    pub const CLUSTER: &str = "kubernetes";

    /// Returns the name of the cluster's API.
    pub fn cluster() -> Self {
        Self::new(Self::CLUSTER)
    }

    /// Whether it is the cluster's API, and no host.
    pub fn is_cluster(&self) -> bool {
        *self.0 == *Self::CLUSTER
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The identity of a step on any host: `recipe/step`, or `recipe/step[key]` for one turn of an `each`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct StepId {
    pub recipe: Arc<str>,
    pub step: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
}

impl StepId {
    pub fn new(recipe: &str, step: &str) -> Self {
        Self { recipe: recipe.into(), step: step.into(), key: None }
    }

    /// Returns the name of the record file of this step under `/var/lib/forge/applied/`: the cluster, `@` and the
    /// step, where every byte outside `[A-Za-z0-9._-]` is `%XX`, so that no name can leave the folder. Two clusters
    /// with steps of one name keep a record each.
    pub fn record_name(&self, cluster: &str) -> String {
        format!("{}@{}", escaped(cluster), self.old_record_name())
    }

    /// Returns the name that the file had when records did not know their cluster.
    pub fn old_record_name(&self) -> String {
        format!("{}.json", self.file_name())
    }

    /// Returns the step as a name that no folder is left with.
    pub fn file_name(&self) -> String {
        escaped(&self.to_string())
    }
}

/// Returns the name of the file beside the records in which a host keeps its findings for a cluster: no step has such a name.
pub fn kept_name(cluster: &str) -> String {
    format!("{}@@findings.json", escaped(cluster))
}

fn escaped(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte as char),
            b'.' if !name.is_empty() => name.push('.'),
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    name
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.recipe, self.step)?;
        match &self.key {
            Some(key) => write!(f, "[{key}]"),
            None => Ok(()),
        }
    }
}
