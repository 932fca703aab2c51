//! A read-only command of a recipe that does not hold: the command, its exit status and what it printed last.

use crate::plan::CheckRun;
use crate::view::escape;

/// Lines of a command that are shown; the whole is in the JSON output.
const LINES: usize = 6;

/// Returns the lines that follow a verification, each after a line break: no line where nothing ran.
pub fn describe_check(check: Option<&CheckRun>) -> String {
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
    if check.output.is_empty() {
        return text + ", printed nothing";
    }
    escape::block(check.output.raw()).for_each(|line| text += &format!("\n      | {line}"));
    text
}
