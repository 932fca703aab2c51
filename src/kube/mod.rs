//! The cluster's API and the `helm` program: the only module that uses either.
//!
//! Architecture Invariants: the API is always named explicitly, by a file and the name of a context in it. Neither the
//! environment nor a current context is consulted, and a missing file is an error: any fallback could reach a cluster
//! that the user did not mean. The server's certificate is always checked. A login that runs a program needs trust.
//! Each request has a time limit. Nothing here prints.

mod access;
mod answer;
mod api;
mod call;
mod claim;
mod clean;
mod cluster;
mod contents;
mod defined;
mod delete;
mod error;
mod evict;
mod fact;
mod fields;
mod helm;
mod images;
mod job;
mod lock;
mod look;
mod mark;
mod node;
mod objects;
mod pod;
mod records;
#[cfg(test)]
mod tests;
mod yaml;

pub use access::ClusterAccess;
pub use call::{ClusterCall, ClusterProgressFn};
pub use claim::{CordonRecord, OPERANDS_LABEL};
pub use cluster::{ApiPermission, ClusterApi};
pub use error::KubeError;
pub use evict::{EvictionApiVersion, EvictionOutcome};
pub use helm::{
    BuiltinChart, FetchedChart, HelmOptions, HelmVersion, ReleaseAction, ReleaseCall, helm_variables,
    list_builtin_charts, query_helm_version,
};
pub use images::collect_images;
pub use job::{JobCall, JobEndPredicates, JobGoal, JobLogRules, JobStopFn, StatusPredicate};
pub use lock::{ClusterLockError, ClusterWriter};
pub use look::{AnsweredProbe, ClusterReader};
pub use mark::{NodeMark, NodeMarkChanges};
pub use node::{ClusterNode, NodePatchOutcome, find_host_node};
pub use pod::{DrainAllowedLosses, Pod, PodBudget, PodDrainAction};
pub use records::DEFAULT_NAMESPACE;
