//! Text from a host.

use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Text from a host or from a recipe's rendered value. Deliberately has no `Display`: each writer escapes it for its
/// own grammar (terminal, JSON, Markdown), so escape sequences, bidi overrides and control characters never take
/// effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct UntrustedText(
    // Most values (an owner, a mode, a version) are short and stored inline: ten thousand hosts have millions of them.
    #[schemars(with = "String")] CompactString,
);

impl UntrustedText {
    /// Builds from a text, unchanged.
    pub fn new(text: impl Into<String>) -> Self {
        Self(CompactString::from(text.into()))
    }

    /// Builds from bytes; invalid UTF-8 becomes U+FFFD.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(CompactString::from_utf8_lossy(bytes))
    }

    /// Returns the unescaped text, for parsers and comparisons. Writers must escape it.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Reports whether the text has no characters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last lines of an output, which usually show why a program failed.
    pub fn last_lines(&self) -> Self {
        const LINES: usize = 20;
        const BYTES: usize = 16 * 1024;
        let text = self.raw();
        let from = (text.len().saturating_sub(BYTES)..text.len()).find(|at| text.is_char_boundary(*at));
        let text = &text[from.unwrap_or(text.len())..];
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n").into()
    }
}

impl From<&str> for UntrustedText {
    fn from(text: &str) -> Self {
        Self(CompactString::new(text))
    }
}

impl From<String> for UntrustedText {
    fn from(text: String) -> Self {
        Self(CompactString::from(text))
    }
}
