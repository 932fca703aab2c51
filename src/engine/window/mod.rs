//! A host's maintenance window: waits for its turn, takes the host out of service, reboots it, and brings it back.
//!
//! Architecture Invariants: a window does not open while other users' work holds the host's devices, and a host does
//! not reboot more often than its plan declares. The next run detects the leftovers of a killed run: stopped services
//! by their state, an open window by its mark.

mod device_holders;
mod drain_obstacles;
mod host_reboots;
mod host_service;
mod kubernetes_drain;
mod maintenance;
mod node_readiness;
mod own_script;
mod reboot_guard;
mod refused_steps;
mod return_check;
mod slurm;
mod slurm_drain;
mod test_labels;
mod test_window;
mod window_checks;
mod window_failure;
mod window_node;
mod window_purpose;
mod window_refusal;
mod window_scripts;
mod window_turn;

pub(super) use device_holders::{list_device_holders, list_lasting_holders, list_unexplained_holders};
pub(super) use drain_obstacles::note_drain_obstacles;
pub(super) use maintenance::MaintenanceWindow;
pub(super) use return_check::{ReturnCheck, ReturnFuture};
pub(super) use slurm::{SLURM_NODE_QUERY, SlurmNode, parse_node};
pub(super) use test_labels::{list_labeled_sets, refresh_test_labels, set_test_labels};
pub(super) use test_window::{TestWindow, join_reasons};
pub(super) use window_node::NodeDrainRun;
pub(super) use window_purpose::WindowPurpose;
pub(super) use window_refusal::WindowRefusal;
#[cfg(test)]
pub(super) use window_scripts::{BOOT_ID_PATH, REBOOT_COMMAND};
pub(super) use window_turn::find_closed_hours;
