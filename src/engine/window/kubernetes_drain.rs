//! The host as a Kubernetes node: cordoned, drained, and uncordoned only if forge cordoned it.

use super::WindowRefusal;
use super::slurm_drain::NODE_POLL_INTERVAL;
use crate::config::NodeDrain;
use crate::engine::cancel::StopLevel;
use crate::engine::cluster_nodes;
use crate::engine::event::{DrainedNode, Event, NodeDrainEvent};
use crate::engine::host_run::HostRun;
use crate::kube::{
    ClusterApi, CordonRecord, EvictionApiVersion, EvictionOutcome, KubeError, NodePatchOutcome, Pod, PodDrainAction,
};
use crate::model::UntrustedText;
use crate::object::ClusterNode;
use crate::plan::{HostWindow, ObservedNode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Number of attempts of an update that conflicts with another writer: a node's own controllers update it all the time.
pub(super) const PATCH_ATTEMPTS: usize = 10;
/// Number of consecutive API failures that a drain tolerates.
pub(super) const MAX_API_FAILURES: u32 = 3;
/// Initial wait: most pods end at once.
pub(super) const FIRST_POLL_PAUSE: Duration = Duration::from_millis(500);
/// Number of pods listed by name.
const MAX_NAMED_PODS: usize = 5;

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

impl<'r> HostRun<'r> {
    /// Cordons the node and evicts its pods. Checks for data that would be lost permanently before any change.
    ///
    /// # Errors
    /// Pods did not leave, or the API did not answer. Then the node is uncordoned, unless an earlier run left it out of
    /// service.
    pub(super) async fn drain_kubernetes_node(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        if window.kubernetes.is_none() {
            return Ok(());
        }
        let Some(drain) = self.find_kubernetes_node(window).await? else {
            self.emit_node_event("", NodeDrainEvent::Absent);
            return Ok(());
        };
        let pods = drain.cluster.list_node_pods(&drain.node).await.map_err(unknown_node)?;
        drain.check_irreplaceable_pods(&pods).map_err(|pods| drain.refuse_as_busy(&pods))?;
        let policy = drain.cluster.find_eviction_api().await.map_err(unknown_node)?;
        // Without an answer the node may still have been cordoned.
        self.cordoned = true;
        let claim = self.cordon_node(&drain).await?;
        let done = match self.evict_pods(&drain, &policy, drain.drain_deadline()).await {
            Ok(pods) => self.remove_operator_pods(&drain, drain.drain_deadline()).await.map(|()| pods),
            Err(stuck) => Err(stuck),
        };
        match done {
            Ok(pods) => {
                self.emit_node_event(&drain.node, NodeDrainEvent::Drained { pods, cordoned: claim.cordoned });
                Ok(())
            }
            Err(stuck) => Err(drain.to_refusal(stuck)),
        }
    }

    /// Uncordons the node if forge claimed it, unless another user had cordoned it before.
    ///
    /// # Errors
    /// The API did not answer: the node may still be cordoned.
    pub(super) async fn release_kubernetes_node(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        let Some(drain) = self.find_kubernetes_node(window).await? else { return Ok(()) };
        for _ in 0..PATCH_ATTEMPTS {
            let node = drain.cluster.find_node(&drain.node).await.map_err(failed_node)?;
            let Some((node, claim)) = node.and_then(pair_with_claim) else { return self.clear_cordon() };
            match drain.cluster.patch_node(&node, claim.uncordon_patch(&node)).await.map_err(failed_node)? {
                NodePatchOutcome::Moved => {}
                NodePatchOutcome::Gone => return self.clear_cordon(),
                NodePatchOutcome::Done => {
                    let cordoned = node.unschedulable && !claim.cordoned;
                    self.emit_node_event(&drain.node, NodeDrainEvent::Returned { cordoned });
                    return self.clear_cordon();
                }
            }
        }
        Err(WindowRefusal::Failed(drain.describe_conflict()))
    }

    /// Notes that forge has no claim on the node any more.
    fn clear_cordon(&mut self) -> Result<(), WindowRefusal> {
        self.cordoned = false;
        Ok(())
    }

    /// Returns the host's current node, if it has one: usually still the one named in the plan.
    pub(super) async fn find_kubernetes_node(
        &self,
        window: &HostWindow,
    ) -> Result<Option<WindowNode<'r>>, WindowRefusal> {
        let (project, options) = (self.run.project, self.run.options);
        let Some((rule, seen)) = project.rollout.kubernetes.as_ref().zip(window.kubernetes.as_ref()) else {
            return Ok(None);
        };
        if let ObservedNode::Node { name, .. } = seen
            && let Ok(cluster) = self.run.api.get_cluster(project, options).await
            && let Ok(Some(node)) = cluster.find_node(name.raw()).await
            && let Ok(Some(_)) = cluster_nodes::find_declared_node(project, self.host(), std::slice::from_ref(&node))
        {
            return Ok(Some(WindowNode { cluster, rule, node: node.name }));
        }
        let (cluster, nodes) = self.run.api.list_nodes(project, options).await.map_err(unknown_node)?;
        match cluster_nodes::find_declared_node(project, self.host(), &nodes) {
            Ok(found) => Ok(found.map(|node| WindowNode { cluster, rule, node: node.name.clone() })),
            Err(why) => {
                Err(WindowRefusal::Unknown(format!("the host's Kubernetes node could not be determined: {why}")))
            }
        }
    }

    pub(super) fn emit_node_event(&mut self, node: &str, news: NodeDrainEvent) {
        let drained = self.passage.node.take();
        self.passage.node = DrainedNode::after_event(drained, node.into(), &news);
        self.run.emit_event(Event::Node { host: self.host().clone(), node: node.into(), news });
    }

    async fn cordon_node(&self, drain: &WindowNode<'_>) -> Result<CordonRecord, WindowRefusal> {
        let options = self.run.options;
        let time = (options.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for _ in 0..PATCH_ATTEMPTS {
            let Some(node) = drain.cluster.find_node(&drain.node).await.map_err(unknown_node)? else { break };
            let claim = CordonRecord::for_run(&node, &options.run, &options.controller, &time);
            match drain.cluster.patch_node(&node, claim.cordon_patch()).await.map_err(unknown_node)? {
                NodePatchOutcome::Done => return Ok(claim),
                NodePatchOutcome::Moved => continue,
                NodePatchOutcome::Gone => break,
            }
        }
        Err(WindowRefusal::Unknown(drain.describe_conflict()))
    }

    /// Evicts pods until none is left that has to go. Returns the number of evicted pods.
    async fn evict_pods(
        &mut self,
        drain: &WindowNode<'_>,
        policy: &EvictionApiVersion,
        until: Instant,
    ) -> Result<usize, WindowDrainError> {
        let (mut asked, mut told, mut failures, mut pause) = (BTreeSet::new(), Vec::new(), 0, FIRST_POLL_PAUSE);
        loop {
            match drain.evict_remaining_pods(policy, &mut asked).await {
                Ok(left) if left.is_empty() => return Ok(asked.len()),
                Ok(left) => {
                    failures = 0;
                    if Instant::now() >= until {
                        return Err(WindowDrainError::Pods(left.into_values().collect()));
                    }
                    self.report_blocked_pods(drain, &left, &mut told);
                }
                Err(WindowDrainError::Api(error)) if failures < MAX_API_FAILURES => {
                    failures += 1;
                    tracing::debug!(error = error.message, "the API did not answer");
                }
                Err(stuck) => return Err(stuck),
            }
            self.pause_with_backoff(&mut pause, until).await?;
        }
    }

    /// Reports what blocks each pod, each time that changes.
    fn report_blocked_pods(
        &mut self,
        drain: &WindowNode<'_>,
        left: &BTreeMap<String, String>,
        told: &mut Vec<UntrustedText>,
    ) {
        let blocked: Vec<UntrustedText> =
            left.values().filter(|why| why.contains(BUDGET_WORDS)).map(|why| why.as_str().into()).collect();
        if !blocked.is_empty() && *told != blocked {
            self.emit_node_event(&drain.node, NodeDrainEvent::Waits { pods: blocked.clone() });
            *told = blocked;
        }
    }

    /// Waits for an interval that grows with each call.
    pub(super) async fn pause_with_backoff(
        &self,
        pause: &mut Duration,
        until: Instant,
    ) -> Result<(), WindowDrainError> {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(50));
        let now = (*pause).min(left);
        *pause = (*pause * 2).min(NODE_POLL_INTERVAL);
        tokio::select! {
            () = tokio::time::sleep(now) => Ok(()),
            () = self.run.cancel.wait_for_level(StopLevel::Finish) => Err(WindowDrainError::Stopped),
        }
    }

    /// Has the GPU operator remove its own pods from the node: they hold the devices, and a drain does not evict them.
    async fn remove_operator_pods(&self, drain: &WindowNode<'_>, until: Instant) -> Result<(), WindowDrainError> {
        if drain.list_operator_pods().await?.is_empty() {
            return Ok(());
        }
        drain.label_operator_away().await?;
        let mut pause = FIRST_POLL_PAUSE;
        loop {
            let left = drain.list_operator_pods().await?;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                let why = |pod: &Pod| format!("pod {} of the GPU operator is still running", pod.qualified_name());
                return Err(WindowDrainError::Pods(left.iter().map(why).collect()));
            }
            self.pause_with_backoff(&mut pause, until).await?;
        }
    }
}

