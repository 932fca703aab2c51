//! The state of a run, computed from its events. Callers pass in the time.

use super::words;
use crate::engine::{Event, NodeNews, StepResult, VerifyResult, Workload};
use crate::model::{HostName, Outcome, StepId, Untrusted};
use indexmap::IndexMap;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Minimum age before an estimate is recomputed, because it iterates over every host.
const ESTIMATE_AGE: Duration = Duration::from_secs(1);

/// The state of a run. The cost of an event does not depend on the number of hosts.
#[derive(Debug, Default)]
pub struct RunState {
    began: Option<Instant>,
    phase: Phase,
    /// Number of failed steps and verifications, and of hosts that failed without one.
    failures: usize,
    failed_hosts: HashSet<HostName>,
    pub stopping: bool,
    /// Canaries that other hosts wait for before they start.
    canaries: Vec<HostName>,
    hosts: HashMap<HostName, Activity>,
    order: BTreeSet<Place>,
    begun: u64,
    /// Running downloads to this machine, by address.
    pub transfers: IndexMap<String, Untrusted>,
    estimate: Option<(Instant, Option<Duration>)>,
}

/// The phase of a run and its counters.
#[derive(Debug, Default)]
pub enum Phase {
    #[default]
    Idle,
    Observing {
        done: usize,
        total: usize,
    },
    Running {
        done: usize,
        total: usize,
    },
    Applying(Box<Workload>),
}

/// The activity of a host.
#[derive(Debug)]
pub struct Activity {
    pub doing: Doing,
    pub since: Instant,
    /// The last output line of a step, or the progress of a transfer.
    pub note: Option<Untrusted>,
    place: Place,
}

#[derive(Debug, PartialEq)]
pub enum Doing {
    /// The first step of the running script, and the number of other steps in it.
    Steps(StepId, usize),
    /// Another activity.
    Other(Untrusted),
    /// Waiting for an external event.
    Waiting(Untrusted),
}

/// The sort key of an active host: working hosts before waiting ones, the longest activity first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    waits: bool,
    since: Instant,
    number: u64,
    host: HostName,
}

