//! What parsers of facts share.

use crate::model::Value;
use crate::probe::{Output, Unknown};

/// Returns what the snippet printed if it ended well.
///
/// # Errors
/// Another status, with what the host said.
pub(super) fn done(output: &Output) -> Result<&str, Unknown> {
    match output.status {
        0 => Ok(output.stdout.raw()),
        status => Err(Unknown::new(format!("its snippet failed with status {status}")).said(output.stderr.clone())),
    }
}

/// Returns the rest of the first line that starts with `key` and a tab.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t'))
}

/// Returns text as a value, nothing as null.
pub(super) fn text_or_null(text: Option<&str>) -> Value {
    match text.map(str::trim) {
        None | Some("") => Value::Null,
        Some(text) => Value::from(text),
    }
}

/// Returns why an answer in an unexpected form has no value.
pub(super) fn unread(what: &str, output: &Output) -> Unknown {
    Unknown::new(format!("{what} is not in the answer")).said(output.stdout.raw().chars().take(200).collect::<String>())
}

#[cfg(test)]
pub(super) mod testing {
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
}
