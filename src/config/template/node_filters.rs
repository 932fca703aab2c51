//! Template filters for the nodes of a cluster and for addresses.

use crate::object::{ClusterNode, find_host_node};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the `nodes` whose labels include `labels`.
pub(super) fn select_labelled(nodes: &Value, labels: &Value) -> Result<Vec<Value>, Error> {
    select_nodes(nodes, |node| {
        let own = node.get_attr("labels")?;
        all_entries_hold(labels, |key, value| Ok(get_entry(&own, key)? == Some(value.clone())))
    })
}

/// Returns the `nodes` whose capacity and allocatable amount of each resource equal `counts`. A node that does not list
/// a resource does not match.
pub(super) fn select_offering(nodes: &Value, counts: &Value, prefix: &str) -> Result<Vec<Value>, Error> {
    select_nodes(nodes, |node| {
        let (has, gives) = (node.get_attr("capacity")?, node.get_attr("allocatable")?);
        all_entries_hold(counts, |key, count| {
            let key = Value::from(format!("{prefix}{}", key.as_str().unwrap_or_default()));
            Ok(get_entry(&has, &key)?.as_ref() == Some(count) && get_entry(&gives, &key)?.as_ref() == Some(count))
        })
    })
}

/// Returns the nodes of `hosts`, in the order of the hosts. Skips hosts that are not nodes.
pub(super) fn find_host_nodes(nodes: &Value, hosts: &Value) -> Result<Vec<Value>, Error> {
    let nodes: Vec<Value> = nodes.try_iter()?.collect();
    let known: Vec<ClusterNode> = nodes.iter().map(parse_node).collect::<Result<_, Error>>()?;
    let mut found = Vec::new();
    for host in hosts.try_iter()? {
        let text = |key: &str| Ok::<_, Error>(host.get_attr(key)?.to_string());
        let (name, address) = (text("name")?, text("address")?);
        let node = find_host_node(&known, &name, &address).map_err(|why| {
            Error::new(ErrorKind::InvalidOperation, format!("the node of host `{name}` is ambiguous: {why}"))
        })?;
        let at = node.and_then(|node| known.iter().position(|one| one.name == node.name));
        found.extend(at.map(|at| nodes[at].clone()));
    }
    Ok(found)
}

/// Returns the name and addresses of a node, which identify its host.
fn parse_node(node: &Value) -> Result<ClusterNode, Error> {
    let addresses = node.get_attr("addresses")?.try_iter()?.map(|address| address.to_string()).collect();
    Ok(ClusterNode { name: node.get_attr("name")?.to_string(), addresses, ..ClusterNode::default() })
}

fn select_nodes(nodes: &Value, mut is: impl FnMut(&Value) -> Result<bool, Error>) -> Result<Vec<Value>, Error> {
    let mut kept = Vec::new();
    for node in nodes.try_iter()? {
        if is(&node)? {
            kept.push(node);
        }
    }
    Ok(kept)
}

/// Returns the value of a key, if the map contains it. Checks the keys first: reading a missing key would be recorded
/// as a misspelt name.
fn get_entry(map: &Value, key: &Value) -> Result<Option<Value>, Error> {
    match map.try_iter()?.any(|own| own == *key) {
        true => map.get_item(key).map(Some),
        false => Ok(None),
    }
}

/// Returns whether a condition holds for each entry of a map, or of the list of pairs that `items` and `select` make of it.
fn all_entries_hold(map: &Value, mut holds: impl FnMut(&Value, &Value) -> Result<bool, Error>) -> Result<bool, Error> {
    let is_map = map.kind() == ValueKind::Map;
    let mut whole = true;
    for entry in map.try_iter()? {
        whole &= match is_map {
            true => holds(&entry, &map.get_item(&entry)?)?,
            false => holds(&entry.get_item_by_index(0)?, &entry.get_item_by_index(1)?)?,
        };
    }
    Ok(whole)
}

/// Returns an address or a network in the notation of ufw and the kernel: without bits beyond the prefix, and without a
/// prefix that covers the whole address. Other text, such as a host name, stays as it is.
pub(super) fn normalize_network(text: &str) -> String {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let Ok(address) = address.parse::<IpAddr>() else { return text.to_owned() };
    let (bits, width) = address_bits(address);
    let Some(length) = length.map_or(Some(width), |length| parse_prefix(length, address)).filter(|own| *own <= width)
    else {
        return text.to_owned();
    };
    // An unchecked shift by the whole width would overflow.
    let kept = bits.checked_shr(width - length).unwrap_or(0).checked_shl(width - length).unwrap_or(0);
    let base = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from(u32::try_from(kept).unwrap_or_default())),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from(kept)),
    };
    if length == width { base.to_string() } else { format!("{base}/{length}") }
}

/// Parses a prefix length, or a mask such as `255.255.255.0`.
fn parse_prefix(text: &str, address: IpAddr) -> Option<u32> {
    if let Ok(length) = text.parse::<u32>() {
        return Some(length);
    }
    let mask = u32::from(text.parse::<Ipv4Addr>().ok().filter(|_| address.is_ipv4())?);
    (mask.leading_ones() + mask.trailing_zeros() == 32).then(|| mask.leading_ones())
}

/// Returns whether an address, with or without a prefix length, is in a network. Text that is not an address is in no
/// network.
pub(super) fn is_in_network(address: &str, network: &str) -> Result<bool, Error> {
    let wrong = || Error::new(ErrorKind::InvalidOperation, format!("`{network}` is not a network like `10.0.0.0/16`"));
    let (base, length) = network.split_once('/').ok_or_else(wrong)?;
    let (base, length): (IpAddr, u32) = (base.parse().map_err(|_| wrong())?, length.parse().map_err(|_| wrong())?);
    let (base, width) = address_bits(base);
    if length > width {
        return Err(wrong());
    }
    let address = address.split_once('/').map_or(address, |(address, _)| address);
    let Ok(address) = address.parse::<IpAddr>() else { return Ok(false) };
    let (address, own) = address_bits(address);
    Ok(own == width && (address ^ base).checked_shr(width - length).unwrap_or(0) == 0)
}

