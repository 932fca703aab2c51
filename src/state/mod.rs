//! State: records on hosts, and runs next to the inventory.

mod drift;
mod history;
mod record;
mod store;

pub use drift::{DriftLog, DriftLogLock, NotifyLock};
pub use history::{RunFolder, RunInfo, VERSION as RUN_VERSION, runs};
pub use record::{APPLIED_DIR, FormerIdentity, RecordIdentity, RecordedStart, STATE_DIR, StepRecord, prepare, write};
pub use store::{RunJournal, StateStore, StoreError};
