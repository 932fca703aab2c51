//! End-to-end tests on real Debian hosts over real SSH. `tests/fleet/README.md` says how to run them.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests look at the machine from outside, and one that panics has failed"
)]

mod access;
// libtest starts tests in the order of their names: modules with long tests have names that sort early.
mod all_kinds;
mod all_recipes;
mod artifacts;
mod attacker;
mod careless;
mod cluster;
mod converge;
mod culprit;
mod drift;
mod early;
mod faults;
mod harness;
mod history;
mod keeping;
mod kill;
mod kubeadm;
mod nginx;
mod outliers;
mod profile;
mod proof;
mod removal;
mod sandbox;
mod saved;
mod scopes;
mod slurm;
mod soak;
mod speed;
mod support;
mod survey;
mod trade;
mod transport;
mod window;
