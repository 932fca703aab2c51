//! The state that hosts share during a run: the phase that each step reached on each host, and exported values.

use super::board_link::{BoardAnswer, BoardUpdate, HostNews, WindowDenial};
use super::reached_phase::ReachedPhase;
use super::report::HeldBackBy;
use super::shards::WorkerRole;
use crate::config::ExportedValues;
use crate::graph::StepIndex;
use crate::model::{HostName, HostOutcome, SecretStore, StepId, StepPhase};
use crate::plan::{ExportEntry, HostExports, RolloutPlan, RolloutProgress, WindowTurn, WindowWaiters};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::watch;

/// Values that steps share. Replaced as a whole, so that a reader sees one consistent state.
#[derive(Clone, Debug, Default)]
pub struct SharedValues {
    pub published: HostExports,
    pub secrets: SecretStore,
    /// The view of `published` for templates. With many hosts, it is built only if something reads it.
    view: OnceLock<ExportedValues>,
}

impl SharedValues {
    pub fn new(published: HostExports, secrets: SecretStore) -> Self {
        Self { published, secrets, view: OnceLock::new() }
    }

    /// Returns the exported values as templates read them.
    pub fn exports(&self) -> &ExportedValues {
        self.view.get_or_init(|| self.published.to_exports())
    }
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
    waiting: BTreeMap<HostName, Arc<BTreeSet<HostName>>>,
    failed: BTreeSet<HostName>,
    /// Hosts that did not succeed or are not going to, whether they failed or not.
    unsound: BTreeSet<HostName>,
    /// Hosts whose window an earlier run, or a worker that died, left open.
    left_open: BTreeSet<HostName>,
    /// Hosts that are held back.
    held: BTreeMap<HostName, HeldBackBy>,
    /// Hosts that are out of service.
    progress: RolloutProgress,
    shared: Arc<SharedValues>,
    /// The coordinator's answers that the hosts of a worker have not read yet. A host has one request at a time.
    window_answers: BTreeMap<HostName, Result<(), WindowDenial>>,
    step_answers: BTreeMap<HostName, Option<String>>,
}

/// The shared board of a run.
#[derive(Debug)]
pub struct SharedRunState {
    standing: Mutex<RunStateData>,
    rollout: RolloutPlan,
    version: watch::Sender<u64>,
    /// Of a worker's run, whose coordinator has the board of all hosts.
    worker: Option<Arc<WorkerRole>>,
    /// The steps that hosts of other workers may wait for.
    sources: BTreeMap<StepIndex, CrossingSource>,
}

/// A step that hosts of other workers may wait for.
#[derive(Clone, Debug)]
pub struct CrossingSource {
    /// The step.
    pub id: StepId,
    /// The names of the values that it exports.
    pub exports: BTreeSet<String>,
}

impl SharedRunState {
    pub fn new(shared: SharedValues, rollout: RolloutPlan) -> Self {
        let standing = RunStateData { shared: Arc::new(shared), ..RunStateData::default() };
        Self {
            standing: Mutex::new(standing),
            rollout,
            version: watch::Sender::new(0),
            worker: None,
            sources: BTreeMap::new(),
        }
    }

    /// Returns the board of a worker's run: what concerns other hosts, its coordinator decides. Those may wait for
    /// `sources`.
    pub fn with_worker(self, worker: Arc<WorkerRole>, sources: BTreeMap<StepIndex, CrossingSource>) -> Self {
        Self { worker: Some(worker), sources, ..self }
    }

    /// Takes over what the coordinator tells. Never returns.
    pub async fn follow_updates(&self) {
        match &self.worker {
            Some(worker) => {
                worker.inbox.follow_updates(|update| self.accept_update(update)).await;
            }
            None => std::future::pending().await,
        }
    }

    fn accept_update(&self, update: BoardUpdate) {
        match update {
            BoardUpdate::Answered { host, answer } => self.accept_answer(host, answer),
            BoardUpdate::Exported(values) => self.update_shared_values(|shared| {
                values.into_iter().for_each(|entry| shared.published.set_entry(entry));
            }),
        }
    }

