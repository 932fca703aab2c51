//! `hugepages`: memory in large pages.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{require_success, unparsed_answer};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// Every kernel reports `MemTotal`; its absence distinguishes an unreadable file from a kernel without large pages.
const SNIPPET: &str = r#"grep -E '^(MemTotal|HugePages_Total|HugePages_Free|Hugepagesize):' /proc/meminfo || exit
for d in /sys/devices/system/node/node*/hugepages/hugepages-*kB; do
[ -r "$d/nr_hugepages" ] || continue
n=${d#/sys/devices/system/node/node} s=${d##*hugepages-}
read -r t <"$d/nr_hugepages"; read -r f <"$d/free_hugepages"
printf 'node\t%s\t%s\t%s\t%s\n' "${n%%/*}" "${s%kB}" "$t" "$f"
done
:"#;

pub(super) const FACT: Fact = Fact {
    name: "hugepages",
    doc: "Memory in large pages, from `/proc/meminfo` and `/sys/devices/system/node`. The kernel may grant fewer than requested.",
    shape: FactShape::Map,
    fields: &[
        ("default_kb", "default page size, in KiB; null if the kernel has none"),
        ("total", "pages of the default size"),
        ("free", "unused pages among these"),
        ("nodes", "list by NUMA node and size: `node`, `size_kb`, `total`, `free`"),
    ],
    reads: &["/proc/meminfo", "/sys/devices/system/node/node*/hugepages/hugepages-*kB/{nr_hugepages,free_hugepages}"],
    alike: &[compare_value("default_kb"), compare_value("total")],
    snippet: FactSnippet {
        name: "hugepages",
        snippet: SNIPPET,
        timeout_s: 5,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok())
    };
    let nodes: Option<Vec<Value>> =
        text.lines().filter_map(|line| line.strip_prefix("node\t")).map(parse_node).collect();
    Ok(json!({
        "default_kb": value("Hugepagesize:"), "total": value("HugePages_Total:"), "free": value("HugePages_Free:"),
        "nodes": nodes.ok_or_else(|| unparsed_answer("a node's pages", output))?,
    }))
}

fn parse_node(line: &str) -> Option<Value> {
    let numbers: Option<Vec<u64>> = line.split('\t').map(|word| word.parse().ok()).collect();
    let [node, size, total, free] = numbers?[..] else { return None };
    Some(json!({ "node": node, "size_kb": size, "total": total, "free": free }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn huge_pages_are_parsed_in_total_and_per_node() {
        // origin: field, Debian 12
        let text = "MemTotal:       16266004 kB\nHugePages_Total:      16\nHugePages_Free:       12\nHugepagesize:       2048 kB\nnode\t0\t2048\t16\t12\n";
        let expected = json!({"default_kb": 2048, "total": 16, "free": 12, "nodes": [{"node": 0, "size_kb": 2048, "total": 16, "free": 12}]});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(
            parse_stdout(&FACT, "MemTotal:       16266004 kB\n"),
            Ok(json!({"default_kb": null, "total": null, "free": null, "nodes": []}))
        );
        assert_eq!(expect_unknown(&FACT, 2, ""), "its snippet failed with status 2");
        assert_eq!(expect_unknown(&FACT, 0, "node\tx\n"), "a node's pages is not in the answer");
    }
}
