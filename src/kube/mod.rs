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

pub use access::Access;
pub use call::{Call, Say};
pub use claim::{Claim, OPERANDS};
pub use cluster::{Cluster, Right};
pub use error::KubeError;
pub use evict::{Evicted, Policy};
pub use helm::{
    Deed, FetchedChart, HelmOptions, HelmVersion, ReleaseCall, ShippedChart, helm_variables, helm_version,
    shipped_charts,
};
pub use images::images;
pub use job::{Aim, JobCall, Logs, Sign, Signs, Stopped};
pub use lock::{LockRefused, Writer};
pub use look::{Answered, Onlooker};
pub use mark::{Mark, Marks};
pub use node::{Node, Patched, node_of};
pub use pod::{Budget, Fate, Manner, Pod};
pub use records::NAMESPACE;
