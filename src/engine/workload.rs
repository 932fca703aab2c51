//! Progress of a plan: its steps, how many of them are done, and an estimate of the remaining time.

use super::durations::PastDurations;
use super::event::{Event, StepResult};
use crate::model::{DisruptionClass, HostName, HostOutcome, StepId};
use crate::plan::{HostPlan, Plan};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// The remaining work of a plan. The cost of an event depends on its own host's steps, not on the size of the fleet.
#[derive(Clone, Debug, Default)]
pub struct PlanWorkload {
    hosts: HashMap<HostName, HostWorkload>,
    steps: StepTimes,
    /// Duration of a reboot, once one was observed.
    reboot: Option<Duration>,
    limits: WorkloadLimits,
    total: usize,
    done: usize,
    not_run: usize,
    queued: usize,
}

/// The number of hosts that the run works on in parallel.
#[derive(Clone, Copy, Debug, Default)]
struct WorkloadLimits {
    parallel: usize,
    max_unavailable: usize,
    max_restarting: Option<usize>,
}

/// All distinct steps, with their known durations on one host.
#[derive(Clone, Debug, Default)]
struct StepTimes {
    numbers: HashMap<StepId, usize>,
    took: Vec<Option<Duration>>,
    /// Whether the step restarts a service, for which the number of parallel hosts is limited.
    restarts: Vec<bool>,
    /// How many hosts may run the step at once.
    at_once: Vec<Option<usize>>,
}

#[derive(Clone, Debug)]
struct HostWorkload {
    /// Steps of the plan that are not done, by number.
    open: Vec<usize>,
    reboots: usize,
    lane: WorkloadLane,
    /// Whether the host is taken out of service.
    windowed: bool,
    begun: bool,
    script: RunningScript,
    rebooting: Option<Instant>,
}

/// Steps that were started together.
#[derive(Clone, Debug, Default)]
struct RunningScript {
    since: Option<Instant>,
    steps: Vec<usize>,
    over: usize,
}

/// The scheduling lane of a host. Hosts of one lane run in parallel; the canaries' lane comes first, then one per wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WorkloadLane {
    Canaries,
    Wave(usize),
    Unordered,
}

