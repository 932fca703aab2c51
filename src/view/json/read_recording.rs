//! A recording that a result is from, in documents.

use crate::view::recording_files::RecordingFile;
use schemars::JsonSchema;
use serde::Serialize;

/// A recording from which the result is: no host was contacted.
#[derive(Serialize, JsonSchema)]
pub struct ReadRecording<'w> {
    /// The path of its file.
    path: &'w str,
    /// When it was saved, RFC 3339; absent if it does not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<String>,
}

impl<'w> ReadRecording<'w> {
    pub fn from_file(file: &'w RecordingFile) -> Self {
        Self { path: file.path.as_str(), recorded: file.recorded.map(|time| time.to_string()) }
    }
}
