//! End-to-end tests on real Debian hosts over real SSH. `tests/fleet/README.md` says how to run them.

mod harness;
mod support;
mod transport;
