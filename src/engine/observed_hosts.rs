//! What was observed of a selection of hosts.

use super::cluster_nodes::LazyClusterApi;
use super::host_session::HostSession;
use super::recording::Recording;
use super::run_options::RunOptions;
use super::shards::HostKeys;
use crate::config::{ExportedValues, Project, StepExpander};
use crate::model::{HostName, SecretStore};
use crate::plan::{self, ChosenHosts, HostExports, MissingCluster, ObservedHost, PlanContext};
use crate::probe::KEY_LEFT_OUT;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The observation of a selection of hosts.
pub struct ObservedHosts {
    /// In the order of the inventory.
    pub seen: Vec<ObservedHost>,
    /// The host of each `one` step.
    pub chosen: ChosenHosts,
    /// The exported values by host, to which later results of a run are added.
    pub published: HostExports,
    /// The same values, as templates read them.
    pub exports: ExportedValues,
    /// Includes secrets exported by hosts.
    pub secrets: SecretStore,
    /// Duration of the observation: in total, and per host.
    pub took: Duration,
    /// Time spent on each host; hosts are observed in parallel.
    pub took_by: BTreeMap<HostName, Duration>,
    /// The cluster, if it does not exist yet and steps of the observed hosts create it.
    pub(super) missing: Option<MissingCluster>,
    /// The API of the cluster whose nodes the hosts are, as far as it was opened.
    pub(super) api: LazyClusterApi,
    /// The answers that the observation was read from, if they are kept: they cannot be rebuilt from it.
    pub recorded: Option<Arc<Recording>>,
    /// Sessions that are still open.
    pub(super) links: BTreeMap<HostName, Box<dyn HostSession>>,
}

impl ObservedHosts {
    /// Returns the observation of no host.
    pub(super) fn empty_for(project: &Project) -> Self {
        Self {
            seen: Vec::new(),
            chosen: ChosenHosts::new(),
            published: HostExports::default(),
            exports: ExportedValues::new(),
            secrets: project.secrets.clone(),
            took: Duration::ZERO,
            took_by: BTreeMap::new(),
            missing: None,
            api: LazyClusterApi::default(),
            recorded: None,
            links: BTreeMap::new(),
        }
    }

    /// Returns the keys of the hosts, as far as they are known.
    pub fn list_host_keys(&self) -> HostKeys {
        let known = |seen: &ObservedHost| seen.key.clone().filter(|key| key != KEY_LEFT_OUT);
        self.seen.iter().filter_map(|seen| Some((seen.host.clone(), known(seen)?))).collect()
    }

    /// Adds the keys of hosts whose answers come from a recording.
    pub fn add_host_keys(&mut self, keys: &HostKeys) {
        for seen in &mut self.seen {
            if let Some(key) = keys.find_key(&seen.host) {
                seen.key = Some(key.to_owned());
            }
        }
    }

    /// Returns the inputs of the plan for this observation.
    pub(super) fn to_plan_inputs<'i>(&'i self, project: &'i Project, options: &'i RunOptions) -> plan::PlanInputs<'i> {
        plan::PlanInputs {
            project,
            filter: &options.filter,
            seen: &self.seen,
            exports: &self.exports,
            chosen: &self.chosen,
            secrets: &self.secrets,
            policy: options.plan_policy(),
        }
    }

    /// Returns the context in which the hosts are evaluated, as observed.
    pub(super) fn plan_context<'g>(
        &'g self,
        project: &'g Project,
        expander: &'g StepExpander<'g>,
        options: &'g RunOptions,
    ) -> PlanContext<'g> {
        PlanContext {
            project,
            expander,
            filter: &options.filter,
            policy: options.plan_policy(),
            exports: &self.exports,
            chosen: &self.chosen,
            secrets: &self.secrets,
        }
    }
}

impl AsRef<[ObservedHost]> for ObservedHosts {
    fn as_ref(&self) -> &[ObservedHost] {
        &self.seen
    }
}
