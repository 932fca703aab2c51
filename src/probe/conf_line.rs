//! A line of a configuration directory.

use serde::{Deserialize, Serialize};

/// One line of a configuration snippet, in the order in which snippets take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfLine {
    /// The path of the snippet.
    pub file: String,
    /// Counted from 1.
    pub line: u64,
    /// Without surrounding blanks; never empty, never a comment.
    pub text: String,
}

impl ConfLine {
    /// Returns the place as `file:line`.
    pub fn format_location(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}
