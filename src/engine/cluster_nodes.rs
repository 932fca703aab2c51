//! Hosts as Kubernetes nodes: the cluster's API, opened once for all of them, and the state of each node.

use super::cluster_session::open_cluster as open;
use super::run_options::RunOptions;
use crate::config::Project;
use crate::kube::{ClusterApi, CordonRecord, KubeError};
use crate::model::HostName;
use crate::object::{ClusterAbsence, ClusterNode, find_host_node};
use crate::plan::{MissingCluster, ObservedHost, ObservedNode};
use std::sync::Arc;
use tokio::sync::Mutex;

/// The cluster's API, opened at first use. After a failure the next use tries again.
#[derive(Clone, Default)]
pub(super) struct LazyClusterApi(Arc<Mutex<Option<ClusterApi>>>);

impl LazyClusterApi {
    /// Returns the API's connection.
    ///
    /// # Errors
    /// The API could not be opened.
    pub async fn get_cluster(&self, project: &Project, options: &RunOptions) -> Result<ClusterApi, KubeError> {
        let mut held = self.0.lock().await;
        match &*held {
            Some(cluster) => Ok(cluster.clone()),
            None => Ok(held.insert(open_declared_cluster(project, options).await?).clone()),
        }
    }

    /// Lists the nodes, over a new session if the one through a host is lost: that host may have rebooted.
    ///
    /// # Errors
    /// The API could not be opened, timed out, or denied the request.
    pub async fn list_nodes(
        &self,
        project: &Project,
        options: &RunOptions,
    ) -> Result<(ClusterApi, Vec<ClusterNode>), KubeError> {
        let through = project.kubernetes.as_ref().is_some_and(|access| access.via.is_some());
        let cluster = self.get_cluster(project, options).await?;
        match cluster.list_nodes().await {
            Err(_) if through => {
                *self.0.lock().await = None;
                let cluster = self.get_cluster(project, options).await?;
                let nodes = cluster.list_nodes().await?;
                Ok((cluster, nodes))
            }
            nodes => Ok((cluster, nodes?)),
        }
    }

    /// Closes the API's session if it was opened.
    pub async fn close(self) {
        if let Some(cluster) = self.0.lock().await.take() {
            cluster.close().await;
        }
    }
}

async fn open_declared_cluster(project: &Project, options: &RunOptions) -> Result<ClusterApi, KubeError> {
    match &project.kubernetes {
        Some(access) => open(project, access, options).await,
        // Validation rejects an inventory that drains nodes without a cluster.
        None => Err(KubeError {
            message: "the inventory names no cluster".to_owned(),
            hint: None,
            said: None,
            absence: None,
            denied: false,
        }),
    }
}

/// The API's answer about hosts that are declared to be nodes.
pub(super) enum NodeListing {
    /// No host is declared to be a node.
    None,
    Listed(Vec<ClusterNode>),
    /// The kubeconfig does not exist: the reason, as a lowercase fragment.
    NoKubeconfig(String),
    /// The API did not answer: the reason, as a lowercase fragment.
    Unknown(String),
}

impl NodeListing {
    /// Requests all nodes at once, if any of `hosts` is declared to be one.
    pub async fn query_nodes(
        project: &Project,
        hosts: &[HostName],
        options: &RunOptions,
        api: &LazyClusterApi,
    ) -> Self {
        if options.replay.observed.is_some() || !hosts.iter().any(|host| is_declared_node(project, host)) {
            return Self::None;
        }
        match api.list_nodes(project, options).await {
            Ok((_, nodes)) => Self::Listed(nodes),
            Err(KubeError { absence: Some(ClusterAbsence::NoKubeconfig), message, .. }) => Self::NoKubeconfig(message),
            Err(error) => Self::Unknown(error.message),
        }
    }

    /// Returns how it was found out that the cluster does not exist, if the answer shows that.
    pub fn missing_cluster(&self) -> Option<MissingCluster> {
        match self {
            Self::NoKubeconfig(why) => Some(MissingCluster::new(why.as_str().into(), ClusterAbsence::NoKubeconfig)),
            Self::None | Self::Listed(_) | Self::Unknown(_) => None,
        }
    }

    /// Adds the answer to each host's observation; `missing` is set if the run creates the cluster.
    pub fn fill_in_nodes(
        &self,
        project: &Project,
        options: &RunOptions,
        missing: Option<&MissingCluster>,
        seen: &mut [ObservedHost],
    ) {
        for seen in seen.iter_mut().filter(|seen| is_declared_node(project, &seen.host)) {
            seen.node = Some(match (&options.replay.observed, self) {
                (Some(recording), _) => recording.node_seen(&seen.host),
                (None, Self::Listed(nodes)) => build_node_seen(project, &seen.host, nodes),
                (None, Self::NoKubeconfig(_)) if missing.is_some() => ObservedNode::NoCluster,
                (None, Self::NoKubeconfig(why) | Self::Unknown(why)) => {
                    ObservedNode::Unknown { why: why.as_str().into() }
                }
                (None, Self::None) => ObservedNode::Absent,
            });
        }
    }
}

/// Reports whether a host is declared to be a node that is drained.
pub(super) fn is_declared_node(project: &Project, host: &HostName) -> bool {
    let Some(drain) = &project.rollout.kubernetes else { return false };
    let group = &drain.group.0;
    group == "all" || project.hosts.get(host).is_some_and(|host| host.groups.contains(group))
}

/// Returns a host's node.
///
/// # Errors
/// The node could not be determined: the reason, as a lowercase fragment.
pub(super) fn find_declared_node<'n>(
    project: &Project,
    host: &HostName,
    nodes: &'n [ClusterNode],
) -> Result<Option<&'n ClusterNode>, String> {
    let address = project.hosts.get(host).map_or("", |host| host.connect.address.as_str());
    find_host_node(nodes, host.as_str(), address)
}

/// Returns what a list of nodes says about a host.
pub(super) fn build_node_seen(project: &Project, host: &HostName, nodes: &[ClusterNode]) -> ObservedNode {
    match find_declared_node(project, host, nodes) {
        Ok(Some(node)) => ObservedNode::Node {
            name: node.name.as_str().into(),
            left: CordonRecord::from_node(node).map(|claim| claim.run.into()),
            obstacles: Vec::new(),
        },
        Ok(None) => ObservedNode::Absent,
        Err(why) => ObservedNode::Unknown { why: why.into() },
    }
}
