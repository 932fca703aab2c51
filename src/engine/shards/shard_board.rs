//! The common board of a run with workers: which hosts the next worker gets, which windows may open, and which steps of
//! other hosts are decided. The decisions about windows are those of the rollout.

use super::cross_host_refusal::find_limited_step;
use super::sharded_apply::ShardedApply;
use super::shared_exports::{ExportNames, SharedExports};
use super::split_hosts::split_into_shards;
use super::step_waits::StepWaits;
use super::worker_role::{ChosenStep, OutsideState};
use crate::engine::board_link::{BoardAnswer, HostNews, WindowDenial};
use crate::engine::dependency_gate::describe_awaited_step;
use crate::engine::event::{Event, VerifyResult};
use crate::engine::group_cycle::phase_from_result;
use crate::engine::host_start::describe_held_canary;
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::report::{HeldBackBy, HostReport, StepReport, VerifyReport};
use crate::engine::run_state::{RunStateData, SharedRunState, SharedValues};
use crate::graph::{DependencyKind, GraphEdge, StepIndex};
use crate::model::{HostName, HostOutcome, StepId, StepPhase};
use crate::plan::{ChosenHosts, CrossHostEdges, ExportEntry, Plan, RolloutPlan, StartRefusal, StepTable, WindowTurn};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

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

/// The requests that were looked at.
#[derive(Debug, Default)]
pub(super) struct DecidedRequests {
    /// The decided ones.
    pub answers: Vec<(HostName, BoardAnswer)>,
    /// The waits that begin.
    pub events: Vec<Event>,
}

/// The hosts of a run, and the progress of its rollout.
pub(super) struct ShardBoard<'p> {
    rollout: &'p RolloutPlan,
    waves: HashMap<&'p HostName, usize>,
    canaries: BTreeSet<HostName>,
    board: SharedRunState,
    pending: Vec<PendingHost>,
    /// Whether a worker with hosts of limited steps is at work.
    limited: bool,
    /// Hosts that asked for their window, by wave; whether their wait was announced.
    windows: BTreeMap<(usize, HostName), bool>,
    /// Hosts that wait for holders of their devices.
    deferred: BTreeSet<HostName>,
    /// Hosts whose worker died, and that no other worker has worked on.
    orphaned: BTreeSet<HostName>,
    /// Hosts that a worker got, so that only a worker knows what their steps export.
    given: BTreeSet<HostName>,
    /// Whether a request may have another result than the last time.
    has_news: bool,
    changing: BTreeSet<&'p HostName>,
    run: &'p ShardedApply<'p>,
    chosen: ChosenHosts,
    members: BTreeSet<HostName>,
    steps: StepTable,
    waits: StepWaits,
    /// Hosts that began to wait for a step, with that step and a description; announced unless they are answered first.
    new_waits: Vec<(HostName, StepId, String)>,
    exports: SharedExports,
    /// Answers to requests that cannot be followed.
    ready: Vec<(HostName, BoardAnswer)>,
}

