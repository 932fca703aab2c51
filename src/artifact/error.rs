//! Why an artifact cannot be had.

use super::{Sha256, Source};

/// Why an artifact cannot be had: exit code 69.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// A lowercase fragment that names the artifact.
    pub message: String,
    pub hint: Option<String>,
    /// Whether the same may work a little later.
    pub(super) passing: bool,
}

impl FetchError {
    pub(super) fn new(source: &Source, why: impl std::fmt::Display) -> Self {
        Self { message: format!("`{}` cannot be fetched: {why}", source.name()), hint: None, passing: false }
    }

    pub(super) fn passing(self) -> Self {
        Self { passing: true, ..self }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(super) fn wrong_digest(source: &Source, declared: &Sha256, found: &Sha256) -> Self {
        let message = format!("`{}` has the sha256 {found}, declared is {declared}", source.name());
        let hint = "take the right file, or the right digest; what was fetched was thrown away";
        Self { message, hint: Some(hint.to_owned()), passing: false }
    }

    pub(super) fn offline(source: &Source) -> Self {
        let message = format!("`{}` is not in the cache, and `--offline` forbids to fetch it", source.name());
        let hint = "run `forge fetch` where the network can be reached, and bring the cache along";
        Self { message, hint: Some(hint.to_owned()), passing: false }
    }

    pub(super) fn unknown_offline(source: &Source) -> Self {
        let message = format!(
            "`{}` has no `sha256` to look for in the cache, and `--offline` forbids to fetch it",
            source.name()
        );
        let hint = "write its `sha256`, or run `forge fetch` without `--offline`";
        Self { message, hint: Some(hint.to_owned()), passing: false }
    }

    /// The cache itself cannot be used.
    pub(super) fn cache(path: &camino::Utf8Path, error: &std::io::Error) -> Self {
        let hint = "choose another folder with `--state`";
        Self {
            message: format!("the artifact cache `{path}` cannot be used: {}", plain(error)),
            hint: Some(hint.to_owned()),
            passing: false,
        }
    }
}

/// Returns the operating system's word for an error, without the path that stands in the message anyway.
pub(super) fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::StorageFull => "no space is left on this machine".to_owned(),
        _ => error.to_string(),
    }
}