impl WindowNode<'_> {
    /// Returns the deadline of an operation that starts now.
    fn drain_deadline(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.rule.timeout_s)
    }

    /// Checks that no pod would be lost permanently without the user's permission.
    fn check_irreplaceable_pods(&self, pods: &[Pod]) -> Result<(), Vec<String>> {
        let lost: Vec<String> = pods.iter().filter_map(|pod| describe_irreplaceable_pod(pod, self.rule)).collect();
        if lost.is_empty() { Ok(()) } else { Err(lost) }
    }

    /// Evicts all pods that may go. Returns what blocks each of the remaining pods, by pod name.
    async fn evict_remaining_pods(
        &self,
        policy: &EvictionApiVersion,
        asked: &mut BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, WindowDrainError> {
        let pods = self.cluster.list_node_pods(&self.node).await.map_err(WindowDrainError::Api)?;
        let mut left = BTreeMap::new();
        for pod in &pods {
            let why = match pod.drain_action(self.rule.manner) {
                PodDrainAction::Stays => continue,
                PodDrainAction::Lost(_) => describe_irreplaceable_pod(pod, self.rule).unwrap_or_default(),
                PodDrainAction::Ends => format!("pod {} has not terminated", pod.qualified_name()),
                PodDrainAction::Goes => {
                    match self.cluster.evict_pod(policy, pod, self.rule.grace_s).await.map_err(WindowDrainError::Api)? {
                        EvictionOutcome::NotNow(said) => self.describe_blocked_eviction(policy, pod, &said).await,
                        EvictionOutcome::Taken | EvictionOutcome::Gone => {
                            asked.insert(pod.uid.clone());
                            format!("pod {} has not terminated", pod.qualified_name())
                        }
                    }
                }
            };
            left.insert(pod.qualified_name(), why);
        }
        Ok(left)
    }

    /// Returns what blocks a pod: the disruption budgets by name, or the server's message if they cannot be read.
    async fn describe_blocked_eviction(&self, policy: &EvictionApiVersion, pod: &Pod, said: &str) -> String {
        let name = pod.qualified_name();
        let budgets = self.cluster.list_pod_budgets(policy, pod).await.unwrap_or_default();
        let told = |budget: &crate::kube::PodBudget| {
            format!("{BUDGET_WORDS} {}/{} allows {}", pod.namespace, budget.name, format_disruptions(budget.allowed))
        };
        match budgets.is_empty() {
            true => format!("cannot evict pod {name}: {said}"),
            false => format!("cannot evict pod {name}: {}", budgets.iter().map(told).collect::<Vec<_>>().join(", ")),
        }
    }

    async fn list_operator_pods(&self) -> Result<Vec<Pod>, WindowDrainError> {
        let pods = self.cluster.list_node_pods(&self.node).await.map_err(WindowDrainError::Api)?;
        Ok(pods.into_iter().filter(|pod| pod.operand && !pod.mirror && !pod.finished).collect())
    }

    async fn label_operator_away(&self) -> Result<(), WindowDrainError> {
        for _ in 0..PATCH_ATTEMPTS {
            let node = self.cluster.find_node(&self.node).await.map_err(WindowDrainError::Api)?;
            let Some((node, claim)) = node.and_then(pair_with_claim) else { break };
            match self
                .cluster
                .patch_node(&node, claim.remove_operands_patch(&node))
                .await
                .map_err(WindowDrainError::Api)?
            {
                NodePatchOutcome::Done => return Ok(()),
                NodePatchOutcome::Moved => continue,
                NodePatchOutcome::Gone => break,
            }
        }
        Err(WindowDrainError::Api(KubeError { message: self.describe_conflict(), hint: None, said: None }))
    }

    pub(super) fn describe_conflict(&self) -> String {
        format!("Kubernetes node {} was changed concurrently by another client", self.node)
    }

    fn refuse_as_busy(&self, pods: &[String]) -> WindowRefusal {
        WindowRefusal::Busy(format!("Kubernetes node {} cannot be drained: {}", self.node, join_first(pods)))
    }

    fn to_refusal(&self, stuck: WindowDrainError) -> WindowRefusal {
        match stuck {
            WindowDrainError::Pods(pods) => {
                let waited = self.rule.timeout_s;
                WindowRefusal::Busy(format!(
                    "Kubernetes node {} was not drained within {waited} s: {}",
                    self.node,
                    join_first(&pods)
                ))
            }
            WindowDrainError::Api(error) => unknown_node(error),
            WindowDrainError::Stopped => WindowRefusal::Stopped,
        }
    }
}

