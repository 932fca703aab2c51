//! Runs on simulated hosts: failures between hosts, of connections, and by stop requests.

mod across;
mod artifacts;
mod booted;
mod drift;
mod drift_undecided;
mod edges;
mod exports;
mod faults;
mod identity;
mod leftover;
mod new_cluster;
mod nodes;
mod pending;
mod proof;
mod removal;
mod renewal;
mod rollout;
mod saved;
mod simulated_project;
mod unproven;
mod window;
mod worker_exports;
mod worker_project;
mod worker_runs;
