//! The memory of a view.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The memory of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ViewSpace {
    /// What the view holds, in KiB: everything that was written.
    pub used_kib: u64,
    /// What it may hold, in KiB: half of the host's free memory when the view was made.
    pub size_kib: u64,
}