pub(super) fn pair_with_claim(node: ClusterNode) -> Option<(ClusterNode, CordonRecord)> {
    let claim = CordonRecord::from_node(&node)?;
    Some((node, claim))
}

/// The term for budgets in messages.
const BUDGET_WORDS: &str = "disruption budget";

fn format_disruptions(count: i64) -> String {
    match count {
        1 => "1 disruption".to_owned(),
        other => format!("{other} disruptions"),
    }
}

/// Returns why a pod is not evicted, if that would lose it permanently.
fn describe_irreplaceable_pod(pod: &Pod, rule: &NodeDrain) -> Option<String> {
    let PodDrainAction::Lost(key) = pod.drain_action(rule.manner) else { return None };
    let what = match pod.owner {
        None => "has no controller",
        Some(_) => "has data in an `emptyDir`",
    };
    Some(format!("pod {} {what} (set `{key}: true` to evict it)", pod.qualified_name()))
}

/// Names the first of many.
pub(super) fn join_first(all: &[String]) -> String {
    let named = all[..all.len().min(MAX_NAMED_PODS)].join("; ");
    match all.len().saturating_sub(MAX_NAMED_PODS) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

fn unknown_node(error: KubeError) -> WindowRefusal {
    WindowRefusal::Unknown(format!("Kubernetes node: {}", error.message))
}

pub(super) fn failed_node(error: KubeError) -> WindowRefusal {
    WindowRefusal::Failed(format!("Kubernetes node: {}", error.message))
}
