//! The coordinator: hands out the hosts that may start, follows the workers, and answers the requests of their hosts.

use super::run_worker::run_worker;
use super::shard_board::{HostBatch, ShardBoard};
use super::shard_journal::{ShardJournal, is_event_of_run};
use super::shard_report::{
    AbandonCause, add_earlier_changes, report_abandoned_host, report_without_results, restore_places,
};
use super::sharded_apply::ShardedApply;
use super::shared_exports::{ExportNames, select_news};
use super::worker_driver::WorkerEnd;
use super::worker_task::{
    ShardPlan, WORKER_VERSION, WorkerJob, WorkerMessage, WorkerOrder, WorkerTask, absolute_inventory,
};
use crate::engine::board_link::{BoardAnswer, HostNews};
use crate::engine::cancel::StopLevel;
use crate::engine::event::Event;
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::report::HostReport;
use crate::engine::run_state::SharedRunState;
use crate::engine::untouched_host::report_behind_canary;
use crate::model::{HostName, HostOutcome};
use crate::plan::{ExportEntry, HostPlan, Plan, StartRefusal};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::mpsc;

/// After the second request to stop, workers get this time to report what they leave running.
const DETACH_LIMIT: Duration = Duration::from_secs(10);

/// A worker at work.
struct ActiveWorker {
    task: WorkerTask,
    batch: HostBatch,
    /// Its hosts without a report.
    open: BTreeSet<HostName>,
    /// Those of them that wait for an answer, or for holders of their devices.
    waiting: BTreeSet<HostName>,
    /// All of its hosts.
    hosts: BTreeSet<HostName>,
    /// The exported values that they read.
    reads: ExportNames,
    /// Whether it replaces a worker that died.
    replacement: bool,
    /// Whether it knows that a canary is held back.
    is_held: bool,
    orders: mpsc::UnboundedSender<WorkerOrder>,
    /// Until it is followed.
    queue: Option<mpsc::UnboundedReceiver<WorkerOrder>>,
}

impl ActiveWorker {
    fn new(task: WorkerTask, batch: HostBatch, reads: ExportNames, replacement: bool) -> Self {
        let hosts: BTreeSet<HostName> = task.hosts.iter().cloned().collect();
        let (orders, queue) = mpsc::unbounded_channel();
        let (open, waiting) = (hosts.clone(), BTreeSet::new());
        Self { task, batch, open, waiting, hosts, reads, replacement, is_held: false, orders, queue: Some(queue) }
    }

    /// Reports whether all its hosts wait, so that it has no work.
    fn is_parked(&self) -> bool {
        !self.open.is_empty() && self.waiting.len() == self.open.len()
    }

    fn send_exports(&self, values: Vec<ExportEntry>) {
        if !values.is_empty() {
            self.send_order(WorkerOrder::Exports { values });
        }
    }

    /// Sends an order. A worker that has ended needs none.
    fn send_order(&self, order: WorkerOrder) {
        let _ = self.orders.send(order);
    }
}

/// The state of the coordinator.
pub(super) struct WorkerCoordination<'r> {
    run: &'r ShardedApply<'r>,
    hosts: BTreeMap<&'r HostName, &'r HostPlan>,
    plan: &'r Plan,
    board: ShardBoard<'r>,
    journal: ShardJournal,
    pub reports: BTreeMap<HostName, HostReport>,
    active: BTreeMap<usize, ActiveWorker>,
    /// The number of workers that were started.
    started: usize,
    /// The orders to all workers, which later ones get too.
    orders: Vec<WorkerOrder>,
    pub budget_spent: bool,
}

type WorkerMessages = mpsc::UnboundedReceiver<(usize, WorkerMessage)>;

impl<'r> WorkerCoordination<'r> {
    /// Returns the state before any worker starts. `observed` has the values that hosts share.
    pub fn new(run: &'r ShardedApply<'r>, plan: &'r Plan, acting: &[HostName], observed: &ObservedHosts) -> Self {
        Self {
            run,
            hosts: plan.hosts.iter().map(|host| (&host.host, host)).collect(),
            plan,
            board: ShardBoard::new(run, plan, acting, observed),
            journal: ShardJournal::default(),
            reports: BTreeMap::new(),
            active: BTreeMap::new(),
            started: 0,
            orders: Vec::new(),
            budget_spent: false,
        }
    }

