//! `.forge/<cluster>/drift/`: the history of drift findings, one line per run, one file per day.
//!
//! Concurrent runs take a lock. Readers take none and ignore the partial line of a run that was killed while writing.

use super::{StateStore, StoreError};
use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

/// The file with the last run that each recipient was notified of.
const NOTIFIED_FILE: &str = "told.json";

/// The history of one cluster's drift.
#[derive(Clone, Debug)]
pub struct DriftLog {
    path: Utf8PathBuf,
}

/// The right to append to a history; other runs wait for it.
#[derive(Debug)]
pub struct DriftLogLock<'l> {
    log: &'l DriftLog,
    _lock: File,
}

/// The right to send notifications; other runs wait for it.
#[derive(Debug)]
pub struct NotifyLock {
    log: DriftLog,
    _lock: File,
}

impl NotifyLock {
    /// Records the recipients' last notifications.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_notified<T: Serialize>(&self, told: &T) -> Result<(), StoreError> {
        self.log.replace_file(NOTIFIED_FILE, told)
    }
}

impl StateStore {
    /// Returns the history of the cluster's drift.
    pub fn drift_log(&self) -> DriftLog {
        DriftLog { path: self.root().join("drift") }
    }
}

impl DriftLog {
    /// Returns the folder of the history. It may not exist yet.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Waits for the right to append; creates the folder, readable only by its owner.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn lock_for_append(&self) -> Result<DriftLogLock<'_>, StoreError> {
        let failed = |source| StoreError { path: self.path.clone(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(failed)?;
        let lock = open_for_append(&self.path.join(".lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(DriftLogLock { log: self, _lock: lock })
    }

    /// Returns the lines of the last `days` files, oldest first; of all files for `None`. A missing folder has no
    /// lines.
    ///
    /// # Errors
    /// The folder or a file exists and cannot be read.
    pub fn read_lines(&self, days: Option<usize>) -> Result<Vec<String>, StoreError> {
        let failed = |source| StoreError { path: self.path.clone(), source };
        let files = self.list_files().map_err(failed)?;
        let first = days.map_or(0, |days| files.len().saturating_sub(days));
        let mut lines = Vec::new();
        for file in &files[first..] {
            let text = fs_err::read(self.path.join(file)).map_err(failed)?;
            lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
        }
        Ok(lines)
    }

    /// Returns the text of the file with the recipients' last notifications.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read_notified(&self) -> Result<Option<String>, StoreError> {
        self.read_file(NOTIFIED_FILE)
    }

    /// Returns the text of another file in the folder; `None` if it does not exist.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read_file(&self, name: &str) -> Result<Option<String>, StoreError> {
        let path = self.path.join(name);
        match fs_err::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError { path, source }),
        }
    }

    /// Waits for the right to send notifications: two concurrent runs do not send the same one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn lock_for_notify(&self) -> Result<NotifyLock, StoreError> {
        let failed = |source| StoreError { path: self.path.clone(), source };
        let lock = open_for_append(&self.path.join(".telling")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(NotifyLock { log: self.clone(), _lock: lock })
    }

    fn replace_file<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        let path = self.path.join(name);
        let failed = |source: std::io::Error| StoreError { path: path.clone(), source };
        let text = serde_json::to_string(value).map_err(|error| failed(error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(&self.path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.as_file().sync_data().map_err(failed)?;
        file.persist(&path).map(drop).map_err(|error| failed(error.error))
    }

    /// Returns the names of the files, oldest first.
    fn list_files(&self) -> std::io::Result<Vec<String>> {
        let entries = match self.path.read_dir_utf8() {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_owned();
            if parse_day(&name).is_some() {
                files.push(name);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Returns the day of a history file.
fn parse_day(name: &str) -> Option<&str> {
    let day = name.strip_suffix(".ndjson")?;
    day.parse::<jiff::civil::Date>().is_ok().then_some(day)
}

fn open_for_append(path: &Utf8Path) -> std::io::Result<File> {
    std::fs::OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)
}

impl DriftLogLock<'_> {
    /// Returns whether an entry of `today` (`2026-11-21`) would be the first of its file.
    pub fn is_first_of_day(&self, today: &str) -> bool {
        !self.file_path(today).metadata().is_ok_and(|about| about.len() > 0)
    }

    fn file_path(&self, today: &str) -> Utf8PathBuf {
        self.log.path.join(format!("{today}.ndjson"))
    }

    /// Appends a line to the file of `today`. Terminates a partial line of a killed run first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append_line(&self, today: &str, line: &str) -> Result<(), StoreError> {
        let path = self.file_path(today);
        let failed = |source| StoreError { path: path.clone(), source };
        let mut file = open_for_append(&path).map_err(failed)?;
        let cut = ends_mid_line(&mut file).map_err(failed)?;
        let text = format!("{}{line}\n", if cut { "\n" } else { "" });
        file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)
    }

    /// Writes another file in the folder atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn replace_file<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        self.log.replace_file(name, value)
    }

    /// Removes files of days before `oldest` (`2026-08-23`).
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub fn remove_older(&self, oldest: &str) -> Result<(), StoreError> {
        let failed = |source| StoreError { path: self.log.path.clone(), source };
        for name in self.log.list_files().map_err(failed)? {
            if parse_day(&name).is_some_and(|day| day < oldest) {
                fs_err::remove_file(self.log.path.join(name)).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a file ends in the middle of a line.
fn ends_mid_line(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_test_log(dir: &tempfile::TempDir) -> DriftLog {
        StateStore::new(Utf8Path::from_path(dir.path()).unwrap(), "c").drift_log()
    }

    #[test]
    fn log_lines_are_read_in_order_and_old_days_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let log = open_test_log(&dir);
        assert_eq!(log.read_lines(None).unwrap(), [""; 0]);
        let turn = log.lock_for_append().unwrap();
        assert!(turn.is_first_of_day("2026-11-20"));
        for (day, line) in [("2026-11-20", "a"), ("2026-11-20", "b"), ("2026-11-21", "c"), ("2026-11-22", "d")] {
            turn.append_line(day, line).unwrap();
        }
        assert!(!turn.is_first_of_day("2026-11-20"));
        assert_eq!(log.read_lines(None).unwrap(), ["a", "b", "c", "d"]);
        assert_eq!(log.read_lines(Some(2)).unwrap(), ["c", "d"]);
        turn.remove_older("2026-11-21").unwrap();
        assert_eq!(log.read_lines(None).unwrap(), ["c", "d"]);
    }

    #[test]
    fn partial_line_of_a_killed_run_does_not_corrupt_others() {
        let dir = tempfile::tempdir().unwrap();
        let log = open_test_log(&dir);
        let turn = log.lock_for_append().unwrap();
        turn.append_line("2026-11-21", "whole").unwrap();
        let path = log.path().join("2026-11-21.ndjson");
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"ha").unwrap();
        assert_eq!(log.read_lines(None).unwrap(), ["whole", "{\"ha"]);
        turn.append_line("2026-11-21", "next").unwrap();
        assert_eq!(log.read_lines(None).unwrap(), ["whole", "{\"ha", "next"]);
    }

    #[test]
    fn concurrent_writers_and_readers_keep_lines_intact() {
        let dir = tempfile::tempdir().unwrap();
        let log = open_test_log(&dir);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let log = &log;
                scope.spawn(move || {
                    for n in 0..25 {
                        log.lock_for_append().unwrap().append_line("2026-11-21", &format!("{writer} {n}")).unwrap();
                        log.read_lines(None).unwrap();
                    }
                });
            }
        });
        let lines = log.read_lines(None).unwrap();
        assert_eq!(lines.len(), 100);
        assert!(lines.iter().all(|line| line.split(' ').count() == 2), "{lines:?}");
    }
}
