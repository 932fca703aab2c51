//! The state of a run, computed from its events. Callers pass in the time.

use super::{event_lines, windows};
use crate::engine::{Event, NodeDrainEvent, PlanWorkload, StepResult, VerifyResult};
use crate::model::{HostName, HostOutcome, StepId, UntrustedText};
use crate::view::formatting::list_names;
use indexmap::IndexMap;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Minimum age before an estimate is recomputed, because it iterates over every host.
const ESTIMATE_AGE: Duration = Duration::from_secs(1);

/// The state of a run. The cost of an event does not depend on the number of hosts.
#[derive(Debug, Default)]
pub struct ProgressState {
    began: Option<Instant>,
    phase: ProgressPhase,
    /// Number of failed steps and verifications, and of hosts that failed without one.
    failures: usize,
    failed_hosts: HashSet<HostName>,
    /// Whether the run was interrupted: it starts nothing more and waits for running steps.
    pub stopping: bool,
    /// Canaries that other hosts wait for before they start.
    canaries: Vec<HostName>,
    hosts: HashMap<HostName, HostActivity>,
    order: BTreeSet<ActivityRank>,
    begun: u64,
    /// Running downloads to this machine, by address.
    pub transfers: IndexMap<String, UntrustedText>,
    estimate: Option<(Instant, Option<Duration>)>,
}

/// The phase of a run and its counters.
#[derive(Debug, Default)]
pub enum ProgressPhase {
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
    /// Rounds of acceptance tests.
    Testing {
        done: usize,
        total: usize,
        /// What runs: the test and its adapter.
        what: String,
        /// The remaining time, and when it was estimated.
        left: Option<(Instant, Duration)>,
    },
    Applying(Box<PlanWorkload>),
}

/// The activity of a host.
#[derive(Debug)]
pub struct HostActivity {
    pub doing: ActivityKind,
    pub since: Instant,
    /// The last output line of a step, or the progress of a transfer.
    pub note: Option<UntrustedText>,
    place: ActivityRank,
}

#[derive(Debug, PartialEq)]
pub enum ActivityKind {
    /// The first step of the running script, and the number of other steps in it.
    Steps(StepId, usize),
    /// Another activity.
    Other(UntrustedText),
    /// Waiting for an external event.
    Waiting(UntrustedText),
}

/// The sort key of an active host: working hosts before waiting ones, the longest activity first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ActivityRank {
    waits: bool,
    since: Instant,
    number: u64,
    host: HostName,
}

impl ProgressState {
    /// Returns the initial state of a run that applies a plan.
    pub fn for_apply(workload: PlanWorkload) -> Self {
        Self { phase: ProgressPhase::Applying(Box::new(workload)), ..Self::default() }
    }

    /// Returns the initial state of a run that another process works on: only its hosts are counted.
    pub fn for_watch(hosts: usize) -> Self {
        Self { phase: ProgressPhase::Running { done: 0, total: hosts }, ..Self::default() }
    }

    /// Returns the phase of the run with its counters.
    pub fn phase(&self) -> &ProgressPhase {
        &self.phase
    }

