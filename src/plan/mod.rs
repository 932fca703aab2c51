//! The planner: takes desired state, facts and policy, and returns an immutable plan.
//!
//! Architecture Invariant: planning is a pure function: no I/O, no clock, deterministic order.

mod assessment;
mod canonical_json;
mod check_run;
mod cluster_makers;
mod cluster_warnings;
mod cross_host;
mod cross_host_edges;
mod declared_digest;
mod device_holders;
mod failed_reboot;
mod former_secrets;
mod guard;
mod host_context;
mod host_exports;
mod host_hold;
mod identity;
mod images;
mod infiniband;
mod later_apply;
mod left_out_needs;
mod missing_cluster;
mod model;
mod observed_host;
mod ongoing_work;
mod other_inventories;
mod package_effects;
mod planner;
mod preconditions;
mod record_identity;
mod recorded_resources;
mod rehearsal;
mod removal_record;
mod required_probes;
mod rollout;
mod rule_assessment;
mod rule_warnings;
mod secret_claims;
mod shared_list;
mod stale;
mod step_names;
mod step_planner;
mod step_scope;
mod undeclared;
mod undo_effect;
mod unmet_dependency;
mod unreadable_records;
mod verify;
mod window;
mod withdrawn_exports;

pub use assessment::{
    PackageListsAge, StepAssessment, StepPredictions, assess_step, build_resource_context, collect_restart_inputs,
    collect_settled_inputs, read_check_status,
};
pub use canonical_json::{digest_json, digest_text, to_canonical_json};
pub use check_run::find_step_check;
pub use cluster_makers::list_pending_makers;
pub use cross_host_edges::{CrossHostEdges, CrossHostWait, StepTable, resolve_predecessor};
pub use declared_digest::digest_desired;
pub use device_holders::{DeviceHolder, parse_device_holders};
pub use former_secrets::may_hold_secret;
pub use guard::{find_guard_effect, find_guard_time, list_guarded_dependents};
pub use host_context::{ChosenHosts, HostContext, PlanContext, StepInstance};
pub use host_exports::{
    ExportEntry, HostExports, OtherHosts, exports_values, read_exported_values, read_step_exports, to_exported_value,
};
pub use host_hold::{HOLD_MARK, HostHold, RELEASE_HINT};
pub use images::PlanImages;
pub use later_apply::list_earlier_declarations;
pub use missing_cluster::{ClusterMaker, MissingCluster};
pub use model::{
    ChangeCertainty, CheckRun, HostPlan, HostWarning, Plan, PlanCounts, PlanPolicy, Precondition, PredictedEffects,
    StepPlan, UndeclaredResource, VerifyPlan,
};
pub use observed_host::{
    HostReachability, HostRefusal, ObservedHost, ObservedNode, StalePlanReason, UnreachableReason,
};
pub use ongoing_work::OngoingWork;
pub use planner::{PlanInputs, list_blocked_steps, list_hosts_in_order, plan};
pub use preconditions::{collect_preconditions, describe_changed_preconditions};
pub use recorded_resources::{collect_former_resources, resource_identity};
pub use rehearsal::{
    AccountChange, AccountEffect, DeclaredEffects, FileChange, FileEffect, HostRehearsal, InstalledFiles,
    PackageEffect, REHEARSAL_VERSION, RehearsalReport, RehearsalSummary, RehearsedResult, RehearsedStep,
    RehearsedVerification, UndeclaredEffects, UnitAction, UnitEffect, ViewChanges, ViewSpace, collect_declared_effects,
    find_undeclared_effects,
};
pub use required_probes::{
    collect_host_probes, collect_probes, collect_verify_probes, find_restart_inputs, find_trace_path, is_restart_input,
    list_export_probes, list_step_probes, list_verified_facts,
};
pub use rollout::{
    ClosedHours, QuorumGroup, RolloutPlan, RolloutProgress, StartRefusal, WindowDecision as WindowTurn, WindowWaiters,
};
pub use rule_assessment::assess_rules;
pub use shared_list::SharedList;
pub use stale::{find_difference, list_stale_steps};
pub use step_names::{describe_resource, step_title};
pub use step_planner::list_provisions;
pub use step_scope::{choose_hosts, list_deferred_choices};
pub use undeclared::list_kept_records;
pub use undo_effect::derive_undo_effect;
pub use unmet_dependency::{DependencyShortfall, UnmetDependency};
pub use unreadable_records::list_unreadable_records;
pub use verify::{
    adjust_for_pending, assess_verification, assess_waiting_verification, build_check_run, find_failed_verification,
    lacks_export, list_changed_recipes, reads_recipes,
};
pub use window::{
    HostWindow, PlannedReboot, StepStage, WINDOW_MARK, WindowStop, declared_running_unit, explain_unopened_window,
    find_other_window, left_open_by, step_disruption,
};
pub use withdrawn_exports::withdraw_changing_exports;
