//! Acceptance tests: runs the tests of a set on hosts that this run has locked, judges them, and isolates the slow part.
//!
//! Architecture Invariants: a host is in one measurement at a time. Every program that is started on a host has a time
//! limit there, so that nothing is left if forge or the connection is lost.

mod acceptance_run;
mod adapter_values;
mod gpu_memory;
mod group_launch;
mod history;
mod host_proof;
mod isolate;
mod measure;
mod measure_group;
mod measure_job;
#[cfg(test)]
mod measure_tests;
mod report;
mod return_tests;
mod round_progress;
mod slurm_job;
mod test_batch;
mod test_cluster;
mod test_host;
mod test_round;
mod test_run;
mod test_scripts;

pub use acceptance_run::{AcceptanceRequest, run_acceptance};
pub use history::{BaselineError, find_baseline, read_acceptance, read_test_report, store_acceptance};
pub use report::{AcceptanceReport, ComparedValues, FabricFault, MeasuredScope, SkippedHost, TestReport, TestRow};
pub(super) use return_tests::ReturnTests;
pub use test_batch::DrainBudget;