    fn accept_answer(&self, host: HostName, answer: BoardAnswer) {
        self.update_data(|standing| match answer {
            BoardAnswer::WindowOpened => drop(standing.window_answers.insert(host, Ok(()))),
            BoardAnswer::WindowRefused(denial) => drop(standing.window_answers.insert(host, Err(denial))),
            BoardAnswer::StepDecided { lacks } => drop(standing.step_answers.insert(host, lacks)),
        });
    }

    fn tell_news(&self, host: &HostName, news: HostNews) {
        if let Some(worker) = &self.worker {
            worker.tell_news(host, news);
        }
    }

    pub fn shared_values(&self) -> Arc<SharedValues> {
        self.with_data(|standing| standing.shared.clone())
    }

    pub fn update_shared_values(&self, change: impl FnOnce(&mut SharedValues)) {
        self.update_data(|standing| {
            let shared = Arc::make_mut(&mut standing.shared);
            change(shared);
            shared.view = OnceLock::new();
        });
    }

    /// Changes the values that a host exports. A worker tells its coordinator the changed ones.
    pub fn update_exports(&self, host: &HostName, change: impl FnOnce(&mut SharedValues)) {
        let before = self.list_own_exports(host);
        self.update_shared_values(change);
        let mut values = self.list_own_exports(host);
        values.retain(|entry| !before.contains(entry));
        if !values.is_empty() {
            self.tell_news(host, HostNews::ValuesExported { values });
        }
    }

    /// Tells the coordinator the values that a host exports by the worker's observation.
    pub fn tell_observed_exports(&self, host: &HostName) {
        let values = self.list_own_exports(host);
        if !values.is_empty() {
            self.tell_news(host, HostNews::ValuesObserved { values });
        }
    }

    /// Tells the coordinator the values of a worker's host that `admits` accepts.
    fn tell_exports(&self, host: &HostName, admits: impl Fn(&ExportEntry) -> bool) {
        let mut values = self.list_own_exports(host);
        values.retain(admits);
        if !values.is_empty() {
            self.tell_news(host, HostNews::ValuesExported { values });
        }
    }

    /// Returns what a worker's host exports, as far as it is passed on.
    fn list_own_exports(&self, host: &HostName) -> Vec<ExportEntry> {
        if self.worker.is_none() {
            return Vec::new();
        }
        let shared = self.shared_values();
        let own = shared.published.list_host_entries(host);
        own.into_iter().map(|entry| entry.without_secret(&shared.secrets)).collect()
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
        self.tell_phase(step, host, reached);
    }

    fn tell_phase(&self, step: StepIndex, host: &HostName, reached: ReachedPhase) {
        let Some(source) = self.sources.get(&step) else { return };
        // Before the phase, which ends the wait for the values. Also if this worker's observation shows the same ones: the
        // coordinator waits for the step, and an earlier worker may have died before it told them.
        self.tell_exports(host, |entry| entry.recipe == *source.id.recipe && source.exports.contains(&entry.name));
        self.tell_news(host, HostNews::StepReached { step: source.id.clone(), reached });
    }

    /// Records that a step reached no phase because `root` did not succeed.
    pub fn record_behind(&self, step: StepIndex, host: &HostName, root: &StepId) {
        self.update_data(|standing| {
            standing.reached.insert((step, host.clone()), ReachedPhase::Nothing);
            standing.roots.insert((step, host.clone()), root.clone());
        });
        self.tell_phase(step, host, ReachedPhase::Nothing);
    }

    /// Records the verification result of a recipe with `steps`: the failure, or `None` if it passed.
    pub fn record_verification(&self, steps: impl IntoIterator<Item = StepIndex>, host: &HostName, why: Option<&str>) {
        for step in steps {
            self.update_data(|standing| standing.verified.insert((step, host.clone()), why.map(str::to_owned)));
            if let Some(source) = self.sources.get(&step) {
                self.tell_news(host, HostNews::StepVerified { step: source.id.clone(), passed: why.is_none() });
            }
        }
    }

    /// Returns whether `host` has to wait until it may be taken out of service. Of a worker's host, the coordinator tells.
    pub fn must_await_window(&self, host: &HostName, wave: usize) -> bool {
        self.worker.is_none() && self.find_window_turn(host, wave) != WindowTurn::Go
    }

