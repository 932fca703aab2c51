//! Timeout for the locks of a package manager: one field, one default, one explanation.

use crate::resource::{FieldSpec, FieldType, FieldValues};

pub(in crate::resource) const LOCK_TIMEOUT_FIELD: FieldSpec = FieldSpec::optional(
    "lock_timeout",
    FieldType::Wait,
    "How long to wait for the package manager's locks. Default `10m`.",
);

/// Explanation for an action that did not get the lock.
pub(in crate::resource) const EXPLAIN: (&str, &str) =
    ("gave up after", "increase `lock_timeout`, or stop the process that holds the lock");

const DEFAULT_SECONDS: u64 = 600;

/// Returns the lock timeout in seconds.
pub(in crate::resource) fn parse_lock_timeout(fields: &FieldValues) -> u64 {
    fields.get_int("lock_timeout").map_or(DEFAULT_SECONDS, i64::unsigned_abs)
}
