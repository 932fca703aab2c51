//! A failed read-only check command of a recipe: the command, its exit status and its last output.

use crate::model::{HostName, UntrustedText};
use crate::plan::CheckRun;
use crate::view::escape;
use std::io::{self, Write};

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

/// What a failed check printed.
pub struct CheckOutput<'a> {
    /// Its last lines; not empty.
    pub text: &'a str,
    /// The host of the text, if the check printed something else on other hosts.
    pub shown_for: Option<&'a HostName>,
}

impl<'a> CheckOutput<'a> {
    /// Returns the output of the first run that printed something.
    pub fn from_runs(runs: impl Iterator<Item = (&'a HostName, Option<&'a CheckRun>)> + Clone) -> Option<Self> {
        let printed = |run: Option<&'a CheckRun>| run.map_or("", |run| run.output.raw());
        let (host, text) = runs.clone().map(|(host, run)| (host, printed(run))).find(|(_, text)| !text.is_empty())?;
        let differs = runs.map(|(_, run)| printed(run)).any(|other| other != text);
        Some(Self { text, shown_for: differs.then_some(host) })
    }

    /// Returns the line before the text, for which `quote` quotes a host name.
    pub fn head(&self, quote: impl Fn(&str) -> String) -> String {
        match self.shown_for {
            Some(host) => format!("the check on {} printed:", quote(host.as_str())),
            None => "the check printed:".to_owned(),
        }
    }

    /// Writes the text below a step or finding that names the exit status of the check.
    pub fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.shown_for.is_some() {
            writeln!(out, "    {}", self.head(|host| escape::escape_line(host).into_owned()))?;
        }
        escape::escape_block(self.text).try_for_each(|line| writeln!(out, "      | {line}"))
    }
}

/// Returns the lines of an output below a problem, each after a line break.
pub fn describe_output(printed: CheckOutput<'_>) -> String {
    let mut lines = Vec::new();
    // Writing to memory does not fail.
    let _ = printed.write_lines(&mut lines);
    format!("\n{}", String::from_utf8_lossy(&lines).trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_differs_between_hosts_names_its_host() {
        let run = |output: &str| CheckRun { command: "look".into(), status: 1, output: output.into() };
        let (hosts, runs) = (["a", "b", "c"].map(HostName::new), ["", "line 7\n\u{1b}[31m", "line 8"].map(run));
        let print = |order: &[usize]| {
            let mut out = Vec::new();
            let runs = order.iter().map(|at| (&hosts[*at], Some(&runs[*at])));
            let printed = CheckOutput::from_runs(runs);
            printed.iter().for_each(|printed| printed.write_lines(&mut out).expect("writes to memory"));
            String::from_utf8(out).expect("is text")
        };
        let (on_b, lines) = ("    the check on b printed:\n", "      | line 7\n      | \\x1b[31m\n");
        assert_eq!(print(&[0, 1, 2]), format!("{on_b}{lines}"), "the first host printed nothing");
        assert_eq!(print(&[1, 1]), lines, "all printed the same");
        assert_eq!(print(&[0]), "");
    }
}
