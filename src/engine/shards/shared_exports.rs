//! The exported values of a run with workers: those that the hosts of a worker read, and their changes.

use super::worker_role::OutsideState;
use crate::config::{Project, list_read_exports};
use crate::engine::run_state::SharedRunState;
use crate::model::{HostName, SecretStore};
use crate::plan::{ExportEntry, HostExports};
use std::collections::{BTreeMap, BTreeSet};

/// The names of exported values: recipe and name.
pub(super) type ExportNames = BTreeSet<(String, String)>;

/// The values that hosts exported when the plan was made, who reads them, and the news since the last look.
pub(super) struct SharedExports {
    planned: HostExports,
    /// What each recipe reads.
    reads: BTreeMap<String, ExportNames>,
    news: Vec<ExportEntry>,
}

impl SharedExports {
    /// Returns the values of a plan.
    pub fn new(project: &Project, planned: HostExports) -> Self {
        let reads = project.recipes.values().map(|recipe| (recipe.name.clone(), list_read_exports(recipe, project)));
        Self { planned, reads: reads.filter(|(_, names)| !names.is_empty()).collect(), news: Vec::new() }
    }

    /// Returns the names of the values that hosts read.
    pub fn list_names(&self, project: &Project, hosts: &BTreeSet<HostName>) -> ExportNames {
        if self.reads.is_empty() {
            return ExportNames::new();
        }
        let instances = hosts.iter().filter_map(|host| project.instances.get(host)).flatten();
        let recipes: BTreeSet<&str> = instances.filter(|own| !own.absent).map(|own| own.recipe.name.as_str()).collect();
        recipes.into_iter().filter_map(|recipe| self.reads.get(recipe)).flatten().cloned().collect()
    }

    /// Returns what the plan says about the values `names` of other hosts than `hosts`.
    pub fn list_planned(&self, names: &ExportNames, hosts: &BTreeSet<HostName>, secrets: &SecretStore) -> OutsideState {
        let planned = list_outside(&self.planned, names, hosts);
        let exports = planned.map(|entry| entry.without_secret(secrets)).collect();
        OutsideState { exports, ..OutsideState::default() }
    }

    /// Returns the values `names` of other hosts than `hosts` that differ from the plan's.
    pub fn list_changed(
        &self,
        now: &HostExports,
        names: &ExportNames,
        hosts: &BTreeSet<HostName>,
        secrets: &SecretStore,
    ) -> Vec<ExportEntry> {
        let planned: Vec<ExportEntry> = list_outside(&self.planned, names, hosts).collect();
        let changed = list_outside(now, names, hosts).filter(|entry| !planned.contains(entry));
        changed.map(|entry| entry.without_secret(secrets)).collect()
    }

    /// Makes a change that may concern the values of a host, and keeps the new ones.
    pub fn note_change(&mut self, board: &SharedRunState, host: &HostName, change: impl FnOnce()) {
        if self.reads.is_empty() {
            return change();
        }
        let list_own = || board.shared_values().published.list_host_entries(host);
        let before = list_own();
        change();
        let secrets = &board.shared_values().secrets;
        let new = list_own().into_iter().filter(|entry| !before.contains(entry));
        self.news.extend(new.map(|entry| entry.without_secret(secrets)));
    }

    /// Removes and returns the news.
    pub fn take_news(&mut self) -> Vec<ExportEntry> {
        std::mem::take(&mut self.news)
    }
}

/// Returns the news that concern a worker whose hosts read the values `names`.
pub(super) fn select_news(news: &[ExportEntry], names: &ExportNames, hosts: &BTreeSet<HostName>) -> Vec<ExportEntry> {
    let is_read = |entry: &&ExportEntry| names.contains(&(entry.recipe.clone(), entry.name.clone()));
    news.iter().filter(|entry| !hosts.contains(&entry.host)).filter(is_read).cloned().collect()
}

fn list_outside<'e>(
    exports: &'e HostExports,
    names: &'e ExportNames,
    hosts: &'e BTreeSet<HostName>,
) -> impl Iterator<Item = ExportEntry> + use<'e> {
    let is_read = |recipe: &str, name: &str| names.contains(&(recipe.to_owned(), name.to_owned()));
    exports.list_entries(|recipe, name, host| !hosts.contains(host) && is_read(recipe, name)).into_iter()
}
