//! Carries out one plan with workers: hands out the hosts that may start, follows the workers, and merges their reports.

use super::run_worker::run_worker;
use super::shard_board::{HostBatch, ShardBoard};
use super::shard_journal::{ShardJournal, is_event_of_run};
use super::shard_report::{add_earlier_changes, report_abandoned_host, report_without_results, restore_places};
use super::worker_driver::{WorkerDriver, WorkerEnd};
use super::worker_task::{
    ShardPlan, WORKER_VERSION, WorkerJob, WorkerMessage, WorkerOrder, WorkerSettings, WorkerTask, absolute_inventory,
};
use crate::config::{Project, StepExpander};
use crate::engine::apply::{apply_part, build_canary_wait};
use crate::engine::cancel::{CancelSignal, StopLevel};
use crate::engine::event::{Event, EventSender};
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::report::{HostReport, REPORT_VERSION, RunReport};
use crate::engine::run_options::RunOptions;
use crate::engine::step_records::lacks_records;
use crate::engine::untouched_host::report_behind_canary;
use crate::model::{HostName, HostOutcome};
use crate::plan::{HostContext, HostPlan, ObservedHost, Plan, RolloutPlan, StartRefusal};
use crate::state::ObjectStore;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// After the second request to stop, workers get this time to report what they leave running.
const DETACH_LIMIT: Duration = Duration::from_secs(10);

/// An apply that workers carry out.
pub struct ShardedApply<'a> {
    /// The inventory.
    pub project: &'a Project,
    /// The options of the run. They have its name.
    pub options: &'a RunOptions,
    /// The settings of each worker.
    pub settings: &'a WorkerSettings,
    /// Starts the workers.
    pub driver: &'a dyn WorkerDriver,
    /// Where tasks, plans and reports are.
    pub store: &'a ObjectStore,
    /// How many workers run at once.
    pub workers: usize,
    /// How many hosts one worker gets at most.
    pub shard_size: usize,
    /// Whether the plan runs once on each host, as a saved plan does.
    pub once: bool,
    /// Where progress is reported.
    pub events: &'a EventSender,
    /// The user's requests to stop.
    pub cancel: &'a CancelSignal,
}

/// Carries out `plan`, which was made from `observed`, and returns the merged report. The locks of the store are held by
/// the caller.
pub async fn apply_in_shards(run: &ShardedApply<'_>, plan: &Plan, observed: ObservedHosts) -> RunReport {
    let began = Instant::now();
    let acting = list_acting_hosts(run, plan, &observed);
    run.emit_event(Event::ApplyStarted {
        run: run.options.run.clone(),
        hosts: plan.hosts.iter().filter(|host| host.will_run() && !host.host.is_cluster()).count(),
        steps: plan.hosts.iter().filter(|h| h.will_run()).flat_map(|h| &h.steps).filter(|s| s.will_run()).count(),
    });
    if let Some(wait) = build_canary_wait(plan) {
        run.emit_event(wait);
    }
    let (cluster, idle): (Vec<_>, Vec<_>) =
        plan.hosts.iter().filter(|host| !acting.contains(&host.host)).partition(|host| host.host.is_cluster());
    let mut observed = SplitObservation::new(observed);
    let idle_reports = run.apply_here(plan, &idle, observed.take_hosts(&idle)).await;
    let acting: Vec<HostName> =
        plan.hosts.iter().map(|host| &host.host).filter(|host| acting.contains(*host)).cloned().collect();
    let mut coordination = Coordination::new(run, plan, &acting);
    for report in idle_reports {
        coordination.finish_host(report, false);
    }
    coordination.carry_out().await;
    // The cluster's verification is about the hosts as they are now.
    for report in run.apply_here(plan, &cluster, observed.take_hosts(&cluster)).await {
        coordination.finish_host(report, false);
    }
    let mut reports = coordination.reports;
    let missing = |host: &HostPlan| {
        report_without_results(host, HostOutcome::Cancelled, "forge exited before this host was done")
    };
    RunReport {
        version: REPORT_VERSION,
        run: run.options.run.clone(),
        verb: run.options.verb_name().to_owned(),
        cluster: run.project.cluster.clone(),
        plan: Some(plan.id.clone()),
        simulated: plan.simulated.clone(),
        hosts: plan.hosts.iter().map(|host| reports.remove(&host.host).unwrap_or_else(|| missing(host))).collect(),
        budget_spent: coordination.budget_spent,
        interrupted: run.cancel.level() > StopLevel::No,
        evict_busy: run.options.evict_busy.clone(),
        took: began.elapsed(),
    }
}

