//! The exit code in documents.

use crate::model::ExitCode;
use schemars::JsonSchema;
use serde::Serialize;

/// The exit code of the process and its name.
#[derive(Serialize, JsonSchema)]
pub struct ExitInfo {
    pub(super) code: u8,
    pub(super) name: ExitCode,
}

impl ExitInfo {
    pub(super) fn from_code(exit: ExitCode) -> Self {
        Self { code: exit.code(), name: exit }
    }
}
