//! What an evaluation touches: fact paths read, values not known, names that do not exist.
//!
//! The values that templates see are shared between evaluations, so what one evaluation touches is kept
//! beside them, per thread. An evaluation is synchronous and never leaves its thread.

use super::Need;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What one evaluation touched.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Paths of facts that were read.
    pub reads: BTreeSet<String>,
    /// The first thing that was not known.
    pub need: Option<Need>,
    /// The first path that does not exist, with the names that do.
    pub missing: Option<Missing>,
    /// Paths of single values that were read: they have no parts.
    pub leaves: BTreeSet<String>,
    /// A list of facts that was empty, by path.
    pub empty: Option<String>,
}

/// A path that does not exist.
#[derive(Debug, Clone)]
pub(super) struct Missing {
    pub path: String,
    pub name: String,
    pub known: Vec<String>,
}

thread_local! {
    static CURRENT: RefCell<Record> = RefCell::new(Record::default());
}

/// Keeps the first path that does not exist: a loop may read thousands, each beside thousands of names.
pub(super) fn missing(what: impl FnOnce() -> Missing) {
    note(|record| {
        record.missing.get_or_insert_with(what);
    });
}

/// Runs `work` and returns what it touched. Not for nesting.
pub(super) fn recorded<T>(work: impl FnOnce() -> T) -> (T, Record) {
    CURRENT.take();
    let result = work();
    (result, CURRENT.take())
}

pub(super) fn note(change: impl FnOnce(&mut Record)) {
    CURRENT.with_borrow_mut(change);
}

pub(super) fn need(what: Need) {
    note(|record| {
        record.need.get_or_insert(what);
    });
}