    /// Returns the state that all hosts of the run share.
    pub fn run_state(&self) -> &SharedRunState {
        self.board.run_state()
    }

    /// Starts workers and follows them until every host has a report, or soon after the user detached.
    pub async fn carry_out(&mut self) {
        let (sender, mut messages) = mpsc::unbounded_channel();
        let mut ends = FuturesUnordered::new();
        let mut stopped = StopLevel::No;
        let cancel = self.run.cancel;
        loop {
            for number in self.advance() {
                ends.push(self.follow_worker(number, sender.clone()));
            }
            if self.active.is_empty() {
                return self.cancel_pending("not started: no worker could take this host");
            }
            let detached = stopped == StopLevel::Detach;
            tokio::select! {
                biased;
                () = cancel.wait_for_level(StopLevel::Finish), if stopped == StopLevel::No => {
                    stopped = StopLevel::Finish;
                    self.stop_workers(Event::Stopping { in_flight: self.journal.list_in_flight() });
                }
                () = cancel.wait_for_level(StopLevel::Detach), if stopped == StopLevel::Finish => {
                    stopped = StopLevel::Detach;
                    self.stop_workers(Event::Detached { in_flight: self.journal.list_in_flight() });
                }
                Some((number, message)) = messages.recv() => self.note_message(number, message),
                Some((number, end)) = ends.next() => {
                    self.note_remaining_messages(&mut messages);
                    if let Some(replacement) = self.note_end(number, end) {
                        ends.push(self.follow_worker(replacement, sender.clone()));
                    }
                }
                () = tokio::time::sleep(DETACH_LIMIT), if detached => return,
            }
        }
    }

    /// Starts the workers that may run and answers the requests that are decided, until nothing more follows from either.
    /// Returns the numbers of the new workers.
    fn advance(&mut self) -> Vec<usize> {
        let mut started = Vec::new();
        loop {
            let new = self.start_workers();
            // Hosts that do not start may have ended the wait of others.
            let is_answered = self.answer_requests();
            let has_news = !new.is_empty() || is_answered;
            started.extend(new);
            let goes_on = has_news || (self.is_stuck() && self.stop_stuck_host());
            if !goes_on {
                return started;
            }
        }
    }

    /// Starts as many workers as may run. Returns their numbers.
    fn start_workers(&mut self) -> Vec<usize> {
        if self.run.cancel.level() > StopLevel::No {
            self.cancel_pending("the run was stopped before this host started");
            return Vec::new();
        }
        if let Some(why) = self.board.describe_held_canary() {
            for host in self.board.take_pending() {
                let Some(plan) = self.hosts.get(&host) else { continue };
                self.announce_and_finish(report_behind_canary(plan, &why), false);
            }
            self.hold_given_hosts(&why);
            return Vec::new();
        }
        if let Some(refusal) = self.board.refuse_start() {
            if self.board.has_pending() || !self.active.is_empty() {
                self.spend_budget(&refusal);
            }
            self.cancel_pending(&refusal.reason);
            return Vec::new();
        }
        let mut started = Vec::new();
        // A worker whose hosts all wait may wait for hosts that no worker has yet.
        while self.active.values().filter(|worker| !worker.is_parked()).count() < self.run.workers.max(1) {
            let Some(batch) = self.board.take_batch() else { break };
            started.extend(self.add_worker(batch));
        }
        started
    }

    /// Tells workers that a canary is held back, for their hosts that have not started: a canary may have waited for them.
    fn hold_given_hosts(&mut self, why: &str) {
        let (board, journal) = (&self.board, &self.journal);
        let may_be_held = |host: &&HostName| !board.starts_behind_canary(host) && !journal.has_begun(host);
        for worker in self.active.values_mut().filter(|worker| !worker.is_held) {
            worker.is_held = true;
            let hosts: Vec<HostName> = worker.open.iter().filter(may_be_held).cloned().collect();
            if !hosts.is_empty() {
                worker.send_order(WorkerOrder::HoldHosts { hosts, why: why.to_owned() });
            }
        }
    }

