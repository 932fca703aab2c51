//! Helpers for the tests of facts.

use super::*;
use crate::facts::fact::Fact;

/// Parses the output of a snippet that exited with 0.
pub(crate) fn parse_stdout(fact: &Fact, stdout: &str) -> Result<Value, UnansweredReason> {
    (fact.parse)(&ProbeOutput { stdout: stdout.into(), ..ProbeOutput::default() })
}

/// Returns why a fact is unknown.
pub(crate) fn expect_unknown(fact: &Fact, status: i32, stdout: &str) -> String {
    let output = ProbeOutput { status, stdout: stdout.into(), ..ProbeOutput::default() };
    (fact.parse)(&output).expect_err("is unknown").why
}

/// Builds the output of a snippet from a text in which `@@` represents the record separator.
pub(crate) fn expand_separators(text: &str) -> String {
    text.replace("@@", "\u{1e}")
}

/// Runs a snippet in `dash` after `prelude` and returns its output.
pub(crate) fn run_snippet(prelude: &str, fact: &Fact) -> String {
    let code = format!("{prelude}\n{}", fact.snippet.snippet);
    let output = std::process::Command::new("dash").arg("-c").arg(code).output().expect("dash starts");
    String::from_utf8(output.stdout).expect("is text")
}
