//! Which API a run uses, and as which user: one kubeconfig and one context in it.

use crate::model::HostName;
use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The default namespace of the objects that forge itself needs in a cluster.
pub const DEFAULT_NAMESPACE: &str = "forge-provisioner";

/// The inventory's settings for the cluster's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAccess {
    /// An absolute path: on this machine, or on the host that the connection goes through.
    pub kubeconfig: Utf8PathBuf,
    /// The context of the kubeconfig that names server and user.
    pub context: String,
    /// Whether the kubeconfig may run programs on this machine.
    pub trusted: bool,
    /// The host whose session reaches the API, and which has the kubeconfig.
    pub via: Option<HostName>,
    /// Environment variables with secrets of the inventory: they are removed from the environment of login programs.
    pub withheld: Arc<BTreeSet<String>>,
    /// The namespace of forge's lock and records.
    pub namespace: String,
    /// Seconds for which a request is retried while an API that has answered before does not respond.
    pub retry_s: u64,
}

/// Why the cluster's API could not be used, if that is compatible with a cluster that does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterAbsence {
    /// The kubeconfig does not exist: no node can have joined through it.
    NoKubeconfig,
    /// The kubeconfig exists, but the API does not answer: the creation of the cluster may have been interrupted.
    NoAnswer,
}
