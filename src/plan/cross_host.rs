//! The data that one host's plan takes from the plans of other hosts: the phase that the steps reach that it waits for,
//! and the recipes that export the values that it reads.

use super::cross_host_edges::{CrossHostEdges, CrossHostWait};
use super::unmet_dependency::DependencyShortfall;
use crate::graph::{Graph, GraphEdge, StepIndex};
use crate::model::{HostName, StepPhase};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::RwLock;

/// The phase that a step reaches on a host, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PlannedStepStatus {
    /// Effective, and the recipe's verification passes or will be evaluated after changes.
    Verified,
    /// Effective.
    Through,
    /// Configured only.
    Configured,
    /// Not even configured.
    Stopped,
}

impl PlannedStepStatus {
    /// Returns the worst status that satisfies steps that wait for `phase`.
    pub fn required_for(phase: StepPhase) -> Self {
        match phase {
            StepPhase::Configured => Self::Configured,
            StepPhase::Effective => Self::Through,
            StepPhase::Verified => Self::Verified,
        }
    }
}

/// The data that the plans of all hosts share.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CrossHostStatus {
    /// The status of the steps that other hosts wait for.
    pub status: BTreeMap<StepIndex, BTreeMap<HostName, PlannedStepStatus>>,
    /// Recipes with a step that exports values and will change on some host.
    pub exporters: BTreeSet<String>,
}

impl CrossHostStatus {
    /// Adds the data of one more host.
    pub fn merge_host(&mut self, own: CrossHostStatus) {
        self.exporters.extend(own.exporters);
        own.status.into_iter().for_each(|(step, hosts)| self.status.entry(step).or_default().extend(hosts));
    }
}

/// The results of the previous pass over all hosts, as the current pass reads them.
pub(super) struct CrossHostView<'a> {
    pub spans: CrossHostEdges<'a>,
    /// Steps that other hosts wait for, with the best status that any step needs of them.
    sources: BTreeMap<StepIndex, PlannedStepStatus>,
    told: CrossHostStatus,
    /// Reachable hosts.
    observed: BTreeSet<HostName>,
    /// Whether this is the first pass: every reachable host is assumed to succeed.
    hopeful: bool,
    /// Cached results by edge and selection: thousands of hosts share them.
    lacking: RwLock<HashMap<(usize, usize), Option<DependencyShortfall>>>,
}

impl<'a> CrossHostView<'a> {
    pub fn new_optimistic(spans: CrossHostEdges<'a>, observed: BTreeSet<HostName>) -> Self {
        let mut sources = BTreeMap::new();
        for edge in spans.project.graph.edges().iter().filter(|edge| spans.steps.crosses_hosts(edge)) {
            let needed = PlannedStepStatus::required_for(edge.phase).min(PlannedStepStatus::Through);
            let best = sources.entry(edge.from).or_insert(needed);
            *best = needed.min(*best);
        }
        let exporting = spans.project.recipes.values().filter(|r| r.steps.iter().any(|s| !s.exports.is_empty()));
        let told = CrossHostStatus {
            exporters: exporting.map(|recipe| recipe.name.clone()).collect(),
            ..CrossHostStatus::default()
        };
        Self { spans, sources, told, observed, hopeful: true, lacking: RwLock::default() }
    }

    pub fn exporters(&self) -> &BTreeSet<String> {
        &self.told.exporters
    }

    /// Returns whether other hosts wait for a step (`Some`), and if so, whether its recipe must be verified.
    pub fn needs_verification(&self, step: StepIndex) -> Option<bool> {
        self.sources.get(&step).map(|best| *best == PlannedStepStatus::Verified)
    }

    /// Takes over the results of a pass. Returns whether they differ, so that plans made before are outdated.
    pub fn update_status(&mut self, told: CrossHostStatus) -> bool {
        let news = match std::mem::take(&mut self.hopeful) {
            true => self.is_worse_than_assumed(&told),
            false => told != self.told,
        };
        self.told = told;
        self.lacking = RwLock::default();
        news
    }

    fn is_worse_than_assumed(&self, told: &CrossHostStatus) -> bool {
        let worse = |(step, hosts): (&StepIndex, &BTreeMap<HostName, PlannedStepStatus>)| {
            let best = self.sources.get(step).copied().unwrap_or(PlannedStepStatus::Through);
            hosts.values().any(|status| *status > best)
        };
        told.exporters != self.told.exporters || told.status.iter().any(worse)
    }

    /// Returns why the dependencies of a step of `host` on other hosts are not satisfied, if they are not.
    pub fn find_unmet_wait(&self, host: &HostName, edge: &GraphEdge) -> Option<DependencyShortfall> {
        if !self.spans.steps.crosses_hosts(edge) {
            return None;
        }
        let recipe = &self.spans.project.graph.step_id(edge.from).recipe;
        let selection = self.spans.find_selection(host, recipe).map_or(0, |s| std::sync::Arc::as_ptr(s) as usize);
        let key = (std::ptr::from_ref(edge) as usize, selection);
        if let Some(known) = self.lacking.read().ok().and_then(|map| map.get(&key).cloned()) {
            return known;
        }
        let found = self.spans.find_wait(host, edge).and_then(|wait| self.describe_shortfall(&wait));
        if let Ok(mut map) = self.lacking.write() {
            map.insert(key, found.clone());
        }
        found
    }

    fn describe_shortfall(&self, wait: &CrossHostWait) -> Option<DependencyShortfall> {
        let needed = PlannedStepStatus::required_for(wait.phase);
        let (there, out): (Vec<_>, Vec<_>) =
            wait.hosts.iter().cloned().partition(|host| self.step_status(wait.from, host) <= needed);
        wait.describe_missing(there.len(), &out)
    }

    /// Returns whether a step of `host` waits for other hosts.
    pub fn waits_for_other_hosts(&self, graph: &Graph, host: &HostName, step: StepIndex) -> bool {
        let others = |edge: &GraphEdge| {
            self.spans.find_wait(host, edge).is_some_and(|wait| wait.hosts.iter().any(|h| h != host))
        };
        graph.incoming_edges(step).any(others)
    }

    /// Returns whether a host is reachable.
    pub fn is_observed(&self, host: &HostName) -> bool {
        self.observed.contains(host)
    }

    /// Returns whether a step that other hosts wait for will not run on a host.
    pub fn is_stopped(&self, step: StepIndex, host: &HostName) -> bool {
        self.step_status(step, host) == PlannedStepStatus::Stopped
    }

    fn step_status(&self, step: StepIndex, host: &HostName) -> PlannedStepStatus {
        let told = self.told.status.get(&step).and_then(|hosts| hosts.get(host)).copied();
        let hope = || self.hopeful && self.is_observed(host);
        told.unwrap_or_else(|| if hope() { PlannedStepStatus::Verified } else { PlannedStepStatus::Stopped })
    }
}
