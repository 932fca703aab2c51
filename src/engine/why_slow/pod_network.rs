//! Which address of a host Calico uses, as the fact `pod_network`.

use crate::facts::Facts;
use crate::model::Value;
use crate::object::ClusterNode;
use crate::probe::UnansweredReason;
use serde_json::json;

/// Calico writes the address that it chose to this annotation of the node: `10.0.14.5/24`.
const CALICO_ADDRESS: &str = "projectcalico.org/IPv4Address";

/// Returns the address of a host that Calico uses, with its interface; null if it is not a node, or without Calico.
///
/// # Errors
/// The interfaces of the host were not read.
pub(super) fn describe_pod_network(node: Option<&ClusterNode>, facts: &Facts) -> Result<Value, UnansweredReason> {
    let Some((node, chosen)) = node.and_then(|node| Some((node, node.annotations.get(CALICO_ADDRESS)?))) else {
        return Ok(Value::Null);
    };
    let address = without_prefix(chosen);
    let interface = read_list(facts, "network")?.iter().find(|interface| has_address(interface, address));
    let name = interface.and_then(|interface| interface.get("name")?.as_str());
    let infiniband = match name {
        Some(name) => read_list(facts, "rdma")?.iter().any(|device| is_infiniband_interface(device, name)),
        None => false,
    };
    let expected = node.addresses.iter().find(|own| own.parse::<std::net::Ipv4Addr>().is_ok());
    let is_node_address = expected.is_none() || node.addresses.iter().any(|own| own == address);
    Ok(json!({
        "address": address,
        "interface": name,
        "infiniband": infiniband,
        "is_node_address": is_node_address,
        "node_address": expected,
    }))
}

fn read_list<'f>(facts: &'f Facts, name: &str) -> Result<&'f [Value], UnansweredReason> {
    match facts.0.get(name) {
        Some(Ok(value)) => Ok(value.as_array().map(Vec::as_slice).unwrap_or_default()),
        Some(Err(why)) => Err(why.clone()),
        None => Err(UnansweredReason::new(format!("fact `{name}` was not observed"))),
    }
}

fn without_prefix(address: &str) -> &str {
    address.split_once('/').map_or(address, |(address, _)| address)
}

fn has_address(interface: &Value, address: &str) -> bool {
    let own = interface.get("addresses").and_then(Value::as_array).into_iter().flatten();
    own.filter_map(Value::as_str).any(|own| without_prefix(own) == address)
}

/// Reports whether an interface is IPoIB: the interface of a port of InfiniBand.
fn is_infiniband_interface(device: &Value, name: &str) -> bool {
    let of = |key: &str| device.get(key).and_then(Value::as_array).into_iter().flatten();
    let has_port = of("ports").any(|port| port.get("class").and_then(Value::as_str) == Some("infiniband"));
    has_port && of("netdevs").any(|netdev| netdev.as_str() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(calico: Option<&str>) -> ClusterNode {
        ClusterNode {
            addresses: vec!["10.0.14.5".into()],
            annotations: calico.map(|address| (CALICO_ADDRESS.to_owned(), address.to_owned())).into_iter().collect(),
            ..ClusterNode::default()
        }
    }

    fn facts() -> Facts {
        let network = json!([
            {"name": "eth0", "addresses": ["10.0.14.5/24", "fe80::1/64"]},
            {"name": "ib0", "addresses": ["192.168.7.5/24"]},
            {"name": "eth1", "addresses": ["10.3.2.5/24"]},
        ]);
        let rdma = json!([{"netdevs": ["ib0"], "ports": [{"class": "infiniband"}]},
            {"netdevs": ["eth1"], "ports": [{"class": "roce"}]}]);
        Facts([("network", network), ("rdma", rdma)].map(|(name, value)| (name.to_owned(), Ok(value))).into())
    }

    #[test]
    fn address_of_calico_is_found_on_its_interface() {
        let rows = [
            ("10.0.14.5/24", Some("eth0"), false, true),
            ("192.168.7.5/24", Some("ib0"), true, false),
            ("10.3.2.5/24", Some("eth1"), false, false),
            ("10.9.9.9/24", None, false, false),
        ];
        for (chosen, interface, infiniband, is_node_address) in rows {
            let described = describe_pod_network(Some(&node(Some(chosen))), &facts()).unwrap();
            let expected = json!({"address": without_prefix(chosen), "interface": interface, "infiniband": infiniband,
                "is_node_address": is_node_address, "node_address": "10.0.14.5"});
            assert_eq!(described, expected);
        }
    }

    #[test]
    fn host_without_calico_has_no_pod_network_and_unread_interfaces_are_unknown() {
        assert_eq!(describe_pod_network(None, &facts()), Ok(Value::Null));
        assert_eq!(describe_pod_network(Some(&node(None)), &Facts::default()), Ok(Value::Null));
        let unread = describe_pod_network(Some(&node(Some("10.0.14.5/24"))), &Facts::default()).unwrap_err();
        assert_eq!(unread.why, "fact `network` was not observed");
    }
}
