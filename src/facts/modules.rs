//! `modules`: loaded kernel modules and their users.

use super::comparison_rules::compare_names;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};

pub(super) const FACT: Fact = Fact {
    name: "modules",
    doc: "Loaded kernel modules, a map by name, from `/proc/modules`. A module cannot be unloaded while it is used.",
    shape: FactShape::ByName,
    fields: &[
        ("refs", "number of uses, null if the kernel does not count them"),
        ("used_by", "the modules that use it"),
    ],
    reads: &["/proc/modules"],
    alike: &[compare_names("")],
    snippet: FactSnippet {
        name: "modules",
        snippet: "[ -e /proc/modules ] || exit 0; printf 'modules\\n'; cat /proc/modules",
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

/// Parses lines of name, size, uses, users and more. A kernel without modules has no such file.
fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let rows = require_success(output)?.lines().skip(1).map(parse_row).collect::<Option<Map<String, Value>>>();
    rows.map(Value::Object).ok_or_else(|| unparsed_answer("a module", output))
}

fn parse_row(line: &str) -> Option<(String, Value)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, _, refs, users, ..] = words[..] else { return None };
    let users: Vec<&str> = users.split(',').filter(|name| !matches!(*name, "" | "-" | "[permanent]")).collect();
    Some((name.to_owned(), json!({ "refs": refs.parse::<u64>().ok(), "used_by": users })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn reference_counts_and_users_are_parsed() {
        // origin: field, a node with RTX A6000; the last line is reconstructed
        let text = "modules\nnvidia_uvm 2093056 0 - Live 0x0 (POE)\nnvidia 104198144 62 nvidia_uvm,nvidia_modeset, Live 0x0\nx 1 - [permanent], Live 0x0\n";
        let expected = json!({
            "nvidia_uvm": {"refs": 0, "used_by": []},
            "nvidia": {"refs": 62, "used_by": ["nvidia_uvm", "nvidia_modeset"]},
            "x": {"refs": null, "used_by": []},
        });
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!({})));
        assert_eq!(expect_unknown(&FACT, 0, "modules\nodd\n"), "a module is not in the answer");
    }
}