    /// Returns the decision about a host that is to be taken out of service; nothing is recorded.
    pub fn find_window_turn(&self, host: &HostName, wave: usize) -> WindowTurn {
        self.with_data(|standing| standing.decide_window_turn(&self.rollout, host, wave))
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
    /// The host does not get its turn in this run.
    pub async fn enter_window(&self, host: &HostName, wave: usize) -> Result<(), WindowDenial> {
        if let Some(worker) = &self.worker {
            return self.request_window(worker, host).await;
        }
        let mut version = self.version.subscribe();
        loop {
            version.mark_unchanged();
            match self.enter_window_now(host, wave) {
                WindowTurn::Go => return Ok(()),
                WindowTurn::Never(why) => return Err(WindowDenial::new(why)),
                WindowTurn::Wait => {}
            }
            // The sender lives as long as the board, so waiting cannot fail.
            let _ = version.changed().await;
        }
    }

    async fn request_window(&self, worker: &WorkerRole, host: &HostName) -> Result<(), WindowDenial> {
        let take = |standing: &mut RunStateData| standing.window_answers.remove(host);
        let answer = self.ask_coordinator(worker, host, HostNews::WindowRequested, take).await;
        if answer.is_ok() {
            self.update_data(|standing| standing.progress.enter_window(host));
        }
        answer
    }

    /// Asks the coordinator for a step of other hosts. Returns once that is decided on all of them: why `host` lacks it, if
    /// it does.
    pub async fn await_remote_step(&self, host: &HostName, request: HostNews) -> Option<String> {
        let worker = self.worker.as_ref()?;
        self.ask_coordinator(worker, host, request, |standing| standing.step_answers.remove(host)).await
    }

    /// Tells a request of a host and returns the answer, which `take` takes from the board.
    async fn ask_coordinator<T>(
        &self,
        worker: &WorkerRole,
        host: &HostName,
        request: HostNews,
        take: impl Fn(&mut RunStateData) -> Option<T>,
    ) -> T {
        let mut version = self.version.subscribe();
        // The answer to a request that was dropped is not the one to this request.
        self.update_quietly(&take);
        worker.tell_news(host, request);
        loop {
            version.mark_unchanged();
            if let Some(answer) = self.update_quietly(&take) {
                return answer;
            }
            // The sender lives as long as the board, so waiting cannot fail.
            let _ = version.changed().await;
        }
    }

    fn try_enter_window(&self, host: &HostName, wave: usize) -> WindowTurn {
        self.update_quietly(|standing| {
            let turn = standing.decide_window_turn(&self.rollout, host, wave);
            if turn == WindowTurn::Go {
                standing.progress.enter_window(host);
            }
            turn
        })
    }

    /// Records that the window of a host was left open, by an earlier run or by a worker that died: it counts as out of
    /// service until it is closed, and the hosts that it waits for there get their turn.
    pub fn resume_window(&self, host: &HostName) {
        self.update_data(|standing| {
            standing.progress.enter_window(host);
            standing.left_open.insert(host.clone());
        });
        self.tell_news(host, HostNews::WindowResumed);
    }

    /// Records that a host is not taken out of service, although it was its turn.
    pub fn give_up_window(&self, host: &HostName) {
        if !self.with_data(|standing| standing.is_left_open(host)) {
            self.record_left_window(host);
        }
        self.tell_news(host, HostNews::WindowUnused);
    }

    /// Records that a host is back in service.
    pub fn leave_window(&self, host: &HostName) {
        self.record_left_window(host);
        self.tell_news(host, HostNews::WindowClosed);
    }

    fn record_left_window(&self, host: &HostName) {
        self.update_data(|standing| {
            standing.left_open.remove(host);
            standing.progress.inside.remove(host);
            standing.progress.past.insert(host.clone());
            standing.progress.count_finished_waves(&self.rollout);
        });
    }

    /// Records that a host waits for holders of its devices: other hosts go first meanwhile.
    pub fn defer_window(&self, host: &HostName) {
        self.update_data(|standing| {
            if !standing.left_open.contains(host) {
                standing.progress.inside.remove(host);
            }
            standing.progress.busy.insert(host.clone());
            standing.progress.count_finished_waves(&self.rollout);
        });
        self.tell_news(host, HostNews::WindowDeferred);
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
        // Without it, the coordinator would not know what became of values that it waits for.
        self.tell_exports(host, |_| true);
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
        self.tell_news(host, HostNews::TroubleFound { failed });
    }

    /// Forgets the trouble that a worker which died has told about a host.
    pub fn forget_trouble(&self, host: &HostName) {
        self.update_data(|standing| {
            standing.unsound.remove(host);
            standing.failed.remove(host);
            standing.held.remove(host);
        });
    }

    /// Forgets what a worker that died has told about a host that is not done: another worker works on it.
    pub fn forget_unfinished(&self, host: &HostName) {
        self.forget_trouble(host);
        self.update_data(|standing| {
            if !standing.finished.contains(host) {
                standing.reached.retain(|(_, own), _| own != host);
                standing.roots.retain(|(_, own), _| own != host);
                standing.verified.retain(|(_, own), _| own != host);
            }
        });
    }

    /// Records that a host is held back.
    pub fn hold_back(&self, host: &HostName, by: HeldBackBy) {
        self.update_data(|standing| standing.held.insert(host.clone(), by));
        self.tell_news(host, HostNews::HeldBack { by });
    }

    /// Records that a host waits for `others`; an empty list ends the wait.
    pub fn set_waiting(&self, host: &HostName, others: &[HostName]) {
        match others {
            [] => self.update_data(|standing| drop(standing.waiting.remove(host))),
            some => self.share_waiting(host, Arc::new(some.iter().cloned().collect())),
        }
    }

    /// Records that a host waits for `others`, like other hosts do.
    pub fn share_waiting(&self, host: &HostName, others: Arc<BTreeSet<HostName>>) {
        self.update_data(|standing| drop(standing.waiting.insert(host.clone(), others)));
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

    fn update_quietly<T>(&self, write: impl FnOnce(&mut RunStateData) -> T) -> T {
        write(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn update_data<T>(&self, write: impl FnOnce(&mut RunStateData) -> T) -> T {
        let result = self.update_quietly(write);
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
            let others = self.waiting.get(host).into_iter().flat_map(|others| others.iter());
            due.extend(others.filter(|other| !self.finished.contains(*other) && found.insert(*other)));
        }
        found
    }

    fn decide_window_turn(&self, rollout: &RolloutPlan, host: &HostName, wave: usize) -> WindowTurn {
        let inside = &self.progress.inside;
        if inside.contains(host) {
            // It is out of service already.
            return WindowTurn::Go;
        }
        rollout.admit_host(host, wave, &self.progress, || WindowWaiters {
            wanted: self.collect_awaited_hosts(inside.iter().collect()).contains(host),
            stuck: !inside.is_empty() && inside.iter().all(|host| self.waiting.contains_key(host)),
        })
    }

    /// Returns whether a host is out of service, or may be.
    pub fn is_out_of_service(&self, host: &HostName) -> bool {
        self.progress.inside.contains(host) || self.progress.down.contains(host)
    }

    /// Returns whether the window of a host was left open, and was not closed since.
    pub fn is_left_open(&self, host: &HostName) -> bool {
        self.left_open.contains(host)
    }

    /// Returns whether the window of a host is open.
    pub fn is_inside_window(&self, host: &HostName) -> bool {
        self.progress.inside.contains(host)
    }

    /// Returns whether a wave of windows begins or has begun: those before it are over.
    pub fn has_wave_begun(&self, wave: usize) -> bool {
        wave <= self.progress.over
    }

    pub fn is_finished(&self, host: &HostName) -> bool {
        self.finished.contains(host)
    }

    pub fn count_failed(&self) -> usize {
        self.failed.len()
    }

    /// Returns how many hosts have failed that are not among `hosts`.
    pub fn count_failed_except(&self, hosts: &BTreeSet<HostName>) -> usize {
        self.failed.difference(hosts).count()
    }

    /// Returns what holds back a host.
    pub fn find_held_back(&self, host: &HostName) -> Option<HeldBackBy> {
        self.held.get(host).copied()
    }

    /// Returns whether a step or a verification of a host failed.
    pub fn has_failed(&self, host: &HostName) -> bool {
        self.failed.contains(host)
    }

    /// Returns whether a host did not succeed, or is not going to.
    pub fn is_unsound(&self, host: &HostName) -> bool {
        self.unsound.contains(host)
    }
}

#[cfg(test)]
mod tests;
