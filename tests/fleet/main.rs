//! End-to-end tests on real Debian hosts over real SSH. `tests/fleet/README.md` says how to run them.

mod access;
mod converge;
mod faults;
mod harness;
mod kill;
mod scopes;
mod speed;
mod support;
mod transport;
