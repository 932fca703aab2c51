//! The lock file next to an inventory: digests of artifacts, by the name of their source.

use super::file_access::describe_io_error;
use crate::model::{ArtifactSource, Sha256Digest};
use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;

/// The version of the lock file format.
const LOCK_VERSION: u32 = 1;

/// The digests recorded by `forge fetch --lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactLockFile {
    /// The version of the file's format, 1. A file with another version is an error.
    pub version: u32,
    /// SHA-256 in hex, by URL, or by the path of a file in the inventory's tree.
    pub artifacts: BTreeMap<String, String>,
}

/// A lock file cannot be used: a lowercase fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock file `{path}` cannot be {what}: {why}")]
pub struct LockFileError {
    /// The path of the lock file.
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
            Err(error) => return Err(failed(describe_io_error(&error))),
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
            why: describe_io_error(error),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ArtifactCredentials, HttpUrl};

    fn temporary_folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        (folder, path)
    }

    #[test]
    fn recorded_digests_are_read_back() {
        let (_folder, root) = temporary_folder();
        let path = root.join("cluster.yaml.lock");
        let [one, two] = ["1", "2"].map(|digit| Sha256Digest::parse(&digit.repeat(64)).unwrap());
        let url = HttpUrl::parse("https://h/x.run").unwrap();
        let mut lock = ArtifactLockFile::read(&path).unwrap();
        lock.record_digest(&ArtifactSource::Url { address: url, login: ArtifactCredentials::None }, &root, &one);
        lock.record_digest(&ArtifactSource::File(root.join("files/y")), &root, &two);
        lock.write(&path).unwrap();
        let read = ArtifactLockFile::read(&path).unwrap();
        assert_eq!(read.find_digest("https://h/x.run"), Some(one));
        assert_eq!(read.find_digest("files/y"), Some(two));
    }

    #[test]
    fn invalid_lock_file_is_an_error() {
        let (_folder, root) = temporary_folder();
        let path = root.join("x.lock");
        let told = |text: &str| {
            std::fs::write(&path, text).unwrap();
            ArtifactLockFile::read(&path).unwrap_err().to_string()
        };
        let head = format!("the lock file `{path}` cannot be read: ");
        assert!(told("{").starts_with(&head));
        assert_eq!(told(r#"{"version": 9, "artifacts": {}}"#), format!("{head}version 9 is not supported, only 1"));
        assert_eq!(
            told(r#"{"version": 1, "artifacts": {"https://h/x": "12"}}"#),
            format!("{head}invalid sha256 of `https://h/x`: expected 64 hexadecimal digits")
        );
    }
}
