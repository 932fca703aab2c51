//! The cluster's API and the `helm` program: the only module that uses either.
//!
//! Architecture Invariants: the API is always named explicitly, by a file and the name of a context in it. Neither the
//! environment nor a current context is consulted, and a missing file is an error: any fallback could reach a cluster
//! that the user did not mean. The server's certificate is always checked. A login that runs a program needs trust.
//! Each request has a time limit. Nothing here prints.

mod access;
mod api;
mod cluster;
mod cluster_call;
mod cluster_reader;
mod cordon;
mod custom_kinds;
mod delete;
mod error;
mod error_status;
mod evict;
mod fact;
mod helm;
mod images;
mod job;
mod lock;
mod managed_fields;
mod namespace_contents;
mod node;
mod node_marks;
mod object_cleanup;
mod objects;
mod pod;
mod records;
#[cfg(test)]
mod tests;
mod yaml;

pub use access::ClusterAccess;
pub use cluster::{ApiPermission, ClusterApi};
pub use cluster_call::{ClusterCall, ClusterProgressFn};
pub use cluster_reader::{AnsweredProbe, ClusterReader};
pub use cordon::{CordonRecord, OPERANDS_LABEL};
pub use error::KubeError;
pub use evict::{EvictionApiVersion, EvictionOutcome};
pub use helm::{
    BuiltinChart, FetchedChart, HelmOptions, HelmVersion, ReleaseAction, ReleaseCall, helm_variables,
    list_builtin_charts, query_helm_version,
};
pub use images::collect_images;
pub use job::{JobCall, JobEndPredicates, JobGoal, JobLogRules, JobStopFn, StatusPredicate};
pub use lock::{ClusterLockError, ClusterWriter};
pub use node::{ClusterNode, NodePatchOutcome, find_host_node};
pub use node_marks::{NodeMark, NodeMarkChanges};
pub use pod::{DrainAllowedLosses, Pod, PodBudget, PodDrainAction};
pub use records::DEFAULT_NAMESPACE;