    /// Returns the elapsed time of the run.
    pub fn elapsed(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began))
    }

    /// Returns the number of failed steps and verifications, and of hosts that failed without one.
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Returns the number of working and waiting hosts.
    pub fn active_count(&self) -> usize {
        self.order.len()
    }

    /// Returns the activities of hosts: working hosts first, then by duration, longest first.
    pub fn activities(&self) -> impl Iterator<Item = (&HostName, &HostActivity)> {
        self.order.iter().filter_map(|place| Some((&place.host, self.hosts.get(&place.host)?)))
    }

    /// Returns the number of queued hosts, and the canaries that they wait for.
    pub fn queued_hosts(&self) -> Option<(usize, &[HostName])> {
        match &self.phase {
            ProgressPhase::Applying(work) if work.queued() > 0 => Some((work.queued(), &self.canaries)),
            _ => None,
        }
    }

    /// Returns the estimated remaining time, if known.
    pub fn estimate_remaining(&mut self, now: Instant) -> Option<Duration> {
        let work = match &self.phase {
            ProgressPhase::Testing { left, .. } => {
                let (made, left) = (*left)?;
                return Some(left.saturating_sub(now.saturating_duration_since(made)));
            }
            ProgressPhase::Applying(work) => work,
            _ => return None,
        };
        match self.estimate {
            Some((made, left)) if now.saturating_duration_since(made) < ESTIMATE_AGE => left,
            _ => {
                let left = work.estimate_remaining(now);
                self.estimate = Some((now, left));
                left
            }
        }
    }

    /// Updates the state with an event that happened at `now`.
    pub fn record_event(&mut self, event: &Event, now: Instant) {
        self.began.get_or_insert(now);
        if let ProgressPhase::Applying(work) = &mut self.phase {
            work.apply_event(event, now);
        }
        self.count_event(event, now);
        self.track_activity(event, now);
    }

    fn count_event(&mut self, event: &Event, now: Instant) {
        match event {
            Event::TestRound { done, total, left, .. } => {
                let what = event_lines::format_test_round(event).unwrap_or_default();
                let left = left.map(|left| (now, left));
                self.phase = ProgressPhase::Testing { done: *done, total: *total, what, left };
            }
            Event::ObserveStarted { hosts } => self.phase = ProgressPhase::Observing { done: 0, total: *hosts },
            Event::ExecStarted { hosts } => self.phase = ProgressPhase::Running { done: 0, total: *hosts },
            Event::Observed { host, .. } => self.count_host_done(host),
            Event::Unreachable { host, .. } => {
                self.record_failure(host);
                self.count_host_done(host);
            }
            Event::StepFinished { host, result: StepResult::Failed { .. }, .. }
            | Event::Verified { host, result: VerifyResult::Failed { .. }, .. } => self.record_failure(host),
            Event::HostFinished { host, outcome, .. } => {
                let went_on = [
                    HostOutcome::Ok,
                    HostOutcome::Changed,
                    HostOutcome::Pending,
                    HostOutcome::Unknown,
                    HostOutcome::Skipped,
                    HostOutcome::Cancelled,
                ];
                if !went_on.contains(outcome) && !self.failed_hosts.contains(host) {
                    self.record_failure(host);
                }
                self.count_host_done(host);
            }
            _ => {}
        }
    }

    fn record_failure(&mut self, host: &HostName) {
        self.failures += 1;
        self.failed_hosts.insert(host.clone());
    }

    /// Counts a finished host. The cluster's API does not count as a host.
    fn count_host_done(&mut self, host: &HostName) {
        if host.is_cluster() {
            return;
        }
        if let ProgressPhase::Observing { done, .. } | ProgressPhase::Running { done, .. } = &mut self.phase {
            *done += 1;
        }
    }

    fn track_activity(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Connecting { host } => self.set_other_activity(host, "observing", now),
            Event::Retrying { host, why, attempt, .. } => {
                self.set_note(host, format!("attempt {attempt} after {}", why.raw()).into())
            }
            Event::Observed { host, .. } | Event::Unreachable { host, .. } | Event::HostFinished { host, .. } => {
                self.clear_activity(host);
            }
            Event::AwaitingCanaries { canaries, .. } => self.canaries.clone_from(canaries),
            Event::HostStarted { host, .. } => {
                if !host.is_cluster() && !self.canaries.contains(host) {
                    self.canaries.clear();
                }
                self.set_other_activity(host, "starting", now);
            }
            Event::StepStarted { host, step, .. } => self.start_step(host, step, now),
            Event::StepOutput { host, line, .. } => self.set_note(host, line.clone()),
            Event::Sending { host, done, total, .. } => {
                self.set_note(host, event_lines::format_sent(*done, *total).into())
            }
            Event::StepFinished { host, .. } => self.mark_checking(host, now),
            Event::Rebooting { host, .. } => self.set_other_activity(host, "rebooting", now),
            Event::Rebooted { host, .. } => self.set_other_activity(host, "checking", now),
            Event::Stopping { .. } => self.stopping = true,
            Event::Fetching { what, done, total } => {
                self.transfers.insert(what.raw().to_owned(), event_lines::format_fetched(*done, *total).into());
            }
            Event::Fetched { what, .. } => {
                self.transfers.shift_remove(what.raw());
            }
            Event::Reattached { .. }
            | Event::Waiting { .. }
            | Event::AwaitingVerification { .. }
            | Event::AwaitingWindow { .. }
            | Event::Busy { .. }
            | Event::ReturnTestsStarted { .. }
            | Event::ReturnTestRound { .. }
            | Event::Node { .. } => self.track_waiting(event, now),
            Event::ObserveStarted { .. }
            | Event::ExecStarted { .. }
            | Event::AwaitingWorkers { .. }
            | Event::TestRound { .. }
            | Event::ApplyStarted { .. }
            | Event::StepCommands { .. }
            | Event::StepPrinted { .. }
            | Event::Verified { .. }
            | Event::WindowOpened { .. }
            | Event::ReturnTestsFinished { .. }
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

    fn track_waiting(&mut self, event: &Event, now: Instant) {
        let (host, what) = match event {
            Event::Reattached { host, what, .. } | Event::Waiting { host, what, .. } => {
                (host, format!("waiting for {}", what.raw()))
            }
            Event::AwaitingVerification { host, name, .. } => (host, format!("waiting for {name}")),
            Event::AwaitingWindow { host, wave } => (host, format!("waiting for wave {}", wave + 1)),
            Event::Busy { host, .. } => (host, "waiting: its devices are in use".to_owned()),
            Event::ReturnTestsStarted { host, tests } => (host, format!("testing: {}", list_names(tests))),
            Event::ReturnTestRound { host, .. } => (
                host,
                windows::format_return_round(event).map_or_else(String::new, |round| format!("testing: {round}")),
            ),
            Event::Node { host, news: NodeDrainEvent::Waits { .. }, .. } => {
                (host, "waiting for pods to leave".to_owned())
            }
            Event::Node { host, news: NodeDrainEvent::Lacks { .. }, .. } => (host, "waiting for its node".to_owned()),
            _ => return,
        };
        // Some events repeat while the wait lasts.
        let what = ActivityKind::Waiting(what.into());
        if self.hosts.get(host).is_none_or(|own| own.doing != what) {
            self.set_activity(host, what, now);
        }
    }

    fn set_other_activity(&mut self, host: &HostName, what: impl Into<UntrustedText>, now: Instant) {
        self.set_activity(host, ActivityKind::Other(what.into()), now);
    }

    fn set_activity(&mut self, host: &HostName, doing: ActivityKind, since: Instant) {
        self.clear_activity(host);
        self.begun += 1;
        let waits = matches!(doing, ActivityKind::Waiting(_));
        let place = ActivityRank { waits, since, number: self.begun, host: host.clone() };
        self.order.insert(place.clone());
        self.hosts.insert(host.clone(), HostActivity { doing, since, note: None, place });
    }

    fn clear_activity(&mut self, host: &HostName) {
        if let Some(own) = self.hosts.remove(host) {
            self.order.remove(&own.place);
        }
    }

    /// Adds a started step. All steps of a script start at once.
    fn start_step(&mut self, host: &HostName, step: &StepId, now: Instant) {
        match self.hosts.get_mut(host) {
            Some(HostActivity { doing: ActivityKind::Steps(_, more), .. }) => *more += 1,
            _ => self.set_activity(host, ActivityKind::Steps(step.clone(), 0), now),
        }
    }

    fn set_note(&mut self, host: &HostName, line: UntrustedText) {
        if let Some(own) = self.hosts.get_mut(host) {
            own.note = Some(line);
        }
    }

    /// Marks a host as checking. The steps of a script finish together, then forge evaluates the next steps.
    fn mark_checking(&mut self, host: &HostName, now: Instant) {
        if matches!(self.hosts.get(host), Some(HostActivity { doing: ActivityKind::Steps(..), .. })) {
            self.set_other_activity(host, "checking", now);
        }
    }
}
