//! `cpu`: processors.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{find_field, require_success, text_or_null, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "cpu",
    doc: "Processors, from `/sys/devices/system/cpu/online` and `/proc/cpuinfo`.",
    shape: FactShape::Map,
    fields: &[
        ("count", "online logical processors"),
        ("model", "model name of the first processor, null if the kernel reports none (most Arm hosts)"),
    ],
    reads: &["/sys/devices/system/cpu/online", "/proc/cpuinfo"],
    alike: &[compare_value("count"), compare_value("model")],
    snippet: FactSnippet {
        name: "cpu",
        snippet: "read -r o </sys/devices/system/cpu/online || exit; printf 'online\\t%s\\n' \"$o\"\n\
                  while IFS=: read -r k v; do case $k in 'model name'*) printf 'model\\t%s\\n' \"$v\"; break ;; esac; done </proc/cpuinfo",
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let count = find_field(text, "online")
        .and_then(count_processors)
        .ok_or_else(|| unparsed_answer("the list of processors", output))?;
    Ok(json!({ "count": count, "model": text_or_null(find_field(text, "model")) }))
}

/// Counts a list such as `0-7,9,16-31`.
fn count_processors(list: &str) -> Option<u64> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(u64::from(last.checked_sub(first)?) + 1)
    };
    list.split(',').map(range).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn online_processors_are_counted() {
        // origin: field, Debian 12
        let expected = json!({"count": 2, "model": "Intel(R) Xeon(R) Processor"});
        assert_eq!(parse_stdout(&FACT, "online\t0-1\nmodel\t Intel(R) Xeon(R) Processor\n"), Ok(expected));
        assert_eq!(parse_stdout(&FACT, "online\t0-7,9,16-31\n"), Ok(json!({"count": 25, "model": null})));
        assert_eq!(expect_unknown(&FACT, 0, "online\t3-1\n"), "the list of processors is not in the answer");
        assert_eq!(expect_unknown(&FACT, 1, "online\t"), "its snippet failed with status 1");
    }
}
