//! Charts and releases, through the `helm` program of this machine.
//!
//! Architecture Invariants: which cluster is meant is said in every call. Nothing secret is an argument: values go
//! through stdin. What helm prints is read from stdout alone. A helm that changes something is never killed: it has a
//! limit of its own, and what it prints goes to files, so that it can end after forge itself has ended.

mod act;
mod api;
mod chart;
mod drift;
mod fields;
mod flags;
mod managed;
mod manifest;
mod observe;
mod program;
mod read;
mod secrets;
mod shipped;
#[cfg(test)]
mod tests;
mod version;

pub use act::{Deed, ReleaseCall};
pub(super) use api::Discovered;
pub use chart::{FetchedChart, HelmOptions};
pub use program::helm_variables;
pub(super) use program::{Helm, Login};
pub use shipped::{ShippedChart, shipped_charts};
pub use version::{HelmVersion, helm_version};
