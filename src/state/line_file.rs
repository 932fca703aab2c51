//! Files to which one process appends lines and which another one follows, perhaps on another machine, over a shared
//! volume that may be away for a while.

use camino::{Utf8Path, Utf8PathBuf};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long a line that could not be written waits for the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long the last lines are tried again once no more come.
const LAST_LINES_LIMIT: Duration = Duration::from_secs(120);
/// How long dropping an appender waits for its last lines: the process may end next.
const DROP_LIMIT: Duration = Duration::from_secs(2);
/// Bytes that one look at a file reads at most.
const READ_LIMIT: usize = 8 << 20;

/// Appends lines to a file from a thread of its own, so that a volume that does not respond holds up nothing else. Each
/// line is written again until it is stored. The file has no other writer.
#[derive(Debug)]
pub struct LineAppender {
    lines: Option<mpsc::Sender<String>>,
    /// Ends with the thread.
    done: Mutex<mpsc::Receiver<()>>,
}

impl LineAppender {
    /// Starts to append to `path`. With `idle`, a line is repeated whenever no other was written for that time.
    pub fn start(path: &Utf8Path, idle: Option<(Duration, String)>) -> Self {
        let (lines, queue) = mpsc::channel();
        let (ended, done) = mpsc::channel();
        let file = AppendedFile { path: path.to_owned(), written: 0, pending: Vec::new() };
        std::thread::spawn(move || {
            append_lines(file, &queue, idle.as_ref());
            let _ = ended.send(());
        });
        Self { lines: Some(lines), done: Mutex::new(done) }
    }

    /// Appends a line soon.
    pub fn append(&self, line: &str) {
        if let Some(lines) = &self.lines {
            // The thread ends only after this sender.
            let _ = lines.send(line.to_owned());
        }
    }

    /// Waits until every line is stored, or could not be stored for minutes.
    pub fn finish(mut self) {
        self.wait_for_last_lines(LAST_LINES_LIMIT + RETRY_PAUSE);
    }

    fn wait_for_last_lines(&mut self, limit: Duration) {
        if self.lines.take().is_some() {
            let _ = self.done.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(limit);
        }
    }
}

impl Drop for LineAppender {
    fn drop(&mut self) {
        self.wait_for_last_lines(DROP_LIMIT);
    }
}

struct AppendedFile {
    path: Utf8PathBuf,
    /// The bytes that are certainly stored: the same bytes at the same place can be written again.
    written: u64,
    pending: Vec<u8>,
}

impl AppendedFile {
    fn add_line(&mut self, line: &str) {
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.push(b'\n');
    }

    /// Writes what is pending. The file is opened each time: closing and opening is what makes data visible over NFS.
    fn write_pending(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&self.path)?;
        file.write_all_at(&self.pending, self.written)?;
        file.sync_data()?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Appends lines until their sender is gone and all are stored.
fn append_lines(mut file: AppendedFile, lines: &mpsc::Receiver<String>, idle: Option<&(Duration, String)>) {
    loop {
        let failed = file.write_pending().is_err();
        let pause = if failed { RETRY_PAUSE } else { idle.map_or(Duration::MAX, |(pause, _)| *pause) };
        match lines.recv_timeout(pause) {
            Ok(line) => file.add_line(&line),
            Err(mpsc::RecvTimeoutError::Timeout) if failed => {}
            Err(mpsc::RecvTimeoutError::Timeout) => idle.iter().for_each(|(_, line)| file.add_line(line)),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        // One write for all that came meanwhile.
        lines.try_iter().for_each(|line| file.add_line(&line));
    }
    let end = Instant::now() + LAST_LINES_LIMIT;
    // No line comes any more: waiting for one is a pause.
    let (_keep, pause) = mpsc::channel::<()>();
    while file.write_pending().is_err() && Instant::now() < end {
        let _ = pause.recv_timeout(RETRY_PAUSE);
    }
}

/// Follows a file to which another process appends lines.
#[derive(Debug)]
pub struct LineFollower {
    path: Utf8PathBuf,
    read: u64,
    partial: Vec<u8>,
}

impl LineFollower {
    /// Returns a follower of `path` from its beginning. The file may not exist yet.
    pub fn new(path: &Utf8Path) -> Self {
        Self { path: path.to_owned(), read: 0, partial: Vec::new() }
    }

    /// Returns the complete lines that were appended since the last call.
    ///
    /// # Errors
    /// The file exists and cannot be read: its volume may be away.
    pub fn read_lines(&mut self) -> io::Result<Vec<String>> {
        // Opened each time: an open file on NFS may show an old state.
        let file = match OpenOptions::new().read(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let new = file.metadata()?.len().saturating_sub(self.read);
        let mut buffer = vec![0; usize::try_from(new).unwrap_or(READ_LIMIT).min(READ_LIMIT)];
        let count = file.read_at(&mut buffer, self.read)?;
        self.read += count as u64;
        self.partial.extend_from_slice(&buffer[..count]);
        let end = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let complete: Vec<u8> = self.partial.drain(..end).collect();
        Ok(String::from_utf8_lossy(&complete).lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_until(follower: &mut LineFollower, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        let (mut all, end) = (Vec::new(), Instant::now() + Duration::from_secs(30));
        while !enough(&all) {
            assert!(Instant::now() < end, "{all:?}");
            all.extend(follower.read_lines().unwrap());
        }
        all
    }

    #[test]
    fn lines_wait_for_a_volume_that_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().join("volume");
        let (appender, mut follower) =
            (LineAppender::start(&root.join("lines"), None), LineFollower::new(&root.join("lines")));
        appender.append("one");
        assert_eq!(follower.read_lines().unwrap(), Vec::<String>::new());
        fs_err::create_dir(&root).unwrap();
        appender.append("two");
        appender.finish();
        assert_eq!(follower.read_lines().unwrap(), ["one", "two"]);
    }

    #[test]
    fn partial_line_is_read_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("lines");
        let mut follower = LineFollower::new(&path);
        fs_err::write(&path, "one\nt").unwrap();
        assert_eq!(follower.read_lines().unwrap(), ["one"]);
        fs_err::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(follower.read_lines().unwrap(), ["two"]);
    }

    #[test]
    fn idle_line_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("lines");
        let appender = LineAppender::start(&path, Some((Duration::from_millis(10), "alive".to_owned())));
        appender.append("first");
        let lines = read_until(&mut LineFollower::new(&path), |all| all.len() > 2);
        assert_eq!(&lines[..3], ["first", "alive", "alive"]);
    }
}