/// Returns the hosts that workers act on. For all others the observation is the result.
fn list_acting_hosts(run: &ShardedApply<'_>, plan: &Plan, observed: &ObservedHosts) -> BTreeSet<HostName> {
    let expander = StepExpander::new(run.project);
    let ground = observed.plan_context(run.project, &expander, run.options);
    let seen: BTreeMap<&HostName, &ObservedHost> = observed.seen.iter().map(|seen| (&seen.host, seen)).collect();
    let acts = |host: &&HostPlan| {
        let Some(seen) = seen.get(&host.host).filter(|seen| seen.is_observed() && seen.stale.is_none()) else {
            return false;
        };
        let open = !host.host.is_cluster() && host.refused.is_none() && host.hold.is_none();
        let lacks =
            || HostContext::new(ground, &host.host, seen).is_some_and(|case| lacks_records(run.options, &case, host));
        open && (host.has_changes() || lacks())
    };
    plan.hosts.iter().filter(acts).map(|host| host.host.clone()).collect()
}

/// An observation from which the hosts are taken in parts.
struct SplitObservation {
    seen: BTreeMap<HostName, ObservedHost>,
    rest: ObservedHosts,
}

impl SplitObservation {
    fn new(mut observed: ObservedHosts) -> Self {
        let seen = std::mem::take(&mut observed.seen);
        Self { seen: seen.into_iter().map(|seen| (seen.host.clone(), seen)).collect(), rest: observed }
    }

    fn take_hosts(&mut self, hosts: &[&HostPlan]) -> ObservedHosts {
        ObservedHosts {
            seen: hosts.iter().filter_map(|host| self.seen.remove(&host.host)).collect(),
            chosen: self.rest.chosen.clone(),
            published: self.rest.published.clone(),
            exports: self.rest.exports.clone(),
            secrets: self.rest.secrets.clone(),
            took: self.rest.took,
            took_by: BTreeMap::new(),
            missing: self.rest.missing.clone(),
            api: Default::default(),
            recorded: None,
            links: BTreeMap::new(),
        }
    }
}

impl ShardedApply<'_> {
    fn emit_event(&self, event: Event) {
        // Sending fails only when the receiver is gone, shortly before the process ends.
        let _ = self.events.send(event);
    }

    /// Carries out the plan on hosts that need no worker.
    async fn apply_here(&self, plan: &Plan, hosts: &[&HostPlan], observed: ObservedHosts) -> Vec<HostReport> {
        if hosts.is_empty() {
            return Vec::new();
        }
        let part = Plan {
            hosts: hosts.iter().map(|host| (*host).clone()).collect(),
            rollout: RolloutPlan::default(),
            ..plan.clone_header()
        };
        let changes = plan.hosts.iter().any(|host| host.has_changes() && !host.host.is_cluster());
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let work = async {
            let sender = sender;
            apply_part(self.project, &part, changes, observed, self.options, &sender, self.cancel).await
        };
        let forward = async {
            while let Some(event) = receiver.recv().await {
                if is_event_of_run(&event) {
                    self.emit_event(event);
                }
            }
        };
        let (report, ()) = tokio::join!(work, forward);
        report.hosts
    }
}

/// A worker at work.
struct ActiveWorker {
    task: WorkerTask,
    batch: HostBatch,
    /// Its hosts without a report.
    open: BTreeSet<HostName>,
    /// Whether it replaces a worker that died.
    replacement: bool,
}

/// The state of the coordinator.
struct Coordination<'r> {
    run: &'r ShardedApply<'r>,
    hosts: BTreeMap<&'r HostName, &'r HostPlan>,
    plan: &'r Plan,
    board: ShardBoard<'r>,
    journal: ShardJournal,
    reports: BTreeMap<HostName, HostReport>,
    active: BTreeMap<usize, ActiveWorker>,
    /// The number of workers that were started.
    started: usize,
    orders: watch::Sender<Vec<WorkerOrder>>,
    budget_spent: bool,
}

type WorkerMessages = mpsc::UnboundedReceiver<(usize, WorkerMessage)>;

impl<'r> Coordination<'r> {
    fn new(run: &'r ShardedApply<'r>, plan: &'r Plan, acting: &[HostName]) -> Self {
        Self {
            run,
            hosts: plan.hosts.iter().map(|host| (&host.host, host)).collect(),
            plan,
            board: ShardBoard::new(run.project, plan, acting, run.shard_size),
            journal: ShardJournal::default(),
            reports: BTreeMap::new(),
            active: BTreeMap::new(),
            started: 0,
            orders: watch::Sender::new(Vec::new()),
            budget_spent: false,
        }
    }

