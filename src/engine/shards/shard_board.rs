//! Which hosts the next worker gets: the decisions of the rollout, for hosts that workers carry out.

use super::split_hosts::split_into_shards;
use crate::config::Project;
use crate::engine::host_start::describe_held_canary;
use crate::engine::report::{HostReport, StepReport};
use crate::engine::run_state::{RunStateData, SharedRunState, SharedValues};
use crate::model::{DisruptionClass, HostName};
use crate::plan::{self, HostPlan, Plan, RolloutPlan, StartRefusal, StepPlan, WindowTurn};
use std::collections::{BTreeSet, HashMap};

/// A host that waits for a worker.
struct PendingHost {
    host: HostName,
    shard: usize,
    /// Its wave, if it is taken out of service.
    wave: Option<usize>,
    /// Whether a limit on hosts in one step concerns it. Only one worker at a time gets such hosts: a worker keeps the
    /// limit among its own hosts.
    limited: bool,
}

/// The hosts of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostBatch {
    pub hosts: Vec<HostName>,
    /// Whether it has the only place for hosts of limited steps.
    pub limited: bool,
}

/// The hosts of a run, and the progress of its rollout.
pub(super) struct ShardBoard<'p> {
    rollout: &'p RolloutPlan,
    canaries: BTreeSet<HostName>,
    board: SharedRunState,
    pending: Vec<PendingHost>,
    /// Whether a worker with hosts of limited steps is at work.
    limited: bool,
    /// Hosts that count as out of service for a worker that starts now.
    down: BTreeSet<HostName>,
    changing: BTreeSet<&'p HostName>,
}

impl<'p> ShardBoard<'p> {
    /// Returns the board of the `acting` hosts of a plan.
    pub fn new(project: &Project, plan: &'p Plan, acting: &[HostName], shard_size: usize) -> Self {
        let shards = split_into_shards(project, acting, shard_size);
        let numbered = shards.iter().enumerate().flat_map(|(at, shard)| shard.iter().map(move |host| (host, at)));
        let shards: HashMap<&HostName, usize> = numbered.collect();
        let waves = plan.rollout.waves.iter().enumerate();
        let waves: HashMap<&HostName, usize> =
            waves.flat_map(|(at, wave)| wave.iter().map(move |host| (host, at))).collect();
        let own = plan.hosts.iter().filter(|host| shards.contains_key(&host.host));
        let pending = own.map(|host| PendingHost {
            host: host.host.clone(),
            shard: shards[&host.host],
            wave: waves.get(&host.host).copied(),
            limited: has_limited_step(host, &plan.rollout),
        });
        Self {
            rollout: &plan.rollout,
            canaries: plan.rollout.canaries.iter().cloned().collect(),
            board: SharedRunState::new(SharedValues::default(), plan.rollout.clone()),
            pending: pending.collect(),
            limited: false,
            down: BTreeSet::new(),
            changing: plan.hosts.iter().filter(|host| host.has_changes()).map(|host| &host.host).collect(),
        }
    }

    /// Returns why no further host may start, if so.
    pub fn refuse_start(&self) -> Option<StartRefusal> {
        let (failed, canary) = self.board.read_data(|data| {
            (data.count_failed(), self.canaries.iter().find(|canary| data.is_unsound(canary)).cloned())
        });
        self.rollout.refuse_start(failed, canary.as_ref())
    }

    /// Returns how many hosts have failed.
    pub fn count_failed(&self) -> usize {
        self.board.read_data(|data| data.count_failed())
    }

    /// Returns hosts that may start now, all of one shard; `None` if there are none. Hosts that are taken out of service
    /// count as such from here on.
    pub fn take_batch(&mut self) -> Option<HostBatch> {
        let mut taken: Vec<usize> = Vec::new();
        let mut limited = false;
        for (at, pending) in self.pending.iter().enumerate() {
            let same_shard = taken.first().is_none_or(|first| self.pending[*first].shard == pending.shard);
            if same_shard && !(self.limited && pending.limited) && self.may_start(pending) {
                limited |= pending.limited;
                taken.push(at);
            }
        }
        let hosts: Vec<HostName> = taken.iter().map(|at| self.pending[*at].host.clone()).collect();
        let mut gone = taken.into_iter().peekable();
        let mut at = 0;
        self.pending.retain(|_| {
            let keep = gone.next_if_eq(&at).is_none();
            at += 1;
            keep
        });
        self.limited |= limited;
        (!hosts.is_empty()).then_some(HostBatch { hosts, limited })
    }

    fn may_start(&self, pending: &PendingHost) -> bool {
        let PendingHost { host, wave, .. } = pending;
        if !self.canaries.contains(host)
            && !self.board.read_data(|data| data.may_start_after_canaries(&self.canaries, host))
        {
            return false;
        }
        match wave.map(|wave| self.board.enter_window_now(host, wave)) {
            None | Some(WindowTurn::Go) => true,
            Some(WindowTurn::Wait) => false,
            // Its worker refuses the window for the same reason, after the steps that need none.
            Some(WindowTurn::Never(_)) => true,
        }
    }

    /// Returns the rollout for the hosts of a worker: they are admitted, and the others that are out of service count.
    pub fn narrow_rollout(&self, hosts: &[HostName]) -> RolloutPlan {
        let wave: Vec<HostName> = hosts.iter().filter(|host| self.rollout.find_wave(host).is_some()).cloned().collect();
        let mut unavailable: BTreeSet<HostName> = self.rollout.unavailable.iter().cloned().collect();
        unavailable.extend(self.down.iter().cloned());
        RolloutPlan {
            canaries: Vec::new(),
            waves: if wave.is_empty() { Vec::new() } else { vec![wave] },
            unavailable: unavailable.into_iter().collect(),
            ..self.rollout.clone()
        }
    }

    /// Returns that a canary is held back, so that no other host is changed.
    pub fn find_held_canary(&self) -> Option<String> {
        let mut canaries = self.canaries.iter();
        let find = |data: &RunStateData| canaries.find_map(|host| Some((host.clone(), data.find_held_back(host)?)));
        self.board.read_data(find).map(|(host, by)| describe_held_canary(&host, by))
    }

    /// Records that a host is done. `down`: it is out of service, as far as is known.
    pub fn finish_host(&mut self, report: &HostReport, down: bool) {
        let host = &report.host;
        if let Some(by) = report.held_back_by {
            self.board.hold_back(host, by);
        }
        match down {
            false => self.board.leave_window(host),
            true => {
                self.board.mark_lost(host, report.steps.iter().any(StepReport::has_changed_host));
                self.down.insert(host.clone());
            }
        }
        let counts = (self.changing.contains(host) || self.canaries.contains(host)) && !host.is_cluster();
        self.board.finish_host(host, if counts { report.outcome } else { crate::model::HostOutcome::Ok });
    }

    /// Records that the worker with hosts of limited steps has ended.
    pub fn end_limited_batch(&mut self) {
        self.limited = false;
    }

    /// Removes and returns the hosts that have not started.
    pub fn take_pending(&mut self) -> Vec<HostName> {
        std::mem::take(&mut self.pending).into_iter().map(|pending| pending.host).collect()
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

fn has_limited_step(host: &HostPlan, rollout: &RolloutPlan) -> bool {
    let restarts = |step: &StepPlan| step.will_run() && plan::step_disruption(step) >= DisruptionClass::D1;
    let limited = |step: &StepPlan| step.at_once.is_some() || (rollout.max_restarting.is_some() && restarts(step));
    host.steps.iter().any(limited)
}
