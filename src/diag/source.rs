//! Source files and locations in them.

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The index of a source file in [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileId(pub u32);

/// A byte range in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The file that the range is in, as an index of the load's [`SourceMap`].
    pub file: FileId,
    /// The first byte, counted from 0.
    pub start: u32,
    /// The byte after the last one, counted from 0; equal to `start` for an empty range.
    pub end: u32,
}

/// All files read by a load, with their text for excerpts.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<(Utf8PathBuf, Arc<str>)>,
    /// Secrets in plain text, which excerpts do not show.
    hidden: Vec<Span>,
}

impl SourceMap {
    /// Adds a file with its text, and returns its index. A path that is added twice has two indices.
    pub fn add_file(&mut self, path: impl Into<Utf8PathBuf>, text: impl Into<Arc<str>>) -> FileId {
        self.files.push((path.into(), text.into()));
        FileId(self.files.len() as u32 - 1)
    }

    /// Returns the path of a file, as it was added. Panics if the index belongs to another map.
    pub fn path(&self, file: FileId) -> &Utf8Path {
        &self.files[file.0 as usize].0
    }

    /// Returns the whole text of a file. Panics if the index belongs to another map.
    pub fn text(&self, file: FileId) -> &str {
        &self.files[file.0 as usize].1
    }

    /// Hides a range of a file in excerpts.
    pub fn hide_span(&mut self, span: Span) {
        self.hidden.push(span);
    }

    /// Reports whether excerpts must not show the byte at `at` of a file.
    pub fn is_hidden(&self, file: FileId, at: usize) -> bool {
        self.hidden.iter().any(|span| span.file == file && (span.start as usize..span.end as usize).contains(&at))
    }

    /// Iterates over all files in the order in which they were added: index, path and text.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &Utf8Path, &str)> {
        self.files.iter().enumerate().map(|(i, (path, text))| (FileId(i as u32), path.as_path(), &**text))
    }

    /// Returns line and column of the start of `span`, both starting at 1; columns count characters.
    pub fn line_col(&self, span: Span) -> (usize, usize) {
        let text = self.text(span.file);
        let before = text.get(..span.start as usize).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }

    /// Returns `file:line:col` of the start of `span`.
    pub fn format_location(&self, span: Span) -> String {
        let (line, column) = self.line_col(span);
        format!("{}:{line}:{column}", self.path(span.file))
    }
}
