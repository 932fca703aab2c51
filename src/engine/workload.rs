//! The steps that a plan is going to run, how many of them are over, and how long the rest takes.

use super::durations::PastDurations;
use super::event::{Event, StepResult};
use crate::model::{Disruption, HostName, Outcome, StepId};
use crate::plan::{HostPlan, Plan};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// What is left of a plan. An event costs what its own host has to do, whatever the size of the fleet.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    hosts: HashMap<HostName, HostLoad>,
    steps: StepTimes,
    /// How long a reboot takes, once one was seen.
    reboot: Option<Duration>,
    limits: Limits,
    total: usize,
    done: usize,
    not_run: usize,
    queued: usize,
}

/// How many hosts the run works on at once.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    parallel: usize,
    max_unavailable: usize,
    max_restarting: Option<usize>,
}

/// Every step once, with what is known of how long it takes on one host.
#[derive(Clone, Debug, Default)]
struct StepTimes {
    numbers: HashMap<StepId, usize>,
    took: Vec<Option<Duration>>,
    /// Whether it restarts a service, which only some hosts may do at once.
    restarts: Vec<bool>,
}

#[derive(Clone, Debug)]
struct HostLoad {
    /// Steps of the plan that are not over, by number.
    open: Vec<usize>,
    reboots: usize,
    lane: Lane,
    /// Whether it is taken out of service.
    windowed: bool,
    begun: bool,
    script: RunningScript,
    rebooting: Option<Instant>,
}

/// Steps that were begun together.
#[derive(Clone, Debug, Default)]
struct RunningScript {
    since: Option<Instant>,
    steps: Vec<usize>,
    over: usize,
}

/// Hosts of one lane run beside each other; lanes of waves follow each other, after that of the canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Canaries,
    Wave(usize),
    Unordered,
}

impl Workload {
    /// Returns all that `plan` is going to do. `past` says how long its steps took before.
    pub fn new(plan: &Plan, parallel: usize, past: &PastDurations) -> Self {
        let (rollout, mut own) = (&plan.rollout, Self { reboot: past.reboot, ..Self::default() });
        own.limits = Limits {
            parallel: parallel.max(1),
            max_unavailable: rollout.max_unavailable.max(1),
            max_restarting: rollout.max_restarting.map(|most| most.max(1)),
        };
        let waves: HashMap<&HostName, usize> = rollout
            .waves
            .iter()
            .enumerate()
            .flat_map(|(wave, hosts)| hosts.iter().map(move |host| (host, wave)))
            .collect();
        for host in plan.hosts.iter().filter(|host| host.acts()) {
            let lane = match waves.get(&host.host) {
                _ if rollout.canaries.contains(&host.host) => Lane::Canaries,
                Some(wave) => Lane::Wave(*wave),
                None => Lane::Unordered,
            };
            let load = HostLoad::new(host, lane, &mut own.steps, past);
            own.total += load.open.len();
            own.queued += usize::from(!host.host.is_cluster());
            own.hosts.insert(host.host.clone(), load);
        }
        own
    }

    /// Returns how many steps the plan is going to run.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns how many of them are over: they ran, or will not run any more.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Returns how many of those that are over did not run.
    pub fn not_run(&self) -> usize {
        self.not_run
    }

    /// Returns how many hosts have not begun.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Takes note of what happened at `now`.
    pub fn event(&mut self, event: &Event, now: Instant) {
        match event {
            Event::HostStarted { host, .. } => self.begin(host),
            Event::StepStarted { host, step, .. } => {
                let number = self.steps.number(step);
                self.with(host, |load| load.script.begin(number, now));
            }
            Event::StepFinished { host, step, result, took, .. } => self.finish_step(host, step, result, *took),
            Event::Rebooting { host, .. } => self.with(host, |load| load.rebooting = Some(now)),
            Event::Rebooted { host, reboot } => {
                self.reboot.get_or_insert(reboot.took);
                self.with(host, |load| {
                    load.rebooting = None;
                    load.reboots = load.reboots.saturating_sub(1);
                });
            }
            // What was planned for it at most was not needed.
            Event::WindowClosed { host } => self.with(host, |load| load.reboots = 0),
            Event::HostFinished { host, outcome, .. } => self.finish_host(host, *outcome),
            _ => {}
        }
    }

    fn with(&mut self, host: &HostName, change: impl FnOnce(&mut HostLoad)) {
        if let Some(load) = self.hosts.get_mut(host) {
            change(load);
        }
    }

    fn begin(&mut self, host: &HostName) {
        if let Some(load) = self.hosts.get_mut(host).filter(|load| !load.begun) {
            load.begun = true;
            self.queued -= usize::from(!host.is_cluster());
        }
    }

    fn finish_step(&mut self, host: &HostName, step: &StepId, result: &StepResult, took: Duration) {
        let number = self.steps.number(step);
        let whole = step.key.is_some().then(|| self.steps.number(&StepId { key: None, ..step.clone() }));
        let Some(load) = self.hosts.get_mut(host) else { return };
        let share = load.script.end(number, took);
        // Without a start it was left alone: blocked, unknown before it acted, or one of those below.
        let left_alone = share.is_none() && matches!(result, StepResult::Blocked { .. } | StepResult::Unknown { .. });
        if let Some(share) = share
            && matches!(result, StepResult::Changed | StepResult::Pending { .. })
        {
            self.steps.took[number].get_or_insert(share);
        }
        // Turns whose list was not known were planned as one step.
        let at = load.open.iter().position(|open| *open == number || Some(*open) == whole);
        if let Some(at) = at {
            load.open.swap_remove(at);
            self.done += 1;
            let did_not_run = matches!(
                result,
                StepResult::Skipped { .. } | StepResult::Cancelled | StepResult::Held { .. } | StepResult::Stale { .. }
            );
            self.not_run += usize::from(left_alone || did_not_run);
        }
    }

