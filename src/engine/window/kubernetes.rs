//! The host as a Kubernetes node: cordoned, drained, and uncordoned only if forge cordoned it.

use super::WindowRefusal;
use super::node::PAUSE;
use crate::config::NodeDrain;
use crate::engine::cancel::StopLevel;
use crate::engine::event::{DrainedNode, Event, NodeDrainEvent};
use crate::engine::host::HostRun;
use crate::engine::nodes;
use crate::kube::{
    ClusterApi, ClusterNode, CordonRecord, EvictionApiVersion, EvictionOutcome, KubeError, NodePatchOutcome, Pod,
    PodDrainAction,
};
use crate::model::UntrustedText;
use crate::plan::{HostWindow, ObservedNode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Number of attempts of an update that conflicts with another writer: a node's own controllers update it all the time.
pub(super) const TRIES: usize = 10;
/// Number of consecutive API failures that a drain tolerates.
pub(super) const PATIENCE: u32 = 3;
/// Initial wait: most pods end at once.
pub(super) const SHORTLY: Duration = Duration::from_millis(500);
/// Number of pods listed by name.
const NAMED: usize = 5;

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
    pub(super) async fn drain_node(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        if window.kubernetes.is_none() {
            return Ok(());
        }
        let Some(drain) = self.as_node(window).await? else {
            self.news("", NodeDrainEvent::Absent);
            return Ok(());
        };
        let pods = drain.cluster.pods_on(&drain.node).await.map_err(unknown)?;
        drain.spared(&pods).map_err(|pods| drain.busy(&pods))?;
        let policy = drain.cluster.evictions().await.map_err(unknown)?;
        // Without an answer the node may still have been cordoned.
        self.cordoned = true;
        let claim = self.cordon(&drain).await?;
        let done = match self.empty(&drain, &policy, drain.until()).await {
            Ok(pods) => self.put_aside(&drain, drain.until()).await.map(|()| pods),
            Err(stuck) => Err(stuck),
        };
        match done {
            Ok(pods) => {
                self.news(&drain.node, NodeDrainEvent::Drained { pods, cordoned: claim.cordoned });
                Ok(())
            }
            Err(stuck) => Err(drain.shut(stuck)),
        }
    }

    /// Uncordons the node if forge claimed it, unless another user had cordoned it before.
    ///
    /// # Errors
    /// The API did not answer: the node may still be cordoned.
    pub(super) async fn give_node_back(&mut self, window: &HostWindow) -> Result<(), WindowRefusal> {
        let Some(drain) = self.as_node(window).await? else { return Ok(()) };
        for _ in 0..TRIES {
            let node = drain.cluster.node(&drain.node).await.map_err(failed)?;
            let Some((node, claim)) = node.and_then(claimed) else { return self.freed() };
            match drain.cluster.patch_node(&node, claim.give_back(&node)).await.map_err(failed)? {
                NodePatchOutcome::Moved => {}
                NodePatchOutcome::Gone => return self.freed(),
                NodePatchOutcome::Done => {
                    let cordoned = node.unschedulable && !claim.cordoned;
                    self.news(&drain.node, NodeDrainEvent::Returned { cordoned });
                    return self.freed();
                }
            }
        }
        Err(WindowRefusal::Failed(drain.moves()))
    }

    /// Notes that forge has no claim on the node any more.
    fn freed(&mut self) -> Result<(), WindowRefusal> {
        self.cordoned = false;
        Ok(())
    }

    /// Returns the host's current node, if it has one: usually still the one named in the plan.
    pub(super) async fn as_node(&self, window: &HostWindow) -> Result<Option<WindowNode<'r>>, WindowRefusal> {
        let (project, options) = (self.run.project, self.run.options);
        let Some((rule, seen)) = project.rollout.kubernetes.as_ref().zip(window.kubernetes.as_ref()) else {
            return Ok(None);
        };
        if let ObservedNode::Node { name, .. } = seen
            && let Ok(cluster) = self.run.api.get(project, options).await
            && let Ok(Some(node)) = cluster.node(name.raw()).await
            && let Ok(Some(_)) = nodes::find(project, self.host(), std::slice::from_ref(&node))
        {
            return Ok(Some(WindowNode { cluster, rule, node: node.name }));
        }
        let (cluster, nodes) = self.run.api.nodes(project, options).await.map_err(unknown)?;
        match nodes::find(project, self.host(), &nodes) {
            Ok(found) => Ok(found.map(|node| WindowNode { cluster, rule, node: node.name.clone() })),
            Err(why) => {
                Err(WindowRefusal::Unknown(format!("the host's Kubernetes node could not be determined: {why}")))
            }
        }
    }

    pub(super) fn news(&mut self, node: &str, news: NodeDrainEvent) {
        let drained = self.passage.node.take();
        self.passage.node = DrainedNode::after(drained, node.into(), &news);
        self.run.say(Event::Node { host: self.host().clone(), node: node.into(), news });
    }

    async fn cordon(&self, drain: &WindowNode<'_>) -> Result<CordonRecord, WindowRefusal> {
        let options = self.run.options;
        let time = (options.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for _ in 0..TRIES {
            let Some(node) = drain.cluster.node(&drain.node).await.map_err(unknown)? else { break };
            let claim = CordonRecord::of_run(&node, &options.run, &options.controller, &time);
            match drain.cluster.patch_node(&node, claim.cordon()).await.map_err(unknown)? {
                NodePatchOutcome::Done => return Ok(claim),
                NodePatchOutcome::Moved => continue,
                NodePatchOutcome::Gone => break,
            }
        }
        Err(WindowRefusal::Unknown(drain.moves()))
    }

    /// Evicts pods until none is left that has to go. Returns the number of evicted pods.
    async fn empty(
        &mut self,
        drain: &WindowNode<'_>,
        policy: &EvictionApiVersion,
        until: Instant,
    ) -> Result<usize, WindowDrainError> {
        let (mut asked, mut told, mut failures, mut pause) = (BTreeSet::new(), Vec::new(), 0, SHORTLY);
        loop {
            match drain.turn(policy, &mut asked).await {
                Ok(left) if left.is_empty() => return Ok(asked.len()),
                Ok(left) => {
                    failures = 0;
                    if Instant::now() >= until {
                        return Err(WindowDrainError::Pods(left.into_values().collect()));
                    }
                    self.tell_blocked(drain, &left, &mut told);
                }
                Err(WindowDrainError::Api(error)) if failures < PATIENCE => {
                    failures += 1;
                    tracing::debug!(error = error.message, "the API did not answer");
                }
                Err(stuck) => return Err(stuck),
            }
            self.rest(&mut pause, until).await?;
        }
    }

    /// Reports what blocks each pod, each time that changes.
    fn tell_blocked(&mut self, drain: &WindowNode<'_>, left: &BTreeMap<String, String>, told: &mut Vec<UntrustedText>) {
        let blocked: Vec<UntrustedText> =
            left.values().filter(|why| why.contains(BUDGET)).map(|why| why.as_str().into()).collect();
        if !blocked.is_empty() && *told != blocked {
            self.news(&drain.node, NodeDrainEvent::Waits { pods: blocked.clone() });
            *told = blocked;
        }
    }

    /// Waits for an interval that grows with each call.
    pub(super) async fn rest(&self, pause: &mut Duration, until: Instant) -> Result<(), WindowDrainError> {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(50));
        let now = (*pause).min(left);
        *pause = (*pause * 2).min(PAUSE);
        tokio::select! {
            () = tokio::time::sleep(now) => Ok(()),
            () = self.run.cancel.reached(StopLevel::Finish) => Err(WindowDrainError::Stopped),
        }
    }

    /// Has the GPU operator remove its own pods from the node: they hold the devices, and a drain does not evict them.
    async fn put_aside(&self, drain: &WindowNode<'_>, until: Instant) -> Result<(), WindowDrainError> {
        if drain.operands().await?.is_empty() {
            return Ok(());
        }
        drain.label().await?;
        let mut pause = SHORTLY;
        loop {
            let left = drain.operands().await?;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                let why = |pod: &Pod| format!("pod {} of the GPU operator is still running", pod.whole_name());
                return Err(WindowDrainError::Pods(left.iter().map(why).collect()));
            }
            self.rest(&mut pause, until).await?;
        }
    }
}

