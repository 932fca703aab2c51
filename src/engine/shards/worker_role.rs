//! What a worker's run has in addition to any other run: its reports go to a coordinator, which also decides about what
//! concerns the hosts of other workers.

use crate::engine::board_link::{HostNews, UpdateInbox};
use crate::engine::report::HostReport;
use crate::graph::Graph;
use crate::model::{HostName, StepId};
use crate::plan::{ChosenHosts, ExportEntry};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Receives the report of a host that is done, and whether the host is out of service.
type ReportSink = Box<dyn Fn(&HostReport, bool) + Send + Sync>;
/// Receives news of a host.
type NewsSink = Box<dyn Fn(&HostName, HostNews) + Send + Sync>;

/// The coordinator's orders about hosts that have not started.
#[derive(Clone, Debug, Default)]
pub struct StartOrder(Arc<StartLimits>);

#[derive(Debug, Default)]
struct StartLimits {
    /// Why no further host may start.
    all: OnceLock<String>,
    /// The hosts that a canary holds back, with the reason.
    held: Mutex<BTreeMap<HostName, String>>,
}

impl StartOrder {
    /// Forbids to start further hosts. The first reason stays.
    pub fn hold_back(&self, why: String) {
        let _ = self.0.all.set(why);
    }

    /// Holds back hosts, as far as they have not started, because a canary is held back.
    pub fn hold_hosts(&self, hosts: Vec<HostName>, why: &str) {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend(hosts.into_iter().map(|host| (host, why.to_owned())));
    }

    /// Returns why a host may not start because of a canary, if so.
    pub fn find_hold(&self, host: &HostName) -> Option<String> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }

    /// Returns why no further host may start, if so.
    pub fn refusal(&self) -> Option<&str> {
        self.0.all.get().map(String::as_str)
    }
}

/// A step of scope `one` or `fleet`, and where it runs: one host of each selection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChosenStep {
    /// The step.
    pub step: StepId,
    /// The hosts.
    pub hosts: BTreeSet<HostName>,
}

/// What a coordinator knows about hosts of other workers, as far as hosts of a worker depend on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsideState {
    /// The values that they export, without those that contain secrets.
    pub exports: Vec<ExportEntry>,
    /// The hosts that the plan has chosen for the steps that run on one host; `None` before the plan is made.
    pub chosen: Option<Vec<ChosenStep>>,
    /// Hosts of this worker that an earlier one finished: nothing observes them again. Known to the worker only.
    #[serde(skip)]
    pub done: Vec<HostName>,
}

impl OutsideState {
    /// Returns the chosen hosts for a graph, if there is a plan.
    pub fn find_chosen(&self, graph: &Graph) -> Option<ChosenHosts> {
        let chosen = self.chosen.as_ref()?.iter();
        let find = |step: &StepId| graph.find_step(&step.recipe, &step.step);
        Some(chosen.filter_map(|one| Some((find(&one.step)?, one.hosts.clone()))).collect())
    }
}

/// The part of a worker's run that concerns its coordinator.
pub struct WorkerRole {
    /// The coordinator's run, in whose name the worker acts.
    pub run: String,
    /// How many hosts of other workers had failed when the worker began.
    pub failed: usize,
    /// The order to start no further host.
    pub start: StartOrder,
    /// How many workers have worked on the hosts in this run before, and died.
    pub replaced: u32,
    /// What the coordinator tells about the board.
    pub inbox: UpdateInbox,
    sink: ReportSink,
    news: NewsSink,
}

impl WorkerRole {
    /// Returns the role of a worker whose reports go to `sink`, and its other news to `news`.
    pub fn new(
        run: String,
        failed: usize,
        start: StartOrder,
        sink: impl Fn(&HostReport, bool) + Send + Sync + 'static,
        news: impl Fn(&HostName, HostNews) + Send + Sync + 'static,
    ) -> Self {
        let inbox = UpdateInbox::default();
        Self { run, failed, start, replaced: 0, inbox, sink: Box::new(sink), news: Box::new(news) }
    }

    /// Returns the role with the inbox that receives the coordinator's updates.
    pub fn with_inbox(self, inbox: UpdateInbox) -> Self {
        Self { inbox, ..self }
    }

    /// Returns the role of a worker that replaces as many dead workers.
    pub fn after_workers(self, replaced: u32) -> Self {
        Self { replaced, ..self }
    }

    /// Hands over the report of a host that is done.
    pub fn hand_over(&self, report: &HostReport, down: bool) {
        (self.sink)(report, down);
    }

    /// Tells the coordinator news of a host.
    pub fn tell_news(&self, host: &HostName, news: HostNews) {
        (self.news)(host, news);
    }
}

impl fmt::Debug for WorkerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerRole").field("run", &self.run).field("failed", &self.failed).finish_non_exhaustive()
    }
}
