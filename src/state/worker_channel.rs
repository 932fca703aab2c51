//! The folder through which a coordinator and a worker in a pod pass orders and messages: two files of lines, each with
//! one writer, and the name of the pod that does the task.
//!
//! Files survive a lost connection to the API or to the volume. A connection between the two would have to be made
//! again, with the question of what arrived before.

use super::line_file::{LineAppender, LineFollower};
use camino::{Utf8Path, Utf8PathBuf};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::time::Duration;
use tokio::time::Instant;

/// How often a coordinator shows that it is alive.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// A worker that has not read a line for this long works without a coordinator. It measures the time by its own clock,
/// so the clocks of the machines may differ; the volume may be away for a minute.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The folder of one worker.
#[derive(Clone, Debug)]
pub struct WorkerChannel {
    folder: Utf8PathBuf,
}

impl WorkerChannel {
    /// Returns the channel in a folder that exists.
    pub fn open(folder: &Utf8Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Creates the folder of a channel.
    ///
    /// # Errors
    /// It exists, or cannot be created: a lowercase fragment.
    pub fn create(folder: &Utf8Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("`{folder}`: {error}");
        let builder = |recursive| {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(recursive).mode(0o700);
            builder
        };
        if let Some(parent) = folder.parent() {
            builder(true).create(parent).map_err(failed)?;
        }
        builder(false).create(folder).map_err(failed)?;
        Ok(Self::open(folder))
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Starts to write orders. `alive` is written while there are no others.
    pub fn write_orders(&self, alive: String) -> LineAppender {
        LineAppender::start(&self.folder.join("orders"), Some((ALIVE_INTERVAL, alive)))
    }

    /// Starts to write messages.
    pub fn write_messages(&self) -> LineAppender {
        LineAppender::start(&self.folder.join("messages"), None)
    }

    /// Returns what the worker writes.
    pub fn follow_messages(&self) -> LineFollower {
        LineFollower::new(&self.folder.join("messages"))
    }

    /// Returns what the coordinator writes. It counts as gone once nothing came for `limit`.
    pub fn follow_orders(&self, limit: Duration) -> OrderFollower {
        OrderFollower { lines: LineFollower::new(&self.folder.join("orders")), limit, heard: Instant::now() }
    }

    /// Makes the pod `name` the one that does the task. Returns false if another pod, or the same one, did so before: the
    /// API may start the pod of a Job twice.
    ///
    /// # Errors
    /// The folder is gone or cannot be written.
    pub fn claim(&self, name: &str) -> io::Result<bool> {
        let path = self.folder.join("claim");
        match std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
            Ok(mut file) => file.write_all(name.as_bytes()).and_then(|()| file.sync_data()).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the name of the pod that does the task, once there is one.
    pub fn find_claimant(&self) -> Option<String> {
        fs_err::read_to_string(self.folder.join("claim")).ok().filter(|name| !name.is_empty())
    }
}

/// The lines of a coordinator, as long as it is alive.
#[derive(Debug)]
pub struct OrderFollower {
    lines: LineFollower,
    limit: Duration,
    heard: Instant,
}

impl OrderFollower {
    /// Waits for new lines. Returns `None` once none came for the limit.
    pub async fn next_lines(&mut self) -> Option<Vec<String>> {
        loop {
            // Read before the time is compared: reading may have waited for a volume that was away.
            if let Ok(lines) = self.lines.read_lines()
                && !lines.is_empty()
            {
                self.heard = Instant::now();
                return Some(lines);
            }
            if self.heard.elapsed() > self.limit {
                return None;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> (tempfile::TempDir, WorkerChannel) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("channels/w-1");
        (folder, WorkerChannel::create(&path).unwrap())
    }

    #[test]
    fn one_pod_gets_a_task() {
        let (_folder, channel) = channel();
        assert_eq!(channel.find_claimant(), None);
        assert!(channel.claim("a").unwrap());
        assert!(!channel.claim("b").unwrap() && !channel.claim("a").unwrap());
        assert_eq!(channel.find_claimant().as_deref(), Some("a"));
        assert!(WorkerChannel::create(channel.folder()).is_err());
    }

    #[tokio::test]
    async fn orders_end_when_their_writer_is_silent() {
        let (_folder, channel) = channel();
        let orders = channel.write_orders("alive".to_owned());
        orders.append("begin");
        orders.finish();
        let mut follower = channel.follow_orders(Duration::from_millis(50));
        assert_eq!(follower.next_lines().await, Some(vec!["begin".to_owned()]));
        assert_eq!(follower.next_lines().await, None);
    }
}
