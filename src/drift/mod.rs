//! Drift: which differences in a plan come from changes of a machine or of its declaration, and why.
//!
//! A plan says what to do; drift says what happened. Both use the same assessments of the same observation.
//!
//! Architecture Invariant: drift is a pure function of the plan's inputs, the plan, the history and the time: no I/O,
//! no clock, deterministic order.

mod applied_record;
mod cause;
mod counters;
mod culprit;
mod detect;
mod explain;
mod finding_severity;
pub mod health;
mod history;
mod host_findings;
mod ignore_rules;
mod known_finding;
mod model;
mod notice;
mod notification;
mod test_proofs;

pub use cause::{
    AppliedAttribute, AttributeValue, DesiredAttribute, DriftCause, ObservedAttribute, classify_cause, rate_severity,
};
pub use counters::{CounterGrowth, HardwareCounters, HostCounters};
pub use culprit::{
    AttributionCertainty, ChangeSource, EvidenceAnswer, attribute_host_changes, build_evidence_probe,
    list_changed_hosts,
};
pub use detect::{DetectedDrift, DetectionContext, compute_drift};
pub use finding_severity::FindingSeverity;
pub use history::{
    DetectionScope, DriftHistory, DriftHistoryEntry, DriftHistorySnapshot, DriftRunSummary, ENTRY_VERSION,
    FindingCount, FindingHistory, compare_with_history, parse_history_entries, summarize_history,
};
pub use host_findings::HostFindingsFile;
pub use known_finding::KnownFinding;
pub use model::{
    DRIFT_VERSION, DriftCounts, DriftFinding, DriftReport, FindingAspect, FindingNovelty, HostDrift, IgnoreRuleResult,
    LastApplied, RepairAction, UndecidedItem,
};
pub use notice::{DriftNotice, DriftNoticeItem, NOTICE_VERSION, NoticeDecision, build_notice};
pub use notification::{DriftNotification, NotificationState};
pub use test_proofs::{holds_test_set, list_proof_facts, read_host_proofs};
