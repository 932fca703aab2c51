//! Nodes of the cluster: which node a host is, and whether it is schedulable.

use super::{ClusterApi, KubeError};
use crate::model::Value;
use ::kube::Api;
use ::kube::api::{Patch, PatchParams};
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// The fields of a node that a drain needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    pub name: String,
    /// Addresses of the type `InternalIP`.
    pub addresses: Vec<String>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    pub annotations: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    /// Whether its kubelet reports it as ready.
    pub ready: bool,
    /// The boot ID that its kubelet reports; empty if it has not reported one.
    pub boot_id: String,
    /// Resources of the node, and the part available to pods, as quantities of the API.
    pub capacity: BTreeMap<String, String>,
    pub allocatable: BTreeMap<String, String>,
    /// The `resourceVersion`, which a change must match.
    pub version: String,
}

/// The outcome of a change to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePatchOutcome {
    Done,
    /// The node changed in the meantime: nothing was written.
    Moved,
    /// The node does not exist any more.
    Gone,
}

impl ClusterApi {
    /// Lists the nodes.
    ///
    /// # Errors
    /// The API does not answer in time, or refuses the request.
    pub async fn list_nodes(&self) -> Result<Vec<ClusterNode>, KubeError> {
        Ok(self.list_typed(&self.node_api(), None).await?.into_iter().map(parse_node).collect())
    }

    /// Reads a node; `None` if there is none of that name.
    ///
    /// # Errors
    /// The API does not answer in time, or refuses the request.
    pub async fn find_node(&self, name: &str) -> Result<Option<ClusterNode>, KubeError> {
        match self.request_or_status(self.node_api().get(name)).await? {
            Ok(found) => Ok(Some(parse_node(found))),
            Err(no) if no.code == 404 => Ok(None),
            Err(no) => Err(self.status_error(no)),
        }
    }

    /// Changes a node with a merge patch, unless it changed since it was read.
    ///
    /// # Errors
    /// The API does not answer in time, or refuses the request. The node may or may not have changed then.
    pub async fn patch_node(&self, node: &ClusterNode, mut patch: Value) -> Result<NodePatchOutcome, KubeError> {
        patch["metadata"]["resourceVersion"] = node.version.as_str().into();
        let params = PatchParams { field_manager: Some("forge".to_owned()), ..PatchParams::default() };
        match self.request_or_status(self.node_api().patch(&node.name, &params, &Patch::Merge(&patch))).await? {
            Ok(_) => Ok(NodePatchOutcome::Done),
            Err(no) if no.code == 409 => Ok(NodePatchOutcome::Moved),
            Err(no) if no.code == 404 => Ok(NodePatchOutcome::Gone),
            Err(no) => Err(self.status_error(no)),
        }
    }

    fn node_api(&self) -> Api<v1::Node> {
        Api::all(self.client.clone())
    }
}

fn parse_node(found: v1::Node) -> ClusterNode {
    let status = found.status.unwrap_or_default();
    let internal = status.addresses.into_iter().flatten().filter(|address| address.type_ == "InternalIP");
    let ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let plain = |map: Option<BTreeMap<String, Quantity>>| {
        map.into_iter().flatten().map(|(name, quantity)| (name, quantity.0)).collect()
    };
    ClusterNode {
        name: found.metadata.name.unwrap_or_default(),
        addresses: internal.map(|address| address.address).collect(),
        unschedulable: found.spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
        annotations: found.metadata.annotations.unwrap_or_default(),
        labels: found.metadata.labels.unwrap_or_default(),
        ready,
        boot_id: status.node_info.map(|info| info.boot_id).unwrap_or_default(),
        capacity: plain(status.capacity),
        allocatable: plain(status.allocatable),
        version: found.metadata.resource_version.unwrap_or_default(),
    }
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
