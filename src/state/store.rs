//! `.forge/<cluster>/`: runs and their journals on the controller. A history, never the only copy of the truth.

use super::history::JOURNAL;
use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

/// The state folder of one cluster on this controller.
#[derive(Clone, Debug)]
pub struct StateStore {
    root: Utf8PathBuf,
}

/// Why the history cannot be written. Runs work without it.
#[derive(Debug, thiserror::Error)]
#[error("state folder `{path}` is not writable: {source}")]
pub struct StoreError {
    /// The file or folder that could not be read or written.
    pub path: Utf8PathBuf,
    /// The error of the operating system.
    pub source: std::io::Error,
}

impl StateStore {
    /// Returns the store below `state` (`--state`, `FORGE_STATE`, or `.forge` next to the inventory).
    pub fn new(state: &Utf8Path, cluster: &str) -> Self {
        let name: String =
            cluster.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
        let name = if name.starts_with('.') || name.is_empty() { format!("_{name}") } else { name };
        Self { root: state.join(name) }
    }

    /// Returns the state folder of the cluster. It may not exist yet.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// Writes `folder/name` in the state folder of the cluster, atomically and readable only by its owner.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_json<T: Serialize>(&self, folder: &str, name: &str, value: &T) -> Result<Utf8PathBuf, StoreError> {
        let path = self.root.join(folder);
        create_folder(&path)?;
        write_json_file(&path, name, value)
    }

    /// Creates the folder of a run, readable only by its owner.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create_run(&self, run: &str) -> Result<RunJournal, StoreError> {
        let path = self.root.join("runs").join(run);
        let failed = |source| StoreError { path: path.clone(), source };
        create_folder(&path)?;
        let journal = path.join(JOURNAL);
        let journal =
            std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(journal).map_err(failed)?;
        // Shows others that the run is active. Without it, only that is unknown: a file system may have no locks.
        let _ = journal.try_lock();
        Ok(RunJournal { path, journal })
    }
}

/// The folder of one run, with its open journal.
#[derive(Debug)]
pub struct RunJournal {
    path: Utf8PathBuf,
    journal: File,
}

impl RunJournal {
    /// Returns the folder of the run.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Appends one entry to the journal as a line of JSON.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn append_entry<T: Serialize>(&mut self, entry: &T) -> Result<(), StoreError> {
        let failed = |source: std::io::Error| StoreError { path: self.path.clone(), source };
        let mut line = serde_json::to_string(entry).map_err(|e| failed(e.into()))?;
        line.push('\n');
        self.journal.write_all(line.as_bytes()).map_err(failed)
    }

    /// Writes `name` next to the journal, atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<Utf8PathBuf, StoreError> {
        write_json_file(&self.path, name, value)
    }
}

fn create_folder(path: &Utf8Path) -> Result<(), StoreError> {
    let failed = |source| StoreError { path: path.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)
}

fn write_json_file<T: Serialize>(folder: &Utf8Path, name: &str, value: &T) -> Result<Utf8PathBuf, StoreError> {
    let target = folder.join(name);
    let failed = |source: std::io::Error| StoreError { path: target.clone(), source };
    let text = serde_json::to_string_pretty(value).map_err(|e| failed(e.into()))?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(&target).map_err(|e| failed(e.error))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_name_stays_inside_the_state_folder() {
        assert_eq!(StateStore::new("/s".into(), "../x/y").root(), "/s/_.._x_y");
        assert_eq!(StateStore::new("/s".into(), "h100-prod").root(), "/s/h100-prod");
    }

    #[test]
    fn journal_has_one_json_line_per_entry() {
        let dir = tempfile::tempdir().unwrap();
        let store = StateStore::new(Utf8Path::from_path(dir.path()).unwrap(), "c");
        let mut run = store.create_run("r1").unwrap();
        run.append_entry(&serde_json::json!({"a": "x\ny"})).unwrap();
        run.append_entry(&serde_json::json!({"b": 1})).unwrap();
        let text = std::fs::read_to_string(run.path().join("journal.ndjson")).unwrap();
        assert_eq!(text.lines().count(), 2);
    }
}
