//! `ibv_devinfo`: the devices that are visible to programs through the verbs library.

use super::{parse_number, split_key_value};

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbsDevice {
    /// The device: `mlx5_0`.
    pub name: String,
    /// The firmware's version.
    pub firmware: Option<String>,
    /// The board's identifier (PSID): `MT_0000000834`.
    pub board: Option<String>,
    /// Its ports, in the order of the listing.
    pub ports: Vec<VerbsPort>,
}

/// One port of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbsPort {
    /// Counted from 1.
    pub number: u64,
    /// `ACTIVE`, without the prefix `PORT_` and the number after it
    pub state: Option<String>,
    /// Bytes.
    pub max_mtu: Option<u64>,
    /// Bytes.
    pub active_mtu: Option<u64>,
    /// `InfiniBand` or `Ethernet`
    pub link_layer: Option<String>,
}

/// Parses the listing; `No IB devices found` gives an empty list.
pub fn parse_ibv_devinfo(text: &str) -> Vec<VerbsDevice> {
    let mut devices: Vec<VerbsDevice> = Vec::new();
    for (key, value) in text.lines().filter_map(split_key_value) {
        match (key, devices.last_mut()) {
            ("hca_id", _) => devices.push(VerbsDevice { name: value.to_owned(), ..VerbsDevice::default() }),
            (_, Some(device)) => device.set_field(key, value),
            _ => {}
        }
    }
    devices
}

impl VerbsDevice {
    fn set_field(&mut self, key: &str, value: &str) {
        if let ("port", Some(number)) = (key, parse_number(value)) {
            self.ports.push(VerbsPort { number, ..VerbsPort::default() });
            return;
        }
        match (self.ports.last_mut(), key) {
            (Some(port), _) => port.set_field(key, value),
            (None, "fw_ver") => self.firmware = Some(value.to_owned()),
            (None, "board_id") => self.board = Some(value.to_owned()),
            _ => {}
        }
    }
}

impl VerbsPort {
    fn set_field(&mut self, key: &str, value: &str) {
        let first = value.split_whitespace().next().unwrap_or("");
        match key {
            "state" => self.state = Some(first.trim_start_matches("PORT_").to_owned()),
            "max_mtu" => self.max_mtu = first.parse().ok(),
            "active_mtu" => self.active_mtu = first.parse().ok(),
            "link_layer" => self.link_layer = Some(value.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_ports_are_parsed() {
        let devices = parse_ibv_devinfo(include_str!("../../../tests/samples/ibv_devinfo.txt"));
        let port = VerbsPort {
            number: 1,
            state: Some("ACTIVE".into()),
            max_mtu: Some(4096),
            active_mtu: Some(4096),
            link_layer: Some("InfiniBand".into()),
        };
        let board = Some("MT_0000000834".into());
        let device =
            VerbsDevice { name: "mlx5_0".into(), firmware: Some("28.40.1000".into()), board, ports: vec![port] };
        assert_eq!(devices, [device]);
        assert_eq!(parse_ibv_devinfo("No IB devices found\n"), []);
    }
}
