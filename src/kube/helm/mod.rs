//! Charts and releases, through the `helm` program of this machine.
//!
//! Architecture Invariants: every call names its cluster. No secret is an argument: values go through stdin. Only
//! stdout is parsed. A helm that changes something is never killed: it has a time limit of its own, and its output goes
//! to files, so that it can finish after forge itself has exited.

mod api;
mod builtin_charts;
mod chart;
mod chart_answers;
mod definitions;
mod flags;
mod observe;
mod output;
mod program;
mod release_call;
mod release_secret;
mod render;
mod stored_release;
#[cfg(test)]
mod tests;
mod version;

pub use chart::{FetchedChart, HelmOptions};
pub use chart_answers::ChartAnswers;
pub use program::helm_variables;
pub(super) use program::{HelmProgram, HelmTarget};
pub use version::{HelmVersion, query_helm_version};
