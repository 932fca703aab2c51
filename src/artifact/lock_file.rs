//! The lock file next to an inventory: digests of artifacts, by the name of their source.

use crate::model::{ArtifactSource, Sha256Digest};
use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;

/// The version of the lock file format.
pub const LOCK_VERSION: u32 = 1;

/// The digests recorded by `forge fetch --lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactLockFile {
    pub version: u32,
    /// SHA-256 in hex, by URL, or by the path of a file in the inventory's tree.
    pub artifacts: BTreeMap<String, String>,
}

/// A lock file cannot be used: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock file `{path}` cannot be {what}: {why}")]
pub struct LockFileError {
    pub path: Utf8PathBuf,
    what: &'static str,
    why: String,
}

/// Returns the path of an inventory's lock file: `cluster.yaml.lock` next to `cluster.yaml`.
pub fn lock_file_path(inventory: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{inventory}.lock"))
}

impl Default for ArtifactLockFile {
    fn default() -> Self {
        Self { version: LOCK_VERSION, artifacts: BTreeMap::new() }
    }
}

impl ArtifactLockFile {
    /// Reads a lock file; a missing file counts as empty.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid lock file.
    pub fn read(path: &Utf8Path) -> Result<Self, LockFileError> {
        let failed = |why: String| LockFileError { path: path.to_owned(), what: "read", why };
        let text = match fs_err::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(super::error::describe_io_error(&error))),
        };
        let lock: Self = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if lock.version != LOCK_VERSION {
            return Err(failed(format!("version {} is not supported, only {LOCK_VERSION}", lock.version)));
        }
        match lock.artifacts.iter().find(|(_, digest)| Sha256Digest::parse(digest).is_none()) {
            Some((name, _)) => Err(failed(format!("invalid sha256 of `{name}`: expected 64 hexadecimal digits"))),
            None => Ok(lock),
        }
    }

    /// Returns the recorded digest of a name.
    pub fn find_digest(&self, name: &str) -> Option<Sha256Digest> {
        self.artifacts.get(name).and_then(|digest| Sha256Digest::parse(digest))
    }

    /// Records the digest of a source.
    pub fn record_digest(&mut self, source: &ArtifactSource, root: &Utf8Path, sha256: &Sha256Digest) {
        self.artifacts.insert(source.lock_entry_name(root), sha256.to_string());
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Utf8Path) -> Result<(), LockFileError> {
        let failed = |error: &std::io::Error| LockFileError {
            path: path.to_owned(),
            what: "written",
            why: super::error::describe_io_error(error),
        };
        let folder = path.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        writeln!(file, "{text}").map_err(|error| failed(&error))?;
        // The file is part of the inventory, which other users read, too.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode).map_err(|error| failed(&error))?;
        file.persist(path).map(drop).map_err(|error| failed(&error.error))
    }
}
