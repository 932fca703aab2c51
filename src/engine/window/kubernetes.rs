//! The host as a node of Kubernetes: cordoned, drained, and given back by nobody but who cordoned it.

use super::Shut;
use super::node::PAUSE;
use crate::config::NodeDrain;
use crate::engine::cancel::Stop;
use crate::engine::event::{DrainedNode, Event, NodeNews};
use crate::engine::host::HostRun;
use crate::engine::nodes;
use crate::kube::{Claim, Cluster, Evicted, Fate, KubeError, Node, Patched, Pod, Policy};
use crate::model::Untrusted;
use crate::plan::{NodeSeen, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often a change is tried anew that somebody else's came before: a node's own programs change it all the time.
pub(super) const TRIES: usize = 10;
/// Failures of the API, one after the other, that a drain outlasts.
pub(super) const PATIENCE: u32 = 3;
/// How long it is waited at first: most pods end at once.
pub(super) const SHORTLY: Duration = Duration::from_millis(500);
/// Pods that are named.
const NAMED: usize = 5;

/// The node that a window is about.
pub(super) struct Drain<'r> {
    pub cluster: Cluster,
    pub rule: &'r NodeDrain,
    pub node: String,
}

/// Why a node is not empty.
pub(super) enum Stuck {
    /// Pods that did not leave in time, and why.
    Pods(Vec<String>),
    Api(KubeError),
    Stopped,
}

impl<'r> HostRun<'r> {
    /// Lets the node take no more pods, and has those leave that are on it. What would be lost for ever is told before
    /// anything is changed.
    ///
    /// # Errors
    /// Pods did not leave, or the API did not answer. Then the node is given back, if it was not left out of service by
    /// an earlier run.
    pub(super) async fn drain_node(&mut self, window: &Window) -> Result<(), Shut> {
        if window.kubernetes.is_none() {
            return Ok(());
        }
        let Some(drain) = self.as_node(window).await? else {
            self.news("", NodeNews::Absent);
            return Ok(());
        };
        let pods = drain.cluster.pods_on(&drain.node).await.map_err(unknown)?;
        drain.spared(&pods).map_err(|pods| drain.busy(&pods))?;
        let policy = drain.cluster.evictions().await.map_err(unknown)?;
        // Where no answer comes, it may have been done all the same.
        self.cordoned = true;
        let claim = self.cordon(&drain).await?;
        let done = match self.empty(&drain, &policy, drain.until()).await {
            Ok(pods) => self.put_aside(&drain, drain.until()).await.map(|()| pods),
            Err(stuck) => Err(stuck),
        };
        match done {
            Ok(pods) => {
                self.news(&drain.node, NodeNews::Drained { pods, cordoned: claim.cordoned });
                Ok(())
            }
            Err(stuck) => Err(drain.shut(stuck)),
        }
    }

    /// Gives the node back, if forge took it: it takes pods again unless somebody else had cordoned it.
    ///
    /// # Errors
    /// The API did not answer: the node may still be cordoned.
    pub(super) async fn give_node_back(&mut self, window: &Window) -> Result<(), Shut> {
        let Some(drain) = self.as_node(window).await? else { return Ok(()) };
        for _ in 0..TRIES {
            let node = drain.cluster.node(&drain.node).await.map_err(failed)?;
            let Some((node, claim)) = node.and_then(claimed) else { return self.freed() };
            match drain.cluster.patch_node(&node, claim.give_back(&node)).await.map_err(failed)? {
                Patched::Moved => {}
                Patched::Gone => return self.freed(),
                Patched::Done => {
                    let cordoned = node.unschedulable && !claim.cordoned;
                    self.news(&drain.node, NodeNews::Returned { cordoned });
                    return self.freed();
                }
            }
        }
        Err(Shut::Failed(drain.moves()))
    }

    /// Nothing of the node is forge's any more.
    fn freed(&mut self) -> Result<(), Shut> {
        self.cordoned = false;
        Ok(())
    }

