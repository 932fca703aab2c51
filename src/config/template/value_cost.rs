//! The weight of a value.

/// Weight of a value in addition to its text. Bytes.
pub(super) const VALUE_COST_BYTES: u64 = 64;
