//! `fabricmanager`: the version of the fabric manager's program.

use super::command::nvidia_version::is_version;
use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "fabricmanager",
    doc: "The fabric manager's program, from `nv-fabricmanager --version`. Its version must exactly equal that of the loaded driver.",
    shape: FactShape::Map,
    fields: &[("version", "`560.35.03`, null if it is not installed")],
    reads: &["nv-fabricmanager --version"],
    alike: &[compare_value("version")],
    snippet: FactSnippet {
        name: "fabricmanager",
        snippet: "command -v nv-fabricmanager >/dev/null 2>&1 || { printf 'none\\n'; exit 0; }; LC_ALL=C nv-fabricmanager --version 2>&1",
        timeout_s: 10,
        device: true,
        quick: false,
        builtin: false,
    },
    parse,
};

/// The wording differs between branches: the version must be the last word of a line.
fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    if text.trim() == "none" {
        return Ok(json!({ "version": null }));
    }
    let version = text.lines().filter_map(|line| line.split_whitespace().last()).find(|word| is_version(word));
    version.map(|version| json!({ "version": version })).ok_or_else(|| unparsed_answer("a version", output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn version_is_parsed_in_any_wording() {
        // origin: reconstructed, the wording is not confirmed
        assert_eq!(parse_stdout(&FACT, "Fabric Manager version is : 560.35.03\n"), Ok(json!({"version": "560.35.03"})));
        assert_eq!(parse_stdout(&FACT, "none\n"), Ok(json!({"version": null})));
        assert_eq!(expect_unknown(&FACT, 0, "Fabric Manager\n"), "a version is not in the answer");
        assert_eq!(expect_unknown(&FACT, 1, ""), "its snippet failed with status 1");
    }
}
