//! State: records on hosts, and runs next to the inventory.

mod drift_log;
mod guard;
mod history;
mod kept_file;
mod prepare_host;
mod record;
mod store;
mod undo_journal;

pub use drift_log::{DriftLog, DriftLogLock, NotifyLock};
pub use guard::{GuardAnswer, GuardOutcome, GuardedStep, HostGuard, parse_guard_answer};
pub use history::{JOURNAL, RUN_VERSION, RunFolder, RunInfo, RunPlanFile, list_runs};
pub use kept_file::build_kept_file_script;
pub use prepare_host::build_prepare_script;
pub use record::{APPLIED_DIR, STATE_DIR, StepRecord, build_records_script};
pub use store::{RunJournal, StateStore, StoreError};
pub use undo_journal::{
    FormerRecord, FormerState, READ_JOURNAL, UndoGroup, UndoScripts, UndoStep, build_former_records_script,
};
