//! Pods and disruption budgets that will hold up the drains of a plan.

use super::kubernetes_drain::{describe_budget, describe_irreplaceable_pod};
use crate::config::{NodeDrain, Project};
use crate::engine::cluster_nodes::LazyClusterApi;
use crate::engine::run_options::RunOptions;
use crate::kube::{ClusterApi, EvictionApiVersion, KubeError, PodDrainAction};
use crate::model::{HostName, UntrustedText};
use crate::plan::{ObservedHost, ObservedNode};
use futures_util::StreamExt;
use std::collections::BTreeSet;

/// Maximum number of nodes that are read concurrently.
const CONCURRENT_NODES: usize = 8;

/// Reads the pods of the nodes of the hosts `drained`, and notes what holds up each drain.
pub(in crate::engine) async fn note_drain_obstacles(
    project: &Project,
    drained: &BTreeSet<HostName>,
    seen: &mut [ObservedHost],
    options: &RunOptions,
    api: &LazyClusterApi,
) {
    let Some(rule) = project.rollout.kubernetes.as_ref().filter(|_| !drained.is_empty()) else { return };
    let nodes: Vec<(usize, String)> = seen
        .iter()
        .enumerate()
        .filter(|(_, seen)| drained.contains(&seen.host))
        .filter_map(|(at, seen)| match &seen.node {
            Some(ObservedNode::Node { name, .. }) => Some((at, name.raw().to_owned())),
            _ => None,
        })
        .collect();
    let read = async {
        let cluster = api.get_cluster(project, options).await?;
        let policy = cluster.find_eviction_api().await?;
        let (cluster, policy) = (&cluster, &policy);
        let one = |(at, name): (usize, String)| async move { (at, list_obstacles(cluster, policy, rule, &name).await) };
        let nodes = futures_util::stream::iter(nodes.iter().cloned().map(one));
        Ok::<_, KubeError>(nodes.buffered(CONCURRENT_NODES).collect::<Vec<_>>().await)
    };
    let found = match read.await {
        Ok(found) => found,
        Err(error) => nodes.iter().map(|(at, _)| (*at, Err(error.clone()))).collect(),
    };
    for (at, texts) in found {
        let texts = texts.unwrap_or_else(|error| vec![format!("its pods could not be read: {}", error.message)]);
        if let Some(ObservedNode::Node { obstacles, .. }) = &mut seen[at].node {
            *obstacles = texts.into_iter().map(UntrustedText::from).collect();
        }
    }
}

/// Returns the pods that would be lost, then those whose budgets allow no disruption.
async fn list_obstacles(
    cluster: &ClusterApi,
    policy: &EvictionApiVersion,
    rule: &NodeDrain,
    node: &str,
) -> Result<Vec<String>, KubeError> {
    let pods = cluster.list_node_pods(node).await?;
    let mut found: Vec<String> = pods.iter().filter_map(|pod| describe_irreplaceable_pod(pod, rule)).collect();
    for pod in pods.iter().filter(|pod| pod.drain_action(rule.manner) == PodDrainAction::Goes && !pod.finished) {
        let budgets = cluster.list_pod_budgets(policy, pod).await?;
        let closed = budgets.iter().filter(|budget| budget.allowed <= 0);
        let told = |budget| format!("cannot evict pod {} now: {}", pod.qualified_name(), describe_budget(pod, budget));
        found.extend(closed.map(told));
    }
    Ok(found)
}
