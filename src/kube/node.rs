//! Nodes of the cluster: which node a host is, and whether it is schedulable.

use super::{ClusterApi, KubeError};
use crate::model::Value;
use crate::object::ClusterNode;
use ::kube::Api;
use ::kube::api::{Patch, PatchParams};
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// The outcome of a change to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePatchOutcome {
    /// The node was changed.
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
