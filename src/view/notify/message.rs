//! Messages of findings, cut to what a service accepts.

use crate::drift::{DriftNotice, DriftNoticeItem};
use crate::model::HostName;
use crate::view::{escape, fold, format_count, formatting};
use indexmap::IndexMap;

/// Maximum characters of a host's text in a line.
pub(super) const PART_CHARS: usize = 160;

/// A body to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyPayload {
    /// The request body or mail text, in the format of the service.
    pub body: String,
    /// Number of findings that did not fit.
    pub left_out: usize,
}

/// The size limit of a service, and how it is measured.
pub(super) struct MessageLimit {
    pub(super) limit: usize,
    /// Returns the size of a line, including its end.
    pub(super) size: fn(&str) -> usize,
    /// Escapes text for the service's grammar. The text is already escaped for a terminal.
    pub(super) escape: fn(&str) -> String,
}

/// The lines of a message, and the number of findings that did not fit.
pub(super) struct NotifyMessage {
    pub(super) lines: Vec<String>,
    pub(super) left_out: usize,
}

impl NotifyMessage {
    pub(super) fn to_text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Returns the first line of every message.
pub(super) fn format_headline(notice: &DriftNotice) -> String {
    format!("forge drift: {}: {}", escape::escape_truncated(&notice.cluster, PART_CHARS), summarize_notice(notice))
}

/// Returns as many findings as fit, equal ones of several hosts once, and the number of the others.
pub(super) fn fit_message(notice: &DriftNotice, room: &MessageLimit) -> NotifyMessage {
    let escaped = |line: String| (room.escape)(&line);
    let mut lines = vec![escaped(format_headline(notice))];
    if !notice.simulated.is_empty() {
        lines.push(escaped(format!(
            "simulated, no real hardware: {}",
            format_hosts(&notice.simulated.iter().collect::<Vec<_>>())
        )));
    }
    let more = |left: usize| format!("… and {} more; run `forge drift` to list all", format_count(left, "finding"));
    let mut used: usize = lines.iter().map(|line| (room.size)(line)).sum();
    let (mut left_out, reserve) = (0, (room.size)(&more(usize::MAX)));
    for (head, items) in [("new", &notice.new), ("changed", &notice.changed), ("resolved", &notice.resolved)] {
        let mut begun = false;
        for (line, number) in group_items(items) {
            let mut block: Vec<String> = if begun { Vec::new() } else { vec![String::new(), format!("{head}:")] };
            block.extend(line.lines().map(|line| (room.escape)(line)));
            let size: usize = block.iter().map(|line| (room.size)(line)).sum();
            // Findings are ordered by importance: after one that does not fit, later ones are omitted too.
            if left_out > 0 || used + size + reserve > room.limit {
                left_out += number;
                continue;
            }
            (used, begun) = (used + size, true);
            lines.extend(block);
        }
    }
    if left_out > 0 {
        lines.push(more(left_out));
    }
    NotifyMessage { lines, left_out }
}

/// Returns each distinct finding as text with its number of hosts, worst first.
pub(super) fn group_items(items: &[DriftNoticeItem]) -> Vec<(String, usize)> {
    let mut sorted: Vec<&DriftNoticeItem> = items.iter().collect();
    sorted.sort_by_key(|item| std::cmp::Reverse(item.known.severity));
    let mut equal: IndexMap<String, Vec<&HostName>> = IndexMap::new();
    for item in sorted {
        equal.entry(format_item(item)).or_default().push(&item.known.host);
    }
    equal.into_iter().map(|(text, on)| (text.replacen('\u{0}', &format_hosts(&on), 1), on.len())).collect()
}

/// Returns a finding with a NUL in place of its hosts. Escaped text never contains a NUL.
pub(super) fn format_item(item: &DriftNoticeItem) -> String {
    let known = &item.known;
    let part = |text: &crate::model::UntrustedText| escape::escape_truncated(text.raw(), PART_CHARS);
    let attribute =
        known.attribute.as_deref().map(|name| format!(" {}", escape::escape_line(name))).unwrap_or_default();
    let reason = item.reason.as_ref().filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(": {}", part(reason))).unwrap_or_default();
    let times = if known.times > 1 { format!(", flapping: {} times", known.times) } else { String::new() };
    let step = format!("{}/{}", part(&known.recipe), part(&known.step));
    let mut text =
        format!("- [{}] {step}{attribute}{reason} ({}{times}) on \u{0}", known.severity.name(), known.cause.name());
    if item.desired.is_some() || item.observed.is_some() {
        let value = |value: &Option<crate::model::UntrustedText>| match value {
            Some(value) if value.is_empty() => "(empty)".to_owned(),
            Some(value) => part(value),
            None => "absent".to_owned(),
        };
        text.push_str(&format!("\n    declared {}, observed {}", value(&item.desired), value(&item.observed)));
    }
    text
}

pub(super) fn format_hosts(hosts: &[&HostName]) -> String {
    escape::escape_truncated(&fold::fold_names(hosts.iter().map(|host| host.as_str())), PART_CHARS)
}

/// Returns the size in bytes of a line in a JSON string.
pub(super) fn count_json_bytes(line: &str) -> usize {
    // Two bytes for the escaped line end. The quotes are a margin.
    serde_json::to_string(line).map_or(usize::MAX / 2, |text| text.len()) + 2
}

/// Returns the counts: `2 new, 1 resolved; 7 open`.
pub fn summarize_notice(notice: &DriftNotice) -> String {
    let what = [(notice.new.len(), "new"), (notice.changed.len(), "changed"), (notice.resolved.len(), "resolved")];
    format!("{}; {} open", formatting::join_counts(&what), notice.open)
}
