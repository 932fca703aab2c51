//! The host as a Kubernetes node: cordoned, drained, and uncordoned only if forge cordoned it.

use super::node_readiness::await_node_ready;
use super::test_labels::list_labeled_sets;
use super::window_node::{
    FIRST_POLL_PAUSE, MAX_API_FAILURES, NodeDrainRun, NodeEvents, PATCH_ATTEMPTS, WindowDrainError, WindowNode,
    failed_node, find_window_node, join_first, pair_with_claim, pause_with_backoff, unknown_node,
};
use super::window_purpose::WindowPurpose;
use super::window_refusal::WindowRefusal;
use crate::config::NodeDrain;
use crate::engine::event::{DrainedNode, NodeDrainEvent};
use crate::kube::{
    CordonRecord, EvictionApiVersion, EvictionOutcome, KubeError, NodePatchOutcome, Pod, PodBudget, PodDrainAction,
};
use crate::model::{HostName, UntrustedText, Value};
use crate::object::{ClusterNode, list_label_changes};
use crate::plan::HostWindow;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The drain of a host's Kubernetes node.
pub(super) struct KubernetesDrain<'r> {
    run: NodeDrainRun<'r>,
    host: &'r HostName,
    purpose: WindowPurpose,
    /// Whether forge cordoned the node.
    cordoned: bool,
    events: NodeEvents<'r>,
}

impl<'r> KubernetesDrain<'r> {
    pub fn new(run: NodeDrainRun<'r>, host: &'r HostName, purpose: WindowPurpose) -> Self {
        Self { run, host, purpose, cordoned: false, events: NodeEvents::new(run, host) }
    }

    pub fn is_cordoned(&self) -> bool {
        self.cordoned
    }

    /// Returns this run's changes to the node, for the report.
    pub fn take_summary(&mut self) -> Option<DrainedNode> {
        self.events.take_summary()
    }

    /// Cordons the node and evicts its pods. Checks for data that would be lost permanently before any change.
    ///
    /// # Errors
    /// Pods did not leave, or the API did not answer. Then the node is uncordoned, unless an earlier run left it out of
    /// service.
    pub async fn drain_node(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        if window.kubernetes.is_none() {
            return Ok(());
        }
        if self.run.has_no_cluster_yet() {
            self.events.emit_event("", NodeDrainEvent::NoCluster);
            return Ok(());
        }
        let Some(drain) = find_window_node(self.run, self.host, window).await? else {
            self.events.emit_event("", NodeDrainEvent::Absent);
            return Ok(());
        };
        let pods = drain.cluster.list_node_pods(&drain.node).await.map_err(unknown_node)?;
        drain.check_irreplaceable_pods(&pods).map_err(|pods| drain.refuse_as_busy(&pods))?;
        let policy = drain.cluster.find_eviction_api().await.map_err(unknown_node)?;
        // Without an answer the node may still have been cordoned.
        self.cordoned = true;
        let claim = self.cordon_node(&drain).await?;
        let done = match self.evict_pods(&drain, &policy, drain.drain_deadline()).await {
            Ok(pods) if self.purpose == WindowPurpose::TestByJobs => Ok(pods),
            Ok(pods) => self.remove_operator_pods(&drain, drain.drain_deadline()).await.map(|()| pods),
            Err(stuck) => Err(stuck),
        };
        match done {
            Ok(pods) => {
                self.events.emit_event(&drain.node, NodeDrainEvent::Drained { pods, cordoned: claim.cordoned });
                Ok(())
            }
            Err(stuck) => Err(drain.to_refusal(stuck)),
        }
    }

    /// Waits until the node offers everything declared; `boot` is the host's boot id.
    ///
    /// # Errors
    /// The node was not complete in time: it stays cordoned by forge, and the next run continues from here.
    pub async fn await_ready(&mut self, window: &HostWindow, boot: Option<&str>) -> Result<(), WindowRefusal> {
        let Some(drain) = find_window_node(self.run, self.host, window).await? else { return Ok(()) };
        await_node_ready(&drain, self.run.cancel, &mut self.events, boot).await
    }

