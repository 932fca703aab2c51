//! Runs on simulated hosts: what goes wrong between hosts, with links, and when somebody stops.

mod across;
mod artifacts;
mod booted;
mod drift;
mod edges;
mod faults;
mod identity;
mod leftover;
mod nodes;
mod pending;
mod removal;
mod renewal;
mod rollout;
mod saved;
mod stage;
mod window;
