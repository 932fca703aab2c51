//! Waiting: what a group needs of earlier steps here and on other hosts.

use super::board::{Reached, Standing};
use super::event::Event;
use super::group::Group;
use super::host::HostRun;
use crate::config::{Barrier, Edge as Declared, Step};
use crate::graph::{Edge, StepIndex, Why};
use crate::model::{HostName, Phase, Scope};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What one edge waits for, outside this host.
struct Wait {
    from: StepIndex,
    hosts: Vec<HostName>,
    /// How many must get to `phase`; `None` for an order only.
    least: Option<usize>,
    phase: Phase,
}

impl HostRun<'_> {
    /// Returns when everything the group waits for is decided.
    ///
    /// # Errors
    /// Something it needs will not be there: why, as a lowercase fragment.
    pub(super) async fn gate(&self, group: &Group) -> Result<(), String> {
        for index in &group.steps {
            let edges: Vec<&Edge> = self.run.project.graph.waits_for(*index).collect();
            for edge in edges {
                self.gate_here(edge)?;
                self.gate_others(*index, edge).await?;
            }
        }
        Ok(())
    }

    /// An edge between steps of this host is decided already: hosts are worked on in order.
    fn gate_here(&self, edge: &Edge) -> Result<(), String> {
        let least = match (edge.why, edge.phase) {
            (Why::Order, _) | (Why::Needs, Phase::Configured) => Reached::Configured,
            (Why::Needs, _) => Reached::Effective,
            (Why::After | Why::Restart | Why::Export | Why::Barrier, _) => return Ok(()),
        };
        let here = self.run.board.now(|s| s.of(edge.from, self.host()));
        match here {
            Some(reached) if reached < least => {
                Err(format!("needs `{}`, which did not get through", self.name(edge.from)))
            }
            _ => Ok(()),
        }
    }

    async fn gate_others(&self, index: StepIndex, edge: &Edge) -> Result<(), String> {
        let Some(wait) = self.wait_of(index, edge) else { return Ok(()) };
        let standing = |s: &Standing| s.of_all(wait.from, &wait.hosts);
        let decided = match self.run.board.now(standing) {
            Some(decided) => decided,
            None => self.wait_for(index, &wait).await?,
        };
        let enough = match wait.phase {
            Phase::Configured => Reached::Configured,
            Phase::Effective | Phase::Verified => Reached::Effective,
        };
        let (there, out): (Vec<_>, Vec<_>) = decided.into_iter().partition(|(_, reached)| *reached >= enough);
        match wait.least {
            Some(least) if there.len() < least => {
                let names: Vec<String> = out.iter().map(|(host, _)| host.to_string()).collect();
                let (step, got) = (self.name(wait.from), there.len());
                Err(format!("needs `{step}` on {least} hosts, got {got}; missing: {}", names.join(", ")))
            }
            _ => Ok(()),
        }
    }

    async fn wait_for(&self, index: StepIndex, wait: &Wait) -> Result<Vec<(HostName, Reached)>, String> {
        let what = format!("`{}` on {}", self.name(wait.from), hosts_text(&wait.hosts));
        self.run.say(Event::Waiting {
            host: self.host().clone(),
            step: self.run.project.graph.step(index).clone(),
            what: what.into(),
        });
        self.run.board.set_waiting(self.host(), true);
        // A waiting host gives its place in the window away, else hosts it waits for might never begin.
        self.run.window.add_permits(1);
        let decided = tokio::select! {
            decided = self.run.board.until(|s| s.of_all(wait.from, &wait.hosts)) => Ok(decided),
            () = self.run.cancel.reached(super::cancel::Stop::Finish) => Err("the run was stopped".to_owned()),
        };
        if let Ok(permit) = self.run.window.acquire().await {
            permit.forget();
        }
        self.run.board.set_waiting(self.host(), false);
        decided
    }

    /// Returns what an edge waits for on other hosts, if it does.
    fn wait_of(&self, index: StepIndex, edge: &Edge) -> Option<Wait> {
        let (selection, from) = self.step_at(edge.from)?;
        let alive: Vec<HostName> = self.selected(&selection);
        let one = matches!(from.scope, Scope::One | Scope::Fleet);
        let hosts = match one {
            true => self.run.chosen.get(&edge.from)?.iter().filter(|h| alive.contains(h)).cloned().collect(),
            false => alive,
        };
        let (_, to) = self.step_at(index)?;
        let spans = one || edge.why == Why::Export || edge.why == Why::Barrier || to.scope == Scope::Fleet;
        let least = match edge.why {
            Why::Barrier => self.barrier(index, edge).map(|barrier| barrier.least.of(selection.len())),
            Why::Needs | Why::Order if one => Some(1),
            _ => None,
        };
        spans.then_some(Wait { from: edge.from, hosts, least, phase: edge.phase })
    }

    /// Returns the barrier that was written for an edge.
    fn barrier(&self, to: StepIndex, edge: &Edge) -> Option<Barrier> {
        let id = self.run.project.graph.step(edge.from);
        let (recipe, step) = self.declaration(to)?;
        let fits = |declared: &&Declared| {
            declared.recipe == *id.recipe && declared.step.as_ref().is_none_or(|step| **step == *id.step)
        };
        let declared = step.needs.iter().chain(&recipe.needs).filter(fits);
        declared.filter_map(|edge| edge.barrier).next()
    }

    fn declaration(&self, index: StepIndex) -> Option<(Arc<crate::config::Recipe>, Arc<Step>)> {
        let id = self.run.project.graph.step(index);
        let recipe = self.run.project.recipes.get(&*id.recipe)?.clone();
        let step = recipe.steps.iter().find(|s| *s.name == *id.step)?.clone();
        Some((recipe, step))
    }

    fn step_at(&self, index: StepIndex) -> Option<(Arc<Vec<HostName>>, Arc<Step>)> {
        let (recipe, step) = self.declaration(index)?;
        let own = self.run.project.instances.get(self.host())?;
        let instance = own.iter().find(|i| i.recipe.name == recipe.name).cloned();
        // A recipe that only other hosts have: any of its selections that this run works on.
        let selection = match instance {
            Some(instance) => instance.selection.clone(),
            None => self.anywhere(&recipe.name)?,
        };
        Some((selection, step))
    }

    fn anywhere(&self, recipe: &str) -> Option<Arc<Vec<HostName>>> {
        let mut hosts: BTreeSet<&HostName> = BTreeSet::new();
        for (host, instances) in &self.run.project.instances {
            if instances.iter().any(|i| i.recipe.name == recipe) {
                hosts.insert(host);
            }
        }
        let ordered = self.run.project.hosts.keys().filter(|h| hosts.contains(h)).cloned().collect();
        Some(Arc::new(ordered))
    }

    /// Hosts of a selection that this run works on.
    fn selected(&self, selection: &[HostName]) -> Vec<HostName> {
        selection.iter().filter(|host| self.run.members.contains(host)).cloned().collect()
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