impl WindowNode<'_> {
    /// Returns the deadline of an operation that starts now.
    fn until(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.rule.timeout_s)
    }

    /// Checks that no pod would be lost permanently without the user's permission.
    fn spared(&self, pods: &[Pod]) -> Result<(), Vec<String>> {
        let lost: Vec<String> = pods.iter().filter_map(|pod| lost(pod, self.rule)).collect();
        if lost.is_empty() { Ok(()) } else { Err(lost) }
    }

    /// Evicts all pods that may go. Returns what blocks each of the remaining pods, by pod name.
    async fn turn(
        &self,
        policy: &EvictionApiVersion,
        asked: &mut BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, WindowDrainError> {
        let pods = self.cluster.pods_on(&self.node).await.map_err(WindowDrainError::Api)?;
        let mut left = BTreeMap::new();
        for pod in &pods {
            let why = match pod.fate(self.rule.manner) {
                PodDrainAction::Stays => continue,
                PodDrainAction::Lost(_) => lost(pod, self.rule).unwrap_or_default(),
                PodDrainAction::Ends => format!("pod {} has not terminated", pod.whole_name()),
                PodDrainAction::Goes => {
                    match self.cluster.evict(policy, pod, self.rule.grace_s).await.map_err(WindowDrainError::Api)? {
                        EvictionOutcome::NotNow(said) => self.blocked(policy, pod, &said).await,
                        EvictionOutcome::Taken | EvictionOutcome::Gone => {
                            asked.insert(pod.uid.clone());
                            format!("pod {} has not terminated", pod.whole_name())
                        }
                    }
                }
            };
            left.insert(pod.whole_name(), why);
        }
        Ok(left)
    }

    /// Returns what blocks a pod: the disruption budgets by name, or the server's message if they cannot be read.
    async fn blocked(&self, policy: &EvictionApiVersion, pod: &Pod, said: &str) -> String {
        let name = pod.whole_name();
        let budgets = self.cluster.budgets_of(policy, pod).await.unwrap_or_default();
        let told = |budget: &crate::kube::PodBudget| {
            format!("{BUDGET} {}/{} allows {}", pod.namespace, budget.name, disruptions(budget.allowed))
        };
        match budgets.is_empty() {
            true => format!("cannot evict pod {name}: {said}"),
            false => format!("cannot evict pod {name}: {}", budgets.iter().map(told).collect::<Vec<_>>().join(", ")),
        }
    }

    async fn operands(&self) -> Result<Vec<Pod>, WindowDrainError> {
        let pods = self.cluster.pods_on(&self.node).await.map_err(WindowDrainError::Api)?;
        Ok(pods.into_iter().filter(|pod| pod.operand && !pod.mirror && !pod.finished).collect())
    }

    async fn label(&self) -> Result<(), WindowDrainError> {
        for _ in 0..TRIES {
            let node = self.cluster.node(&self.node).await.map_err(WindowDrainError::Api)?;
            let Some((node, claim)) = node.and_then(claimed) else { break };
            match self.cluster.patch_node(&node, claim.put_aside(&node)).await.map_err(WindowDrainError::Api)? {
                NodePatchOutcome::Done => return Ok(()),
                NodePatchOutcome::Moved => continue,
                NodePatchOutcome::Gone => break,
            }
        }
        Err(WindowDrainError::Api(KubeError { message: self.moves(), hint: None, said: None }))
    }

    pub(super) fn moves(&self) -> String {
        format!("Kubernetes node {} was changed concurrently by another client", self.node)
    }

    fn busy(&self, pods: &[String]) -> WindowRefusal {
        WindowRefusal::Busy(format!("Kubernetes node {} cannot be drained: {}", self.node, some(pods)))
    }

    fn shut(&self, stuck: WindowDrainError) -> WindowRefusal {
        match stuck {
            WindowDrainError::Pods(pods) => {
                let waited = self.rule.timeout_s;
                WindowRefusal::Busy(format!(
                    "Kubernetes node {} was not drained within {waited} s: {}",
                    self.node,
                    some(&pods)
                ))
            }
            WindowDrainError::Api(error) => unknown(error),
            WindowDrainError::Stopped => WindowRefusal::Stopped,
        }
    }
}

