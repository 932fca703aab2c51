//! The engine: observes hosts, carries out a plan, proves the result, and reports progress as events.
//!
//! Architecture Invariants: a host's steps run sequentially, hosts run in parallel within a window. A step is evaluated
//! again before it acts and once more afterwards, by the same code that planned it. Acting scripts are never retried
//! blindly.

mod acceptance;
mod action_script;
mod api_calls;
mod apply;
mod armed_guard;
mod assumed_cluster;
mod bind_saved_plan;
mod board_link;
mod cancel;
mod capture_recording;
mod change_source;
mod changed_exports;
mod cluster_nodes;
mod cluster_session;
mod created_cluster;
mod decide;
mod dependency_gate;
mod detach;
mod detect_drift;
mod doctor;
mod due_step;
mod durations;
mod event;
mod exec;
mod exports;
mod facts_used;
mod fetch;
mod fetch_charts;
mod fetch_report;
mod final_proof;
mod group_cycle;
mod grouped_action;
mod guard;
mod history;
mod hold;
mod host_entry;
mod host_findings;
mod host_link;
mod host_query;
mod host_report;
mod host_run;
mod host_session;
mod host_start;
mod host_view;
mod host_work;
mod later_changes;
mod login_proof;
mod new_paths;
mod notice_queue;
mod observation_purpose;
mod observation_settings;
mod observe;
mod observed_hosts;
mod outliers;
mod own_effects;
mod past_hosts;
mod planned_steps;
mod reached_phase;
mod read_only_session;
mod recipe_verification;
mod recorded_session;
mod recording;
mod redact;
mod rehearse;
mod rehearsed_host;
mod remote_session;
mod report;
mod run_actions;
mod run_context;
mod run_options;
mod run_state;
mod saved_plan;
mod send_artifact;
mod session_connector;
mod shards;
#[cfg(test)]
mod simulated_host;
mod step_groups;
mod step_limiter;
mod step_records;
mod step_results;
#[cfg(test)]
mod tests;
mod transfer_throttle;
mod undo_cluster;
mod undo_journals;
mod undo_log;
mod undo_recipe;
mod undo_request;
mod unsettled_recipes;
mod untouched_host;
mod verify;
mod view_connector;
mod why_slow;
mod window;
mod work_times;
mod workload;

pub use acceptance::{
    AcceptanceReport, AcceptanceRequest, BaselineError, ComparedValues, DrainBudget, FabricFault, MeasuredScope,
    SkippedHost, TestReport, TestRow, find_baseline, read_acceptance, read_test_report, run_acceptance,
    store_acceptance,
};
pub use apply::apply;
pub use bind_saved_plan::bind_saved_plan;
pub use board_link::{BoardAnswer, BoardUpdate, HostNews, UpdateInbox};
pub use cancel::{CancelSignal, StopLevel};
pub use change_source::attribute_changes;
pub use detect_drift::{detect_drift, read_drift_history};
pub use doctor::{DoctorFinding, DoctorReport, DoctorSeverity, HostHealth, doctor};
pub use durations::PastDurations;
pub use event::{
    CompletedReboot, DrainedNode, Event, EventSender, NodeDrainEvent, ReturnTest, StepFailure, StepResult, VerifyResult,
};
pub use exec::{EXEC_LIMIT, ExecCommand, ExecHostResult, ExecReport, exec};
pub use fetch::{fetch, fetch_for_plan};
pub use fetch_report::{ArtifactFetchState, ArtifactReport, ComputedDigest, FetchReport};
pub use history::{
    JournalEntry, OutcomeDifference, PastRun, RunComparison, StepInFlight, compare_runs, read_report, read_run,
};
pub use hold::{HoldEnd, HoldHostResult, HoldReport, build_hold, set_hold};
pub use host_findings::store_host_findings;
pub use notice_queue::{NoticeQueue, QueuedNotice, build_delivery, queue_notices};
pub use observe::{observe_facts, observe_for_change, observe_for_drift, observe_hosts};
pub use observed_hosts::ObservedHosts;
pub use outliers::find_host_outliers;
pub use past_hosts::{PastHosts, find_past_hosts};
pub use recording::{HostRecording, RecordedTwice, Recording};
pub use rehearse::rehearse;
pub use remote_session::transport_connector;
pub use report::{HostReport, NotUndoneChange, RunReport, StepReport, VerifyReport};
pub use run_options::{HostConnector, ReplayOptions, RunOptions};
pub use saved_plan::{
    InputArtifact, SAVED_PLAN_RESULT, SAVED_PLAN_VERSION, SavedPlan, SavedPlanOrigin, SavedPlanSelection, UsedRecording,
};
pub use shards::{
    CrossHostRefusal, HostKeys, KubernetesDriver, KubernetesDriverError, LocalProcessDriver, ObservationKind,
    OutsideState, ShardPlan, ShardedApply, ShardedObservation, StartOrder, UnavailableDriver, WORKER_VERSION,
    WorkerDriver, WorkerEnd, WorkerFuture, WorkerHandle, WorkerJob, WorkerMessage, WorkerOrder, WorkerRole,
    WorkerSettings, WorkerTask, apply_in_shards, bind_shard_plan, complete_observation, find_cross_host_step,
    observe_in_shards, report_locked_run, split_into_shards,
};
pub use undo_journals::read_undo;
pub use undo_request::{ChangedSteps, GeneratedUndo, UndoRefusal, UndoRequest, UndoScope, UndoSelection};
pub use verify::{plan, verify};
pub use why_slow::{CauseRepair, SlowCause, SlowDiagnosis, UnaskedHost, WhySlowRequest, diagnose_slow_job};
pub use workload::PlanWorkload;
