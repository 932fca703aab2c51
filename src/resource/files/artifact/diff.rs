//! How the file at the path differs from the artifact.

use crate::resource::shared::file_target::OwnershipDiff;
use crate::resource::{AttributeChange, ChangeAspect, ResourceDiff};
use serde::Serialize;

/// How the file differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum ArtifactDiff {
    /// The file is missing, has other content, or `other` (a link, a special file) stands in its place.
    Write { other: Option<String>, content: ArtifactContentDiff, ownership: OwnershipDiff },
    /// The content matches, so that it can stay.
    Ownership(OwnershipDiff),
    /// Something stands where nothing is declared.
    Remove { before: String },
}

/// Content that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ArtifactContentDiff {
    /// The file that is replaced.
    pub from: Option<FoundContent>,
    /// The artifact by its digest and source, in words.
    pub to: String,
}

/// Content of a file on the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FoundContent {
    pub bytes: u64,
    pub sha256: String,
}

impl ArtifactContentDiff {
    fn render_change(&self) -> AttributeChange {
        let from = self.from.as_ref().map(|found| format!("{} bytes, sha256 {:.12}", found.bytes, found.sha256));
        AttributeChange::new("content", from.as_deref(), Some(&self.to)).with_aspect(ChangeAspect::Content)
    }
}

impl ResourceDiff for ArtifactDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        match self {
            Self::Write { other, content, ownership } => {
                let other = other.as_ref().map(|other| AttributeChange::new("type", Some(other), Some("file")));
                other.into_iter().chain([content.render_change()]).chain(ownership.render_changes()).collect()
            }
            Self::Ownership(ownership) => ownership.render_changes(),
            Self::Remove { before } => vec![AttributeChange::new("file", Some(before), None)],
        }
    }
}
