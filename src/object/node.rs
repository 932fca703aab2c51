//! Nodes of the cluster: which node a host is, and what a drain of it may lose.

use std::collections::BTreeMap;

/// The fields of a node that a drain needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// The name of the node in the cluster, which may differ from the host's name.
    pub name: String,
    /// Addresses of the type `InternalIP`.
    pub addresses: Vec<String>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The annotations of the node: forge records there which run drained it.
    pub annotations: BTreeMap<String, String>,
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Whether its kubelet reports it as ready.
    pub ready: bool,
    /// The boot ID that its kubelet reports; empty if it has not reported one.
    pub boot_id: String,
    /// Resources of the node, and the part available to pods, as quantities of the API.
    pub capacity: BTreeMap<String, String>,
    /// The part of `capacity` that is available to pods, as quantities of the API.
    pub allocatable: BTreeMap<String, String>,
    /// The `resourceVersion`, which a change must match.
    pub version: String,
}

/// Returns the node of a host: by name, else by address.
///
/// # Errors
/// Several nodes have the address: the message, as a lowercase fragment.
pub fn find_host_node<'n>(
    nodes: &'n [ClusterNode],
    host: &str,
    address: &str,
) -> Result<Option<&'n ClusterNode>, String> {
    if let Some(node) = nodes.iter().find(|node| node.name == host) {
        return Ok(Some(node));
    }
    let mut same = nodes.iter().filter(|node| node.addresses.iter().any(|own| own == address));
    match (same.next(), same.next()) {
        (Some(one), Some(other)) => {
            Err(format!("both nodes `{}` and `{}` have the address {address}", one.name, other.name))
        }
        (found, _) => Ok(found),
    }
}

/// Which losses a drain accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainAllowedLosses {
    /// Data in `emptyDir` volumes.
    pub emptydir: bool,
    /// Pods without a controller that would recreate them.
    pub unmanaged: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_matched_to_a_node_by_name_or_address() {
        let node = |name: &str, address: &str| ClusterNode {
            name: name.to_owned(),
            addresses: vec![address.to_owned()],
            ..ClusterNode::default()
        };
        let nodes = [node("gpu-1", "10.0.0.1"), node("ip-2", "10.0.0.2"), node("a", "10.0.0.9"), node("b", "10.0.0.9")];
        let found =
            |host: &str, address: &str| find_host_node(&nodes, host, address).map(|node| node.map(|n| n.name.as_str()));
        assert_eq!(found("gpu-1", "10.0.0.2"), Ok(Some("gpu-1")), "the name has priority");
        assert_eq!(found("gpu-2", "10.0.0.2"), Ok(Some("ip-2")));
        assert_eq!(found("gpu-3", "10.0.0.3"), Ok(None));
        assert_eq!(found("gpu-3", ""), Ok(None));
        assert_eq!(found("gpu-9", "10.0.0.9"), Err("both nodes `a` and `b` have the address 10.0.0.9".to_owned()));
    }
}
