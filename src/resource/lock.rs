//! How long the locks of a package manager are waited for: one field, one default, one explanation.

use super::{Field, Fields, Type};

pub(super) const FIELD: Field = Field::optional(
    "lock_timeout",
    Type::Wait,
    "How long other holders of the package manager's locks are waited for. Default `10m`.",
);

/// What the output of an action says that did not get the lock.
pub(super) const EXPLAIN: (&str, &str) =
    ("gave up after", "`lock_timeout` says how long forge waits; look at the process that holds the lock");

const DEFAULT_SECONDS: u64 = 600;

/// Returns the seconds that a step waits.
pub(super) fn timeout(fields: &Fields) -> u64 {
    fields.int("lock_timeout").map_or(DEFAULT_SECONDS, i64::unsigned_abs)
}
