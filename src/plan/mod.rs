//! The planner: takes desired state, facts and policy, and returns an immutable plan.
//!
//! Architecture Invariant: planning is a pure function: no I/O, no clock, deterministic order.

mod advice;
mod basis;
mod case;
mod demand;
mod fabric;
mod identity;
mod images;
mod judge;
mod memory;
mod model;
mod outside;
mod packages;
mod planner;
mod relied;
mod rollout;
mod scope;
mod seen;
mod span;
mod spread;
mod stale;
mod undeclared;
mod verify;
mod walk;
mod window;

pub use basis::{canonical, digest, digest_of};
pub use case::{ChosenHosts, HostContext, PlanContext, StepInstance};
pub use demand::{demand, export_probes, is_input, of_turn, trace, verify_probes};
pub use images::PlanImages;
pub use judge::{
    StepAssessment, StepPredictions, check_status, context, desired_digest, inputs, inputs_that_hold, judge,
};
pub use memory::{identity, left};
pub use model::{
    ChangeCertainty, CheckRun, HostPlan, HostWarning, Plan, PlanCounts, PlanPolicy, PredictedEffects, StepPlan,
    UndeclaredResource, VerifyPlan,
};
pub use planner::{PlanInputs, hosts_of, plan};
pub use relied::{Precondition, moved, relied};
pub use rollout::{QuorumGroup, RolloutPlan, RolloutProgress, WindowDecision as WindowTurn, WindowWaiters};
pub use scope::{HostExports, choose, exported, published, read_turn};
pub use seen::{HostReachability, HostRefusal, ObservedHost, ObservedNode, StalePlanReason, UnreachableReason};
pub use span::{CrossHostEdges, CrossHostWait, StepTable, above};
pub use stale::{difference, moved_since};
pub use verify::{check_run, despite, unproven, verification};
pub use walk::{provided, resource_of, rule, title};
pub use window::{
    HostWindow, MARK as WINDOW_MARK, PlannedReboot, StepStage, WindowStop, class, futile, left_open, runs_unit,
};
