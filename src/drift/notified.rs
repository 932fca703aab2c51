//! Who was told of what changed, as a part of the result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of one recipient of `drift.notify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notified {
    pub name: String,
    /// `slack`, `email` …
    pub service: String,
    pub state: Telling,
    /// Why they could not be told. They are with the next run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many findings were new, changed or resolved, and how many of them did not fit.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub items: usize,
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub left_out: usize,
}

/// Whether somebody was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Telling {
    Told,
    /// There was nothing to tell.
    Quiet,
    Failed,
}