    /// Returns the node that the host is now, if it is one: most are still the one that the plan names.
    pub(super) async fn as_node(&self, window: &Window) -> Result<Option<Drain<'r>>, Shut> {
        let (project, options) = (self.run.project, self.run.options);
        let Some((rule, seen)) = project.rollout.kubernetes.as_ref().zip(window.kubernetes.as_ref()) else {
            return Ok(None);
        };
        if let NodeSeen::Node { name, .. } = seen
            && let Ok(cluster) = self.run.api.get(project, options).await
            && let Ok(Some(node)) = cluster.node(name.raw()).await
            && let Ok(Some(_)) = nodes::find(project, self.host(), std::slice::from_ref(&node))
        {
            return Ok(Some(Drain { cluster, rule, node: node.name }));
        }
        let (cluster, nodes) = self.run.api.nodes(project, options).await.map_err(unknown)?;
        match nodes::find(project, self.host(), &nodes) {
            Ok(found) => Ok(found.map(|node| Drain { cluster, rule, node: node.name.clone() })),
            Err(why) => Err(Shut::Unknown(format!("which node of Kubernetes it is, is not known: {why}"))),
        }
    }

    pub(super) fn news(&mut self, node: &str, news: NodeNews) {
        let drained = self.passage.node.take();
        self.passage.node = DrainedNode::after(drained, node.into(), &news);
        self.run.say(Event::Node { host: self.host().clone(), node: node.into(), news });
    }

    async fn cordon(&self, drain: &Drain<'_>) -> Result<Claim, Shut> {
        let options = self.run.options;
        let time = (options.clock)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for _ in 0..TRIES {
            let Some(node) = drain.cluster.node(&drain.node).await.map_err(unknown)? else { break };
            let claim = Claim::of_run(&node, &options.run, &options.controller, &time);
            match drain.cluster.patch_node(&node, claim.cordon()).await.map_err(unknown)? {
                Patched::Done => return Ok(claim),
                Patched::Moved => continue,
                Patched::Gone => break,
            }
        }
        Err(Shut::Unknown(drain.moves()))
    }

    /// Has pods leave until none is left that is to go. Returns how many were asked to.
    async fn empty(&mut self, drain: &Drain<'_>, policy: &Policy, until: Instant) -> Result<usize, Stuck> {
        let (mut asked, mut told, mut failures, mut pause) = (BTreeSet::new(), Vec::new(), 0, SHORTLY);
        loop {
            match drain.turn(policy, &mut asked).await {
                Ok(left) if left.is_empty() => return Ok(asked.len()),
                Ok(left) => {
                    failures = 0;
                    if Instant::now() >= until {
                        return Err(Stuck::Pods(left.into_values().collect()));
                    }
                    self.tell_blocked(drain, &left, &mut told);
                }
                Err(Stuck::Api(error)) if failures < PATIENCE => {
                    failures += 1;
                    tracing::debug!(error = error.message, "the API did not answer");
                }
                Err(stuck) => return Err(stuck),
            }
            self.rest(&mut pause, until).await?;
        }
    }

    /// Says once what keeps a pod, each time that changes.
    fn tell_blocked(&mut self, drain: &Drain<'_>, left: &BTreeMap<String, String>, told: &mut Vec<Untrusted>) {
        let blocked: Vec<Untrusted> =
            left.values().filter(|why| why.contains(BUDGET)).map(|why| why.as_str().into()).collect();
        if !blocked.is_empty() && *told != blocked {
            self.news(&drain.node, NodeNews::Waits { pods: blocked.clone() });
            *told = blocked;
        }
    }

    /// Waits a while, a little longer each time.
    pub(super) async fn rest(&self, pause: &mut Duration, until: Instant) -> Result<(), Stuck> {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(50));
        let now = (*pause).min(left);
        *pause = (*pause * 2).min(PAUSE);
        tokio::select! {
            () = tokio::time::sleep(now) => Ok(()),
            () = self.run.cancel.reached(Stop::Finish) => Err(Stuck::Stopped),
        }
    }

    /// Has the GPU operator take its own pods from the node: they hold the devices, and are none that a drain ends.
    async fn put_aside(&self, drain: &Drain<'_>, until: Instant) -> Result<(), Stuck> {
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
                let why = |pod: &Pod| format!("pod {} of the GPU operator is still there", pod.whole_name());
                return Err(Stuck::Pods(left.iter().map(why).collect()));
            }
            self.rest(&mut pause, until).await?;
        }
    }
}