    /// Answers the requests that are decided now. Returns whether there were any.
    fn answer_requests(&mut self) -> bool {
        // Before the answers: a host that goes on reads the values of those that it waited for.
        let news = self.board.take_export_news();
        for worker in self.active.values().filter(|_| !news.is_empty()) {
            worker.send_exports(select_news(&news, &worker.reads, &worker.hosts));
        }
        let decided = self.board.answer_requests();
        decided.events.into_iter().for_each(|event| self.run.emit_event(event));
        let is_answered = !decided.answers.is_empty();
        for (host, answer) in decided.answers {
            self.send_answer(host, answer);
        }
        is_answered
    }

    fn send_answer(&mut self, host: HostName, answer: BoardAnswer) {
        if let Some(worker) = self.active.values_mut().find(|worker| worker.open.contains(&host)) {
            worker.waiting.remove(&host);
            worker.send_order(WorkerOrder::Answer { host, answer });
        }
    }

    /// Reports whether every host that a worker has waits for an answer, so that no news come.
    fn is_stuck(&self) -> bool {
        self.run.cancel.level() == StopLevel::No
            && !self.active.is_empty()
            && self.active.values().all(|worker| worker.is_parked() && self.board.await_answers(&worker.waiting))
    }

    /// Ends a wait that would last forever. Returns whether there was one.
    fn stop_stuck_host(&mut self) -> bool {
        let answers = self.board.stop_stuck_request();
        let is_stopped = !answers.is_empty();
        answers.into_iter().for_each(|(host, answer)| self.send_answer(host, answer));
        is_stopped
    }

    fn spend_budget(&mut self, refusal: &StartRefusal) {
        if !self.orders.iter().any(|order| matches!(order, WorkerOrder::HoldBack { .. })) {
            // Whether workers have hosts that they have not started, their reports show.
            self.send_to_all(WorkerOrder::HoldBack { why: refusal.reason.clone() });
        }
        if self.board.has_pending() {
            self.announce_spent_budget(refusal.failed, refusal.allowed, refusal.canary.clone());
        }
    }

    fn send_to_all(&mut self, order: WorkerOrder) {
        self.active.values().for_each(|worker| worker.send_order(order.clone()));
        self.orders.push(order);
    }

    fn announce_spent_budget(&mut self, failed: usize, allowed: usize, canary: Option<HostName>) {
        if !std::mem::replace(&mut self.budget_spent, true) {
            self.run.emit_event(Event::BudgetSpent { failed, allowed, canary });
        }
    }

    fn cancel_pending(&mut self, reason: &str) {
        for host in self.board.take_pending() {
            let Some(plan) = self.hosts.get(&host) else { continue };
            let report = report_without_results(plan, HostOutcome::Cancelled, reason);
            self.announce_and_finish(report, false);
        }
    }

    /// Writes the task of a batch. Returns the number of its worker; `None` if the store cannot be written.
    fn add_worker(&mut self, batch: HostBatch) -> Option<usize> {
        match self.store_plan(&batch.hosts) {
            Ok(digest) => Some(self.register_worker(batch, digest)),
            Err(why) => {
                self.board.take_back_hosts(&batch.hosts);
                self.abandon_hosts(batch.hosts.iter().cloned().collect(), AbandonCause::NoTask, &why);
                if batch.limited {
                    self.board.end_limited_batch();
                }
                None
            }
        }
    }

    /// Stores the part of the plan for the hosts of a worker. Returns its digest.
    fn store_plan(&self, hosts: &[HostName]) -> Result<String, String> {
        let plans = hosts.iter().filter_map(|host| self.hosts.get(host)).map(|host| (*host).clone()).collect();
        let rollout = self.board.narrow_rollout(hosts);
        let own: BTreeSet<HostName> = hosts.iter().cloned().collect();
        let outside = self.board.describe_outside(&self.board.list_read_exports(&own), &own);
        let plan = Plan { hosts: plans, rollout, ..self.plan.clone_header() };
        self.run.store.put(&ShardPlan { version: WORKER_VERSION, plan, outside, once: self.run.once })
    }

