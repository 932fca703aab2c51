//! Dependencies: waits until the steps that a group needs are decided, on this host and on others.

use super::cancel::StopLevel;
use super::event::Event;
use super::group::HostStepGroup;
use super::host::HostRun;
use crate::graph::{DependencyKind, GraphEdge, StepIndex};
use crate::model::{HostName, StepPhase};
use crate::plan::{CrossHostWait, above};

/// Why a group does not run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GateRefusal {
    /// A dependency failed: the reason, as a lowercase fragment.
    Lacks(String),
    /// The run was stopped during the wait.
    Stopped,
}

impl HostRun<'_> {
    /// Returns when everything the group waits for is decided.
    ///
    /// # Errors
    /// The group does not run.
    pub(super) async fn gate(&self, group: &HostStepGroup) -> Result<(), GateRefusal> {
        let graph = self.graph();
        for edge in group.steps.iter().flat_map(|index| graph.waits_for(*index)) {
            if group.steps.contains(&edge.from) {
                continue;
            }
            self.gate_here(edge)?;
            self.gate_others(edge).await?;
        }
        Ok(())
    }

    /// Checks an edge between steps of this host. It is already decided, as a host's steps run one after the other.
    fn gate_here(&self, edge: &GraphEdge) -> Result<(), GateRefusal> {
        let phase = match (edge.why, edge.phase) {
            (DependencyKind::After | DependencyKind::Restart | DependencyKind::Export | DependencyKind::Barrier, _) => {
                return Ok(());
            }
            (DependencyKind::Order, _) => StepPhase::Configured,
            (DependencyKind::Needs, StepPhase::Verified) if self.same_recipe(edge) => StepPhase::Effective,
            (DependencyKind::Needs, phase) => phase,
        };
        self.run.board.now(|standing| {
            let ran = |step| standing.of(step, self.host()).is_some();
            let Some(from) = above(self.graph(), edge, ran) else { return Ok(()) };
            match (standing.got_to(from, self.host(), phase), standing.unproven(from, self.host())) {
                (Some(false), Some(why)) => Err(GateRefusal::Lacks(format!("needs `{}`: {why}", self.name(from)))),
                (Some(false), None) => {
                    Err(GateRefusal::Lacks(format!("needs `{}`, which did not succeed", self.name(from))))
                }
                (Some(true) | None, _) => Ok(()),
            }
        })
    }

    fn same_recipe(&self, edge: &GraphEdge) -> bool {
        let graph = &self.run.project.graph;
        graph.step(edge.from).recipe == graph.step(edge.to).recipe
    }

    async fn gate_others(&self, edge: &GraphEdge) -> Result<(), GateRefusal> {
        let Some(wait) = self.run.spans.wait(self.host(), edge) else { return Ok(()) };
        let decided = match self.run.board.now(|s| s.all_got_to(wait.from, &wait.hosts, wait.phase)) {
            Some(decided) => decided,
            None => self.wait_for(edge.to, &wait).await.ok_or(GateRefusal::Stopped)?,
        };
        let (there, out): (Vec<_>, Vec<_>) = decided.into_iter().partition(|(_, got_there)| *got_there);
        let out: Vec<HostName> = out.into_iter().map(|(host, _)| host).collect();
        match wait.lacking(there.len(), &out) {
            // For a stopped run the missing dependency is not the reason.
            Some(_) if self.run.cancel.level() > StopLevel::No => Err(GateRefusal::Stopped),
            Some(why) if why.starts_with("on ") => {
                Err(GateRefusal::Lacks(format!("needs `{}` {why}", self.name(wait.from))))
            }
            Some(why) => Err(GateRefusal::Lacks(format!("needs `{}`: {why}", self.name(wait.from)))),
            None => Ok(()),
        }
    }

    /// Returns the results of a step on other hosts; `None` if the run is stopped meanwhile.
    async fn wait_for(&self, index: StepIndex, wait: &CrossHostWait) -> Option<Vec<(HostName, bool)>> {
        let what = format!("`{}` on {}", self.name(wait.from), hosts_text(&wait.hosts));
        self.run.say(Event::Waiting {
            host: self.host().clone(),
            step: self.run.project.graph.step(index).clone(),
            what: what.into(),
        });
        self.run.board.set_waiting(self.host(), &wait.hosts);
        // A waiting host gives up its place in the window; otherwise the hosts it waits for might never start.
        self.run.times.pause(self.host());
        self.run.window.add_permits(1);
        let decided = tokio::select! {
            biased;
            decided = self.run.board.until(|s| s.all_got_to(wait.from, &wait.hosts, wait.phase)) => Some(decided),
            () = self.run.cancel.reached(StopLevel::Finish) => None,
        };
        if let Ok(permit) = self.run.window.acquire().await {
            permit.forget();
        }
        self.run.times.resume(self.host());
        self.run.board.set_waiting(self.host(), &[]);
        decided
    }

    fn name(&self, index: StepIndex) -> String {
        self.run.project.graph.step(index).to_string()
    }
}

fn hosts_text(hosts: &[HostName]) -> String {
    match hosts {
        [one] => one.to_string(),
        many => format!("{} hosts", many.len()),
    }
}
