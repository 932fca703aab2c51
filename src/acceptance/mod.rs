//! Acceptance: which hosts are tested together, what their numbers mean, and which part of the fabric is bad.
//!
//! Architecture Invariants: nothing here runs a test. A number is judged only if its test measured something at that
//! rate and size; one slow sample is not a verdict.

mod ceiling;
mod comparison;
mod fabric;
mod fabric_layout;
mod floors;
mod group_run;
mod isolation;
#[cfg(test)]
mod isolation_tests;
mod judge;
mod judge_clocks;
mod judge_connection;
mod judge_dcgm;
mod judge_host;
mod judge_plain;
mod part_set;
mod proof_basis;
mod round_estimate;
mod run_choice;
mod schedule;
mod schedule_fabric;
#[cfg(test)]
mod simulation;
mod slow_cause;
mod slurm_launch;
mod test_proof;
mod verdict;

pub use ceiling::{PcieLink, check_floor, expect_share, port_ceiling};
pub use comparison::{BASELINE_DROP, compare_with_baseline, expect_peers};
pub use fabric::{FabricModel, FabricPart, HostIndex, RailFlow};
pub use fabric_layout::{FabricLayout, PlacedFabric};
pub use floors::{AcceptanceFloor, FloorMetric, FloorQuality, FloorScope, parse_floors};
pub use group_run::GroupRun;
pub use isolation::{FaultIsolation, FinishedRun, IsolationReport, NamedPart, RunSpeed};
pub use judge::{
    CollectiveValue, RequiredTransport, judge_bandwidth, judge_collective, judge_latency, judge_wrong_values,
};
pub use judge_clocks::judge_gpu_clocks;
pub use judge_connection::{ConnectionEnds, judge_pingpong, judge_rping};
pub use judge_dcgm::judge_dcgm;
pub use judge_host::{judge_fio, judge_nvbandwidth, judge_sysbench};
pub use judge_plain::{has_ucx_row, judge_number, judge_ucx, parse_size};
pub use proof_basis::{BasisSource, DeclaredBasis, ObservedBasis, ProofBasis};
pub use round_estimate::RoundEstimate;
pub use schedule::{
    MemberPair, limit_rounds, schedule_groups, schedule_ring, schedule_rounds, split_groups_in_rounds,
    split_in_root_groups,
};
pub use schedule_fabric::{group_across_leaves, group_within_leaves, schedule_across_leaves, schedule_within_leaves};
pub use slow_cause::{
    AnsweredQuestion, CauseLikelihood, QuestionAnswer, SharedAnswer, SlowQuestion, group_answers, rank_causes,
};
pub use slurm_launch::{SlurmJob, SlurmLaunch};
pub use test_proof::{HostProofs, ProofState, TestEnd, TestProof};
pub use verdict::{ExpectedValue, TestVerdict, format_measure, format_number};
