//! Drift: which differences in a plan come from changes of a machine or of its declaration, and why.
//!
//! A plan says what to do; drift says what happened. Both use the same assessments of the same observation.
//!
//! Architecture Invariant: drift is a pure function of the plan's inputs, the plan, the history and the time: no I/O,
//! no clock, deterministic order.

mod cause;
mod counters;
mod culprit;
mod explain;
mod find;
pub mod health;
mod history;
mod kept;
mod last;
mod model;
mod news;
mod notified;
mod passing;

pub use cause::{AppliedAttribute, AttributeValue, DesiredAttribute, DriftCause, ObservedAttribute, cause, severity};
pub use counters::{CounterGrowth, HardwareCounters, HostCounters};
pub use culprit::{AttributionCertainty, ChangeSource, EvidenceAnswer, accuse, question, suspects};
pub use find::{DetectedDrift, DetectionContext, find};
pub use history::{
    DetectionScope, DriftHistory, DriftHistoryEntry, DriftHistorySnapshot, DriftRunSummary, ENTRY_VERSION,
    FindingCount, FindingHistory, KnownFinding, entries, history, settle,
};
pub use kept::HostFindingsFile;
pub use model::{
    DriftCounts, DriftFinding, DriftReport, FindingAspect, FindingNovelty, FindingSeverity, HostDrift,
    IgnoreRuleResult, LastApplied, RepairAction, UndecidedItem, VERSION,
};
pub use news::{DriftNotice, DriftNoticeItem, NOTICE_VERSION, NoticeDecision, news};
pub use notified::{DriftNotification, NotificationState};
