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
    /// Builds the name from any text; does not check that the inventory has such a host.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(Arc::from(name.as_ref()))
    }

    /// Returns the name as the inventory spells it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a cluster's API in lists of hosts. No host has it.
    pub const CLUSTER: &str = "kubernetes";

    /// Returns the name of the cluster's API.
    pub fn cluster_api() -> Self {
        Self::new(Self::CLUSTER)
    }

    /// Reports whether this is the cluster's API, not a host.
    pub fn is_cluster(&self) -> bool {
        *self.0 == *Self::CLUSTER
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The identity of a step on any host: `recipe/step`, or `recipe/step[key]` for one item of an `each`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct StepId {
    /// The name of the recipe.
    pub recipe: Arc<str>,
    /// The name of the step within the recipe.
    pub step: Arc<str>,
    /// The item of an `each` that the instance is for; absent for a step without `each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
}

impl StepId {
    /// Reports whether both are instances of one step.
    pub fn is_same_step(&self, other: &StepId) -> bool {
        self.recipe == other.recipe && self.step == other.step
    }

    /// Builds the identity of a step without `each`.
    pub fn new(recipe: &str, step: &str) -> Self {
        Self { recipe: recipe.into(), step: step.into(), key: None }
    }

    /// Returns the name of the record file of this step; see [`record_file_name`].
    pub fn record_name(&self, cluster: &str) -> String {
        record_file_name(cluster, &self.to_string())
    }

    /// Returns the file name from the time when records did not contain their cluster.
    pub fn old_record_name(&self) -> String {
        format!("{}.json", self.file_name())
    }

    /// Returns the step as a file name that cannot leave its directory.
    pub fn file_name(&self) -> String {
        escape_file_name(&self.to_string())
    }
}

/// Returns the name of the record file of a step, `recipe/step[key]`, under `/var/lib/forge/applied/`: the cluster, `@`
/// and the step. Every byte outside `[A-Za-z0-9._-]` is written as `%XX`, so that no name can leave the directory. Two
/// clusters with steps of the same name have separate records.
pub fn record_file_name(cluster: &str, step: &str) -> String {
    format!("{}@{}.json", escape_file_name(cluster), escape_file_name(step))
}

/// Returns the beginning of the names of a cluster's record files.
pub fn record_file_prefix(cluster: &str) -> String {
    format!("{}@", escape_file_name(cluster))
}

/// Returns the name of the file, next to the records, in which a host stores its findings for a cluster. No step has
/// such a name.
pub fn findings_file_name(cluster: &str) -> String {
    format!("{}@@findings.json", escape_file_name(cluster))
}

/// Returns the name of the file, next to the records, in which a host keeps the acceptance tests that it passed for a
/// cluster. No step has such a name.
pub fn proofs_file_name(cluster: &str) -> String {
    format!("{}@@proofs.json", escape_file_name(cluster))
}

fn escape_file_name(text: &str) -> String {
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
