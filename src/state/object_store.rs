//! `.forge/<cluster>/engine/`: what a coordinator and its workers hand to each other, in files that any of them can
//! read on a shared volume.
//!
//! Every object has the digest of its bytes as its name: it is complete and unaltered, or it is not used. The only
//! other files are locks and the reports of hosts by their names, which let a worker that runs twice skip finished hosts.

use crate::model::{HostName, push_hex};
use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

/// The store of one run.
#[derive(Clone, Debug)]
pub struct ObjectStore {
    root: Utf8PathBuf,
}

/// A lock that ends with the value, or with the process.
#[derive(Debug)]
pub struct StoreLock(#[expect(dead_code, reason = "the lock belongs to the open file")] File);

/// Who holds the lock of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreLockKind {
    /// The coordinator of a run that changes hosts. One at a time.
    Coordinator,
    /// The workers of such runs. A coordinator starts once none of an earlier run is left.
    Workers,
    /// Runs that only observe.
    Observers,
}

impl StoreLockKind {
    fn file_name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator.lock",
            Self::Workers => "workers.lock",
            Self::Observers => "observers.lock",
        }
    }
}

impl ObjectStore {
    /// Returns the store at `root`. It may not exist yet.
    pub fn new(root: &Utf8Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns its folder.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// Stores a value and returns its digest.
    ///
    /// # Errors
    /// The file cannot be written: a lowercase fragment.
    pub fn put<T: Serialize>(&self, value: &T) -> Result<String, String> {
        let text = serde_json::to_vec(value).map_err(|error| error.to_string())?;
        let digest = hash_bytes(&text);
        self.write_file("objects", &format!("{digest}.json"), &text)?;
        Ok(digest)
    }

    /// Returns the path of an object.
    pub fn object_path(&self, digest: &str) -> Utf8PathBuf {
        self.root.join("objects").join(format!("{digest}.json"))
    }

    /// Reads an object.
    ///
    /// # Errors
    /// It does not exist, is not the one with this digest, or is of another type: a lowercase fragment.
    pub fn get<T: DeserializeOwned>(&self, digest: &str) -> Result<T, String> {
        if !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("`{digest}` is not a digest"));
        }
        let path = self.object_path(digest);
        let text = fs_err::read(&path).map_err(|error| error.to_string())?;
        match hash_bytes(&text) == digest {
            true => serde_json::from_slice(&text).map_err(|error| format!("`{path}` is invalid: {error}")),
            false => Err(format!("`{path}` was altered: digest mismatch")),
        }
    }

    /// Notes the report of a host that is done, by the digest of the report, and whether the host is out of service.
    ///
    /// # Errors
    /// The file cannot be written: a lowercase fragment.
    pub fn note_host_report(&self, host: &HostName, digest: &str, down: bool) -> Result<(), String> {
        let text = format!("{digest} {}", if down { "down" } else { "up" });
        self.write_file("reports", &hash_bytes(host.as_str().as_bytes()), text.as_bytes())
    }

    /// Returns the digest of the noted report of a host, and whether the host is out of service; `None` if the host is
    /// not done.
    pub fn find_host_report(&self, host: &HostName) -> Option<(String, bool)> {
        let path = self.root.join("reports").join(hash_bytes(host.as_str().as_bytes()));
        let text = fs_err::read_to_string(path).ok()?;
        let (digest, state) = text.split_once(' ')?;
        Some((digest.to_owned(), state == "down"))
    }

    /// Takes a lock if it is free: of a coordinator for this process alone, of workers together with other workers.
    /// `None` if it is held.
    ///
    /// # Errors
    /// The file cannot be created or locked: a lowercase fragment.
    pub fn try_lock(&self, kind: StoreLockKind, alone: bool) -> Result<Option<StoreLock>, String> {
        // The locks are common to the runs of a cluster.
        let folder = self.root.parent().unwrap_or(&self.root);
        create_private_folder(folder)?;
        let path = folder.join(kind.file_name());
        let failed = |error: std::io::Error| format!("`{path}`: {error}");
        // Over NFS, a shared lock needs a file that is open for reading.
        let file =
            std::fs::OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&path).map_err(failed)?;
        let taken = if alone { file.try_lock() } else { file.try_lock_shared() };
        match taken {
            Ok(()) => Ok(Some(StoreLock(file))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Removes the store of a finished run. What cannot be removed stays: it is not read again.
    pub fn remove(&self) {
        let _ = fs_err::remove_dir_all(&self.root);
    }

    fn write_file(&self, folder: &str, name: &str, bytes: &[u8]) -> Result<(), String> {
        let folder = self.root.join(folder);
        create_private_folder(&folder)?;
        let failed = |error: std::io::Error| format!("`{}`: {error}", folder.join(name));
        let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        file.persist(folder.join(name)).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

fn create_private_folder(path: &Utf8Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| format!("`{path}`: {error}"))
}

fn hash_bytes(bytes: &[u8]) -> String {
    let mut digest = String::with_capacity(64);
    push_hex(&mut digest, &Sha256::digest(bytes));
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, ObjectStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = ObjectStore::new(&Utf8Path::from_path(folder.path()).unwrap().join("engine/r1"));
        (folder, store)
    }

    #[test]
    fn altered_object_is_not_read() {
        let (_folder, store) = store();
        let digest = store.put(&vec![1, 2]).unwrap();
        assert_eq!(store.put(&vec![1, 2]).unwrap(), digest);
        assert_eq!(store.get::<Vec<u8>>(&digest), Ok(vec![1, 2]));
        std::fs::write(store.object_path(&digest), "[1,3]").unwrap();
        assert!(store.get::<Vec<u8>>(&digest).unwrap_err().ends_with("was altered: digest mismatch"));
        assert_eq!(store.get::<Vec<u8>>("../x").unwrap_err(), "`../x` is not a digest");
        assert!(store.get::<Vec<u8>>("00").is_err());
    }

    #[test]
    fn host_reports_are_found_by_host() {
        let (_folder, store) = store();
        let [a, b] = ["a", "../b"].map(HostName::new);
        store.note_host_report(&b, "12", true).unwrap();
        assert_eq!((store.find_host_report(&a), store.find_host_report(&b)), (None, Some(("12".to_owned(), true))));
    }

    #[test]
    fn coordinator_waits_for_workers_of_any_run() {
        let (_folder, store) = store();
        let other = ObjectStore::new(&store.root().with_file_name("r2"));
        let worker = store.try_lock(StoreLockKind::Workers, false).unwrap();
        let second = other.try_lock(StoreLockKind::Workers, false).unwrap();
        assert!(worker.is_some() && second.is_some(), "workers share the lock");
        drop(worker);
        assert!(other.try_lock(StoreLockKind::Workers, true).unwrap().is_none());
        drop(second);
        assert!(other.try_lock(StoreLockKind::Workers, true).unwrap().is_some());
        let one = store.try_lock(StoreLockKind::Coordinator, true).unwrap();
        assert!(one.is_some() && other.try_lock(StoreLockKind::Coordinator, true).unwrap().is_none());
    }
}
