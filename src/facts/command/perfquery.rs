//! `perfquery`, also with `-x`: the counters of a port.

use super::parse_number;
use std::collections::BTreeMap;

/// The counters of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// The local identifier of the port's node.
    pub lid: Option<u64>,
    /// The port's number.
    pub port: Option<u64>,
    /// By name: `SymbolErrorCounter`. Some stop at a limit.
    pub values: BTreeMap<String, u64>,
}

/// Parses the listing: one entry for each `# Port …` line.
pub fn parse_perfquery(text: &str) -> Vec<PortCounters> {
    let mut ports: Vec<PortCounters> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('#') {
            ports.push(parse_head(line));
        } else if let (Some(port), Some((name, value))) = (ports.last_mut(), parse_row(line)) {
            port.values.insert(name.to_owned(), value);
        }
    }
    ports
}

fn parse_head(line: &str) -> PortCounters {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        parse_number(words.get(at + 1)?)
    };
    PortCounters { lid: after("Lid"), port: after("port"), values: BTreeMap::new() }
}

fn parse_row(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    Some((name, parse_number(value.trim_start_matches('.'))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_per_port() {
        let ports = parse_perfquery(include_str!("../../../tests/samples/perfquery.txt"));
        assert_eq!((ports[0].lid, ports[0].port), (Some(7), Some(1)));
        assert_eq!(ports[0].values["PortXmitData"], 6_465_317);
        assert_eq!(ports[0].values["CounterSelect"], 0);
        let simulated = parse_perfquery(include_str!("../../../tests/samples/perfquery-ibsim.txt"));
        assert_eq!((simulated[0].lid, simulated[0].port, simulated[0].values.len()), (Some(4), Some(1), 21));
        assert_eq!(simulated[0].values["SymbolErrorCounter"], 65535, "it stops at its limit");
        let extended = parse_perfquery(include_str!("../../../tests/samples/perfquery-x.txt"));
        assert_eq!(extended.len(), 2);
        assert_eq!((extended[1].port, extended[1].values["PortXmitData"]), (Some(2), 26_006_570_014_026));
        assert_eq!(parse_perfquery("perfquery: iberror: failed: query\n"), []);
    }
}
