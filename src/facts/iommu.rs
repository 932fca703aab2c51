//! `iommu`: whether the IOMMU translates device addresses.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::require_success;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;
use std::collections::BTreeMap;

pub(super) const FACT: Fact = Fact {
    name: "iommu",
    doc: "Whether the IOMMU translates the addresses that devices use, from `/sys/kernel/iommu_groups`.",
    shape: FactShape::Map,
    fields: &[
        ("groups", "number of groups; the IOMMU is off if there are none"),
        ("types", "map from type to number of groups: `identity` (passed through), `DMA`, `DMA-FQ`"),
        ("mode", "`off`, `passthrough` (all groups), `translated` (no group is passed through), `mixed`"),
    ],
    reads: &["/sys/kernel/iommu_groups/*/type"],
    alike: &[compare_value("mode")],
    snippet: FactSnippet {
        name: "iommu",
        snippet: "[ -d /sys/kernel ] || { printf '/sys is not mounted\\n' >&2; exit 1; }\n\
                  for f in /sys/kernel/iommu_groups/*/type; do [ ! -r \"$f\" ] || { read -r t <\"$f\"; printf '%s\\n' \"$t\"; }; done",
        timeout_s: 10,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let mut types: BTreeMap<&str, u64> = BTreeMap::new();
    for line in require_success(output)?.lines().filter(|line| !line.is_empty()) {
        *types.entry(line).or_default() += 1;
    }
    let groups: u64 = types.values().sum();
    let mode = match types.get("identity").copied().unwrap_or(0) {
        _ if groups == 0 => "off",
        passed if passed == groups => "passthrough",
        0 => "translated",
        _ => "mixed",
    };
    Ok(json!({ "groups": groups, "types": types, "mode": mode }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::parse_stdout;

    #[test]
    fn group_types_determine_the_iommu_mode() {
        // origin: source, the kernel's drivers/iommu/iommu.c
        let mode = |text| parse_stdout(&FACT, text).expect("is known")["mode"].clone();
        assert_eq!((mode(""), mode("identity\nidentity\n")), (json!("off"), json!("passthrough")));
        assert_eq!((mode("DMA-FQ\nDMA\n"), mode("DMA-FQ\nidentity\n")), (json!("translated"), json!("mixed")));
        assert_eq!(
            parse_stdout(&FACT, "DMA\nDMA\n"),
            Ok(json!({"groups": 2, "types": {"DMA": 2}, "mode": "translated"}))
        );
    }
}
