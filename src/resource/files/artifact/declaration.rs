//! The declaration of a large file.

use crate::model::Artifact as Source;

/// The declared file.
#[derive(Debug)]
pub(super) struct ArtifactResource {
    pub(super) path: String,
    /// `None` if the file must be absent.
    pub(super) source: Option<Source>,
    pub(super) owner: String,
    pub(super) group: String,
    pub(super) mode: u32,
}