    /// Uncordons the node if forge claimed it, unless another user had cordoned it before.
    ///
    /// # Errors
    /// The API did not answer: the node may still be cordoned.
    pub async fn release_node(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        let Some(drain) = find_window_node(self.run, self.host, window).await? else { return Ok(()) };
        for _ in 0..PATCH_ATTEMPTS {
            let node = drain.cluster.find_node(&drain.node).await.map_err(failed_node)?;
            let Some((node, claim)) = node.and_then(pair_with_claim) else { return self.clear_cordon() };
            match drain.cluster.patch_node(&node, claim.uncordon_patch(&node)).await.map_err(failed_node)? {
                NodePatchOutcome::Moved => {}
                NodePatchOutcome::Gone => return self.clear_cordon(),
                NodePatchOutcome::Done => {
                    let cordoned = node.unschedulable && !claim.cordoned;
                    self.events.emit_event(&drain.node, NodeDrainEvent::Returned { cordoned });
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

    async fn cordon_node(&self, drain: &WindowNode<'_>) -> Result<CordonRecord, WindowRefusal> {
        let options = self.run.options;
        let time = (options.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for _ in 0..PATCH_ATTEMPTS {
            let Some(node) = drain.cluster.find_node(&drain.node).await.map_err(unknown_node)? else { break };
            let claim = CordonRecord::for_run(&node, &options.run, &options.controller, &time);
            let patch = self.build_cordon_patch(&node, &claim);
            match drain.cluster.patch_node(&node, patch).await.map_err(unknown_node)? {
                NodePatchOutcome::Done => return Ok(claim),
                NodePatchOutcome::Moved => continue,
                NodePatchOutcome::Gone => break,
            }
        }
        Err(WindowRefusal::Unknown(drain.describe_conflict()))
    }

    /// A host that is about to change no longer holds its tests: the run evaluates them at its end.
    fn build_cordon_patch(&self, node: &ClusterNode, claim: &CordonRecord) -> Value {
        let mut patch = claim.cordon_patch();
        if self.purpose == WindowPurpose::Change {
            let sets = list_labeled_sets(self.run.project, self.host).map(|set| (set.to_owned(), false)).collect();
            let labels = list_label_changes(node, &sets);
            if !labels.is_empty() {
                patch["metadata"]["labels"] = json!(labels);
            }
        }
        patch
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
                        return Err(WindowDrainError::Pods(left.into_values().map(|pod| pod.why).collect()));
                    }
                    self.report_blocked_pods(drain, &left, &mut told);
                }
                Err(WindowDrainError::Api(error)) if failures < MAX_API_FAILURES => {
                    failures += 1;
                    tracing::debug!(error = error.message, "the API did not answer");
                }
                Err(stuck) => return Err(stuck),
            }
            pause_with_backoff(self.run.cancel, &mut pause, until).await?;
        }
    }

    /// Reports what blocks each pod, each time that changes.
    fn report_blocked_pods(
        &mut self,
        drain: &WindowNode<'_>,
        left: &BTreeMap<String, RemainingPod>,
        told: &mut Vec<UntrustedText>,
    ) {
        let blocked: Vec<UntrustedText> =
            left.values().filter(|pod| pod.blocked).map(|pod| pod.why.as_str().into()).collect();
        if !blocked.is_empty() && *told != blocked {
            self.events.emit_event(&drain.node, NodeDrainEvent::Waits { pods: blocked.clone() });
            *told = blocked;
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
            pause_with_backoff(self.run.cancel, &mut pause, until).await?;
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
    ) -> Result<BTreeMap<String, RemainingPod>, WindowDrainError> {
        let pods = self.cluster.list_node_pods(&self.node).await.map_err(WindowDrainError::Api)?;
        let mut left = BTreeMap::new();
        for pod in &pods {
            let mut blocked = false;
            let why = match pod.drain_action(self.rule.manner) {
                PodDrainAction::Stays => continue,
                PodDrainAction::Lost(_) => describe_irreplaceable_pod(pod, self.rule).unwrap_or_default(),
                PodDrainAction::Ends => format!("pod {} has not terminated", pod.qualified_name()),
                PodDrainAction::Goes => {
                    match self.cluster.evict_pod(policy, pod, self.rule.grace_s).await.map_err(WindowDrainError::Api)? {
                        EvictionOutcome::NotNow(said) => {
                            blocked = true;
                            self.describe_blocked_eviction(policy, pod, &said).await
                        }
                        EvictionOutcome::Taken | EvictionOutcome::Gone => {
                            asked.insert(pod.uid.clone());
                            format!("pod {} has not terminated", pod.qualified_name())
                        }
                    }
                }
            };
            left.insert(pod.qualified_name(), RemainingPod { why, blocked });
        }
        Ok(left)
    }

    /// Returns what blocks a pod: the disruption budgets by name, or the server's message if they cannot be read.
    async fn describe_blocked_eviction(&self, policy: &EvictionApiVersion, pod: &Pod, said: &str) -> String {
        let name = pod.qualified_name();
        let budgets = self.cluster.list_pod_budgets(policy, pod).await.unwrap_or_default();
        let told = |budget: &PodBudget| describe_budget(pod, budget);
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
        Err(WindowDrainError::Api(KubeError {
            message: self.describe_conflict(),
            hint: None,
            said: None,
            absence: None,
            denied: false,
        }))
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

/// A pod that is still on the node.
struct RemainingPod {
    why: String,
    /// Whether the API refuses to evict it for now, because of a disruption budget.
    blocked: bool,
}

fn format_disruptions(count: i64) -> String {
    match count {
        1 => "1 disruption".to_owned(),
        other => format!("{other} disruptions"),
    }
}

/// Returns how many disruptions of a pod a budget allows.
pub(super) fn describe_budget(pod: &Pod, budget: &PodBudget) -> String {
    format!("disruption budget {}/{} allows {}", pod.namespace, budget.name, format_disruptions(budget.allowed))
}

/// Returns why a pod is not evicted, if that would lose it permanently.
pub(super) fn describe_irreplaceable_pod(pod: &Pod, rule: &NodeDrain) -> Option<String> {
    let PodDrainAction::Lost(key) = pod.drain_action(rule.manner) else { return None };
    let what = match pod.owner {
        None => "has no controller",
        Some(_) => "has data in an `emptyDir`",
    };
    Some(format!("pod {} {what} (set `{key}: true` to evict it)", pod.qualified_name()))
}
