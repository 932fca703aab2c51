//! `rdma_counters`: the error counters of RDMA ports.

use super::fact::{Fact, FactShape};
use super::snippet_output::require_success;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};
use std::collections::BTreeMap;

const SNIPPET: &str = r#"need grep
cd /sys/class/infiniband 2>/dev/null || exit 0
grep -aHs '' */ports/*/counters/* */ports/*/hw_counters/*
:"#;

pub(super) const FACT: Fact = Fact {
    name: "rdma_counters",
    doc: "Counters of RDMA ports, a list by device and port, from `/sys/class/infiniband/*/ports/*/{counters,hw_counters}`. They count since \
          the device started: only their increase is meaningful, not their value.",
    shape: FactShape::List,
    fields: &[
        ("name", "the device's current name"),
        ("port", "number of the port"),
        ("counters", "by name: `link_downed`, `symbol_error`, `port_rcv_errors`, `out_of_sequence`, `np_cnp_sent` …"),
    ],
    reads: &["/sys/class/infiniband/*/ports/*/{counters,hw_counters}/*"],
    alike: &[],
    snippet: FactSnippet { name: "rdma_counters", snippet: SNIPPET, timeout_s: 20, device: true, quick: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let mut ports: BTreeMap<(&str, u64), Map<String, Value>> = BTreeMap::new();
    for line in require_success(output)?.lines() {
        let Some((port, name, value)) = parse_counter(line) else { continue };
        ports.entry(port).or_default().insert(name.to_owned(), value.into());
    }
    let port = |((name, port), counters): ((&str, u64), Map<String, Value>)| json!({ "name": name, "port": port, "counters": counters });
    Ok(ports.into_iter().map(port).collect::<Vec<_>>().into())
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
    use crate::facts::snippet_output::testing::parse_stdout;

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
}
