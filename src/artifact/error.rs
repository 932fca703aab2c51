//! Errors of fetching artifacts.

use crate::model::{ArtifactSource, Sha256Digest};

/// An artifact is not available: exit code 69.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// A lowercase fragment that names the artifact.
    pub message: String,
    /// How to make the artifact available; `None` if no advice is known.
    pub hint: Option<String>,
    /// Whether a retry may succeed.
    pub(super) passing: bool,
}

impl FetchError {
    pub(super) fn new(source: &ArtifactSource, why: impl std::fmt::Display) -> Self {
        Self { message: format!("`{}` cannot be fetched: {why}", source.name()), hint: None, passing: false }
    }

    pub(super) fn mark_retryable(self) -> Self {
        Self { passing: true, ..self }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(super) fn digest_mismatch(source: &ArtifactSource, declared: &Sha256Digest, found: &Sha256Digest) -> Self {
        let message = format!("`{}` has the sha256 {found}, declared is {declared}", source.name());
        let hint = "use the right file, or correct `sha256`; the download was discarded";
        Self { message, hint: Some(hint.to_owned()), passing: false }
    }

    pub(super) fn not_cached_offline(source: &ArtifactSource) -> Self {
        let message = format!("`{}` is not in the cache, and `--offline` is set", source.name());
        let hint = "run `forge fetch` on a machine with network access, and copy the cache here";
        Self { message, hint: Some(hint.to_owned()), passing: false }
    }

    pub(super) fn unknown_digest_offline(source: &ArtifactSource) -> Self {
        let message = format!("`{}` has no `sha256` to find it in the cache, and `--offline` is set", source.name());
        let hint = "declare its `sha256`, or run `forge fetch` without `--offline`";
        Self { message, hint: Some(hint.to_owned()), passing: false }
    }

    /// The cache cannot be read or written.
    pub(super) fn cache_unusable(path: &camino::Utf8Path, error: &std::io::Error) -> Self {
        let hint = "choose another folder with `--state`";
        Self {
            message: format!("the artifact cache `{path}` is not usable: {}", describe_io_error(error)),
            hint: Some(hint.to_owned()),
            passing: false,
        }
    }
}

/// Returns the description of an I/O error without the path, which the message already contains.
pub(super) fn describe_io_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::StorageFull => "no space left on this machine".to_owned(),
        _ => error.to_string(),
    }
}