impl<'p> ShardBoard<'p> {
    /// Returns the board of the `acting` hosts of a plan.
    pub fn new(run: &'p ShardedApply<'p>, plan: &'p Plan, acting: &[HostName], observed: &ObservedHosts) -> Self {
        let shards = split_into_shards(run.project, acting, run.shard_size);
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
            // One that lacks only records runs no step. It may wait for hosts that need the place.
            limited: host.has_changes() && find_limited_step(host, &plan.rollout).is_some(),
        });
        let shared = SharedValues::new(observed.published.clone(), observed.secrets.clone());
        Self {
            rollout: &plan.rollout,
            canaries: plan.rollout.canaries.iter().cloned().collect(),
            board: SharedRunState::new(shared, plan.rollout.clone()),
            pending: pending.collect(),
            waves,
            limited: false,
            windows: BTreeMap::new(),
            deferred: BTreeSet::new(),
            orphaned: BTreeSet::new(),
            given: BTreeSet::new(),
            has_news: false,
            changing: plan.hosts.iter().filter(|host| host.has_changes()).map(|host| &host.host).collect(),
            run,
            chosen: observed.chosen.clone(),
            members: plan.hosts.iter().map(|host| host.host.clone()).collect(),
            steps: StepTable::new(run.project),
            waits: StepWaits::default(),
            new_waits: Vec::new(),
            exports: SharedExports::new(run.project, observed.published.clone()),
            ready: Vec::new(),
        }
    }

    /// Returns the state that all hosts of the run share.
    pub fn run_state(&self) -> &SharedRunState {
        &self.board
    }

    /// Returns the names of the exported values that hosts read.
    pub fn list_read_exports(&self, hosts: &BTreeSet<HostName>) -> ExportNames {
        self.exports.list_names(self.run.project, hosts)
    }

    /// Returns what the plan says about other hosts than `hosts`, which read the exported values `names`.
    pub fn describe_outside(&self, names: &ExportNames, hosts: &BTreeSet<HostName>) -> OutsideState {
        let outside = self.exports.list_planned(names, hosts, &self.board.shared_values().secrets);
        let chosen = self.chosen.iter().map(|(index, hosts)| ChosenStep {
            step: self.run.project.graph.step_id(*index).clone(),
            hosts: hosts.clone(),
        });
        OutsideState { chosen: Some(chosen.collect()), ..outside }
    }

    /// Returns the exported values `names` of other hosts than `hosts` that have changed since the plan was made.
    pub fn list_changed_exports(&self, names: &ExportNames, hosts: &BTreeSet<HostName>) -> Vec<ExportEntry> {
        let shared = self.board.shared_values();
        self.exports.list_changed(&shared.published, names, hosts, &shared.secrets)
    }

    /// Removes and returns the exported values that have changed.
    pub fn take_export_news(&mut self) -> Vec<ExportEntry> {
        self.exports.take_news()
    }

    fn spans(&self) -> CrossHostEdges<'_> {
        CrossHostEdges {
            project: self.run.project,
            filter: &self.run.options.filter,
            chosen: &self.chosen,
            members: &self.members,
            steps: &self.steps,
        }
    }

    /// Returns why no further host may start, if so.
    pub fn refuse_start(&self) -> Option<StartRefusal> {
        let (failed, canary) = self.board.read_data(|data| {
            (data.count_failed(), self.canaries.iter().find(|canary| data.is_unsound(canary)).cloned())
        });
        self.rollout.refuse_start(failed, canary.as_ref())
    }

    /// Returns how many hosts have failed that are not among `hosts`.
    pub fn count_failed_except(&self, hosts: &BTreeSet<HostName>) -> usize {
        self.board.read_data(|data| data.count_failed_except(hosts))
    }

    /// Returns how many hosts have failed.
    pub fn count_failed(&self) -> usize {
        self.board.read_data(|data| data.count_failed())
    }

    /// Returns hosts that may start now, all of one shard; `None` if there are none. Hosts that others wait for go first.
    pub fn take_batch(&mut self) -> Option<HostBatch> {
        if self.pending.is_empty() {
            return None;
        }
        let mut taken: Vec<usize> = Vec::new();
        let mut limited = false;
        let awaited = self.waits.list_awaited();
        let may_start = |pending: &PendingHost| {
            !(self.limited && pending.limited) && self.may_start(pending, awaited.contains(&pending.host))
        };
        let mut urgent = self.pending.iter().filter(|pending| awaited.contains(&pending.host) && may_start(pending));
        let shard = urgent.next().map(|pending| pending.shard);
        for (at, pending) in self.pending.iter().enumerate() {
            let first = taken.first().map(|first| self.pending[*first].shard);
            let same_shard = shard.or(first).is_none_or(|shard| shard == pending.shard);
            if same_shard && may_start(pending) {
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
        self.given.extend(hosts.iter().cloned());
        (!hosts.is_empty()).then_some(HostBatch { hosts, limited })
    }

    /// Returns whether a worker may get a host now. Its window opens later, once the host asks for it: one that others wait
    /// for does not wait for its wave here.
    fn may_start(&self, pending: &PendingHost, is_awaited: bool) -> bool {
        let PendingHost { host, wave, .. } = pending;
        if !self.canaries.contains(host)
            && !self.board.read_data(|data| data.may_start_after_canaries(&self.canaries, host))
        {
            return false;
        }
        let Some(wave) = *wave else { return true };
        // If its window never opens, it still has the steps that need none.
        is_awaited
            || self.board.read_data(|data| data.has_wave_begun(wave))
            || matches!(self.board.find_window_turn(host, wave), WindowTurn::Never(_))
    }

    /// Returns the rollout for the hosts of a worker. What it says about waves is decided by this board.
    pub fn narrow_rollout(&self, hosts: &[HostName]) -> RolloutPlan {
        let wave: Vec<HostName> = hosts.iter().filter(|host| self.waves.contains_key(host)).cloned().collect();
        RolloutPlan {
            canaries: Vec::new(),
            waves: if wave.is_empty() { Vec::new() } else { vec![wave] },
            ..self.rollout.clone()
        }
    }

    /// Reports whether a host has to start although a canary is held back: it is one, or its window is open.
    pub fn starts_behind_canary(&self, host: &HostName) -> bool {
        self.canaries.contains(host) || self.board.read_data(|data| data.is_left_open(host))
    }

    /// Returns that a canary is held back, so that no other host is changed.
    pub fn describe_held_canary(&self) -> Option<String> {
        self.find_held_canary(None).map(|(host, by)| describe_held_canary(&host, by))
    }

    /// Returns a canary other than `host` that is held back, and by what.
    fn find_held_canary(&self, host: Option<&HostName>) -> Option<(HostName, HeldBackBy)> {
        let mut canaries = self.canaries.iter().filter(|canary| Some(*canary) != host);
        let find = |data: &RunStateData| canaries.find_map(|host| Some((host.clone(), data.find_held_back(host)?)));
        self.board.read_data(find)
    }

    /// Records that a worker got hosts and did not begin with them.
    pub fn take_back_hosts<'h>(&mut self, hosts: impl IntoIterator<Item = &'h HostName>) {
        for host in hosts {
            self.given.remove(host);
        }
    }

    /// Records news of a host that a worker works on.
    pub fn note_news(&mut self, host: &HostName, news: HostNews) {
        self.has_news = true;
        if news.shows_work() && self.orphaned.remove(host) {
            self.board.forget_unfinished(host);
        }
        self.deferred.remove(host);
        match news {
            HostNews::WindowRequested => {
                let wave = self.waves.get(host).copied().unwrap_or_default();
                self.windows.insert((wave, host.clone()), false);
            }
            HostNews::WindowResumed => self.board.resume_window(host),
            HostNews::WindowClosed => self.board.leave_window(host),
            HostNews::WindowUnused => self.board.give_up_window(host),
            HostNews::WindowDeferred => {
                self.deferred.insert(host.clone());
                self.board.defer_window(host);
            }
            HostNews::StepAwaited { step, awaited, phase, edge } => {
                self.note_awaited(host, &step, &awaited, (phase, edge));
            }
            HostNews::StepReached { step, reached } => {
                if let Some(index) = self.find_step(&step) {
                    self.board.record_phase(index, host, reached);
                }
            }
            HostNews::StepVerified { step, passed } => {
                let why = (!passed).then_some("its verification failed");
                self.board.record_verification(self.find_step(&step), host, why);
            }
            HostNews::ValuesObserved { values } => {
                self.exports.note_change(&self.board, host, || {
                    self.board.update_shared_values(|shared| {
                        values.into_iter().for_each(|entry| shared.published.replace_observed(entry));
                    });
                });
            }
            HostNews::ValuesExported { values } => {
                self.exports.note_change(&self.board, host, || {
                    self.board.update_shared_values(|shared| {
                        values.into_iter().for_each(|entry| shared.published.set_entry(entry));
                    });
                });
            }
            HostNews::TroubleFound { failed } => self.board.note_trouble(host, failed),
            HostNews::HeldBack { by } => self.board.hold_back(host, by),
        }
        self.update_waits(host);
    }

    fn find_step(&self, step: &StepId) -> Option<StepIndex> {
        self.run.project.graph.find_step(&step.recipe, &step.step)
    }

    fn update_waits(&mut self, host: &HostName) {
        self.board.read_data(|data| self.waits.update_host(host, data));
    }

    /// Records that a host waits for a step of other hosts.
    fn note_awaited(&mut self, host: &HostName, step: &StepId, awaited: &StepId, kind: (StepPhase, DependencyKind)) {
        let edge = self.find_edge(host, step, awaited, kind);
        let spans = self.spans();
        let Some((edge, wait)) = edge.and_then(|edge| Some((edge, spans.find_wait(host, edge)?))) else {
            // Both have the same inputs. Without an answer, the host would wait forever.
            let lacks = Some(format!("needs `{awaited}`, which the coordinator does not know"));
            self.ready.push((host.clone(), BoardAnswer::StepDecided { lacks }));
            return;
        };
        let selection = spans.find_selection(host, &awaited.recipe).map_or(0, |own| Arc::as_ptr(own) as usize);
        let key = (std::ptr::from_ref(edge) as usize, selection);
        self.new_waits.push((host.clone(), step.clone(), describe_awaited_step(awaited, &wait.hosts)));
        let others = self.board.read_data(|data| self.waits.add_waiting(key, host, awaited, || wait, data));
        self.board.share_waiting(host, others);
    }

    /// Returns the edge that a host waits because of.
    fn find_edge(
        &self,
        host: &HostName,
        step: &StepId,
        awaited: &StepId,
        (phase, kind): (StepPhase, DependencyKind),
    ) -> Option<&'p GraphEdge> {
        let project = self.run.project;
        let (to, from) = (self.find_step(step)?, self.find_step(awaited)?);
        let mut edges = project.graph_for_host(host).incoming_edges(to);
        edges.find(|edge| (edge.from, edge.phase, edge.why) == (from, phase, kind))
    }

    /// Answers the requests that are decided now, windows of earlier waves first.
    pub fn answer_requests(&mut self) -> DecidedRequests {
        let mut decided = DecidedRequests::default();
        if !std::mem::take(&mut self.has_news) {
            return decided;
        }
        decided.answers.append(&mut self.ready);
        for (host, lacks) in self.board.read_data(|data| self.waits.take_decided(data)) {
            self.board.set_waiting(&host, &[]);
            decided.answers.push((host, BoardAnswer::StepDecided { lacks }));
        }
        for (host, step, what) in std::mem::take(&mut self.new_waits) {
            if self.waits.is_waiting(&host) {
                decided.events.push(Event::Waiting { host, step, what: what.into() });
            }
        }
        for (wave, host) in self.windows.keys().cloned().collect::<Vec<_>>() {
            let key = (wave, host);
            if let Some(answer) = self.decide_window(&key.1, wave) {
                self.windows.remove(&key);
                decided.answers.push((key.1, answer));
                continue;
            }
            if let Some(is_announced) = self.windows.get_mut(&key)
                && !std::mem::replace(is_announced, true)
            {
                decided.events.push(Event::AwaitingWindow { host: key.1, wave });
            }
        }
        // A window that does not open may let another one open.
        self.has_news = !decided.answers.is_empty();
        decided
    }

    fn decide_window(&self, host: &HostName, wave: usize) -> Option<BoardAnswer> {
        if let Some((canary, by)) = self.find_held_canary(Some(host)) {
            let why = describe_held_canary(&canary, by);
            return Some(BoardAnswer::WindowRefused(WindowDenial { why, held_back_by: Some(by) }));
        }
        let refused = |why| Some(BoardAnswer::WindowRefused(WindowDenial::new(why)));
        if let Some(refusal) = self.refuse_start() {
            return refused(refusal.reason);
        }
        match self.board.enter_window_now(host, wave) {
            WindowTurn::Go => Some(BoardAnswer::WindowOpened),
            WindowTurn::Never(why) => refused(why),
            WindowTurn::Wait => None,
        }
    }

    /// Reports whether all of `hosts` wait for answers.
    pub fn await_answers(&self, hosts: &BTreeSet<HostName>) -> bool {
        hosts.iter().all(|host| !self.deferred.contains(host))
    }

    /// Ends a wait, as all hosts wait. Returns the answers.
    pub fn stop_stuck_request(&mut self) -> Vec<(HostName, BoardAnswer)> {
        self.has_news = true;
        let answers = self.waits.stop_stuck();
        answers.iter().for_each(|(host, _)| self.board.set_waiting(host, &[]));
        if !answers.is_empty() {
            return answers.into_iter().map(|(host, lacks)| (host, BoardAnswer::StepDecided { lacks })).collect();
        }
        let window = self.windows.pop_first().map(|((_, host), _)| host);
        let denial = WindowDenial::new("every host of this run waits for another one".to_owned());
        window.map(|host| (host, BoardAnswer::WindowRefused(denial))).into_iter().collect()
    }

    /// Records that the worker of a host died.
    pub fn note_worker_death(&mut self, host: &HostName) {
        self.drop_requests(host);
        if self.board.read_data(|data| data.is_inside_window(host)) {
            self.board.resume_window(host);
        }
        self.orphaned.insert(host.clone());
    }

    fn drop_requests(&mut self, host: &HostName) {
        self.has_news = true;
        let wave = self.waves.get(host).copied().unwrap_or_default();
        self.windows.remove(&(wave, host.clone()));
        self.deferred.remove(host);
        self.waits.remove_waiting(host);
        self.board.set_waiting(host, &[]);
    }

    /// Records that a host is done. `down`: it is out of service, as far as is known.
    pub fn finish_host(&mut self, report: &HostReport, down: bool) {
        let host = &report.host;
        self.drop_requests(host);
        let is_sound = matches!(report.outcome, HostOutcome::Ok | HostOutcome::Changed);
        let is_orphaned = self.orphaned.remove(host);
        if is_orphaned && is_sound {
            self.board.forget_trouble(host);
            self.record_reported_phases(report);
        }
        if let Some(by) = report.held_back_by {
            self.board.hold_back(host, by);
        }
        // What its first worker left open, only a worker that worked there has closed.
        let is_left_open = !is_sound && self.board.read_data(|data| data.is_left_open(host));
        match down || is_left_open {
            false => self.board.leave_window(host),
            true => {
                // A host with pending steps did not fail.
                let changed = report.steps.iter().any(StepReport::has_changed_host);
                self.board.mark_lost(host, changed && report.outcome != HostOutcome::Pending);
            }
        }
        let counts = (self.changing.contains(host) || self.canaries.contains(host)) && !host.is_cluster();
        let outcome = if counts { report.outcome } else { HostOutcome::Ok };
        // Other hosts wait no longer for its values. Those that its worker did not tell may have changed.
        let is_given = self.given.contains(host);
        self.exports.note_change(&self.board, host, || {
            if is_given {
                self.board.update_shared_values(|shared| shared.published.lose_host(host, is_orphaned && !is_sound));
            }
            self.board.finish_host(host, outcome);
        });
        self.update_waits(host);
    }

    /// Records the phases that the steps of a host reached by its report: the worker that wrote it died, perhaps before it
    /// told them.
    fn record_reported_phases(&self, report: &HostReport) {
        for step in &report.steps {
            if let Some(index) = self.find_step(&step.id) {
                self.board.record_phase(index, &report.host, phase_from_result(&step.result));
            }
        }
        let recipes: BTreeSet<&str> = report.steps.iter().map(|step| &*step.id.recipe).collect();
        for recipe in recipes {
            let is_open = |verify: &&VerifyReport| {
                verify.recipe == recipe
                    && !matches!(verify.result, VerifyResult::Held | VerifyResult::NotApplicable { .. })
            };
            let why = report.verify.iter().find(is_open).map(|_| "its verification failed");
            let own = self.run.project.recipes.get(recipe).into_iter().flat_map(|recipe| &recipe.steps);
            let steps = own.filter_map(|step| self.run.project.graph.find_step(recipe, &step.name));
            self.board.record_verification(steps, &report.host, why);
        }
    }

    /// Records that the worker with hosts of limited steps has ended.
    pub fn end_limited_batch(&mut self) {
        self.limited = false;
        self.has_news = true;
    }

    /// Removes and returns the hosts that have not started.
    pub fn take_pending(&mut self) -> Vec<HostName> {
        std::mem::take(&mut self.pending).into_iter().map(|pending| pending.host).collect()
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}
