//! State: records on hosts, and runs next to the inventory.

mod boot_fallback;
mod boot_guard;
mod drift_log;
mod guard;
mod history;
mod kept_file;
mod line_file;
mod object_store;
mod prepare_host;
mod record;
mod store;
mod undo_journal;
mod worker_channel;

pub use boot_guard::{
    BootGuard, BootGuardAnswer, BootGuardOutcome, BootRestoration, FormerFile, READ_BOOT_GROUPS,
    build_earlier_boot_script, parse_boot_answer,
};
pub use drift_log::{DriftLog, DriftLogLock, NotifyLock};
pub use guard::{GuardAnswer, GuardOutcome, GuardedStep, HostGuard, parse_guard_answer};
pub use history::{
    JOURNAL, RUN_VERSION, RunFolder, RunInfo, RunPlanFile, TESTS, TestReportFile, begin_from_run_id, list_runs,
    list_test_reports,
};
pub use kept_file::build_kept_file_script;
pub use line_file::{LineAppender, LineFollower};
pub use object_store::{ObjectStore, StoreLock, StoreLockKind};
pub use prepare_host::build_prepare_script;
pub use record::{APPLIED_DIR, STATE_DIR, StepRecord, build_records_script};
pub use store::{RunJournal, StateStore, StoreError};
pub use undo_journal::{
    FormerRecord, FormerState, READ_JOURNAL, UndoGroup, UndoScripts, UndoStep, UndoneStep, build_former_records_script,
    build_undone_script,
};
pub use worker_channel::{OrderFollower, SILENCE_LIMIT, WorkerChannel};
