//! The state that hosts share during a run: the phase that each step reached on each host, and exported values.

use super::report::HeldBackBy;
use crate::config::ExportedValues;
use crate::graph::StepIndex;
use crate::model::{HostName, HostOutcome, SecretStore, StepId, StepPhase};
use crate::plan::{HostExports, RolloutPlan, RolloutProgress, WindowTurn, WindowWaiters};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The phase that a step reached on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReachedPhase {
    /// Failed, blocked, skipped: no phase was reached.
    Nothing,
    Configured,
    Effective,
}

/// Values that steps share. Replaced as a whole, so that a reader sees one consistent state.
#[derive(Clone, Debug, Default)]
pub struct SharedValues {
    pub published: HostExports,
    /// The view of `published` for templates.
    pub exports: ExportedValues,
    pub secrets: SecretStore,
}

/// The state that readers of the board wait on.
#[derive(Debug, Default)]
pub struct RunStateData {
    reached: BTreeMap<(StepIndex, HostName), ReachedPhase>,
    /// For a step that is behind another one that did not succeed, that step.
    roots: BTreeMap<(StepIndex, HostName), StepId>,
    /// For an effective step, the failure of its recipe's verification; `None` if it passed.
    verified: BTreeMap<(StepIndex, HostName), Option<String>>,
    finished: BTreeSet<HostName>,
    /// Hosts that wait, with the hosts they wait for.
    waiting: BTreeMap<HostName, BTreeSet<HostName>>,
    failed: BTreeSet<HostName>,
    /// Hosts that did not succeed or are not going to, whether they failed or not.
    unsound: BTreeSet<HostName>,
    /// Hosts whose window did not open because of the hours.
    held: BTreeMap<HostName, HeldBackBy>,
    /// Hosts that are out of service.
    progress: RolloutProgress,
    shared: Arc<SharedValues>,
}

/// The shared board of a run.
#[derive(Debug)]
pub struct SharedRunState {
    standing: Mutex<RunStateData>,
    rollout: RolloutPlan,
    version: watch::Sender<u64>,
}

impl SharedRunState {
    pub fn new(shared: SharedValues, rollout: RolloutPlan) -> Self {
        let standing = RunStateData { shared: Arc::new(shared), ..RunStateData::default() };
        Self { standing: Mutex::new(standing), rollout, version: watch::Sender::new(0) }
    }

    pub fn shared_values(&self) -> Arc<SharedValues> {
        self.with_data(|standing| standing.shared.clone())
    }

    pub fn update_shared_values(&self, change: impl FnOnce(&mut SharedValues)) {
        self.update_data(|standing| {
            let shared = Arc::make_mut(&mut standing.shared);
            change(shared);
            shared.exports = shared.published.to_exports();
        });
    }

    /// Reads the current state.
    pub fn read_data<T>(&self, read: impl FnOnce(&RunStateData) -> T) -> T {
        self.with_data(read)
    }

    /// Records the phase that a step reached; of several turns the lowest phase counts.
    pub fn record_phase(&self, step: StepIndex, host: &HostName, reached: ReachedPhase) {
        self.update_data(|standing| {
            let slot = standing.reached.entry((step, host.clone())).or_insert(reached);
            *slot = (*slot).min(reached);
        });
    }

    /// Records that a step reached no phase because `root` did not succeed.
    pub fn record_behind(&self, step: StepIndex, host: &HostName, root: &StepId) {
        self.update_data(|standing| {
            standing.reached.insert((step, host.clone()), ReachedPhase::Nothing);
            standing.roots.insert((step, host.clone()), root.clone());
        });
    }

    /// Records the verification result of a recipe with `steps`: the failure, or `None` if it passed.
    pub fn record_verification(&self, steps: impl IntoIterator<Item = StepIndex>, host: &HostName, why: Option<&str>) {
        self.update_data(|standing| {
            let proofs = steps.into_iter().map(|step| ((step, host.clone()), why.map(str::to_owned)));
            standing.verified.extend(proofs);
        });
    }

    /// Returns whether `host` may be taken out of service now.
    pub fn can_enter_window(&self, host: &HostName, wave: usize) -> bool {
        self.with_data(|standing| standing.decide_window_turn(&self.rollout, host, wave)) == WindowTurn::Go
    }