impl RunState {
    /// Returns the initial state of a run that applies a plan.
    pub fn applying(workload: Workload) -> Self {
        Self { phase: Phase::Applying(Box::new(workload)), ..Self::default() }
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Returns the elapsed time of the run.
    pub fn elapsed(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began))
    }

    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Returns the number of working and waiting hosts.
    pub fn active(&self) -> usize {
        self.order.len()
    }

    /// Returns the activities of hosts: working hosts first, then by duration, longest first.
    pub fn activities(&self) -> impl Iterator<Item = (&HostName, &Activity)> {
        self.order.iter().filter_map(|place| Some((&place.host, self.hosts.get(&place.host)?)))
    }

    /// Returns the number of queued hosts, and the canaries that they wait for.
    pub fn queue(&self) -> Option<(usize, &[HostName])> {
        match &self.phase {
            Phase::Applying(work) if work.queued() > 0 => Some((work.queued(), &self.canaries)),
            _ => None,
        }
    }

    /// Returns the estimated remaining time, if known.
    pub fn estimate(&mut self, now: Instant) -> Option<Duration> {
        let Phase::Applying(work) = &self.phase else { return None };
        match self.estimate {
            Some((made, left)) if now.saturating_duration_since(made) < ESTIMATE_AGE => left,
            _ => {
                let left = work.estimate(now);
                self.estimate = Some((now, left));
                left
            }
        }
    }

    /// Updates the state with an event that happened at `now`.
    pub fn event(&mut self, event: &Event, now: Instant) {
        self.began.get_or_insert(now);
        if let Phase::Applying(work) = &mut self.phase {
            work.event(event, now);
        }
        self.count(event);
        self.follow(event, now);
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::ObserveStarted { hosts } => self.phase = Phase::Observing { done: 0, total: *hosts },
            Event::ExecStarted { hosts } => self.phase = Phase::Running { done: 0, total: *hosts },
            Event::Observed { host, .. } => self.host_done(host),
            Event::Unreachable { host, .. } => {
                self.fail(host);
                self.host_done(host);
            }
            Event::StepFinished { host, result: StepResult::Failed { .. }, .. }
            | Event::Verified { host, result: VerifyResult::Failed { .. }, .. } => self.fail(host),
            Event::HostFinished { host, outcome, .. } => {
                let went_on = [Outcome::Ok, Outcome::Changed, Outcome::Pending, Outcome::Skipped, Outcome::Cancelled];
                if !went_on.contains(outcome) && !self.failed_hosts.contains(host) {
                    self.fail(host);
                }
                self.host_done(host);
            }
            _ => {}
        }
    }

    fn fail(&mut self, host: &HostName) {
        self.failures += 1;
        self.failed_hosts.insert(host.clone());
    }

    /// Counts a finished host. The cluster's API does not count as a host.
    fn host_done(&mut self, host: &HostName) {
        if host.is_cluster() {
            return;
        }
        if let Phase::Observing { done, .. } | Phase::Running { done, .. } = &mut self.phase {
            *done += 1;
        }
    }

    fn follow(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Connecting { host } => self.other(host, "connecting", now),
            Event::Retrying { host, why, .. } => self.other(host, format!("retrying: {}", why.raw()), now),
            Event::Observed { host, .. } | Event::Unreachable { host, .. } | Event::HostFinished { host, .. } => {
                self.leave(host);
            }
            Event::AwaitingCanaries { canaries, .. } => self.canaries.clone_from(canaries),
            Event::HostStarted { host, .. } => {
                if !host.is_cluster() && !self.canaries.contains(host) {
                    self.canaries.clear();
                }
                self.other(host, "starting", now);
            }
            Event::StepStarted { host, step, .. } => self.start(host, step, now),
            Event::StepOutput { host, line, .. } => self.note(host, line.clone()),
            Event::Sending { host, done, total, .. } => self.note(host, words::sent(*done, *total).into()),
            Event::StepFinished { host, .. } => self.checks(host, now),
            Event::Rebooting { host, .. } => self.other(host, "rebooting", now),
            Event::Rebooted { host, .. } => self.other(host, "checking", now),
            Event::Stopping { .. } => self.stopping = true,
            Event::Fetching { what, done, total } => {
                self.transfers.insert(what.raw().to_owned(), words::fetched(*done, *total).into());
            }
            Event::Fetched { what, .. } => {
                self.transfers.shift_remove(what.raw());
            }
            Event::Reattached { .. }
            | Event::Waiting { .. }
            | Event::AwaitingVerification { .. }
            | Event::AwaitingWindow { .. }
            | Event::Busy { .. }
            | Event::Node { .. } => self.follow_waits(event, now),
            Event::ObserveStarted { .. }
            | Event::ExecStarted { .. }
            | Event::ApplyStarted { .. }
            | Event::StepCommands { .. }
            | Event::StepPrinted { .. }
            | Event::Verified { .. }
            | Event::WindowOpened { .. }
            | Event::WindowClosed { .. }
            | Event::WindowLeftOpen { .. }
            | Event::WindowShut { .. }
            | Event::Evicted { .. }
            | Event::Detached { .. }
            | Event::NoHistory { .. }
            | Event::RecordsMoved { .. }
            | Event::BudgetSpent { .. } => {}
        }
    }

    fn follow_waits(&mut self, event: &Event, now: Instant) {
        let (host, what) = match event {
            Event::Reattached { host, what, .. } | Event::Waiting { host, what, .. } => {
                (host, format!("waiting for {}", what.raw()))
            }
            Event::AwaitingVerification { host, name, .. } => (host, format!("waiting for {name}")),
            Event::AwaitingWindow { host, wave } => (host, format!("waiting for wave {}", wave + 1)),
            Event::Busy { host, .. } => (host, "waiting: its devices are in use".to_owned()),
            Event::Node { host, news: NodeNews::Waits { .. }, .. } => (host, "waiting for pods to leave".to_owned()),
            Event::Node { host, news: NodeNews::Lacks { .. }, .. } => (host, "waiting for its node".to_owned()),
            _ => return,
        };
        // Some events repeat while the wait lasts.
        let what = Doing::Waiting(what.into());
        if self.hosts.get(host).is_none_or(|own| own.doing != what) {
            self.does(host, what, now);
        }
    }

    fn other(&mut self, host: &HostName, what: impl Into<Untrusted>, now: Instant) {
        self.does(host, Doing::Other(what.into()), now);
    }

    fn does(&mut self, host: &HostName, doing: Doing, since: Instant) {
        self.leave(host);
        self.begun += 1;
        let waits = matches!(doing, Doing::Waiting(_));
        let place = Place { waits, since, number: self.begun, host: host.clone() };
        self.order.insert(place.clone());
        self.hosts.insert(host.clone(), Activity { doing, since, note: None, place });
    }

    fn leave(&mut self, host: &HostName) {
        if let Some(own) = self.hosts.remove(host) {
            self.order.remove(&own.place);
        }
    }

    /// Adds a started step. All steps of a script start at once.
    fn start(&mut self, host: &HostName, step: &StepId, now: Instant) {
        match self.hosts.get_mut(host) {
            Some(Activity { doing: Doing::Steps(_, more), .. }) => *more += 1,
            _ => self.does(host, Doing::Steps(step.clone(), 0), now),
        }
    }

    fn note(&mut self, host: &HostName, line: Untrusted) {
        if let Some(own) = self.hosts.get_mut(host) {
            own.note = Some(line);
        }
    }

    /// Marks a host as checking. The steps of a script finish together, then forge evaluates the next steps.
    fn checks(&mut self, host: &HostName, now: Instant) {
        if matches!(self.hosts.get(host), Some(Activity { doing: Doing::Steps(..), .. })) {
            self.other(host, "checking", now);
        }
    }
}
