//! Workloads as proofs: each is created under a name of its own, watched until it ends, and always deleted.

mod created_workload;
mod logs;
mod proofs;
mod reasons;
mod run;
mod run_object;
mod test_job;
#[cfg(test)]
mod tests;
mod worker_jobs;
mod worker_state;
mod workload_pods;

pub use test_job::{LeftoverTestJob, TestJobCall, TestJobEnd, TestJobOutcome, TestPodLog};
pub use worker_jobs::WorkerJobs;
pub use worker_state::{WorkerJobState, WorkerJobStates};
pub use workload_pods::WorkloadPod;
