//! The Kubernetes node of a host in a window, and what the run reports about it.

use super::window_refusal::WindowRefusal;
use crate::config::{NodeDrain, Project};
use crate::engine::cancel::{CancelSignal, StopLevel};
use crate::engine::cluster_nodes::{self, LazyClusterApi};
use crate::engine::event::{DrainedNode, Event, EventSender, NodeDrainEvent};
use crate::engine::run_context::ApplyContext;
use crate::engine::run_options::RunOptions;
use crate::kube::{ClusterApi, CordonRecord, KubeError};
use crate::model::HostName;
use crate::object::ClusterNode;
use crate::plan::{HostWindow, ObservedNode};
use std::time::{Duration, Instant};

/// Number of attempts of an update that conflicts with another writer: a node's own controllers update it all the time.
pub(super) const PATCH_ATTEMPTS: usize = 10;
/// Interval between two observations of a node.
pub(super) const NODE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Number of consecutive API failures that a drain tolerates.
pub(super) const MAX_API_FAILURES: u32 = 3;
/// Initial wait: most pods end at once.
pub(super) const FIRST_POLL_PAUSE: Duration = Duration::from_millis(500);
/// Number of pods listed by name.
const MAX_NAMED_PODS: usize = 5;

/// What the drain of a node needs of its run.
#[derive(Clone, Copy)]
pub(in crate::engine) struct NodeDrainRun<'r> {
    pub project: &'r Project,
    pub options: &'r RunOptions,
    pub api: &'r LazyClusterApi,
    pub cancel: &'r CancelSignal,
    pub events: &'r EventSender,
    /// The run that may create the cluster.
    pub creator: Option<&'r ApplyContext<'r>>,
}

impl<'r> NodeDrainRun<'r> {
    pub fn from_apply(run: &'r ApplyContext<'r>) -> Self {
        let ApplyContext { project, options, api, cancel, events, .. } = run;
        Self { project, options, api, cancel, events, creator: Some(run) }
    }

    /// Returns whether the cluster does not exist yet, and this run creates it.
    pub(super) fn has_no_cluster_yet(&self) -> bool {
        self.creator.is_some_and(ApplyContext::has_no_cluster_yet)
    }

    fn emit_event(&self, event: Event) {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(event);
    }
}

/// The node of a window.
pub(super) struct WindowNode<'r> {
    pub cluster: ClusterApi,
    pub rule: &'r NodeDrain,
    pub node: String,
}

/// Why a node is not empty.
pub(super) enum WindowDrainError {
    /// Pods that did not leave in time, with the reasons.
    Pods(Vec<String>),
    Api(KubeError),
    Stopped,
}

impl WindowNode<'_> {
    pub(super) fn describe_conflict(&self) -> String {
        format!("Kubernetes node {} was changed concurrently by another client", self.node)
    }
}

/// This run's changes to a host's node: publishes each of them and summarizes them for the report.
pub(super) struct NodeEvents<'r> {
    run: NodeDrainRun<'r>,
    host: &'r HostName,
    node: Option<DrainedNode>,
}

impl<'r> NodeEvents<'r> {
    pub fn new(run: NodeDrainRun<'r>, host: &'r HostName) -> Self {
        Self { run, host, node: None }
    }

    /// Publishes an event and adds it to the summary.
    pub fn emit_event(&mut self, node: &str, news: NodeDrainEvent) {
        let drained = self.node.take();
        self.node = DrainedNode::after_event(drained, node.into(), &news);
        self.run.emit_event(Event::Node { host: self.host.clone(), node: node.into(), news });
    }

    pub fn take_summary(&mut self) -> Option<DrainedNode> {
        self.node.take()
    }
}

/// Returns the host's current node, if it has one: usually still the one named in the plan.
pub(super) async fn find_window_node<'r>(
    run: NodeDrainRun<'r>,
    host: &HostName,
    window: &HostWindow,
) -> Result<Option<WindowNode<'r>>, WindowRefusal> {
    let (project, options) = (run.project, run.options);
    let Some((rule, seen)) = project.rollout.kubernetes.as_ref().zip(window.kubernetes.as_ref()) else {
        return Ok(None);
    };
    if run.has_no_cluster_yet() {
        return Ok(None);
    }
    if let ObservedNode::Node { name, .. } = seen
        && let Ok(cluster) = run.api.get_cluster(project, options).await
        && let Ok(Some(node)) = cluster.find_node(name.raw()).await
        && let Ok(Some(_)) = cluster_nodes::find_declared_node(project, host, std::slice::from_ref(&node))
    {
        return Ok(Some(WindowNode { cluster, rule, node: node.name }));
    }
    let (cluster, nodes) = run.api.list_nodes(project, options).await.map_err(unknown_node)?;
    match cluster_nodes::find_declared_node(project, host, &nodes) {
        Ok(found) => Ok(found.map(|node| WindowNode { cluster, rule, node: node.name.clone() })),
        Err(why) => Err(WindowRefusal::Unknown(format!("the host's Kubernetes node could not be determined: {why}"))),
    }
}

/// Waits for an interval that grows with each call.
pub(super) async fn pause_with_backoff(
    cancel: &CancelSignal,
    pause: &mut Duration,
    until: Instant,
) -> Result<(), WindowDrainError> {
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(50));
    let now = (*pause).min(left);
    *pause = (*pause * 2).min(NODE_POLL_INTERVAL);
    tokio::select! {
        () = tokio::time::sleep(now) => Ok(()),
        () = cancel.wait_for_level(StopLevel::Finish) => Err(WindowDrainError::Stopped),
    }
}

/// Returns the node with the record of the run that cordoned it, if forge did.
pub(super) fn pair_with_claim(node: ClusterNode) -> Option<(ClusterNode, CordonRecord)> {
    let claim = CordonRecord::from_node(&node)?;
    Some((node, claim))
}

/// Names the first of many.
pub(super) fn join_first(all: &[String]) -> String {
    let named = all[..all.len().min(MAX_NAMED_PODS)].join("; ");
    match all.len().saturating_sub(MAX_NAMED_PODS) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

pub(super) fn unknown_node(error: KubeError) -> WindowRefusal {
    WindowRefusal::Unknown(format!("Kubernetes node: {}", error.message))
}

pub(super) fn failed_node(error: KubeError) -> WindowRefusal {
    WindowRefusal::Failed(format!("Kubernetes node: {}", error.message))
}
