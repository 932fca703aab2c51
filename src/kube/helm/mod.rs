//! Charts and releases, through the `helm` program of this machine.
//!
//! Architecture Invariants: every call names its cluster. No secret is an argument: values go through stdin. Only
//! stdout is parsed. A helm that changes something is never killed: it has a time limit of its own, and its output goes
//! to files, so that it can finish after forge itself has exited.

mod api;
mod builtin_charts;
mod chart;
mod drift;
mod field_owners;
mod flags;
mod manifest;
mod observe;
mod output;
mod program;
mod redactor;
mod release_call;
#[cfg(test)]
mod tests;
mod value_diff;
mod version;

pub(super) use api::ApiDiscovery;
pub use builtin_charts::{BuiltinChart, list_builtin_charts};
pub use chart::{FetchedChart, HelmOptions};
pub use program::helm_variables;
pub(super) use program::{HelmProgram, HelmTarget};
pub use release_call::{ReleaseAction, ReleaseCall};
pub use version::{HelmVersion, query_helm_version};
