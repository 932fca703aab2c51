//! What tests of facts share.

use super::*;
use crate::facts::Fact;

/// Parses what a snippet printed with status 0.
pub(crate) fn parsed(fact: &Fact, stdout: &str) -> Result<Value, Unknown> {
    (fact.parse)(&Output { stdout: stdout.into(), ..Output::default() })
}

/// Returns why a fact is unknown.
pub(crate) fn why(fact: &Fact, status: i32, stdout: &str) -> String {
    let output = Output { status, stdout: stdout.into(), ..Output::default() };
    (fact.parse)(&output).expect_err("is unknown").why
}

/// Builds what a snippet printed from a text in which `@@` stands for the record separator.
pub(crate) fn printed(text: &str) -> String {
    text.replace("@@", "\u{1e}")
}

/// Runs a snippet in `dash` with `prelude` before it and returns what it printed.
pub(crate) fn run(prelude: &str, fact: &Fact) -> String {
    let code = format!("{prelude}\n{}", fact.snippet.snippet);
    let output = std::process::Command::new("dash").arg("-c").arg(code).output().expect("dash starts");
    String::from_utf8(output.stdout).expect("is text")
}
