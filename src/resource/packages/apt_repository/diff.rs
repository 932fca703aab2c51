//! How a repository differs: its files, its index, and what is in its way.

use crate::resource::shared::composite::label_changes;
use crate::resource::shared::file_target::FileDiff;
use crate::resource::{AttributeChange, ResourceDiff};
use serde::Serialize;
use std::fmt;

/// How a repository differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource::packages) enum AptRepositoryDiff {
    /// Its files or its index differ.
    Install(Box<RepositoryPartsDiff>),
    /// Files and index match, but an obstacle that an earlier step may remove prevents its use. `key` is the path of
    /// its key.
    Unblock { key: Option<String> },
    /// Files exist that must not.
    Remove(Vec<RemovedFile>),
}

/// The parts of a repository that differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource::packages) struct RepositoryPartsDiff {
    pub sources: Option<FileDiff>,
    pub key: Option<FileDiff>,
    pub index: Option<StaleIndex>,
}

/// An index of apt that is missing or outdated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource::packages) enum StaleIndex {
    Missing { suite: String },
    OlderThanSource { suite: String },
}

/// A file to remove.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::resource::packages) struct RemovedFile {
    pub path: String,
    pub part: RepositoryFile,
    /// The state that it has now, in words.
    pub before: String,
}

/// The part of a repository that a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::resource::packages) enum RepositoryFile {
    Source,
    Key,
}

impl fmt::Display for StaleIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { suite } => write!(f, "apt index of `{suite}` is missing"),
            Self::OlderThanSource { suite } => write!(f, "apt index of `{suite}` is older than the source"),
        }
    }
}

impl RepositoryPartsDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let sources = self.sources.iter().flat_map(FileDiff::render_changes);
        let key = self.key.iter().flat_map(|key| label_changes("key", &key.render_digest_changes()));
        let fetched = |index: &StaleIndex| AttributeChange::new("index", Some(&index.to_string()), Some("fetched"));
        sources.chain(key).chain(self.index.iter().map(fetched)).collect()
    }
}

impl RemovedFile {
    pub fn render_change(&self) -> AttributeChange {
        let attribute = match self.part {
            RepositoryFile::Source => "source",
            RepositoryFile::Key => "key",
        };
        AttributeChange::new(attribute, Some(&self.before), None)
    }
}

impl ResourceDiff for AptRepositoryDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Install(parts) => parts.render_changes(),
            Self::Unblock { key } => vec![AttributeChange::new("key", None, key.as_deref())],
            Self::Remove(files) => files.iter().map(RemovedFile::render_change).collect(),
        }
    }
}
