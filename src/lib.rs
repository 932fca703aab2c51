//! forge: declarative provisioning for GPU and RDMA clusters.
//!
//! The crate is a library with a thin binary. Each module is a room with one job; a room may import
//! only the rooms below it in this list (`tests/tidy.rs` checks that). `docs/architecture.md` holds
//! the bird's-eye view, the code map and the invariants.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::print_stdout,
        reason = "tests start programs, touch files and look at clocks"
    )
)]

pub mod cli;
pub mod view;

pub mod engine;

pub mod drift;

pub mod plan;

pub mod config;
pub mod graph;

pub mod resource;

pub mod facts;

pub mod notify;

pub mod artifact;
pub mod kube;
pub mod state;
pub mod transport;

pub mod probe;
pub mod script;

pub mod diag;
pub mod model;