fn address_bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

#[cfg(test)]
mod tests {
    use super::super::build_tree;
    use super::*;

    #[test]
    fn networks_are_written_as_ufw_stores_them() {
        for (written, stored) in [
            ("10.0.14.0/24", "10.0.14.0/24"),
            ("10.0.14.7/24", "10.0.14.0/24"),
            ("10.0.14.0/255.255.255.0", "10.0.14.0/24"),
            ("10.0.14.7/32", "10.0.14.7"),
            ("10.0.14.7", "10.0.14.7"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("FD00:14:0::/64", "fd00:14::/64"),
            ("fd00:14::5/128", "fd00:14::5"),
            ("fd00:14::5/64", "fd00:14::/64"),
            ("::1/0", "::/0"),
            ("10.0.14.0/33", "10.0.14.0/33"),
            ("10.0.14.0/255.0.255.0", "10.0.14.0/255.0.255.0"),
            ("node-1", "node-1"),
        ] {
            assert_eq!(normalize_network(written), stored, "{written}");
        }
    }

    #[test]
    fn address_matches_only_networks_of_its_family() {
        for (address, network, lies) in [
            ("10.0.14.31", "10.0.0.0/16", true),
            ("10.0.14.31/24", "10.0.14.0/24", true),
            ("10.1.0.1/24", "10.0.0.0/16", false),
            ("10.0.14.31", "10.0.14.31/32", true),
            ("10.0.14.32", "10.0.14.31/32", false),
            ("1.2.3.4", "0.0.0.0/0", true),
            ("fd00::5", "fd00::/64", true),
            ("fd01::5", "fd00::/64", false),
            ("fd01::5", "::/0", true),
            ("fd00::5", "10.0.0.0/8", false),
            ("", "10.0.0.0/8", false),
        ] {
            assert_eq!(is_in_network(address, network).unwrap(), lies, "{address} {network}");
        }
        for network in ["10.0.0.0", "10.0.0.0/33", "nowhere/8", "10.0.0.0/x"] {
            let said = is_in_network("10.0.0.1", network).unwrap_err().to_string();
            assert!(said.contains(&format!("`{network}` is not a network like `10.0.0.0/16`")), "{said}");
        }
    }

    fn sample_node(name: &str, label: &str, has: u32, gives: u32) -> Value {
        build_tree(
            "t",
            &serde_json::json!({
                "name": name, "labels": { "a.b/c": label, "other": "x" },
                "capacity": { "rdma/ib": has }, "allocatable": { "rdma/ib": gives },
            }),
        )
    }

    fn join_node_names(nodes: &[Value]) -> String {
        nodes.iter().map(|node| node.get_attr("name").unwrap().to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn host_is_matched_to_a_node_by_name_or_address() {
        let node =
            |name: &str, address: &str| build_tree("t", &serde_json::json!({ "name": name, "addresses": [address] }));
        let nodes = Value::from(vec![node("ip-2", "10.0.0.2"), node("gpu-1", "10.0.0.9"), node("a", "10.0.0.9")]);
        let found = |name: &str, address: &str| {
            let hosts = build_tree("t", &serde_json::json!([{ "name": name, "address": address }]));
            join_node_names(&find_host_nodes(&nodes, &hosts).unwrap())
        };
        assert_eq!(found("gpu-1", "10.0.0.2"), "gpu-1", "the name goes first");
        assert_eq!(found("gpu-2", "10.0.0.2"), "ip-2");
        assert_eq!(found("gpu-3", "10.0.0.3"), "");
        let host = build_tree("t", &serde_json::json!([{ "name": "gpu-9", "address": "10.0.0.9" }]));
        let said = find_host_nodes(&nodes, &host).unwrap_err().to_string();
        let why = "the node of host `gpu-9` is ambiguous: both nodes `gpu-1` and `a` have the address 10.0.0.9";
        assert!(said.contains(why), "{said}");
    }

    #[test]
    fn nodes_are_selected_by_labels_and_resources() {
        let nodes = Value::from(vec![
            sample_node("one", "true", 8, 8),
            sample_node("two", "true", 8, 7),
            sample_node("three", "no", 8, 8),
        ]);
        let labels = build_tree("t", &serde_json::json!({ "a.b/c": "true" }));
        assert_eq!(join_node_names(&select_labelled(&nodes, &labels).unwrap()), "one two");
        assert_eq!(
            join_node_names(&select_labelled(&nodes, &build_tree("t", &serde_json::json!({}))).unwrap()),
            "one two three"
        );
        let counts = build_tree("t", &serde_json::json!({ "ib": 8 }));
        assert_eq!(join_node_names(&select_offering(&nodes, &counts, "rdma/").unwrap()), "one three");
        let both = build_tree("t", &serde_json::json!({ "ib": 8, "roce": 8 }));
        assert_eq!(join_node_names(&select_offering(&nodes, &both, "rdma/").unwrap()), "");
        let pairs = |json: serde_json::Value| build_tree("t", &json);
        let one = pairs(serde_json::json!([["ib", 8]]));
        assert_eq!(join_node_names(&select_offering(&nodes, &one, "rdma/").unwrap()), "one three");
        let two = pairs(serde_json::json!([["ib", 8], ["roce", 8]]));
        assert_eq!(join_node_names(&select_offering(&nodes, &two, "rdma/").unwrap()), "");
    }
}