    /// Returns the decision about a host that is to be taken out of service. If it may, it counts as out of service.
    pub fn enter_window_now(&self, host: &HostName, wave: usize) -> WindowTurn {
        let turn = self.try_enter_window(host, wave);
        if turn == WindowTurn::Go {
            self.version.send_modify(|version| *version += 1);
        }
        turn
    }

    /// Returns once `host` may be, and counts as, out of service.
    ///
    /// # Errors
    /// The host does not get its turn in this run: the reason, as a lowercase fragment.
    pub async fn enter_window(&self, host: &HostName, wave: usize) -> Result<(), String> {
        let mut version = self.version.subscribe();
        loop {
            version.mark_unchanged();
            match self.enter_window_now(host, wave) {
                WindowTurn::Go => return Ok(()),
                WindowTurn::Never(why) => return Err(why),
                WindowTurn::Wait => {}
            }
            // The sender lives as long as the board, so waiting cannot fail.
            let _ = version.changed().await;
        }
    }

    fn try_enter_window(&self, host: &HostName, wave: usize) -> WindowTurn {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = standing.decide_window_turn(&self.rollout, host, wave);
        if turn == WindowTurn::Go {
            standing.progress.busy.remove(host);
            standing.progress.inside.insert(host.clone());
        }
        turn
    }

    /// Records that a host is back in service, or was never taken out of it.
    pub fn leave_window(&self, host: &HostName) {
        self.update_data(|standing| {
            standing.progress.inside.remove(host);
            standing.progress.past.insert(host.clone());
            standing.progress.count_finished_waves(&self.rollout);
        });
    }

    /// Records that a host waits for holders of its devices: other hosts go first meanwhile.
    pub fn defer_window(&self, host: &HostName) {
        self.update_data(|standing| {
            standing.progress.inside.remove(host);
            standing.progress.busy.insert(host.clone());
            standing.progress.count_finished_waves(&self.rollout);
        });
    }

    /// Records that the connection to a host was lost: whether it is in service is unknown. One lost after its first
    /// change counts against the failure budget too, as its state is unknown.
    pub fn mark_lost(&self, host: &HostName, changed: bool) {
        self.update_data(|standing| {
            standing.progress.down.insert(host.clone());
            if changed && !host.is_cluster() {
                standing.failed.insert(host.clone());
            }
        });
    }

    /// Records that a host is done: steps that did not run will not run. A host with an open window stays out of
    /// service.
    pub fn finish_host(&self, host: &HostName, outcome: HostOutcome) {
        self.update_shared_values(|shared| shared.published.abandon_host(host));
        self.update_data(|standing| {
            standing.finished.insert(host.clone());
            standing.progress.finish_host(host, &self.rollout);
            if outcome == HostOutcome::Failed {
                standing.failed.insert(host.clone());
            }
            if !matches!(outcome, HostOutcome::Ok | HostOutcome::Changed | HostOutcome::Pending) {
                standing.unsound.insert(host.clone());
            }
        });
    }

    /// Records that a step of a host that is not done yet did not succeed; `failed` tells whether it failed. The host may
    /// wait for others next: whoever starts because of that has to know.
    pub fn note_trouble(&self, host: &HostName, failed: bool) {
        self.update_data(|standing| {
            standing.unsound.insert(host.clone());
            if failed {
                standing.failed.insert(host.clone());
            }
        });
    }

    /// Records that a host is held back.
    pub fn hold_back(&self, host: &HostName, by: HeldBackBy) {
        self.update_data(|standing| standing.held.insert(host.clone(), by));
    }

    /// Records that a host waits for `others`; an empty list ends the wait.
    pub fn set_waiting(&self, host: &HostName, others: &[HostName]) {
        self.update_data(|standing| match others {
            [] => standing.waiting.remove(host),
            some => standing.waiting.insert(host.clone(), some.iter().cloned().collect()),
        });
    }

    /// Waits until `answer` returns a value.
    pub async fn wait_until<T>(&self, answer: impl Fn(&RunStateData) -> Option<T>) -> T {
        let mut version = self.version.subscribe();
        loop {
            version.mark_unchanged();
            if let Some(found) = self.with_data(&answer) {
                return found;
            }
            // The sender lives as long as the board, so waiting cannot fail.
            let _ = version.changed().await;
        }
    }

