//! forge: declarative provisioning for GPU and RDMA clusters.
//!
//! The crate is a library with a thin binary. Each module has one job and may import only modules below it in this list
//! (`tests/tidy.rs` checks that). `docs/architecture.md` contains the overview, the code map and the invariants.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::print_stdout,
        reason = "tests start programs, access files and read clocks"
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

pub mod acceptance;

pub mod facts;

pub mod notify;

pub mod artifact;
pub mod kube;
pub mod state;
pub mod transport;

pub mod probe;

pub mod object;
pub mod script;

pub mod diag;
pub mod model;
