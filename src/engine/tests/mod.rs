//! Runs on simulated hosts: what goes wrong between hosts, with links, and when somebody stops.

mod across;
mod artifacts;
mod faults;
mod identity;
mod removal;
mod rollout;
mod stage;