    fn with_data<T>(&self, read: impl FnOnce(&RunStateData) -> T) -> T {
        read(&self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn update_data<T>(&self, write: impl FnOnce(&mut RunStateData) -> T) -> T {
        let result = write(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.send_modify(|version| *version += 1);
        result
    }
}

impl RunStateData {
    /// Returns the step that did not succeed, if `step` itself is only behind it.
    pub fn find_root(&self, step: StepIndex, host: &HostName) -> Option<&StepId> {
        self.roots.get(&(step, host.clone()))
    }

    /// Returns the phase that a step reached on a host, once that is decided.
    pub fn reached_phase(&self, step: StepIndex, host: &HostName) -> Option<ReachedPhase> {
        let known = self.reached.get(&(step, host.clone())).copied();
        known.or_else(|| self.finished.contains(host).then_some(ReachedPhase::Nothing))
    }

    /// Returns whether a step reached `phase` on a host, once that is decided.
    pub fn has_reached(&self, step: StepIndex, host: &HostName, phase: StepPhase) -> Option<bool> {
        let reached = self.reached_phase(step, host)?;
        match phase {
            StepPhase::Configured => Some(reached >= ReachedPhase::Configured),
            StepPhase::Effective => Some(reached >= ReachedPhase::Effective),
            StepPhase::Verified if reached < ReachedPhase::Effective => Some(false),
            StepPhase::Verified => match self.verified.get(&(step, host.clone())) {
                Some(why) => Some(why.is_none()),
                None => self.finished.contains(host).then_some(false),
            },
        }
    }

    /// Returns why the verification of a step's recipe failed on a host, if it did.
    pub fn verification_failure(&self, step: StepIndex, host: &HostName) -> Option<&str> {
        self.verified.get(&(step, host.clone()))?.as_deref()
    }

    /// Returns for each of `hosts` whether a step reached `phase` there, once that is decided for all.
    pub fn have_all_reached<'h>(
        &self,
        step: StepIndex,
        hosts: impl IntoIterator<Item = &'h HostName>,
        phase: StepPhase,
    ) -> Option<Vec<(HostName, bool)>> {
        hosts.into_iter().map(|host| Some((host.clone(), self.has_reached(step, host, phase)?))).collect()
    }

    /// Returns whether `host` may start: all canaries are done, or one of them waits for this host directly or
    /// indirectly.
    pub fn may_start_after_canaries(&self, canaries: &BTreeSet<HostName>, host: &HostName) -> bool {
        let open: Vec<&HostName> = canaries.iter().filter(|canary| !self.finished.contains(*canary)).collect();
        open.is_empty() || self.collect_awaited_hosts(open).contains(host)
    }

    /// Returns the hosts that `hosts` wait for, directly and indirectly.
    fn collect_awaited_hosts<'s>(&'s self, hosts: Vec<&'s HostName>) -> BTreeSet<&'s HostName> {
        let mut found = BTreeSet::new();
        let mut due = hosts;
        while let Some(host) = due.pop() {
            let others = self.waiting.get(host).into_iter().flatten();
            due.extend(others.filter(|other| !self.finished.contains(*other) && found.insert(*other)));
        }
        found
    }

    fn decide_window_turn(&self, rollout: &RolloutPlan, host: &HostName, wave: usize) -> WindowTurn {
        let inside = &self.progress.inside;
        rollout.admit_host(host, wave, &self.progress, || WindowWaiters {
            wanted: self.collect_awaited_hosts(inside.iter().collect()).contains(host),
            stuck: !inside.is_empty() && inside.iter().all(|host| self.waiting.contains_key(host)),
        })
    }

    /// Returns whether a host is out of service, or may be.
    pub fn is_out_of_service(&self, host: &HostName) -> bool {
        self.progress.inside.contains(host) || self.progress.down.contains(host)
    }

    pub fn is_finished(&self, host: &HostName) -> bool {
        self.finished.contains(host)
    }

    pub fn count_failed(&self) -> usize {
        self.failed.len()
    }

    /// Returns what holds back a host.
    pub fn find_held_back(&self, host: &HostName) -> Option<HeldBackBy> {
        self.held.get(host).copied()
    }

    /// Returns whether a host did not succeed, or is not going to.
    pub fn is_unsound(&self, host: &HostName) -> bool {
        self.unsound.contains(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn barrier_counts_hosts_that_finish_without_reaching_it() {
        let board = Arc::new(SharedRunState::new(SharedValues::default(), RolloutPlan::default()));
        let (a, b) = (HostName::new("a"), HostName::new("b"));
        let step = StepIndex(0);
        let waiter = tokio::spawn({
            let (board, hosts) = (board.clone(), [a.clone(), b.clone()]);
            async move { board.wait_until(|s| s.have_all_reached(step, &hosts, StepPhase::Effective)).await }
        });
        board.record_phase(step, &a, ReachedPhase::Effective);
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        board.finish_host(&b, HostOutcome::Failed);
        assert_eq!(waiter.await.unwrap(), vec![(a, true), (b, false)]);
    }

    #[test]
    fn step_phase_is_the_lowest_of_its_instances() {
        let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
        let host = HostName::new("a");
        board.record_phase(StepIndex(1), &host, ReachedPhase::Effective);
        board.record_phase(StepIndex(1), &host, ReachedPhase::Nothing);
        board.record_phase(StepIndex(1), &host, ReachedPhase::Effective);
        assert_eq!(board.with_data(|s| s.reached_phase(StepIndex(1), &host)), Some(ReachedPhase::Nothing));
    }

    #[test]
    fn verified_phase_is_undecided_until_verification_runs() {
        let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
        let (step, host) = (StepIndex(0), HostName::new("a"));
        let got_to = |phase| board.read_data(|s| s.has_reached(step, &host, phase));
        board.record_phase(step, &host, ReachedPhase::Effective);
        assert_eq!((got_to(StepPhase::Effective), got_to(StepPhase::Verified)), (Some(true), None));
        board.record_verification([step], &host, Some("`x` does not hold"));
        assert_eq!(got_to(StepPhase::Verified), Some(false));
        assert_eq!(
            board.read_data(|s| s.verification_failure(step, &host).map(str::to_owned)).as_deref(),
            Some("`x` does not hold")
        );
        board.record_verification([step], &host, None);
        assert_eq!(got_to(StepPhase::Verified), Some(true));
    }

    #[test]
    fn canary_lets_only_its_awaited_hosts_start() {
        let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
        let [a, b, c, d] = ["a", "b", "c", "d"].map(HostName::new);
        let canaries = BTreeSet::from([a.clone()]);
        let may = || [&b, &c, &d].map(|host| board.read_data(|s| s.may_start_after_canaries(&canaries, host)));
        assert_eq!(may(), [false; 3]);
        board.set_waiting(&a, std::slice::from_ref(&b));
        assert_eq!(may(), [true, false, false]);
        board.set_waiting(&b, std::slice::from_ref(&c));
        assert_eq!(may(), [true, true, false], "also indirectly");
        board.finish_host(&b, HostOutcome::Ok);
        assert_eq!(may(), [false; 3]);
        board.finish_host(&a, HostOutcome::Changed);
        assert_eq!(may(), [true; 3]);
    }

    #[test]
    fn blocked_hosts_spend_no_failure_budget_but_fail_as_canaries() {
        let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
        let outcomes = [HostOutcome::Failed, HostOutcome::Blocked, HostOutcome::Unreachable, HostOutcome::Changed];
        let hosts: Vec<HostName> = outcomes.iter().map(|o| HostName::new(format!("{o:?}"))).collect();
        hosts.iter().zip(outcomes).for_each(|(host, outcome)| board.finish_host(host, outcome));
        assert_eq!(board.read_data(RunStateData::count_failed), 1);
        board.mark_lost(&hosts[2], false);
        assert_eq!(board.read_data(RunStateData::count_failed), 1, "lost before its first change");
        board.mark_lost(&hosts[2], true);
        assert_eq!(board.read_data(RunStateData::count_failed), 2, "lost after it");
        assert_eq!(
            board.read_data(|s| hosts.iter().map(|h| s.is_unsound(h)).collect::<Vec<_>>()),
            [true, true, true, false]
        );
    }
}
