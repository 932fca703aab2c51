//! `ibstat`: adapters and their ports.

use super::{parse_number, split_key_value};

/// One adapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IbstatAdapter {
    /// The device: `mlx5_0`.
    pub name: String,
    /// `MT4129`; software devices have none.
    pub kind: Option<String>,
    /// The firmware's version; software devices have none.
    pub firmware: Option<String>,
    /// `0xc470bd0300cf4964`
    pub node_guid: Option<String>,
    /// Its ports, in the order of the listing.
    pub ports: Vec<IbstatPort>,
}

/// One port of an adapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IbstatPort {
    /// Counted from 1.
    pub number: u64,
    /// `Active`, `Initializing`, `Down`, `Armed`
    pub state: Option<String>,
    /// `LinkUp`, `Polling`, `Disabled`
    pub physical: Option<String>,
    /// Gb/s, without the number of lanes: this field alone does not show a lost lane.
    pub gbps: Option<f64>,
    /// The port's local identifier; 0 on an Ethernet port, and before a subnet manager has assigned one.
    pub lid: Option<u64>,
    /// The subnet manager's local identifier; 0 if no subnet manager configured the port.
    pub sm_lid: Option<u64>,
    /// GUID of the port: `0x` and hex digits.
    pub guid: Option<String>,
    /// `InfiniBand` or `Ethernet`
    pub link_layer: Option<String>,
}

/// Parses the listing; output without an adapter (`ibpanic: …`) gives an empty list.
pub fn parse_ibstat(text: &str) -> Vec<IbstatAdapter> {
    let mut adapters: Vec<IbstatAdapter> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("CA '").and_then(|rest| rest.strip_suffix('\'')) {
            adapters.push(IbstatAdapter { name: name.to_owned(), ..IbstatAdapter::default() });
        } else if let (Some(adapter), Some((key, value))) = (adapters.last_mut(), split_key_value(line)) {
            adapter.set_field(key, value);
        }
    }
    adapters
}

impl IbstatAdapter {
    fn set_field(&mut self, key: &str, value: &str) {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        if let Some(port) = key.strip_prefix("Port ").and_then(|n| n.parse().ok()) {
            self.ports.push(IbstatPort { number: port, ..IbstatPort::default() });
            return;
        }
        match (self.ports.last_mut(), key) {
            (Some(port), _) => port.set_field(key, value),
            (None, "CA type") => self.kind = text(),
            (None, "Firmware version") => self.firmware = text(),
            (None, "Node GUID") => self.node_guid = text(),
            _ => {}
        }
    }
}

impl IbstatPort {
    fn set_field(&mut self, key: &str, value: &str) {
        let text = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            "State" => self.state = text(),
            "Physical state" => self.physical = text(),
            "Rate" => self.gbps = value.split_whitespace().next().and_then(|rate| rate.parse().ok()),
            "Base lid" => self.lid = parse_number(value),
            "SM lid" => self.sm_lid = parse_number(value),
            "Port GUID" => self.guid = text(),
            "Link layer" => self.link_layer = text(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_and_ports_are_parsed() {
        let adapters = parse_ibstat(include_str!("../../../tests/samples/ibstat-active.txt"));
        let adapter = &adapters[0];
        assert_eq!(
            (adapter.name.as_str(), adapter.kind.as_deref(), adapter.firmware.as_deref()),
            ("mlx5_0", Some("MT4129"), Some("28.40.1000"))
        );
        assert_eq!(adapter.ports.len(), 1);
        let port = &adapter.ports[0];
        assert_eq!(
            (port.state.as_deref(), port.physical.as_deref(), port.gbps),
            (Some("Active"), Some("LinkUp"), Some(200.0))
        );
        assert_eq!((port.lid, port.sm_lid, port.link_layer.as_deref()), (Some(48), Some(48), Some("InfiniBand")));
    }

    #[test]
    fn port_without_subnet_manager_is_initializing() {
        let adapters = parse_ibstat(include_str!("../../../tests/samples/ibstat-init.txt"));
        let port = &adapters[0].ports[0];
        assert_eq!(
            (port.state.as_deref(), port.physical.as_deref(), port.sm_lid),
            (Some("Initializing"), Some("LinkUp"), Some(0))
        );
        assert_eq!(adapters[0].kind, None);
    }

    #[test]
    fn down_initializing_and_active_ports_are_parsed() {
        // 2.5 Gb/s on four lanes; the simulator's kernel calls the link layer `IB`.
        let port = |sample: &str| {
            let port = parse_ibstat(sample).remove(0).ports.remove(0);
            (port.state, port.physical, port.lid, port.sm_lid, port.gbps)
        };
        let told = |state: &str, physical: &str, lid, sm| {
            (Some(state.to_owned()), Some(physical.to_owned()), Some(lid), Some(sm), Some(10.0))
        };
        let down = port(include_str!("../../../tests/samples/ibstat-ibsim-down.txt"));
        assert_eq!(down, told("Down", "Polling", 4, 1), "it remembers the last subnet manager");
        let init = port(include_str!("../../../tests/samples/ibstat-ibsim-nosm.txt"));
        assert_eq!(init, told("Initializing", "LinkUp", 0, 0));
        assert_eq!(port(include_str!("../../../tests/samples/ibstat-ibsim.txt")), told("Active", "LinkUp", 3, 1));
    }

    #[test]
    fn ethernet_link_layer_is_parsed() {
        let adapters = parse_ibstat(include_str!("../../../tests/samples/ibstat-roce.txt"));
        assert_eq!(adapters[0].ports[0].link_layer.as_deref(), Some("Ethernet"));
        assert_eq!(
            parse_ibstat("ibpanic: [2137592] main: stat of IB device 'mthca0' failed: No such file or directory\n"),
            []
        );
    }
}
