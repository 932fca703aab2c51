//! Artifacts that are files on the controller: checked, and sent from their own path.

use super::cache::digest_file;
use super::error::describe_io_error;
use super::{FetchError, VerifiedFile};
use crate::model::{ArtifactSource, Sha256Digest};
use camino::Utf8Path;

/// Returns the file after comparing its digest with `declared`, if given.
///
/// # Errors
/// The file cannot be read, or has another digest.
pub(super) fn verify_local_file(
    source: &ArtifactSource,
    path: &Utf8Path,
    declared: Option<&Sha256Digest>,
) -> Result<VerifiedFile, FetchError> {
    let failed = |error: std::io::Error| FetchError {
        message: format!("`{path}` cannot be read: {}", describe_io_error(&error)),
        ..FetchError::new(source, "")
    };
    let meta = fs_err::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        return Err(FetchError { message: format!("`{path}` is not a regular file"), ..FetchError::new(source, "") });
    }
    let found = digest_file(fs_err::File::open(path).map_err(failed)?.into_file(), u64::MAX).map_err(failed)?;
    match declared {
        Some(declared) if *declared != found => {
            Err(FetchError::digest_mismatch(source, declared, &found).hint("use the right file, or correct `sha256`"))
        }
        _ => Ok(VerifiedFile { path: path.to_owned(), sha256: found, bytes: meta.len() }),
    }
}
