//! `memory`: main memory.

use super::comparison_rules::{self, compare_normalized};
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

pub(super) const FACT: Fact = Fact {
    name: "memory",
    doc: "Main memory, from `/proc/meminfo`.",
    shape: FactShape::Map,
    fields: &[("total", "bytes that the kernel can use, slightly less than the installed memory")],
    reads: &["/proc/meminfo"],
    alike: &[compare_normalized("total", comparison_rules::round_bytes)],
    snippet: FactSnippet {
        name: "memory",
        snippet: "while read -r k v u; do [ \"$k\" != MemTotal: ] || { printf '%s %s\\n' \"$v\" \"$u\"; break; }; done </proc/meminfo",
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let kib = require_success(output)?.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok());
    let bytes = kib.and_then(|kib| kib.checked_mul(1024));
    Ok(json!({ "total": bytes.ok_or_else(|| unparsed_answer("`MemTotal`", output))? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn total_is_converted_to_bytes() {
        // origin: field, Debian 12
        assert_eq!(parse_stdout(&FACT, "16366088 kB\n"), Ok(json!({"total": 16_758_874_112u64})));
        assert_eq!(expect_unknown(&FACT, 0, ""), "`MemTotal` is not in the answer");
        assert_eq!(expect_unknown(&FACT, 0, "99999999999999999999 kB\n"), "`MemTotal` is not in the answer");
    }
}
