//! Dependencies: waits until the steps that a group needs are decided, on this host and on others.

use super::board_link::HostNews;
use super::cancel::StopLevel;
use super::event::Event;
use super::run_context::ApplyContext;
use super::step_groups::HostStepGroup;
use crate::graph::{DependencyKind, Graph, GraphEdge, StepIndex};
use crate::model::{HostName, StepId, StepPhase};
use crate::plan::{CrossHostWait, MissingCluster, UnmetDependency, resolve_predecessor};

/// Why a group does not run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GateRefusal {
    /// A dependency failed: the reason, as a lowercase fragment, and the step of this host that did not succeed.
    Lacks { reason: String, root: Option<StepId> },
    /// The run was stopped during the wait.
    Stopped,
}

/// The dependencies of one host's groups.
pub(super) struct DependencyGate<'r> {
    run: &'r ApplyContext<'r>,
    host: &'r HostName,
}

impl<'r> DependencyGate<'r> {
    pub fn new(run: &'r ApplyContext<'r>, host: &'r HostName) -> Self {
        Self { run, host }
    }

    fn graph(&self) -> &'r Graph {
        self.run.project.graph_for_host(self.host)
    }

    /// Returns when everything the group waits for is decided.
    ///
    /// # Errors
    /// The group does not run.
    pub async fn await_dependencies(&self, group: &HostStepGroup) -> Result<(), GateRefusal> {
        let graph = self.graph();
        for edge in group.steps.iter().flat_map(|index| graph.incoming_edges(*index)) {
            if group.steps.contains(&edge.from) {
                continue;
            }
            self.check_local_dependency(edge)?;
            self.await_remote_dependency(edge).await?;
        }
        Ok(())
    }

    /// Reports whether a step of the group builds on steps of other hosts: what was observed before those ended may no
    /// longer be true.
    pub fn depends_on_others(&self, group: &HostStepGroup) -> bool {
        let mut edges = group.steps.iter().flat_map(|index| self.graph().incoming_edges(*index));
        let acts_elsewhere =
            |wait: &CrossHostWait| !wait.cut.is_empty() || wait.hosts.iter().any(|host| host != self.host);
        edges.any(|edge| {
            !group.steps.contains(&edge.from)
                && self.run.spans.find_wait(self.host, edge).as_ref().is_some_and(acts_elsewhere)
        })
    }

    /// Returns when every step that creates the cluster has run; `step` is the one that waits for them.
    ///
    /// # Errors
    /// One of them did not succeed.
    pub async fn await_makers(&self, missing: &MissingCluster, step: &StepId) -> Result<(), GateRefusal> {
        for maker in &missing.makers {
            let Some(index) = self.graph().find_step(&maker.step.recipe, &maker.step.step) else { continue };
            let hosts = std::slice::from_ref(&maker.host);
            let reached = || self.run.board.read_data(|s| s.have_all_reached(index, hosts, StepPhase::Effective));
            let decided = match reached() {
                Some(decided) => decided,
                None => {
                    let wait = CrossHostWait {
                        from: index,
                        phase: StepPhase::Effective,
                        hosts: hosts.to_vec(),
                        cut: Vec::new(),
                        least: Some(1),
                    };
                    self.await_step_on_hosts(step, &wait).await.ok_or(GateRefusal::Stopped)?
                }
            };
            match decided.iter().all(|(_, got_there)| *got_there) {
                true => {}
                false if self.run.cancel.level() > StopLevel::No => return Err(GateRefusal::Stopped),
                false => {
                    let reason = format!("the cluster does not exist: {maker} did not succeed");
                    return Err(GateRefusal::Lacks { reason, root: None });
                }
            }
        }
        Ok(())
    }

    /// Checks an edge between steps of this host. It is already decided, as a host's steps run one after the other.
    fn check_local_dependency(&self, edge: &GraphEdge) -> Result<(), GateRefusal> {
        let phase = match (edge.why, edge.phase) {
            (DependencyKind::After | DependencyKind::Restart | DependencyKind::Export | DependencyKind::Barrier, _) => {
                return Ok(());
            }
            (DependencyKind::Order, _) => StepPhase::Configured,
            (DependencyKind::Needs, StepPhase::Verified) if self.is_within_recipe(edge) => StepPhase::Effective,
            (DependencyKind::Needs, phase) => phase,
        };
        self.run.board.read_data(|standing| {
            let ran = |step| standing.reached_phase(step, self.host).is_some();
            let Some(from) = resolve_predecessor(self.graph(), edge, ran) else { return Ok(()) };
            let own = || self.run.project.graph.step_id(from).clone();
            let root = standing.find_root(from, self.host).cloned().unwrap_or_else(own);
            let reason =
                match (standing.has_reached(from, self.host, phase), standing.verification_failure(from, self.host)) {
                    (Some(false), Some(why)) => format!("needs `{root}`: {why}"),
                    (Some(false), None) => format!("needs `{root}`, which did not succeed"),
                    (Some(true) | None, _) => return Ok(()),
                };
            Err(GateRefusal::Lacks { reason, root: Some(root) })
        })
    }

    fn is_within_recipe(&self, edge: &GraphEdge) -> bool {
        let graph = &self.run.project.graph;
        graph.step_id(edge.from).recipe == graph.step_id(edge.to).recipe
    }

    async fn await_remote_dependency(&self, edge: &GraphEdge) -> Result<(), GateRefusal> {
        let Some(wait) = self.run.spans.find_wait(self.host, edge) else { return Ok(()) };
        if self.run.options.worker.is_some() && wait.cut.iter().chain(&wait.hosts).any(|host| host != self.host) {
            return self.ask_coordinator(edge).await;
        }
        let decided = match self.run.board.read_data(|s| s.have_all_reached(wait.from, &wait.hosts, wait.phase)) {
            Some(decided) => decided,
            None => self
                .await_step_on_hosts(self.run.project.graph.step_id(edge.to), &wait)
                .await
                .ok_or(GateRefusal::Stopped)?,
        };
        let (there, out): (Vec<_>, Vec<_>) = decided.into_iter().partition(|(_, got_there)| *got_there);
        let out: Vec<HostName> = out.into_iter().map(|(host, _)| host).collect();
        match wait.describe_missing(there.len(), &out) {
            // For a stopped run the missing dependency is not the reason.
            Some(_) if self.run.cancel.level() > StopLevel::No => Err(GateRefusal::Stopped),
            Some(shortfall) => {
                let step = self.format_step_name(wait.from);
                let reason = UnmetDependency { step, shortfall: Some(shortfall) }.describe_need();
                Err(GateRefusal::Lacks { reason, root: None })
            }
            None => Ok(()),
        }
    }

    /// Asks the coordinator of a worker for a step of hosts that other workers may have.
    async fn ask_coordinator(&self, edge: &GraphEdge) -> Result<(), GateRefusal> {
        let name = |index| self.run.project.graph.step_id(index).clone();
        let (step, awaited) = (name(edge.to), name(edge.from));
        let request = HostNews::StepAwaited { step, awaited, phase: edge.phase, edge: edge.why };
        match self.await_without_place(self.run.board.await_remote_step(self.host, request)).await {
            Some(None) => Ok(()),
            Some(Some(reason)) if self.run.cancel.level() == StopLevel::No => {
                Err(GateRefusal::Lacks { reason, root: None })
            }
            // For a stopped run the missing dependency is not the reason.
            Some(Some(_)) | None => Err(GateRefusal::Stopped),
        }
    }

    /// Returns the results of a step on other hosts; `None` if the run is stopped meanwhile.
    async fn await_step_on_hosts(&self, step: &StepId, wait: &CrossHostWait) -> Option<Vec<(HostName, bool)>> {
        let what = describe_awaited_step(self.run.project.graph.step_id(wait.from), &wait.hosts);
        self.run.emit_event(Event::Waiting { host: self.host.clone(), step: step.clone(), what: what.into() });
        self.run.board.set_waiting(self.host, &wait.hosts);
        let decided = self.run.board.wait_until(|s| s.have_all_reached(wait.from, &wait.hosts, wait.phase));
        let decided = self.await_without_place(decided).await;
        self.run.board.set_waiting(self.host, &[]);
        decided
    }

    /// Waits for `decided`; `None` if the run is stopped meanwhile. A waiting host gives up its place among the active
    /// hosts; otherwise the hosts it waits for might never start.
    async fn await_without_place<T>(&self, decided: impl Future<Output = T>) -> Option<T> {
        self.run.times.pause(self.host);
        self.run.window.add_permits(1);
        let decided = tokio::select! {
            biased;
            decided = decided => Some(decided),
            () = self.run.cancel.wait_for_level(StopLevel::Finish) => None,
        };
        if let Ok(permit) = self.run.window.acquire().await {
            permit.forget();
        }
        self.run.times.resume(self.host);
        decided
    }

    fn format_step_name(&self, index: StepIndex) -> String {
        self.run.project.graph.step_id(index).to_string()
    }
}

/// Describes what a host waits for.
pub(super) fn describe_awaited_step(step: &StepId, hosts: &[HostName]) -> String {
    format!("`{step}` on {}", format_hosts(hosts))
}

fn format_hosts(hosts: &[HostName]) -> String {
    match hosts {
        [one] => one.to_string(),
        many => format!("{} hosts", many.len()),
    }
}
