//! Records the accesses of an evaluation: fact paths, values that are not known, and names that do not exist.
//!
//! Template values are shared between evaluations, so the record of an evaluation is kept separately, per thread. An
//! evaluation is synchronous and never leaves its thread.

use super::PendingInput;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The record of one evaluation.
#[derive(Debug, Default)]
pub(super) struct EvalRecord {
    /// Fact paths that were read.
    pub reads: BTreeSet<String>,
    /// The first value that was not known.
    pub need: Option<PendingInput>,
    /// The first path that does not exist, with the existing names.
    pub missing: Option<MissingName>,
    /// Paths of single values that were read. They have no fields.
    pub leaves: BTreeSet<String>,
    /// Path of an empty list of facts that was read.
    pub empty: Option<String>,
}

/// A path that does not exist.
#[derive(Debug, Clone)]
pub(super) struct MissingName {
    pub path: String,
    pub name: String,
    pub known: Vec<String>,
}

thread_local! {
    static CURRENT: RefCell<EvalRecord> = RefCell::new(EvalRecord::default());
}

/// Records the first path that does not exist. Later ones are not even built: a loop may read thousands, each next to
/// thousands of existing names.
pub(super) fn record_missing(what: impl FnOnce() -> MissingName) {
    update_record(|record| {
        record.missing.get_or_insert_with(what);
    });
}

/// Runs `work` and returns its result and record. Must not be nested.
pub(super) fn run_recorded<T>(work: impl FnOnce() -> T) -> (T, EvalRecord) {
    CURRENT.take();
    let result = work();
    (result, CURRENT.take())
}

pub(super) fn update_record(change: impl FnOnce(&mut EvalRecord)) {
    CURRENT.with_borrow_mut(change);
}

pub(super) fn record_need(what: PendingInput) {
    update_record(|record| {
        record.need.get_or_insert(what);
    });
}