impl Drain<'_> {
    /// Returns until when what begins now may last.
    fn until(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.rule.timeout_s)
    }

    /// Checks that no pod would be lost for ever that nobody said may be.
    fn spared(&self, pods: &[Pod]) -> Result<(), Vec<String>> {
        let lost: Vec<String> = pods.iter().filter_map(|pod| lost(pod, self.rule)).collect();
        if lost.is_empty() { Ok(()) } else { Err(lost) }
    }

    /// Asks all pods to leave that may. Returns what keeps each of those that are still there, by their names.
    async fn turn(&self, policy: &Policy, asked: &mut BTreeSet<String>) -> Result<BTreeMap<String, String>, Stuck> {
        let pods = self.cluster.pods_on(&self.node).await.map_err(Stuck::Api)?;
        let mut left = BTreeMap::new();
        for pod in &pods {
            let why = match pod.fate(self.rule.manner) {
                Fate::Stays => continue,
                Fate::Lost(_) => lost(pod, self.rule).unwrap_or_default(),
                Fate::Ends => format!("pod {} has not ended", pod.whole_name()),
                Fate::Goes => match self.cluster.evict(policy, pod, self.rule.grace_s).await.map_err(Stuck::Api)? {
                    Evicted::NotNow(said) => self.blocked(policy, pod, &said).await,
                    Evicted::Taken | Evicted::Gone => {
                        asked.insert(pod.uid.clone());
                        format!("pod {} has not ended", pod.whole_name())
                    }
                },
            };
            left.insert(pod.whole_name(), why);
        }
        Ok(left)
    }

    /// Returns what keeps a pod: the budgets by name, or what the server said where they cannot be read.
    async fn blocked(&self, policy: &Policy, pod: &Pod, said: &str) -> String {
        let name = pod.whole_name();
        let budgets = self.cluster.budgets_of(policy, pod).await.unwrap_or_default();
        let told = |budget: &crate::kube::Budget| {
            format!("{BUDGET} {}/{} allows {}", pod.namespace, budget.name, disruptions(budget.allowed))
        };
        match budgets.is_empty() {
            true => format!("pod {name} may not leave: {said}"),
            false => format!("pod {name} may not leave: {}", budgets.iter().map(told).collect::<Vec<_>>().join(", ")),
        }
    }

    async fn operands(&self) -> Result<Vec<Pod>, Stuck> {
        let pods = self.cluster.pods_on(&self.node).await.map_err(Stuck::Api)?;
        Ok(pods.into_iter().filter(|pod| pod.operand && !pod.mirror && !pod.finished).collect())
    }

    async fn label(&self) -> Result<(), Stuck> {
        for _ in 0..TRIES {
            let node = self.cluster.node(&self.node).await.map_err(Stuck::Api)?;
            let Some((node, claim)) = node.and_then(claimed) else { break };
            match self.cluster.patch_node(&node, claim.put_aside(&node)).await.map_err(Stuck::Api)? {
                Patched::Done => return Ok(()),
                Patched::Moved => continue,
                Patched::Gone => break,
            }
        }
        Err(Stuck::Api(KubeError { message: self.moves(), hint: None }))
    }

    pub(super) fn moves(&self) -> String {
        format!("node {} of Kubernetes was changed by somebody else at the same time", self.node)
    }

    fn busy(&self, pods: &[String]) -> Shut {
        Shut::Busy(format!("node {} of Kubernetes cannot be drained: {}", self.node, some(pods)))
    }

    fn shut(&self, stuck: Stuck) -> Shut {
        match stuck {
            Stuck::Pods(pods) => {
                let waited = self.rule.timeout_s;
                Shut::Busy(format!(
                    "node {} of Kubernetes was not drained within {waited} s: {}",
                    self.node,
                    some(&pods)
                ))
            }
            Stuck::Api(error) => unknown(error),
            Stuck::Stopped => Shut::Stopped,
        }
    }
}

pub(super) fn claimed(node: Node) -> Option<(Node, Claim)> {
    let claim = Claim::of(&node)?;
    Some((node, claim))
}

/// How budgets are called.
const BUDGET: &str = "disruption budget";

fn disruptions(count: i64) -> String {
    match count {
        1 => "1 disruption".to_owned(),
        other => format!("{other} disruptions"),
    }
}

/// Returns why a pod is not told to go, if it would be lost for ever.
fn lost(pod: &Pod, rule: &NodeDrain) -> Option<String> {
    let Fate::Lost(key) = pod.fate(rule.manner) else { return None };
    let what = match pod.owner {
        None => "is made anew by nothing",
        Some(_) => "has data in an `emptyDir`",
    };
    Some(format!("pod {} {what} (`{key}: true` lets it go)", pod.whole_name()))
}

/// Names the first of many.
pub(super) fn some(all: &[String]) -> String {
    let named = all[..all.len().min(NAMED)].join("; ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

fn unknown(error: KubeError) -> Shut {
    Shut::Unknown(format!("the node in Kubernetes: {}", error.message))
}

pub(super) fn failed(error: KubeError) -> Shut {
    Shut::Failed(format!("the node in Kubernetes: {}", error.message))
}
