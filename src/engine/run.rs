//! What every host of a run shares: the project, the plan's ground, the board, the window, the events.

use super::board::{Board, Shared};
use super::cancel::Cancel;
use super::event::Event;
use super::nodes::Api;
use super::recording::Recording;
use super::report::StepReport;
use super::restarts::Restarts;
use super::times::WorkTimes;
use crate::config::{Expander, Project, StepFilter};
use crate::graph::StepIndex;
use crate::model::{HostName, StepId};
use crate::plan::{Case, Chosen, Ground, HostSeen, Policy, Rollout, Spans};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// Where events go.
pub type Events = UnboundedSender<Event>;

/// What the user allows and wants of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Hosts worked on at once.
    pub parallel: usize,
    /// For checks and steps that name none.
    pub timeout: Option<Duration>,
    /// Whether checks of recipes run where they can write nothing.
    pub confined: bool,
    pub filter: StepFilter,
    pub policy: Policy,
    /// Why those who hold a host's devices are to be ended, where the user says so.
    pub evict_busy: Option<String>,
    /// Names the run: time and random text, `20261121T093015-4f2a`.
    pub run: String,
    /// The boot id of the machine that forge runs on, where it has one: that machine is never rebooted.
    pub boot_id: Option<String>,
    /// `user@controller`, for records and locks.
    pub controller: String,
    pub user: String,
    /// Tells the time, for records and the lock's owner.
    pub clock: fn() -> jiff::Timestamp,
    /// Where control sockets live: see [`crate::transport::control_dir`].
    pub control_dir: camino::Utf8PathBuf,
    /// Environment variables that ssh is given beside those it always is: see [`crate::transport::SSH_VARIABLES`].
    pub ssh_variables: Arc<[String]>,
    /// Where the sandboxes of the cluster are noted: see [`crate::transport::sandboxes`].
    pub sandboxes: camino::Utf8PathBuf,
    pub replay: Replay,
    /// Where artifacts are had from.
    pub depot: Arc<crate::artifact::Depot>,
}

/// Whether hosts are asked, and whether their raw answers are kept.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Keeps raw answers, and asks for all facts.
    pub record: bool,
    /// Keeps raw answers, and asks for no more than is needed.
    pub keep: bool,
    /// Answers come from here; no session is opened.
    pub observed: Option<Arc<Recording>>,
}

/// One run.
pub struct Run<'a> {
    pub project: &'a Project,
    pub expander: &'a Expander<'a>,
    pub chosen: &'a Chosen,
    /// Edges across the hosts that this run works on.
    pub spans: Spans<'a>,
    /// Hosts that receive all their changes before any other.
    pub canaries: &'a BTreeSet<HostName>,
    pub rollout: &'a Rollout,
    pub restarts: &'a Restarts,
    /// Recipes whose verification other recipes wait for.
    pub proofs: &'a BTreeSet<String>,
    /// Whether the failure budget kept a host from beginning.
    pub spent: &'a AtomicBool,
    pub options: &'a Options,
    pub plan: &'a str,
    pub board: &'a Board,
    /// The API of the cluster whose nodes the hosts are.
    pub api: &'a Api,
    /// Whether any host changes in this run.
    pub hosts_change: bool,
    pub cancel: &'a Cancel,
    pub events: &'a Events,
    pub window: &'a tokio::sync::Semaphore,
    pub in_flight: &'a InFlight,
    pub ledger: &'a Ledger,
    pub times: &'a WorkTimes,
    /// Names of the facts that are asked for.
    pub facts: &'a BTreeSet<String>,
}

impl<'a> Run<'a> {
    pub fn say(&self, event: Event) {
        // Nobody listens any more only when the process is about to end.
        let _ = self.events.send(event);
    }

    /// Returns every step of a recipe.
    pub fn steps_of(&self, recipe: &str) -> Vec<StepIndex> {
        let graph = &self.project.graph;
        let own = self.project.recipes.get(recipe).into_iter().flat_map(|r| r.steps.iter());
        own.filter_map(|step| graph.find(recipe, &step.name)).collect()
    }

    /// Returns the ground to judge on, with the values that are shared now.
    pub fn ground<'s>(&'s self, shared: &'s Shared) -> Ground<'s> {
        Ground {
            project: self.project,
            expander: self.expander,
            filter: &self.options.filter,
            exports: &shared.exports,
            chosen: self.chosen,
            secrets: &shared.secrets,
            policy: self.options.policy,
        }
    }

    /// Returns the case of a host of the project.
    pub fn case<'s>(&'s self, shared: &'s Shared, host: &'s HostName, seen: &'s HostSeen) -> Option<Case<'s>> {
        Case::new(self.ground(shared), host, seen)
    }
}

/// What runs where, for "what is in flight" when the user stops.
#[derive(Debug, Default)]
pub struct InFlight(Mutex<BTreeMap<HostName, Vec<StepId>>>);

impl InFlight {
    pub fn enter(&self, host: &HostName, steps: impl Iterator<Item = StepId>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host.clone(), steps.collect());
    }

    pub fn leave(&self, host: &HostName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
    }

    pub fn of(&self, host: &HostName) -> Vec<StepId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned().unwrap_or_default()
    }

    pub fn list(&self) -> Vec<(HostName, StepId)> {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().flat_map(|(host, steps)| steps.iter().map(|step| (host.clone(), step.clone()))).collect()
    }
}

/// What is done so far on each host, for the report of a run that the user leaves.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<HostName, Vec<StepReport>>>);

impl Ledger {
    pub fn note(&self, host: &HostName, reports: &[StepReport]) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.entry(host.clone()).or_default().extend_from_slice(reports);
    }

    pub fn of(&self, host: &HostName) -> Vec<StepReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned().unwrap_or_default()
    }
}
