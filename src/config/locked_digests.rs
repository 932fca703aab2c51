//! Reads digests from the lock file next to the inventory, for steps that declare none.

use super::lock_file::{ArtifactLockFile, lock_file_path};
use crate::diag::{Diag, DiagCode, DiagList};
use crate::model::{HttpUrl, Sha256Digest, Value};
use crate::resource::FieldValues;
use camino::{Utf8Path, Utf8PathBuf};

/// The lock file, and whether this run computes missing digests.
#[derive(Debug, Default)]
pub(super) struct LockedDigests {
    lock: ArtifactLockFile,
    /// Canonical path of the inventory's folder. File names are relative to it.
    root: Utf8PathBuf,
    learn: bool,
}

impl LockedDigests {
    /// Reads the lock file of an inventory. A missing lock file has no digests.
    pub fn read_lock_file(inventory: &Utf8Path, root: &Utf8Path, learn: bool, diags: &mut DiagList) -> Self {
        let lock = ArtifactLockFile::read(&lock_file_path(inventory)).unwrap_or_else(|error| {
            let diag = Diag::error(DiagCode::Unreadable, error.to_string());
            diags.push(diag.hint("remove it and run `forge fetch --lock` to create it again"));
            ArtifactLockFile::default()
        });
        Self { lock, root: root.to_owned(), learn }
    }

    /// Returns the content of the lock file if it is not empty.
    pub fn to_lock_text(&self) -> Option<String> {
        // Serialization cannot fail: the file contains only text and numbers.
        (!self.lock.artifacts.is_empty())
            .then(|| format!("{}\n", serde_json::to_string_pretty(&self.lock).unwrap_or_default()))
    }

    /// Adds the digest from the lock file to an artifact's fields if they declare none.
    pub fn fill_digest(&self, fields: &mut FieldValues) {
        if fields.contains("sha256") {
            return;
        }
        let known = lock_entry_name(fields, &self.root).and_then(|name| self.lock.find_digest(&name));
        let learned = self.learn.then(Sha256Digest::unknown);
        if let Some(sha256) = known.or(learned) {
            fields.0.insert("sha256", Value::from(sha256.as_str()));
        }
    }
}

/// Returns the key of an artifact's source in the lock file.
fn lock_entry_name(fields: &FieldValues, root: &Utf8Path) -> Option<String> {
    match (fields.get_text("url"), fields.get_text("file")) {
        (Some(url), _) => Some(HttpUrl::parse(url).ok()?.to_string()),
        (None, Some(file)) => Some(Utf8Path::new(file).strip_prefix(root).unwrap_or(file.into()).to_string()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill_and_read(lock: &ArtifactLockFile, learn: bool, entries: &[(&'static str, &str)]) -> Option<String> {
        let digests = LockedDigests { lock: lock.clone(), root: "/srv/site".into(), learn };
        let mut fields = FieldValues(entries.iter().map(|(key, value)| (*key, Value::from(*value))).collect());
        digests.fill_digest(&mut fields);
        fields.get_text("sha256").map(str::to_owned)
    }

    #[test]
    fn lock_file_fills_missing_checksums() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let noted = [("https://h/x.run".to_owned(), one.clone()), ("files/y.tgz".to_owned(), two.clone())];
        let lock = ArtifactLockFile { artifacts: noted.into_iter().collect(), ..ArtifactLockFile::default() };
        assert_eq!(fill_and_read(&lock, false, &[("url", "https://H/x.run")]), Some(one));
        assert_eq!(fill_and_read(&lock, false, &[("file", "/srv/site/files/y.tgz")]), Some(two));
        assert_eq!(fill_and_read(&lock, false, &[("url", "https://h/z.run")]), None);
        assert_eq!(fill_and_read(&lock, true, &[("url", "https://h/z.run")]), Some("0".repeat(64)));
        assert_eq!(
            fill_and_read(&lock, false, &[("url", "https://h/x.run"), ("sha256", "own")]),
            Some("own".to_owned())
        );
    }
}
