//! `ibstatus`: the state of each port of each adapter.

use super::port_rate::{self, PortRate};
use super::{parse_number, split_key_value};

/// One port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IbstatusPort {
    /// The device: `mlx5_0`.
    pub device: String,
    /// Counted from 1.
    pub number: u64,
    /// The first entry of the port's GID table, as eight groups of hex digits.
    pub gid: Option<String>,
    /// The port's local identifier; 0 on an Ethernet port, and before a subnet manager has assigned one.
    pub lid: Option<u64>,
    /// The subnet manager's local identifier; 0 if no subnet manager configured the port.
    pub sm_lid: Option<u64>,
    /// `ACTIVE`
    pub state: Option<String>,
    /// `LinkUp`
    pub physical: Option<String>,
    /// The rate; `None` if it has an unknown format.
    pub rate: Option<PortRate>,
    /// `InfiniBand` or `Ethernet`
    pub link_layer: Option<String>,
}

impl IbstatusPort {
    /// Returns whether this is an InfiniBand port: the link layer decides, never the name of its rate.
    pub fn is_infiniband(&self) -> Option<bool> {
        self.link_layer.as_deref().map(|layer| layer == "InfiniBand")
    }
}

/// Parses the listing.
pub fn parse_ibstatus(text: &str) -> Vec<IbstatusPort> {
    let mut ports: Vec<IbstatusPort> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(port) = parse_head(line) {
            ports.push(port);
        } else if let (Some(port), Some((key, value))) = (ports.last_mut(), split_key_value(line)) {
            port.set_field(key, value);
        }
    }
    ports
}

fn parse_head(line: &str) -> Option<IbstatusPort> {
    let (device, rest) = line.strip_prefix("Infiniband device '")?.split_once("' port ")?;
    let number = rest.strip_suffix(" status:")?.parse().ok()?;
    Some(IbstatusPort { device: device.to_owned(), number, ..IbstatusPort::default() })
}

impl IbstatusPort {
    fn set_field(&mut self, key: &str, value: &str) {
        let word = || value.split_once(": ").map(|(_, word)| word.trim().to_owned());
        match key {
            "default gid" => self.gid = Some(value.to_owned()),
            "base lid" => self.lid = parse_number(value),
            "sm lid" => self.sm_lid = parse_number(value),
            "state" => self.state = word(),
            "phys state" => self.physical = word(),
            "rate" => self.rate = port_rate::parse_port_rate(value),
            "link_layer" => self.link_layer = Some(value.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_parsed() {
        let ports = parse_ibstatus(include_str!("../../../tests/samples/ibstatus.txt"));
        let port = &ports[0];
        assert_eq!((port.device.as_str(), port.number, port.lid, port.sm_lid), ("mlx5_0", 1, Some(0x30), Some(0x30)));
        assert_eq!((port.state.as_deref(), port.physical.as_deref()), (Some("ACTIVE"), Some("LinkUp")));
        assert_eq!(port.rate.as_ref().and_then(PortRate::lane_state), Some("full"));
        assert_eq!(port.gid.as_deref(), Some("fe80:0000:0000:0000:c470:bd03:00cf:4964"));
        assert_eq!(port.is_infiniband(), Some(true));
    }

    #[test]
    fn ethernet_port_with_infiniband_rate_is_not_infiniband() {
        let ports = parse_ibstatus(include_str!("../../../tests/samples/ibstatus-roce.txt"));
        let port = &ports[0];
        assert_eq!(port.rate.as_ref().and_then(|rate| rate.speed.as_deref()), Some("HDR"), "as printed");
        assert_eq!(port.is_infiniband(), Some(false));
        assert_eq!((port.lid, port.sm_lid), (Some(0), Some(0)));
        assert_eq!(parse_ibstatus("Fatal error:  device 'x': sys files not found\n"), []);
    }
}
