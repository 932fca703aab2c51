//! The recordings from which a result was computed, and their age.

use crate::view::escape;
use camino::Utf8PathBuf;
use jiff::Timestamp;
use std::time::Duration;

/// How many recordings are named.
const MAX_NAMED: usize = 5;

/// A recording whose answers were replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingFile {
    /// Its path, as given or found in the folder that was given.
    pub path: Utf8PathBuf,
    /// When it was saved, if it says so.
    pub recorded: Option<Timestamp>,
}

/// Says that a result is from recordings, as a lowercase fragment.
pub const FROM_RECORDINGS: &str = "from recorded answers; no host was contacted";

/// Returns an unescaped description of each recording, oldest first, those of an unknown time before the others. The last
/// line counts those that are not named.
pub fn list_recording_files(files: &[RecordingFile], now: Timestamp) -> Vec<String> {
    let mut files: Vec<&RecordingFile> = files.iter().collect();
    files.sort_by(|a, b| (a.recorded, &a.path).cmp(&(b.recorded, &b.path)));
    let describe = |file: &&RecordingFile| {
        let when = file.recorded.map_or_else(|| "time unknown".to_owned(), |time| describe_time(time, now));
        format!("{}  {when}", file.path)
    };
    let more = (files.len() > MAX_NAMED).then(|| format!("and {} more", files.len() - MAX_NAMED));
    files.iter().take(MAX_NAMED).map(describe).chain(more).collect()
}

/// Returns lines that name the recordings, as [`list_recording_files`]; empty without any.
pub fn render_recording_files(files: &[RecordingFile], now: Timestamp) -> String {
    let line = |text: String| format!("  {}\n", escape::escape_line(&text));
    match files.is_empty() {
        true => String::new(),
        false => {
            let lines: String = list_recording_files(files, now).into_iter().map(line).collect();
            format!("{FROM_RECORDINGS}:\n{lines}\n")
        }
    }
}

/// Returns when the oldest answers were recorded; `None` if a recording does not say it, or without any.
pub fn find_oldest_recording(files: &[RecordingFile]) -> Option<Timestamp> {
    files.iter().map(|file| file.recorded).min().flatten()
}

/// Returns the time with its age. A time in the future is that of another clock: it has no age.
fn describe_time(time: Timestamp, now: Timestamp) -> String {
    match Duration::try_from(now.duration_since(time)) {
        Ok(age) => format!("{time} ({} ago)", describe_age(age)),
        Err(_) => time.to_string(),
    }
}

fn describe_age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (number, unit) = match seconds {
        0..=119 => (seconds, "second"),
        120..=7199 => (seconds / 60, "minute"),
        7200..=172_799 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_named_with_their_age() {
        let now: Timestamp = "2026-12-01T12:00:00Z".parse().unwrap();
        let file = |path: &str, time: &str| RecordingFile { path: path.into(), recorded: time.parse().ok() };
        let files = [
            file("b.json", "2026-12-01T11:59:50Z"),
            file("a.json", "2026-11-21T12:00:00Z"),
            file("old.json", ""),
            file("c.json", "2026-12-01T09:00:00Z"),
            file("later.json", "2026-12-01T13:00:00Z"),
            file("last.json", "2026-12-02T13:00:00Z"),
        ];
        let expected = "from recorded answers; no host was contacted:\n  old.json  time unknown\n  \
                        a.json  2026-11-21T12:00:00Z (10 days ago)\n  c.json  2026-12-01T09:00:00Z (3 hours ago)\n  \
                        b.json  2026-12-01T11:59:50Z (10 seconds ago)\n  later.json  2026-12-01T13:00:00Z\n  and 1 more\n\n";
        assert_eq!(render_recording_files(&files, now), expected);
        assert_eq!(render_recording_files(&[], now), "");
    }
}
