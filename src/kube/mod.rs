//! The cluster's API and the `helm` program: the only module that uses either.
//!
//! Architecture Invariants: the API is always named explicitly, by a file and the name of a context in it. Neither the
//! environment nor a current context is consulted, and a missing file is an error: any fallback could reach a cluster
//! that the user did not mean. The server's certificate is always checked. A login that runs a program needs trust.
//! Each request has a time limit. Nothing here prints.

mod access;
mod api;
mod api_message;
mod callbacks;
mod cluster;
mod cluster_call;
mod cluster_reader;
mod cordon;
mod custom_kinds;
mod delete;
mod deletion_blocker;
mod denial;
mod discovery;
#[cfg(test)]
mod dry_run_tests;
mod error;
mod error_status;
mod evict;
mod fact;
mod helm;
mod job;
mod lease;
mod lock;
mod namespace_contents;
mod node;
mod node_marks;
mod objects;
mod pod;
mod published_schema;
mod records;
mod request_error;
mod retry;
mod served_kinds;
#[cfg(test)]
mod tests;
mod undo_journal;
mod write_records;

pub use api::MAX_LOG_LINES;
pub use callbacks::{CallStopFn, ClusterProgressFn};
pub use cluster::{ApiPermission, ClusterApi};
pub use cluster_reader::{AnsweredProbe, ClusterReader};
pub use cordon::CordonRecord;
pub use error::KubeError;
pub use evict::{EvictionApiVersion, EvictionOutcome};
pub use helm::{ChartAnswers, FetchedChart, HelmOptions, HelmVersion, helm_variables, query_helm_version};
pub use job::{
    LeftoverTestJob, TestJobCall, TestJobEnd, TestJobOutcome, TestPodLog, WorkerJobState, WorkerJobStates, WorkerJobs,
    WorkloadPod,
};
pub use lease::{ClusterLockError, HeldLease};
pub use lock::ClusterWriter;
pub use node::NodePatchOutcome;
pub use pod::{Pod, PodBudget, PodDrainAction};
pub use undo_journal::{ClusterUndoLog, KeptClusterJournals, KeptClusterStep};