    /// Starts workers and follows them until every host has a report, or soon after the user detached.
    async fn carry_out(&mut self) {
        let (sender, mut messages) = mpsc::unbounded_channel();
        let mut ends = FuturesUnordered::new();
        let mut stopped = StopLevel::No;
        let cancel = self.run.cancel;
        loop {
            for number in self.start_workers() {
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

    /// Starts as many workers as may run. Returns their numbers.
    fn start_workers(&mut self) -> Vec<usize> {
        if self.run.cancel.level() > StopLevel::No {
            self.cancel_pending("the run was stopped before this host started");
            return Vec::new();
        }
        if let Some(why) = self.board.find_held_canary() {
            for host in self.board.take_pending() {
                let Some(plan) = self.hosts.get(&host) else { continue };
                self.announce_and_finish(report_behind_canary(plan, &why), false);
            }
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
        while self.active.len() < self.run.workers.max(1) {
            let Some(batch) = self.board.take_batch() else { break };
            started.extend(self.add_worker(batch));
        }
        started
    }

    fn spend_budget(&mut self, refusal: &StartRefusal) {
        if !self.orders.borrow().iter().any(|order| matches!(order, WorkerOrder::HoldBack { .. })) {
            // Whether workers have hosts that they have not started, their reports show.
            self.orders.send_modify(|orders| orders.push(WorkerOrder::HoldBack { why: refusal.reason.clone() }));
        }
        if self.board.has_pending() {
            self.announce_spent_budget(refusal.failed, refusal.allowed, refusal.canary.clone());
        }
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
        let hosts = batch.hosts.iter().filter_map(|host| self.hosts.get(host)).map(|host| (*host).clone()).collect();
        let rollout = self.board.narrow_rollout(&batch.hosts);
        let plan = Plan { hosts, rollout, ..self.plan.clone_header() };
        let shard = ShardPlan { version: WORKER_VERSION, plan, once: self.run.once };
        match self.run.store.put(&shard) {
            Ok(digest) => Some(self.register_worker(batch, digest)),
            Err(why) => {
                self.abandon_hosts(
                    batch.hosts.iter().cloned().collect(),
                    &format!("the store cannot be written: {why}"),
                );
                None
            }
        }
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
        let open = batch.hosts.iter().cloned().collect();
        self.insert_worker(ActiveWorker { task, batch, open, replacement: false })
    }

    fn insert_worker(&mut self, worker: ActiveWorker) -> usize {
        self.started += 1;
        self.active.insert(self.started, worker);
        self.started
    }

    /// Returns the future that runs a worker and passes on its messages.
    fn follow_worker(
        &self,
        number: usize,
        sender: mpsc::UnboundedSender<(usize, WorkerMessage)>,
    ) -> impl Future<Output = (usize, WorkerEnd)> + use<'r> {
        let (run, orders) = (self.run, self.orders.subscribe());
        let task = self.active.get(&number).map(|worker| worker.task.clone());
        async move {
            let Some(task) = task else { return (number, WorkerEnd::Finished) };
            let receive = |message| drop(sender.send((number, message)));
            (number, run_worker(run.driver, run.store, &task, orders, receive).await)
        }
    }

    fn stop_workers(&mut self, event: Event) {
        self.run.emit_event(event);
        self.orders.send_modify(|orders| orders.push(WorkerOrder::Stop));
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
            WorkerMessage::HostDone { host, report, down } => {
                let is_own = self.active.get_mut(&number).is_some_and(|worker| worker.open.remove(&host));
                match self.run.store.get::<HostReport>(&report) {
                    Ok(report) if is_own && report.host == host => self.finish_host(report, down),
                    Ok(_) => {}
                    Err(why) => self.abandon_hosts(BTreeSet::from([host]), &why),
                }
            }
            _ => {}
        }
    }

    /// Records the end of a worker. Returns the number of the worker that replaces it, if one does.
    fn note_end(&mut self, number: usize, end: WorkerEnd) -> Option<usize> {
        let ended = self.active.remove(&number)?;
        let how = match end {
            _ if ended.open.is_empty() => None,
            WorkerEnd::Finished => Some("it ended without the reports of all its hosts".to_owned()),
            WorkerEnd::Refused(why) => {
                self.refuse_hosts(&ended.open, &why);
                None
            }
            WorkerEnd::Died(how) => Some(how),
        };
        if let Some(how) = how {
            self.journal.note_death(&ended.open);
            if !ended.replacement && self.run.cancel.level() == StopLevel::No {
                return Some(self.replace_worker(ended));
            }
            self.abandon_hosts(ended.open, &how);
        }
        if ended.batch.limited {
            self.board.end_limited_batch();
        }
        None
    }

    fn replace_worker(&mut self, ended: ActiveWorker) -> usize {
        let hosts = ended.task.hosts.iter().filter(|host| ended.open.contains(*host)).cloned().collect();
        let task = WorkerTask { hosts, replaced: ended.task.replaced + 1, ..ended.task };
        self.insert_worker(ActiveWorker { task, replacement: true, ..ended })
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

    fn abandon_hosts(&mut self, hosts: BTreeSet<HostName>, how: &str) {
        for host in hosts {
            let Some(plan) = self.hosts.get(&host) else { continue };
            let (finished, started) = (self.journal.list_finished(&host), self.journal.list_started(&host));
            let report = report_abandoned_host(plan, how, &finished, &started);
            // A host that no worker acted on is in service.
            self.announce_and_finish(report, !(finished.is_empty() && started.is_empty()));
        }
    }

    fn announce_and_finish(&mut self, report: HostReport, down: bool) {
        self.run.emit_event(Event::HostFinished {
            host: report.host.clone(),
            outcome: report.outcome,
            reason: report.reason.clone(),
        });
        self.finish_host(report, down);
    }

    fn finish_host(&mut self, mut report: HostReport, down: bool) {
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
