//! `ibnetdiscover`: the switches of an InfiniBand fabric, and the adapters that are connected to them.

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredSwitch {
    /// Its GUID: hex digits.
    pub guid: String,
    /// Its name: that of the machine if it has a management system (`MF0;leaf-01:MQM8700/U1` is `leaf-01`), and
    /// otherwise the description of the node.
    pub name: String,
    /// The adapters, in the order of the switch's ports.
    pub adapters: Vec<DiscoveredAdapter>,
    /// The GUIDs of the switches at its ports, each once.
    pub switches: Vec<String>,
}

/// An adapter whose first port is connected to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredAdapter {
    /// Its GUID: hex digits.
    pub guid: String,
    /// The host, as the adapter's description names it.
    pub host: String,
    /// The device: `mlx5_0`; `None` if the description has only a number (`HCA-1`).
    pub device: Option<String>,
}

/// A peer at a port of a switch.
struct PortPeer<'t> {
    sort: char,
    guid: &'t str,
    port: &'t str,
    description: &'t str,
}

/// Parses the topology that `ibnetdiscover` prints. Descriptions of adapters that do not name a host and a device, as
/// that of an aggregation node in a switch, are left out.
///
/// # Errors
/// The text has no switch.
pub fn parse_ibnetdiscover(text: &str) -> Result<Vec<DiscoveredSwitch>, String> {
    let mut switches: Vec<DiscoveredSwitch> = Vec::new();
    let mut is_in_switch = false;
    for line in text.lines() {
        if let Some(switch) = parse_switch(line) {
            switches.push(switch);
            is_in_switch = true;
        } else if !line.starts_with('[') {
            is_in_switch = is_in_switch && line.trim().is_empty();
        } else if let (true, Some(switch), Some(peer)) = (is_in_switch, switches.last_mut(), parse_peer(line)) {
            add_peer(switch, &peer);
        }
    }
    match switches.is_empty() {
        true => Err("the text has no switch: it is not a topology that `ibnetdiscover` printed".to_owned()),
        false => Ok(switches),
    }
}

fn add_peer(switch: &mut DiscoveredSwitch, peer: &PortPeer<'_>) {
    if peer.sort == 'S' && !switch.switches.iter().any(|known| known == peer.guid) {
        switch.switches.push(peer.guid.to_owned());
    }
    let words: Vec<&str> = peer.description.split_whitespace().collect();
    // Tests use the first port of an adapter.
    if let ('H', "1", [host, device]) = (peer.sort, peer.port, words.as_slice()) {
        let device = (!device.starts_with("HCA-")).then(|| (*device).to_owned());
        switch.adapters.push(DiscoveredAdapter { guid: peer.guid.to_owned(), host: (*host).to_owned(), device });
    }
}

/// Parses the first line of a switch: `Switch 36 "S-ec0d9a0300ec8240"  # "leaf-01" base port 0 lid 48 lmc 0`.
fn parse_switch(line: &str) -> Option<DiscoveredSwitch> {
    let rest = line.strip_prefix("Switch")?.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let (quoted, comment) = rest.trim_start().strip_prefix("\"S-")?.split_once('"')?;
    let description = read_quoted(comment)?;
    let managed = description.split_once(';').and_then(|(_, rest)| rest.split_once(':')).map(|(name, _)| name);
    Some(DiscoveredSwitch {
        guid: quoted.to_owned(),
        name: managed.unwrap_or(description).trim().to_owned(),
        adapters: Vec::new(),
        switches: Vec::new(),
    })
}

/// Parses a port of a switch: `[1]  "H-506b4b03003fa9b6"[1](506b4b03003fa9b6)  # "node018 mlx5_0" lid 67 4xEDR`. An
/// external port of a chassis comes after the port's number: `[1][ext 3]`.
fn parse_peer(line: &str) -> Option<PortPeer<'_>> {
    let (_, rest) = line.split_once('"')?;
    let (quoted, rest) = rest.split_once('"')?;
    let (sort, guid) = quoted.split_once('-')?;
    let (port, comment) = rest.strip_prefix('[')?.split_once(']')?;
    Some(PortPeer { sort: sort.chars().next()?, guid, port, description: read_quoted(comment)? })
}

fn read_quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('#')?;
    let (_, rest) = rest.split_once('"')?;
    rest.split_once('"').map(|(quoted, _)| quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_adapters(switch: &DiscoveredSwitch) -> Vec<(&str, Option<&str>)> {
        switch.adapters.iter().map(|adapter| (adapter.host.as_str(), adapter.device.as_deref())).collect()
    }

    #[test]
    fn leaves_and_their_adapters_are_parsed() {
        let switches = parse_ibnetdiscover(include_str!("../../../tests/samples/ibnetdiscover-ibsim.txt")).unwrap();
        let find = |name: &str| switches.iter().find(|switch| switch.name == name).unwrap();
        assert_eq!(switches.len(), 6);
        let first = find("leaf-01");
        assert_eq!(list_adapters(first), [("gpu-01", Some("mlx5_0")), ("gpu-02", Some("mlx5_0"))]);
        assert_eq!(list_adapters(find("leaf-03"))[2], ("login-01", None));
        let spines = [find("spine-01"), find("spine-02")].map(|spine| spine.guid.clone());
        assert_eq!(first.switches, spines);
        assert!(find("spine-02").adapters.is_empty());
    }

    #[test]
    fn recorded_fabric_with_parallel_cables_is_parsed() {
        let switches = parse_ibnetdiscover(include_str!("../../../tests/samples/ibnetdiscover.txt")).unwrap();
        let counts: Vec<_> = switches.iter().map(|switch| (switch.adapters.len(), switch.switches.len())).collect();
        assert_eq!(counts, [(4, 2), (3, 2), (0, 2)]);
        assert_eq!(list_adapters(&switches[0])[0], ("node018", None));
        assert_eq!(switches[0].name, "SwitchIB Mellanox Technologies");
    }

    #[test]
    fn other_text_is_refused() {
        assert!(parse_ibnetdiscover("").is_err());
        assert!(parse_ibnetdiscover("ibwarn: [7] mad_rpc_open_port: can't open UMAD port\n").is_err());
        let extra = "Switch\t8 \"S-2\"\t# \"a\" lid 1\n[1][ext 4]\t\"H-1\"[1](2)\t# \"h mlx5_0\" lid 7 4xNDR\n[2]\t\"H-1\"[2](3)\t# \"h mlx5_0\" lid 8\n[3]\t\"H-\n";
        let switches = parse_ibnetdiscover(extra).unwrap();
        assert_eq!(list_adapters(&switches[0]), [("h", Some("mlx5_0"))], "the second port of an adapter is not tested");
    }
}
