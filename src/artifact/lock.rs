//! The lock file beside an inventory: digests of artifacts, by the name of their source.

use super::{Sha256, Source};
use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;

/// The form of a lock file.
pub const LOCK_VERSION: u32 = 1;

/// What `forge fetch --lock` noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    pub version: u32,
    /// SHA-256 in hex, by URL, or by the path of a file in the inventory's tree.
    pub artifacts: BTreeMap<String, String>,
}

/// Why a lock file cannot be used: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock file `{path}` cannot be {what}: {why}")]
pub struct LockError {
    pub path: Utf8PathBuf,
    what: &'static str,
    why: String,
}

/// Returns where the lock file of an inventory lies: `cluster.yaml.lock` beside `cluster.yaml`.
pub fn lock_path(inventory: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{inventory}.lock"))
}

impl Default for Lock {
    fn default() -> Self {
        Self { version: LOCK_VERSION, artifacts: BTreeMap::new() }
    }
}

impl Lock {
    /// Reads a lock file; one that is not there is empty.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Utf8Path) -> Result<Self, LockError> {
        let failed = |why: String| LockError { path: path.to_owned(), what: "read", why };
        let text = match fs_err::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(super::error::plain(&error))),
        };
        let lock: Self = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if lock.version != LOCK_VERSION {
            return Err(failed(format!("its version is {}, this forge reads {LOCK_VERSION}", lock.version)));
        }
        match lock.artifacts.iter().find(|(_, digest)| Sha256::parse(digest).is_none()) {
            Some((name, _)) => Err(failed(format!("`{name}` has no sha256 of 64 hexadecimal digits"))),
            None => Ok(lock),
        }
    }

    /// Returns the digest that was noted for what has that name.
    pub fn get(&self, name: &str) -> Option<Sha256> {
        self.artifacts.get(name).and_then(|digest| Sha256::parse(digest))
    }

    /// Notes the digest of a source.
    pub fn note(&mut self, source: &Source, root: &Utf8Path, sha256: &Sha256) {
        self.artifacts.insert(name(source, root), sha256.to_string());
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Utf8Path) -> Result<(), LockError> {
        let failed = |error: &std::io::Error| LockError {
            path: path.to_owned(),
            what: "written",
            why: super::error::plain(error),
        };
        let folder = path.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        writeln!(file, "{text}").map_err(|error| failed(&error))?;
        // It belongs to the inventory, which others read too.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode).map_err(|error| failed(&error))?;
        file.persist(path).map(drop).map_err(|error| failed(&error.error))
    }
}

/// Names a source: files by their place in the inventory's tree, which may lie elsewhere tomorrow.
pub(super) fn name(source: &Source, root: &Utf8Path) -> String {
    match source {
        Source::File(path) => path.strip_prefix(root).unwrap_or(path).to_string(),
        Source::Url { .. } => source.name(),
    }
}
