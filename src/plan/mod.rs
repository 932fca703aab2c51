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

pub use basis::{digest_json, digest_text, to_canonical_json};
pub use case::{ChosenHosts, HostContext, PlanContext, StepInstance};
pub use demand::{
    collect_probes, collect_verify_probes, find_trace_path, is_restart_input, list_export_probes, list_step_probes,
};
pub use images::PlanImages;
pub use judge::{
    StepAssessment, StepPredictions, assess_step, build_resource_context, collect_restart_inputs,
    collect_settled_inputs, digest_desired, read_check_status,
};
pub use memory::{collect_former_resources, resource_identity};
pub use model::{
    ChangeCertainty, CheckRun, HostPlan, HostWarning, Plan, PlanCounts, PlanPolicy, PredictedEffects, StepPlan,
    UndeclaredResource, VerifyPlan,
};
pub use planner::{PlanInputs, list_hosts_in_order, plan};
pub use relied::{Precondition, collect_preconditions, describe_changed_preconditions};
pub use rollout::{QuorumGroup, RolloutPlan, RolloutProgress, WindowDecision as WindowTurn, WindowWaiters};
pub use scope::{HostExports, choose_hosts, read_exported_values, read_step_exports, to_exported_value};
pub use seen::{HostReachability, HostRefusal, ObservedHost, ObservedNode, StalePlanReason, UnreachableReason};
pub use span::{CrossHostEdges, CrossHostWait, StepTable, resolve_predecessor};
pub use stale::{find_difference, list_stale_steps};
pub use verify::{adjust_for_pending, assess_verification, build_check_run, find_failed_verification};
pub use walk::{assess_rules, describe_resource, list_provisions, step_title};
pub use window::{
    HostWindow, PlannedReboot, StepStage, WINDOW_MARK, WindowStop, declared_running_unit, explain_unopened_window,
    left_open_by, step_disruption,
};
