//! `governor`: the policies for processor clocks and memory placement.

use super::comparison_rules::{self, compare_normalized, compare_value};
use super::fact::{Fact, FactShape};
use super::secure_boot::bracketed_word;
use super::snippet_output::{find_field, require_success};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;
use std::collections::BTreeMap;

const SNIPPET: &str = r#"[ -d /sys/devices/system/cpu ] || { printf '/sys is not mounted\n' >&2; exit 1; }
for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
[ ! -r "$f" ] || { read -r g <"$f"; printf 'governor\t%s\n' "$g"; }
done
[ ! -r /proc/sys/kernel/numa_balancing ] || { read -r v </proc/sys/kernel/numa_balancing; printf 'balancing\t%s\n' "$v"; }
[ ! -r /sys/kernel/mm/transparent_hugepage/enabled ] || { read -r v </sys/kernel/mm/transparent_hugepage/enabled; printf 'thp\t%s\n' "$v"; }
:"#;

pub(super) const FACT: Fact = Fact {
    name: "governor",
    doc: "The policies for processor clocks and memory placement, from `/sys/devices/system/cpu`, `/proc/sys/kernel/numa_balancing` and \
          `/sys/kernel/mm/transparent_hugepage`.",
    shape: FactShape::Map,
    fields: &[
        (
            "governors",
            "map from governor to number of processors: `performance`, `powersave`; empty if the kernel does not set clocks",
        ),
        ("numa_balancing", "whether the kernel moves memory between nodes, null if it cannot"),
        ("thp", "transparent huge pages: `always`, `madvise`, `never`, null if the kernel has none"),
    ],
    reads: &[
        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "/proc/sys/kernel/numa_balancing",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ],
    alike: &[
        compare_normalized("governors", comparison_rules::sorted_keys),
        compare_value("numa_balancing"),
        compare_value("thp"),
    ],
    snippet: FactSnippet {
        name: "governor",
        snippet: SNIPPET,
        timeout_s: 10,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let mut governors: BTreeMap<&str, u64> = BTreeMap::new();
    for governor in text.lines().filter_map(|line| line.strip_prefix("governor\t")) {
        *governors.entry(governor).or_default() += 1;
    }
    Ok(json!({
        "governors": governors,
        "numa_balancing": find_field(text, "balancing").map(|value| value.trim() != "0"),
        "thp": find_field(text, "thp").and_then(bracketed_word),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::parse_stdout;

    #[test]
    fn governors_are_counted_per_processor() {
        // origin: reconstructed after the kernel's sysfs
        let text = "governor\tperformance\ngovernor\tpowersave\ngovernor\tperformance\nbalancing\t1\nthp\talways [madvise] never\n";
        let expected =
            json!({"governors": {"performance": 2, "powersave": 1}, "numa_balancing": true, "thp": "madvise"});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!({"governors": {}, "numa_balancing": null, "thp": null})));
    }
}
