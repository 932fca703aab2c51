//! The engine: observes hosts, carries out a plan, proves the result, and reports progress as events.
//!
//! Architecture Invariants: a host's steps run sequentially, hosts run in parallel within a window. A step is evaluated
//! again before it acts and once more afterwards, by the same code that planned it. Acting scripts are never retried
//! blindly.

mod act;
mod acting;
mod api;
mod apply;
mod bind;
mod board;
mod calls;
mod cancel;
mod charts;
mod culprit;
mod cycle;
mod decide;
mod deliver;
mod detach;
mod doctor;
mod drift;
mod durations;
mod event;
mod exec;
mod exports;
mod fetch;
mod fetched;
mod gate;
mod glance;
mod group;
mod history;
mod host;
mod keeper;
mod link;
mod nodes;
mod notify;
mod observe;
mod outliers;
mod progress;
mod prove;
mod recording;
mod records;
mod redact;
mod report;
mod restarts;
mod rollout;
mod run;
mod saved;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
mod times;
mod verify;
mod window;
mod within;
mod workload;

pub use apply::apply;
pub use bind::bind_saved_plan;
pub use cancel::{CancelSignal, StopLevel};
pub use culprit::attribute_changes;
pub use doctor::{DoctorFinding, DoctorReport, DoctorSeverity, HostHealth, doctor};
pub use drift::{detect_drift, read_drift_history};
pub use durations::PastDurations;
pub use event::{CompletedReboot, DrainedNode, Event, NodeDrainEvent, StepFailure, StepResult, VerifyResult};
pub use exec::{EXEC_LIMIT, ExecCommand, ExecHostResult, ExecReport, exec};
pub use fetch::{fetch, fetch_for_plan};
pub use fetched::{ArtifactFetchState, ArtifactReport, ComputedDigest, FetchReport};
pub use history::{OutcomeDifference, PastRun, RunComparison, compare_runs, read_report, read_run};
pub use keeper::store_host_findings;
pub use notify::{NoticeQueue, QueuedNotice, build_delivery, queue_notices};
pub use observe::{ObservedHosts, observe_facts, observe_for_change, observe_for_drift, observe_hosts};
pub use outliers::find_host_outliers;
pub use recording::{HostRecording, Recording};
pub use report::{HostReport, RunReport, StepReport, VerifyReport};
pub use run::{EventSender, ReplayOptions, RunOptions};
pub use saved::{InputArtifact, SAVED_PLAN_RESULT, SAVED_PLAN_VERSION, SavedPlan, SavedPlanOrigin, SavedPlanSelection};
pub use verify::{plan, verify};
pub use workload::PlanWorkload;
