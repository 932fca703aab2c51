//! A failed read-only check command of a recipe: the command, its exit status and its last output.

use crate::model::{HostName, UntrustedText};
use crate::plan::CheckRun;
use crate::view::escape;

/// Number of command lines shown. The JSON output has the complete command.
const MAX_COMMAND_LINES: usize = 6;

/// Returns the key by which runs of a check on several hosts are grouped. The output is not part of it, because it may
/// contain the host name.
pub fn check_identity(check: Option<&CheckRun>) -> Option<(&UntrustedText, i32)> {
    check.map(|check| (&check.command, check.status))
}

/// Returns the lines below a verification, each after a line break. Returns no lines if no command ran. `shown_for` is
/// the host of the shown output if other hosts printed something else.
pub fn describe_check(check: Option<&CheckRun>, shown_for: Option<&HostName>) -> String {
    let Some(check) = check else { return String::new() };
    let command: Vec<_> = escape::escape_block(check.command.raw()).collect();
    let mut text = String::new();
    for (at, line) in command.iter().take(MAX_COMMAND_LINES).enumerate() {
        text += &format!("\n    {} {line}", if at == 0 { "$" } else { " " });
    }
    if command.len() > MAX_COMMAND_LINES {
        text += &format!("\n      ({} more lines)", command.len() - MAX_COMMAND_LINES);
    }
    text += &format!("\n    exit status {}", check.status);
    text += &shown_for.map(|host| format!("; on {} it", escape::escape_line(host.as_str()))).unwrap_or_default();
    if check.output.is_empty() {
        return text + if shown_for.is_some() { " printed nothing" } else { ", printed nothing" };
    }
    text += if shown_for.is_some() { " printed:" } else { "" };
    escape::escape_block(check.output.raw()).for_each(|line| text += &format!("\n      | {line}"));
    text
}
