//! What people and programs are sent when what drift finds changes: one text, and one file for each service's own grammar.
//!
//! Architecture Invariant: rendering is pure, and knows neither addresses nor tokens. What a host said is escaped for the
//! service it goes to; no service is given a markup in which it could act.

mod dingtalk;
mod email;
mod feishu;
mod slack;
#[cfg(test)]
mod tests;
mod webhook;
mod wecom;

use super::{count, escape, fold, words};
use crate::config::Service;
use crate::drift::{Item, Notice};
use crate::model::HostName;
use indexmap::IndexMap;

/// What of a host's text stands in a line.
const PART_CHARS: usize = 160;

/// A body to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub body: String,
    /// How many findings did not fit.
    pub left_out: usize,
}

/// Renders a notice for a service.
pub fn render(service: &Service, notice: &Notice) -> Payload {
    match service {
        Service::Webhook { .. } => webhook::render(notice),
        Service::Slack { .. } => slack::render(notice),
        Service::Feishu { .. } => feishu::render(notice),
        Service::DingTalk { .. } => dingtalk::render(notice),
        Service::WeCom { .. } => wecom::render(notice),
        Service::Email { to, from, .. } => email::render(notice, to, from.as_deref()),
    }
}

/// How much a service takes, and how it counts.
struct Room {
    limit: usize,
    /// What a line takes up, its end included.
    size: fn(&str) -> usize,
    /// Makes text harmless in the service's grammar, once nothing in it acts on a terminal.
    escape: fn(&str) -> String,
}

/// The lines of a message, and how many findings did not fit.
struct Message {
    lines: Vec<String>,
    left_out: usize,
}

impl Message {
    fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Returns how much is told of what: `2 new, 1 resolved; 7 open`.
pub fn summary(notice: &Notice) -> String {
    let what = [(notice.new.len(), "new"), (notice.changed.len(), "changed"), (notice.resolved.len(), "resolved")];
    format!("{}; {} open", words::counts(&what), notice.open)
}

/// Returns the first line of every message.
fn headline(notice: &Notice) -> String {
    format!("forge drift: {}: {}", escape::short(&notice.cluster, PART_CHARS), summary(notice))
}

/// Writes as many findings as fit, equal ones of several hosts once, and counts the others.
fn message(notice: &Notice, room: &Room) -> Message {
    let escaped = |line: String| (room.escape)(&line);
    let mut lines = vec![escaped(headline(notice))];
    if !notice.simulated.is_empty() {
        lines.push(escaped(format!(
            "simulated, no real hardware: {}",
            hosts(&notice.simulated.iter().collect::<Vec<_>>())
        )));
    }
    let more = |left: usize| format!("… and {} more; `forge drift` tells all", count(left, "finding"));
    let mut used: usize = lines.iter().map(|line| (room.size)(line)).sum();
    let (mut left_out, reserve) = (0, (room.size)(&more(usize::MAX)));
    for (head, items) in [("new", &notice.new), ("changed", &notice.changed), ("resolved", &notice.resolved)] {
        let mut begun = false;
        for (line, number) in entries(items) {
            let mut block: Vec<String> = if begun { Vec::new() } else { vec![String::new(), format!("{head}:")] };
            block.extend(line.lines().map(|line| (room.escape)(line)));
            let size: usize = block.iter().map(|line| (room.size)(line)).sum();
            // Order says what matters: nothing small overtakes what did not fit.
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
    Message { lines, left_out }
}

/// Returns each finding as text, with the number of hosts it stands for; the worst first.
fn entries(items: &[Item]) -> Vec<(String, usize)> {
    let mut sorted: Vec<&Item> = items.iter().collect();
    sorted.sort_by_key(|item| std::cmp::Reverse(item.known.severity));
    let mut equal: IndexMap<String, Vec<&HostName>> = IndexMap::new();
    for item in sorted {
        equal.entry(entry(item)).or_default().push(&item.known.host);
    }
    equal.into_iter().map(|(text, on)| (text.replacen('\u{0}', &hosts(&on), 1), on.len())).collect()
}

/// Returns a finding with a NUL in place of its hosts: no text that was made harmless holds one.
fn entry(item: &Item) -> String {
    let known = &item.known;
    let part = |text: &crate::model::Untrusted| escape::short(text.raw(), PART_CHARS);
    let attribute = known.attribute.as_deref().map(|name| format!(" {}", escape::line(name))).unwrap_or_default();
    let reason = item.reason.as_ref().filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(": {}", part(reason))).unwrap_or_default();
    let times = if known.times > 1 { format!(", comes and goes: {} times", known.times) } else { String::new() };
    let step = format!("{}/{}", part(&known.recipe), part(&known.step));
    let mut text =
        format!("- [{}] {step}{attribute}{reason} ({}{times}) on \u{0}", known.severity.name(), known.cause.name());
    if item.desired.is_some() || item.observed.is_some() {
        let value = |value: &Option<crate::model::Untrusted>| match value {
            Some(value) if value.is_empty() => "(empty)".to_owned(),
            Some(value) => part(value),
            None => "nothing".to_owned(),
        };
        text.push_str(&format!("\n    declared {}, seen {}", value(&item.desired), value(&item.observed)));
    }
    text
}

fn hosts(hosts: &[&HostName]) -> String {
    escape::short(&fold::fold(hosts.iter().map(|host| host.as_str())), PART_CHARS)
}

/// Returns the bytes that a line takes in a string of JSON.
fn json_bytes(line: &str) -> usize {
    // Two for the escaped end of the line; the quotes make up for nothing else.
    serde_json::to_string(line).map_or(usize::MAX / 2, |text| text.len()) + 2
}