    fn register_worker(&mut self, batch: HostBatch, plan: String) -> usize {
        let task = WorkerTask {
            version: WORKER_VERSION,
            forge: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.run.options.run.clone(),
            inventory: absolute_inventory(self.run.project),
            inputs: self.run.project.list_input_files(),
            settings: self.run.settings.clone(),
            hosts: batch.hosts.clone(),
            job: WorkerJob::Apply { plan, failed: self.board.count_failed() },
            replaced: 0,
        };
        self.insert_worker(task, batch, false)
    }

    fn insert_worker(&mut self, task: WorkerTask, batch: HostBatch, replacement: bool) -> usize {
        let reads = self.board.list_read_exports(&task.hosts.iter().cloned().collect());
        let worker = ActiveWorker::new(task, batch, reads, replacement);
        worker.send_exports(self.board.list_changed_exports(&worker.reads, &worker.hosts));
        self.orders.iter().for_each(|order| worker.send_order(order.clone()));
        self.started += 1;
        self.active.insert(self.started, worker);
        self.started
    }

    /// Returns the future that runs a worker and passes on its messages.
    fn follow_worker(
        &mut self,
        number: usize,
        sender: mpsc::UnboundedSender<(usize, WorkerMessage)>,
    ) -> impl Future<Output = (usize, WorkerEnd)> + use<'r> {
        let run = self.run;
        let worker = self.active.get_mut(&number);
        let task = worker.and_then(|worker| Some((worker.task.clone(), worker.queue.take()?)));
        async move {
            let Some((task, orders)) = task else { return (number, WorkerEnd::Finished) };
            let receive = |message| drop(sender.send((number, message)));
            (number, run_worker(run.driver, run.store, &task, orders, receive).await)
        }
    }

    fn stop_workers(&mut self, event: Event) {
        self.run.emit_event(event);
        self.send_to_all(WorkerOrder::Stop);
    }

    fn note_remaining_messages(&mut self, messages: &mut WorkerMessages) {
        while let Ok((number, message)) = messages.try_recv() {
            self.note_message(number, message);
        }
    }

    fn note_message(&mut self, number: usize, message: WorkerMessage) {
        match message {
            WorkerMessage::Event { event } => {
                self.journal.note_event(&event);
                match event {
                    Event::BudgetSpent { failed, allowed, canary } => {
                        self.announce_spent_budget(failed, allowed, canary)
                    }
                    event if is_event_of_run(&event) => self.run.emit_event(event),
                    _ => {}
                }
            }
            WorkerMessage::News { host, news } => self.note_news(number, &host, news),
            WorkerMessage::HostDone { host, report, down } => self.note_host_done(number, host, &report, down),
            _ => {}
        }
    }

    /// Records news of a host, if it is one of that worker.
    fn note_news(&mut self, number: usize, host: &HostName, news: HostNews) {
        let Some(worker) = self.active.get_mut(&number).filter(|worker| worker.open.contains(host)) else { return };
        match news {
            HostNews::WindowRequested | HostNews::WindowDeferred | HostNews::StepAwaited { .. } => {
                worker.waiting.insert(host.clone());
            }
            _ => drop(worker.waiting.remove(host)),
        }
        self.board.note_news(host, news);
    }

    /// Records the report of a host, if it is one of that worker.
    fn note_host_done(&mut self, number: usize, host: HostName, report: &str, down: bool) {
        let Some(worker) = self.active.get_mut(&number) else { return };
        worker.waiting.remove(&host);
        if !worker.open.remove(&host) {
            return;
        }
        match self.run.store.get::<HostReport>(report) {
            Ok(report) if report.host == host => self.finish_host(report, down),
            Ok(other) => {
                let why = format!("it is the report of `{}`", other.host);
                self.abandon_host(&host, (AbandonCause::UnreadableReport, &why), down);
            }
            Err(why) => self.abandon_host(&host, (AbandonCause::UnreadableReport, &why), down),
        }
    }

    /// Records the end of a worker. Returns the number of the worker that replaces it, if one does.
    fn note_end(&mut self, number: usize, end: WorkerEnd) -> Option<usize> {
        let ended = self.active.remove(&number)?;
        let how = match end {
            _ if ended.open.is_empty() => None,
            WorkerEnd::Finished => Some("it ended without the reports of all its hosts".to_owned()),
            WorkerEnd::Refused(why) => {
                if !ended.replacement {
                    self.board.take_back_hosts(&ended.open);
                }
                self.refuse_hosts(&ended.open, &why);
                None
            }
            WorkerEnd::Died(how) => Some(how),
        };
        if let Some(how) = how {
            self.journal.note_death(&ended.open);
            ended.open.iter().for_each(|host| self.board.note_worker_death(host));
            let cause = if ended.replacement { AbandonCause::DiedTwice } else { AbandonCause::Died };
            let is_replaced = !ended.replacement && self.run.cancel.level() == StopLevel::No;
            let left: Vec<HostName> =
                ended.task.hosts.iter().filter(|host| ended.open.contains(*host)).cloned().collect();
            match is_replaced.then(|| self.store_plan(&left)) {
                Some(Ok(plan)) => return Some(self.replace_worker(ended, left, plan)),
                Some(Err(why)) => self.abandon_hosts(ended.open, cause, &format!("{how}; the store: {why}")),
                None => self.abandon_hosts(ended.open, cause, &how),
            }
        }
        if ended.batch.limited {
            self.board.end_limited_batch();
        }
        None
    }

    fn replace_worker(&mut self, ended: ActiveWorker, hosts: Vec<HostName>, plan: String) -> usize {
        // The trouble of its own hosts is that of the worker which died: they are tried again.
        let job = WorkerJob::Apply { plan, failed: self.board.count_failed_except(&ended.open) };
        let task = WorkerTask { hosts, job, replaced: ended.task.replaced + 1, ..ended.task };
        self.insert_worker(task, ended.batch, true)
    }

    /// Reports hosts that a worker did not contact: its inputs are not those of the plan.
    fn refuse_hosts(&mut self, hosts: &BTreeSet<HostName>, why: &str) {
        for host in hosts {
            let Some(plan) = self.hosts.get(host) else { continue };
            let report =
                report_without_results(plan, HostOutcome::Stale, &format!("its worker refused the task: {why}"));
            self.announce_and_finish(report, false);
        }
    }

    fn abandon_hosts(&mut self, hosts: BTreeSet<HostName>, cause: AbandonCause, how: &str) {
        for host in hosts {
            self.abandon_host(&host, (cause, how), false);
        }
    }

    /// Reports a host without a readable report. `down`: its worker said that it is out of service.
    fn abandon_host(&mut self, host: &HostName, (cause, how): (AbandonCause, &str), down: bool) {
        let Some(plan) = self.hosts.get(host) else { return };
        let (finished, started) = (self.journal.list_finished(host), self.journal.list_started(host));
        let report = report_abandoned_host(plan, cause, how, &finished, &started);
        // A host that no worker acted on is in service.
        self.announce_and_finish(report, down || !(finished.is_empty() && started.is_empty()));
    }

    fn announce_and_finish(&mut self, report: HostReport, down: bool) {
        self.run.emit_event(Event::HostFinished {
            host: report.host.clone(),
            outcome: report.outcome,
            reason: report.reason.clone(),
        });
        self.finish_host(report, down);
    }

    /// Records the report of a host that is done. `down`: it is out of service, as far as is known.
    pub fn finish_host(&mut self, mut report: HostReport, down: bool) {
        let (earlier, interrupted) =
            (self.journal.list_finished(&report.host), self.journal.list_interrupted(&report.host));
        if let Some(plan) = self.hosts.get(&report.host) {
            add_earlier_changes(&mut report, plan, &earlier, &interrupted);
            restore_places(&mut report, plan);
        }
        // Only the budget, or the user, keeps a worker from starting a host.
        self.budget_spent |= report.outcome == HostOutcome::Cancelled && self.run.cancel.level() == StopLevel::No;
        self.board.finish_host(&report, down);
        self.reports.insert(report.host.clone(), report);
    }
}
