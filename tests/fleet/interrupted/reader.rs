//! A reader of a host's files, as fast as it can, throughout a run and its interruption.

use super::digest;
use super::gate::Placed;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Every content that was read, by path.
pub type Contents = BTreeMap<String, BTreeSet<Vec<u8>>>;

/// Reads files from the disk of a node, from outside: a reboot of the node does not stop it.
pub struct FileReader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Contents>,
}

impl FileReader {
    /// Reads each of `paths` over and over.
    pub fn start(disk: PathBuf, paths: Vec<String>) -> FileReader {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Contents::new();
            while !stopped.load(Ordering::Relaxed) {
                for path in &paths {
                    if let Ok(bytes) = std::fs::read(disk.join(path)) {
                        let known = seen.entry(path.clone()).or_default();
                        if !known.contains(&bytes) {
                            known.insert(bytes);
                        }
                    }
                }
                // Leaves a processor to the run.
                std::thread::sleep(Duration::from_millis(2));
            }
            seen
        });
        FileReader { stop, thread }
    }

    /// Ends it and returns what it read.
    pub fn finish(self) -> Contents {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the reader does not panic")
    }
}

/// Returns the paths of which a reader saw a part: neither the content before nor the one after, nor one that is whole
/// between two steps (`placed`), but the beginning of the one after.
pub fn torn_files(
    seen: &Contents,
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
    placed: &Placed,
) -> Vec<String> {
    let mut torn = Vec::new();
    for (path, contents) in seen {
        let Some(whole) = after.get(path) else { continue };
        for bytes in contents {
            let known = bytes == whole
                || before.get(path) == Some(bytes)
                || placed.get(path).is_some_and(|all| all.contains(&digest(bytes)));
            if !known && whole.starts_with(bytes) {
                torn.push(format!("{path}: {} of {} bytes", bytes.len(), whole.len()));
            }
        }
    }
    torn
}
