//! `simulated`: whether a host's hardware is simulated.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, text_or_null};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};

const SNIPPET: &str = r#"[ ! -e /etc/forge/simulated-hardware ] ||
while IFS= read -r l || [ -n "$l" ]; do printf '%s\n' "$l"; done </etc/forge/simulated-hardware"#;

pub(super) const FACT: Fact = Fact {
    name: "simulated",
    doc: "The name of the hardware profile that simulates this host's hardware, as text, from `/etc/forge/simulated-hardware`: a test \
          that simulates hardware on a host writes it there. Null on every other host. forge labels its output about such a host first.",
    shape: FactShape::Value,
    fields: &[],
    reads: &["/etc/forge/simulated-hardware"],
    alike: &[compare_value("")],
    snippet: FactSnippet {
        name: "simulated",
        snippet: SNIPPET,
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: true,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    Ok(text_or_null(Some(require_success(output)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn profile_is_reported_or_null() {
        assert_eq!(parse_stdout(&FACT, "h100x8-ndr\n"), Ok(Value::from("h100x8-ndr")));
        assert_eq!(parse_stdout(&FACT, ""), Ok(Value::Null));
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
    }
}