    /// Steps that were as desired when their turn came are not always told; what else is open did not run.
    fn finish_host(&mut self, host: &HostName, outcome: Outcome) {
        self.begin(host);
        let Some(load) = self.hosts.remove(host) else { return };
        self.done += load.open.len();
        if !matches!(outcome, Outcome::Ok | Outcome::Changed | Outcome::Pending) {
            self.not_run += load.open.len();
        }
    }

    /// Returns about how long it takes until everything is over; `None` where a step or reboot that is left was never seen
    /// to end, and where nothing is left of what is known.
    pub fn estimate(&self, now: Instant) -> Option<Duration> {
        let mut lanes: BTreeMap<Lane, LaneLoad> = BTreeMap::new();
        let mut restarts = vec![Duration::ZERO; self.steps.took.len()];
        for load in self.hosts.values() {
            let left = load.left(&self.steps, self.reboot, now)?;
            lanes.entry(load.lane).or_default().add(left, load.windowed);
            for step in load.open.iter().filter(|step| self.steps.restarts[**step]) {
                restarts[*step] += self.steps.took[*step]?;
            }
        }
        let mut estimate = Estimate::default();
        for (lane, load) in lanes {
            estimate.add(lane, load.span(self.limits));
        }
        let restarting = self.limits.max_restarting.and_then(|most| Some(divide(*restarts.iter().max()?, most)));
        let total = estimate.total().max(restarting.unwrap_or_default());
        (!total.is_zero()).then_some(total)
    }
}

impl StepTimes {
    fn number(&mut self, step: &StepId) -> usize {
        if let Some(number) = self.numbers.get(step) {
            return *number;
        }
        let number = self.took.len();
        self.numbers.insert(step.clone(), number);
        self.took.push(None);
        self.restarts.push(false);
        number
    }
}

impl HostLoad {
    fn new(host: &HostPlan, lane: Lane, steps: &mut StepTimes, past: &PastDurations) -> Self {
        let mut open = Vec::new();
        for step in host.steps.iter().filter(|step| step.acts()) {
            let number = steps.number(&step.id);
            steps.took[number] = past.steps.get(&step.id).copied();
            // A host that is out of service disturbs nobody any more.
            steps.restarts[number] |= host.window.is_none() && crate::plan::class(step) >= Disruption::D1;
            open.push(number);
        }
        let reboots = host.window.as_ref().map_or(0, |window| window.reboots.len());
        let windowed = host.window.is_some();
        Self { open, reboots, lane, windowed, begun: false, script: RunningScript::default(), rebooting: None }
    }

    /// Returns how long the rest takes on this host alone.
    fn left(&self, steps: &StepTimes, reboot: Option<Duration>, now: Instant) -> Option<Duration> {
        let mut left = Duration::ZERO;
        for step in &self.open {
            left += steps.took[*step]?;
        }
        if self.reboots > 0 {
            let reboot = reboot?;
            left += reboot * u32::try_from(self.reboots).unwrap_or(u32::MAX);
            left -= self.rebooting.map_or(Duration::ZERO, |since| now.saturating_duration_since(since).min(reboot));
        }
        let running = self.script.steps.iter().filter(|step| self.open.contains(step));
        let running: Duration = running.filter_map(|step| steps.took[*step]).sum();
        let ran = self.script.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since).min(running));
        Some(left.saturating_sub(ran))
    }
}

impl RunningScript {
    fn begin(&mut self, step: usize, now: Instant) {
        self.since.get_or_insert(now);
        self.steps.push(step);
    }

    /// Returns the step's part of the time that its script took, if it ran in one.
    fn end(&mut self, step: usize, took: Duration) -> Option<Duration> {
        if !self.steps.contains(&step) {
            return None;
        }
        let share = divide(took, self.steps.len());
        self.over += 1;
        if self.over >= self.steps.len() {
            *self = Self::default();
        }
        Some(share)
    }
}

/// What hosts of one lane have to do, of which each does its own one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct LaneLoad {
    longest: Duration,
    sum: Duration,
    windowed: bool,
}

impl LaneLoad {
    fn add(&mut self, left: Duration, windowed: bool) {
        self.windowed |= windowed;
        self.longest = self.longest.max(left);
        self.sum += left;
    }

    /// Returns how long it takes with as many hosts at once as there may be.
    fn span(self, limits: Limits) -> Duration {
        let width = if self.windowed { limits.parallel.min(limits.max_unavailable) } else { limits.parallel };
        self.longest.max(divide(self.sum, width))
    }
}

/// Lanes set behind and beside each other.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    canaries: Duration,
    waves: Duration,
    unordered: Duration,
}

impl Estimate {
    fn add(&mut self, lane: Lane, span: Duration) {
        match lane {
            Lane::Canaries => self.canaries += span,
            Lane::Wave(_) => self.waves += span,
            Lane::Unordered => self.unordered += span,
        }
    }

    fn total(self) -> Duration {
        self.canaries + self.waves.max(self.unordered)
    }
}

fn divide(time: Duration, by: usize) -> Duration {
    time / u32::try_from(by.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
