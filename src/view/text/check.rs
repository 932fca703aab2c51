//! A read-only command of a recipe that does not hold: the command, its exit status and what it printed last.

use crate::model::{HostName, Untrusted};
use crate::plan::CheckRun;
use crate::view::escape;

/// Lines of a command that are shown; the whole is in the JSON output.
const LINES: usize = 6;

/// What makes runs of a check on several hosts the same for a reader: what they printed may name the host.
pub fn identity(check: Option<&CheckRun>) -> Option<(&Untrusted, i32)> {
    check.map(|check| (&check.command, check.status))
}

/// Returns the lines that follow a verification, each after a line break: no line where nothing ran. `shown_for` is the host
/// whose output it is, where that of others differs.
pub fn describe_check(check: Option<&CheckRun>, shown_for: Option<&HostName>) -> String {
    let Some(check) = check else { return String::new() };
    let command: Vec<_> = escape::block(check.command.raw()).collect();
    let mut text = String::new();
    for (at, line) in command.iter().take(LINES).enumerate() {
        text += &format!("\n    {} {line}", if at == 0 { "$" } else { " " });
    }
    if command.len() > LINES {
        text += &format!("\n      ({} more lines)", command.len() - LINES);
    }
    text += &format!("\n    exit status {}", check.status);
    text += &shown_for.map(|host| format!("; on {} it", escape::line(host.as_str()))).unwrap_or_default();
    if check.output.is_empty() {
        return text + if shown_for.is_some() { " printed nothing" } else { ", printed nothing" };
    }
    text += if shown_for.is_some() { " printed:" } else { "" };
    escape::block(check.output.raw()).for_each(|line| text += &format!("\n      | {line}"));
    text
}
