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

pub use cause::{Cause, Desired, Last, Seen, Told, cause, severity};
pub use counters::{Counters, Grown, HostCounters};
pub use culprit::{Answer, Culprit, Sure, accuse, question, suspects};
pub use find::{Found, Look, find};
pub use history::{
    ENTRY_VERSION, Entry, History, Known, Offender, Past, RunLine, Scope, Snapshot, entries, history, settle,
};
pub use kept::Kept;
pub use model::{
    Action, Aspect, Counts, Drift, Finding, HostDrift, IgnoredLine, LastApplied, Severity, Standing, Unsure, VERSION,
};
pub use news::{Item, NOTICE_VERSION, News, Notice, news};
pub use notified::{Notified, Telling};
