//! Runs that are divided among workers: each observes or changes a shard of the hosts, and one coordinator makes the one
//! plan and decides which hosts may start.
//!
//! Architecture Invariant: a worker decides nothing about other hosts. The coordinator has the common board: it asks
//! `plan/rollout`, as a run without workers does, hands out only hosts that may start now, and opens their windows. A
//! worker that ends without a report is replaced once; the host's lock and the evaluation before each step keep what it
//! has done from being done again.

mod apply_in_shards;
mod coordination;
mod cross_host_refusal;
mod host_keys;
mod kubernetes_driver;
mod kubernetes_worker;
mod local_driver;
mod observe_in_shards;
mod observe_readers;
mod run_worker;
mod shard_board;
mod shard_journal;
mod shard_report;
mod sharded_apply;
mod shared_exports;
mod split_hosts;
mod step_waits;
mod worker_driver;
mod worker_role;
mod worker_task;

pub use apply_in_shards::apply_in_shards;
pub use cross_host_refusal::{CrossHostRefusal, find_cross_host_step};
pub use host_keys::HostKeys;
pub use kubernetes_driver::{KubernetesDriver, KubernetesDriverError};
pub use local_driver::LocalProcessDriver;
pub use observe_in_shards::{ShardedObservation, observe_in_shards};
pub use observe_readers::complete_observation;
pub use shard_report::{bind_shard_plan, report_locked_run};
pub use sharded_apply::ShardedApply;
pub use split_hosts::split_into_shards;
pub use worker_driver::{UnavailableDriver, WorkerDriver, WorkerEnd, WorkerFuture, WorkerHandle};
pub use worker_role::{OutsideState, StartOrder, WorkerRole};
pub use worker_task::{
    ObservationKind, ShardPlan, WORKER_VERSION, WorkerJob, WorkerMessage, WorkerOrder, WorkerSettings, WorkerTask,
};
