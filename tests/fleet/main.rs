//! End-to-end tests on real Debian hosts over real SSH. See `tests/fleet/README.md` for how to run them.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests check the machine from outside, and a panic is a failed test"
)]

mod acceptance;
mod acceptance_fabric;
mod access;
// libtest starts tests in name order: modules with long tests have names that sort early.
mod all_kinds;
mod all_recipes;
mod artifacts;
mod attacker;
mod careless;
mod clock;
mod cluster;
mod converge;
mod culprit;
mod distribution;
mod drift;
mod driver_rocky;
mod driver_runfile;
mod driver_world;
mod early;
mod enablement;
mod faults;
mod foreign_unit_files;
mod guard;
mod harness;
mod history;
mod hold;
mod interrupted;
mod keeping;
mod kill;
mod kubeadm;
mod nginx;
mod out_of_service;
mod outliers;
mod package_world;
mod prevented;
mod profile;
mod proof;
mod proof_matrix;
mod reboot_guard;
mod rehearsal;
mod removal;
#[path = "../common/remove_keys.rs"]
mod remove_keys;
mod resume;
mod running_forge;
mod sandbox;
mod saved;
mod scopes;
mod slurm;
mod slurm_job;
mod soak;
mod speed;
mod support;
mod survey;
mod trade;
mod transport;
mod undo;
mod undo_units;
mod window;
