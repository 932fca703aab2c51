//! `ibqueryerrors`: counters of the fabric's ports that exceed their thresholds.

use super::parse_number;
use std::collections::BTreeMap;

/// A port with counters above the threshold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortErrors {
    /// Name of the node: `node-01 mlx5_0`.
    pub node: String,
    /// GUID of a switch; adapters are identified by name.
    pub switch: Option<String>,
    /// GUID of the port: `0x` and hex digits.
    pub guid: String,
    /// `None` for the sum of all ports of a switch.
    pub number: Option<u64>,
    /// Counters above their threshold, by name: `SymbolErrorCounter`.
    pub counters: BTreeMap<String, u64>,
}

/// The result of the whole sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricSweep {
    /// Ports with errors, in the order of the listing. Empty if the sweep found none or did not run.
    pub ports: Vec<PortErrors>,
    /// Number of checked nodes and of those with errors. Without this line the sweep did not finish.
    pub nodes: Option<(u64, u64)>,
}

/// Parses the output of the sweep.
pub fn parse_ibqueryerrors(text: &str) -> FabricSweep {
    let mut sweep = FabricSweep::default();
    let mut node = (String::new(), None);
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Errors for ") {
            node = parse_head(rest);
        } else if let Some(port) = line.strip_prefix("GUID ").and_then(|rest| parse_port(rest, &node)) {
            sweep.ports.push(port);
        } else if let Some(rest) = line.strip_prefix("## Summary: ") {
            sweep.nodes = parse_summary(rest);
        }
    }
    sweep
}

fn parse_head(rest: &str) -> (String, Option<String>) {
    let (guid, name) = rest.split_once('"').unwrap_or((rest, ""));
    let guid = Some(guid.trim()).filter(|guid| !guid.is_empty()).map(str::to_owned);
    (name.trim_end_matches('"').to_owned(), guid)
}

fn parse_port(rest: &str, node: &(String, Option<String>)) -> Option<PortErrors> {
    let (guid, rest) = rest.split_once(" port ")?;
    let (port, counters) = rest.split_once(':')?;
    let counters = counters.split('[').filter_map(|cell| {
        let (name, value) = cell.split_once(']')?.0.split_once(" == ")?;
        Some((name.trim().to_owned(), parse_number(value.split_whitespace().next()?)?))
    });
    let counters = counters.collect();
    Some(PortErrors {
        node: node.0.clone(),
        switch: node.1.clone(),
        guid: guid.to_owned(),
        number: parse_number(port),
        counters,
    })
}

fn parse_summary(rest: &str) -> Option<(u64, u64)> {
    let (checked, bad) = rest.split_once(',')?;
    Some((parse_number(checked.split_whitespace().next()?)?, parse_number(bad.split_whitespace().next()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_with_errors_are_parsed() {
        let sweep = parse_ibqueryerrors(include_str!("../../../tests/samples/ibqueryerrors.txt"));
        let first = &sweep.ports[0];
        assert_eq!((first.node.as_str(), &first.switch, first.number), ("dl380g7 mlx4_0", &None, Some(1)));
        assert_eq!(first.counters["VL15Dropped"], 14);
        let sum = sweep.ports.iter().find(|port| port.number.is_none()).expect("the switch's sum");
        assert_eq!((sum.switch.as_deref(), sum.counters["LinkDownedCounter"]), (Some("0x2c903006e29b0"), 48));
        assert_eq!(sweep.nodes, None, "the recording stops before the summary");
    }

    #[test]
    fn complete_sweep_lists_adapter_and_switch_ports() {
        let sweep = parse_ibqueryerrors(include_str!("../../../tests/samples/ibqueryerrors-ibsim.txt"));
        let port = |node: &str, switch: Option<&str>, guid: &str, number, counters: &[(&str, u64)]| PortErrors {
            node: node.into(),
            switch: switch.map(str::to_owned),
            guid: guid.into(),
            number,
            counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        };
        let (leaf, errors) = (Some("0x200000"), [("PortRcvErrors", 7)]);
        let expected = [
            port("node-03", None, "0x100005", Some(1), &[("SymbolErrorCounter", 65535), ("LinkDownedCounter", 2)]),
            port("leaf-01", leaf, "0x200000", None, &errors),
            port("leaf-01", leaf, "0x200000", Some(3), &errors),
        ];
        assert_eq!(sweep.ports, expected);
        assert_eq!(sweep.nodes, Some((4, 2)));
    }

    #[test]
    fn sweep_summary_is_parsed() {
        // origin: source, infiniband-diags' ibqueryerrors.c
        let text = "\n## Summary: 5 nodes checked, 2 bad nodes found\n##          42 ports checked, 6 ports have errors beyond threshold\n";
        assert_eq!(parse_ibqueryerrors(text), FabricSweep { ports: vec![], nodes: Some((5, 2)) });
        let data = "Errors for \"n\"\n   GUID 0x1 port 1: [PortXmitData == 864 (3.375KB)]\n";
        assert_eq!(parse_ibqueryerrors(data).ports[0].counters["PortXmitData"], 864);
    }
}