impl PlanWorkload {
    /// Builds the remaining work of `plan`. `past` contains the steps' durations in earlier runs.
    pub fn new(plan: &Plan, parallel: usize, past: &PastDurations) -> Self {
        let (rollout, mut own) = (&plan.rollout, Self { reboot: past.reboot, ..Self::default() });
        own.limits = WorkloadLimits {
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
        for host in plan.hosts.iter().filter(|host| host.will_run()) {
            let lane = match waves.get(&host.host) {
                _ if rollout.canaries.contains(&host.host) => WorkloadLane::Canaries,
                Some(wave) => WorkloadLane::Wave(*wave),
                None => WorkloadLane::Unordered,
            };
            let load = HostWorkload::new(host, lane, &mut own.steps, past);
            own.total += load.open.len();
            own.queued += usize::from(!host.host.is_cluster());
            own.hosts.insert(host.host.clone(), load);
        }
        own
    }

    /// Returns the number of steps that the plan runs.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of steps that are done: they ran, or will not run any more.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Returns the number of done steps that did not run.
    pub fn not_run(&self) -> usize {
        self.not_run
    }

    /// Returns the number of hosts that have not started.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Updates the progress by an event at the time `now`.
    pub fn apply_event(&mut self, event: &Event, now: Instant) {
        match event {
            Event::HostStarted { host, .. } => self.start_host(host),
            Event::StepStarted { host, step, .. } => {
                let number = self.steps.step_number(step);
                self.update_host(host, |load| load.script.begin_step(number, now));
            }
            Event::StepFinished { host, step, result, took, .. } => self.finish_step(host, step, result, *took),
            Event::Rebooting { host, .. } => self.update_host(host, |load| load.rebooting = Some(now)),
            Event::Rebooted { host, reboot } => {
                self.reboot.get_or_insert(reboot.took);
                self.update_host(host, |load| {
                    load.rebooting = None;
                    load.reboots = load.reboots.saturating_sub(1);
                });
            }
            // Reboots that were planned as possible but not needed are dropped.
            Event::WindowClosed { host } => self.update_host(host, |load| load.reboots = 0),
            Event::HostFinished { host, outcome, .. } => self.finish_host(host, *outcome),
            _ => {}
        }
    }

    fn update_host(&mut self, host: &HostName, change: impl FnOnce(&mut HostWorkload)) {
        if let Some(load) = self.hosts.get_mut(host) {
            change(load);
        }
    }

    fn start_host(&mut self, host: &HostName) {
        if let Some(load) = self.hosts.get_mut(host).filter(|load| !load.begun) {
            load.begun = true;
            self.queued -= usize::from(!host.is_cluster());
        }
    }

    fn finish_step(&mut self, host: &HostName, step: &StepId, result: &StepResult, took: Duration) {
        let number = self.steps.step_number(step);
        let whole = step.key.is_some().then(|| self.steps.step_number(&StepId { key: None, ..step.clone() }));
        let Some(load) = self.hosts.get_mut(host) else { return };
        let share = load.script.end_step(number, took);
        // A step that never started was skipped: blocked, unknown before it acted, or one of the results below.
        let left_alone = share.is_none() && matches!(result, StepResult::Blocked { .. } | StepResult::Unknown { .. });
        if let Some(share) = share
            && matches!(result, StepResult::Changed | StepResult::Pending { .. })
        {
            self.steps.took[number].get_or_insert(share);
        }
        // Turns whose list was not known at plan time were planned as one step.
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

    /// Completes a host. Steps that already matched are not always reported; all other open steps did not run.
    fn finish_host(&mut self, host: &HostName, outcome: HostOutcome) {
        self.start_host(host);
        let Some(load) = self.hosts.remove(host) else { return };
        self.done += load.open.len();
        if !matches!(outcome, HostOutcome::Ok | HostOutcome::Changed | HostOutcome::Pending) {
            self.not_run += load.open.len();
        }
    }

    /// Estimates the remaining time. Returns `None` if a remaining step or reboot has no known duration, or if all work
    /// of known duration is done.
    pub fn estimate_remaining(&self, now: Instant) -> Option<Duration> {
        let mut lanes: BTreeMap<WorkloadLane, LaneWorkload> = BTreeMap::new();
        let mut restarts = vec![Duration::ZERO; self.steps.took.len()];
        let mut limited = restarts.clone();
        for load in self.hosts.values() {
            let left = load.remaining_time(&self.steps, self.reboot, now)?;
            lanes.entry(load.lane).or_default().add_host(left, load.windowed);
            for step in load.open.iter().filter(|step| self.steps.restarts[**step]) {
                restarts[*step] += self.steps.took[*step]?;
            }
            for step in load.open.iter().filter(|step| self.steps.at_once[**step].is_some()) {
                limited[*step] += self.steps.took[*step]?;
            }
        }
        let mut estimate = WorkloadEstimate::default();
        for (lane, load) in lanes {
            estimate.add_lane(lane, load.estimate_duration(self.limits));
        }
        let restarting =
            self.limits.max_restarting.and_then(|most| Some(divide_duration(*restarts.iter().max()?, most)));
        let limited = limited.iter().zip(&self.steps.at_once);
        let limited = limited.filter_map(|(took, most)| Some(divide_duration(*took, (*most)?))).max();
        let total = estimate.total().max(restarting.unwrap_or_default()).max(limited.unwrap_or_default());
        (!total.is_zero()).then_some(total)
    }
}

impl StepTimes {
    fn step_number(&mut self, step: &StepId) -> usize {
        if let Some(number) = self.numbers.get(step) {
            return *number;
        }
        let number = self.took.len();
        self.numbers.insert(step.clone(), number);
        self.took.push(None);
        self.restarts.push(false);
        self.at_once.push(None);
        number
    }
}

impl HostWorkload {
    fn new(host: &HostPlan, lane: WorkloadLane, steps: &mut StepTimes, past: &PastDurations) -> Self {
        let mut open = Vec::new();
        for step in host.steps.iter().filter(|step| step.will_run()) {
            let number = steps.step_number(&step.id);
            steps.took[number] = past.steps.get(&step.id).copied();
            steps.at_once[number] = step.at_once;
            // For a host out of service, restarts are not limited.
            steps.restarts[number] |=
                host.window.is_none() && crate::plan::step_disruption(step) >= DisruptionClass::D1;
            open.push(number);
        }
        let reboots = host.window.as_ref().map_or(0, |window| window.reboots.len());
        let windowed = host.window.is_some();
        Self { open, reboots, lane, windowed, begun: false, script: RunningScript::default(), rebooting: None }
    }

    /// Returns the remaining time of this host alone.
    fn remaining_time(&self, steps: &StepTimes, reboot: Option<Duration>, now: Instant) -> Option<Duration> {
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
    fn begin_step(&mut self, step: usize, now: Instant) {
        self.since.get_or_insert(now);
        self.steps.push(step);
    }

    /// Returns the step's share of its script's duration, if it ran in one.
    fn end_step(&mut self, step: usize, took: Duration) -> Option<Duration> {
        if !self.steps.contains(&step) {
            return None;
        }
        let share = divide_duration(took, self.steps.len());
        self.over += 1;
        if self.over >= self.steps.len() {
            *self = Self::default();
        }
        Some(share)
    }
}

/// The remaining work of the hosts of one lane; each host runs its own steps sequentially.
#[derive(Clone, Copy, Debug, Default)]
struct LaneWorkload {
    longest: Duration,
    sum: Duration,
    windowed: bool,
}

impl LaneWorkload {
    fn add_host(&mut self, left: Duration, windowed: bool) {
        self.windowed |= windowed;
        self.longest = self.longest.max(left);
        self.sum += left;
    }

    /// Returns the duration with as many parallel hosts as permitted.
    fn estimate_duration(self, limits: WorkloadLimits) -> Duration {
        let width = if self.windowed { limits.parallel.min(limits.max_unavailable) } else { limits.parallel };
        self.longest.max(divide_duration(self.sum, width))
    }
}

/// The combined duration of lanes that run sequentially or in parallel.
#[derive(Clone, Copy, Debug, Default)]
struct WorkloadEstimate {
    canaries: Duration,
    waves: Duration,
    unordered: Duration,
}

impl WorkloadEstimate {
    fn add_lane(&mut self, lane: WorkloadLane, span: Duration) {
        match lane {
            WorkloadLane::Canaries => self.canaries += span,
            WorkloadLane::Wave(_) => self.waves += span,
            WorkloadLane::Unordered => self.unordered += span,
        }
    }

    fn total(self) -> Duration {
        self.canaries + self.waves.max(self.unordered)
    }
}

fn divide_duration(time: Duration, by: usize) -> Duration {
    time / u32::try_from(by.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
