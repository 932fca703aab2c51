//! `rdma_counters`: the error counters of RDMA ports.

use super::fact::{Fact, FactShape};
use super::snippet_output::{find_guarded_output, guarded, require_success, split_sections};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Of the thousands of counters of an Ethernet interface, those of lost and paused frames are kept by the parser.
const SNIPPET: &str = guarded!(
    r#"need grep
cd /sys/class/infiniband 2>/dev/null || exit 0
grep -aHs '' */ports/*/counters/* */ports/*/hw_counters/*
t() { printf '\036interface\t%s\n' "$1"; guard 5 ethtool -S "$1"; }
for p in */ports/*; do
[ -e "$p/link_layer" ] || continue
read -r y <"$p/link_layer"; [ "$y" = Ethernet ] || continue
for d in "${p%/ports/*}"/device/net/*; do
[ -e "$d" ] || continue
t "${d##*/}"
for o in "$d"/master/lower_*; do
[ -d "$o/device" ] && [ "${o##*/lower_}" != "${d##*/}" ] && [ ! -d "$o/device/infiniband" ] || continue
t "${o##*/lower_}"
done
done
done
:"#
);

pub(super) const FACT: Fact = Fact {
    name: "rdma_counters",
    doc: "Counters of RDMA ports, a list by device and port, from `/sys/class/infiniband/*/ports/*/{counters,hw_counters}`; and of the \
          interfaces of Ethernet ports, from `ethtool -S`. They count since the device started: only their increase is meaningful, not \
          their value.",
    shape: FactShape::List,
    fields: &[
        ("name", "the current name of the device, or of the interface"),
        ("port", "number of the port; 1 for an interface"),
        (
            "counters",
            "by name: `link_downed`, `symbol_error`, `port_rcv_errors`, `out_of_sequence`, `np_cnp_sent` …; of an interface those of lost \
             frames (`rx_discards_phy`, `rx_prio3_discards`, `rx_out_of_buffer`, `link_down_events_phy`) and of pauses (`rx_prio3_pause`, \
             `tx_prio3_pause`, `rx_global_pause`)",
        ),
    ],
    reads: &[
        "/sys/class/infiniband/*/ports/*/{counters,hw_counters}/*",
        "/sys/class/infiniband/*/ports/*/link_layer",
        "/sys/class/infiniband/*/device/net/*/master/lower_*",
        "/proc/*/stat",
        "ethtool -S IF",
    ],
    alike: &[],
    snippet: FactSnippet {
        name: "rdma_counters",
        snippet: SNIPPET,
        timeout_s: 20,
        device: true,
        quick: false,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let mut ports: BTreeMap<(&str, u64), Map<String, Value>> = BTreeMap::new();
    let files = text.split('\u{1e}').next().unwrap_or_default();
    for (port, name, value) in files.lines().filter_map(parse_counter) {
        ports.entry(port).or_default().insert(name.to_owned(), value.into());
    }
    let parts = split_sections(text);
    let starts: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].name() == "interface").collect();
    for (n, start) in starts.iter().enumerate() {
        let end = starts.get(n + 1).copied().unwrap_or(parts.len());
        // An interface whose counters cannot be read has none here: the device has its own.
        let Ok(Some(ran)) = find_guarded_output(&parts[*start..end], "ethtool") else { continue };
        let kept = ran.text.lines().filter_map(parse_statistic).filter(|(name, _)| is_loss_or_pause(name));
        let kept: Map<String, Value> = kept.map(|(name, value)| (name.to_owned(), value.into())).collect();
        if ran.status == 0 && !kept.is_empty() {
            ports.entry((parts[*start].field_at(1), 1)).or_default().extend(kept);
        }
    }
    let port = |((name, port), counters): ((&str, u64), Map<String, Value>)| json!({ "name": name, "port": port, "counters": counters });
    Ok(ports.into_iter().map(port).collect::<Vec<_>>().into())
}

/// Parses a line of `ethtool -S`: `     rx_discards_phy: 0`.
fn parse_statistic(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.trim().split_once(": ")?;
    Some((name, value.trim().parse().ok()?))
}

/// Reports whether a statistic counts frames that a whole port or a priority lost, or pauses of them. Those of single
/// queues are parts of the sum.
fn is_loss_or_pause(name: &str) -> bool {
    let of_priority = name.strip_prefix("rx_prio").or_else(|| name.strip_prefix("tx_prio"));
    match of_priority {
        Some(rest) => rest.ends_with("_discards") || rest.ends_with("_pause") || rest.ends_with("_pause_duration"),
        None => matches!(
            name,
            "rx_discards_phy"
                | "tx_discards_phy"
                | "rx_out_of_buffer"
                | "link_down_events_phy"
                | "rx_global_pause"
                | "tx_global_pause"
                | "tx_pause_storm_error_events"
        ),
    }
}

/// Parses a line of path and number. A value that is not a number (`N/A (no PMA)`) is skipped.
fn parse_counter(line: &str) -> Option<((&str, u64), &str, u64)> {
    let (path, value) = line.split_once(':')?;
    let parts: Vec<&str> = path.split('/').collect();
    let [device, "ports", port, _, name] = parts[..] else { return None };
    Some(((device, port.parse().ok()?), name, value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    #[test]
    fn counters_are_parsed_per_port() {
        // origin: source, the kernel's drivers/infiniband/core/sysfs.c
        let text = "mlx5_0/ports/1/counters/link_downed:2\nmlx5_0/ports/1/counters/VL15_dropped:N/A (no PMA)\n\
                    mlx5_0/ports/1/hw_counters/out_of_sequence:7\nmlx5_1/ports/1/counters/link_downed:0\n";
        let expected = json!([
            {"name": "mlx5_0", "port": 1, "counters": {"link_downed": 2, "out_of_sequence": 7}},
            {"name": "mlx5_1", "port": 1, "counters": {"link_downed": 0}},
        ]);
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(parse_stdout(&FACT, ""), Ok(json!([])));
    }

    #[test]
    fn lost_and_paused_frames_of_interfaces_are_parsed() {
        // origin: source, names of the kernel's mlx5 ethtool counters
        // (Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst); layout of ethtool's `-S`
        let text = expand_separators(
            "mlx5_bond_0/ports/1/hw_counters/out_of_sequence:7\n@@interface\tens9f0np0\n\n@@ethtool\trun\t5\nNIC statistics:\n     \
             rx_packets: 12\n     rx0_packets: 12\n     rx_discards_phy: 3\n     rx_prio3_discards: 3\n     rx_prio3_pause: 41\n     \
             tx_prio3_pause: 9\n     rx_prio3_bytes: 77\n     link_down_events_phy: 1\n\n@@status\t0\n@@interface\tens9f1np1\n\n@@ethtool\tmissing\n",
        );
        let expected = json!([
            {"name": "ens9f0np0", "port": 1, "counters": {
                "rx_discards_phy": 3, "rx_prio3_discards": 3, "rx_prio3_pause": 41, "tx_prio3_pause": 9, "link_down_events_phy": 1,
            }},
            {"name": "mlx5_bond_0", "port": 1, "counters": {"out_of_sequence": 7}},
        ]);
        assert_eq!(parse_stdout(&FACT, &text), Ok(expected));
    }
}