pub(super) fn claimed(node: ClusterNode) -> Option<(ClusterNode, CordonRecord)> {
    let claim = CordonRecord::of(&node)?;
    Some((node, claim))
}

/// The term for budgets in messages.
const BUDGET: &str = "disruption budget";

fn disruptions(count: i64) -> String {
    match count {
        1 => "1 disruption".to_owned(),
        other => format!("{other} disruptions"),
    }
}

/// Returns why a pod is not evicted, if that would lose it permanently.
fn lost(pod: &Pod, rule: &NodeDrain) -> Option<String> {
    let PodDrainAction::Lost(key) = pod.fate(rule.manner) else { return None };
    let what = match pod.owner {
        None => "has no controller",
        Some(_) => "has data in an `emptyDir`",
    };
    Some(format!("pod {} {what} (set `{key}: true` to evict it)", pod.whole_name()))
}

/// Names the first of many.
pub(super) fn some(all: &[String]) -> String {
    let named = all[..all.len().min(NAMED)].join("; ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

fn unknown(error: KubeError) -> WindowRefusal {
    WindowRefusal::Unknown(format!("Kubernetes node: {}", error.message))
}

pub(super) fn failed(error: KubeError) -> WindowRefusal {
    WindowRefusal::Failed(format!("Kubernetes node: {}", error.message))
}
