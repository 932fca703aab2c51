//! Parses the journal: one JSON object per line. The first and the last line may be incomplete.

use jiff::Timestamp;
use serde_json::Value;

/// One journal entry. The kernel, not the program, sets the fields with a leading underscore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemJournalEntry {
    /// When it was sent, as the kernel noted, or else when the journal received it: seconds later on a busy host.
    pub time: Timestamp,
    /// The boot ID, without hyphens.
    pub boot: String,
    pub pid: String,
    pub uid: String,
    /// Program name and path; empty if the program ended before the journal looked.
    pub comm: String,
    pub exe: String,
    /// The name that the program gave itself: any program can claim it.
    pub identifier: String,
    /// The unit that systemd reports on.
    pub unit: String,
    /// The job type of systemd: `stop`.
    pub job: String,
    /// The result of that job, in the entry about its end: `done`, `failed`.
    pub result: String,
    pub message: String,
}

/// Parses entries in their order. Invalid lines are skipped.
pub fn parse_entries(text: &str) -> Vec<SystemJournalEntry> {
    text.lines().filter_map(parse_entry).collect()
}

fn parse_entry(line: &str) -> Option<SystemJournalEntry> {
    let object: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let time = |key: &str| Timestamp::from_microsecond(object.get(key)?.as_str()?.parse().ok()?).ok();
    Some(SystemJournalEntry {
        time: time("_SOURCE_REALTIME_TIMESTAMP").or_else(|| time("__REALTIME_TIMESTAMP"))?,
        boot: text("_BOOT_ID"),
        pid: text("_PID"),
        uid: text("_UID"),
        comm: text("_COMM"),
        exe: text("_EXE"),
        identifier: text("SYSLOG_IDENTIFIER"),
        unit: text("UNIT"),
        job: text("JOB_TYPE"),
        result: text("JOB_RESULT"),
        message: parse_message(object.get("MESSAGE"))?,
    })
}

/// Returns the time of the first entry.
pub fn parse_first_time(text: &str) -> Option<Timestamp> {
    let object: Value = serde_json::from_str(text.lines().next()?).ok()?;
    Timestamp::from_microsecond(object.get("__REALTIME_TIMESTAMP")?.as_str()?.parse().ok()?).ok()
}

/// Decodes a message. journalctl prints binary messages as a list of bytes, and too long ones as `null`.
fn parse_message(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Array(bytes) => {
            let bytes: Option<Vec<u8>> = bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
            Some(String::from_utf8_lossy(&bytes?).into_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_sender() {
        let line =
            |source: &str| format!("{{{source}\"__REALTIME_TIMESTAMP\":\"1795993443000000\",\"MESSAGE\":\"m\"}}\n");
        let seconds = |source: &str| parse_entries(&line(source))[0].time.as_second();
        assert_eq!(seconds("\"_SOURCE_REALTIME_TIMESTAMP\":\"1795993440000000\","), 1_795_993_440);
        assert_eq!(seconds(""), 1_795_993_443);
    }

    const RECORDED: &str = include_str!("../../../tests/samples/culprit/journal.jsonl");

    #[test]
    fn incomplete_journal_lines_are_skipped() {
        let whole = parse_entries(RECORDED);
        assert_eq!(whole.len(), RECORDED.lines().count());
        for at in (0..RECORDED.len()).step_by(211).filter(|at| RECORDED.is_char_boundary(*at)) {
            let (head, tail) = (parse_entries(&RECORDED[..at]), parse_entries(&RECORDED[at..]));
            assert!(whole.starts_with(&head) && whole.ends_with(&tail), "cut at {at}");
        }
    }

    #[test]
    fn byte_array_messages_are_decoded_and_missing_ones_skipped() {
        let entry = |message: &str| format!("{{\"__REALTIME_TIMESTAMP\":\"1\",\"MESSAGE\":{message}}}");
        let read = |message: &str| parse_entries(&entry(message)).pop().map(|entry| entry.message);
        assert_eq!(read("[104,105,255]").as_deref(), Some("hi\u{fffd}"));
        assert_eq!((read("null"), read("[900]"), read("{}")), (None, None, None));
    }
}
