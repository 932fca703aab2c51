//! Runs of a simulated project with workers, each in a thread of this process instead of a process of its own.

use super::super::shards::{
    ObservationKind, OutsideState, ShardPlan, ShardedApply, ShardedObservation, StartOrder, WORKER_VERSION,
    WorkerDriver, WorkerFuture, WorkerHandle, WorkerJob, WorkerMessage, WorkerOrder, WorkerRole, WorkerSettings,
    WorkerTask, apply_in_shards, bind_shard_plan, complete_observation, observe_in_shards,
};
use super::super::{
    BoardUpdate, CancelSignal, Event, HostNews, HostReport, ObservedHosts, Recording, RunOptions, UpdateInbox, apply,
    observe_for_change, observe_hosts, plan,
};
use super::simulated_project::{SimulatedProject, SimulatedRun};
use crate::model::{DisruptionClass, HostName};
use crate::state::ObjectStore;
use camino::Utf8Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Longer than any of these runs: a test that waits longer has a deadlock.
const PATIENCE: Duration = Duration::from_secs(60);

/// Decides after each message of a worker whether the worker dies: its number, from 1, and the message.
type KillRule = Arc<dyn Fn(usize, &WorkerMessage) -> bool + Send + Sync>;

/// How the hosts of a project are divided among workers.
pub struct WorkerSetup {
    pub workers: usize,
    pub shard_size: usize,
    pub kill: KillRule,
    /// Whether each worker also announces reports of all hosts that do not exist.
    pub foreign_report: bool,
    /// Whether the news of the first worker and its last message are lost.
    pub deaf_to_news: bool,
}

impl WorkerSetup {
    /// Returns the setup of one worker per host, all at once.
    pub fn per_host() -> Self {
        Self::new(8, 1)
    }

    pub fn new(workers: usize, shard_size: usize) -> Self {
        Self { workers, shard_size, kill: Arc::new(|_, _| false), foreign_report: false, deaf_to_news: false }
    }

    pub fn with_kills(self, kill: impl Fn(usize, &WorkerMessage) -> bool + Send + Sync + 'static) -> Self {
        Self { kill: Arc::new(kill), ..self }
    }
}

/// Plans as one process does, and carries the plan out with workers.
pub fn run_with_workers(stage: &Arc<SimulatedProject>, setup: WorkerSetup) -> SimulatedRun {
    let (project, cancel) = (stage.load_project(), CancelSignal::default());
    let hosts: Vec<HostName> = stage.hosts.iter().map(HostName::new).collect();
    let options = stage.run_options();
    let root = stage.store_root();
    let store = ObjectStore::new(&root);
    // Each run has a store of its own.
    store.remove();
    let settings = worker_settings(stage);
    // Those that observe are not counted, and live.
    let observer = ThreadDriver::new(stage, &store);
    let driver = ThreadDriver {
        kill: setup.kill,
        foreign_report: setup.foreign_report,
        deaf_to_news: setup.deaf_to_news,
        ..ThreadDriver::new(stage, &store)
    };
    let (events, mut heard) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let observation = ShardedObservation {
            project: &project,
            hosts: &hosts,
            kind: ObservationKind::Declared,
            known: None,
            settings: &settings,
            run: &options.run,
            driver: &observer,
            store: &store,
            workers: setup.workers,
            shard_size: setup.shard_size,
            events: &events,
        };
        let replay = async |recording| {
            let mut options = options.clone();
            options.replay.observed = Some(recording);
            observe_hosts(&project, &hosts, &options, &events).await
        };
        let first = observe_in_shards(&observation).await;
        let record = async |hosts: &[HostName], known: &ObservedHosts| {
            observe_in_shards(&ShardedObservation { hosts, known: Some(known), ..observation }).await
        };
        let (observed, _) = complete_observation(&project, first, replay, record).await;
        let plan = plan(&project, &observed, &options);
        let run = ShardedApply {
            project: &project,
            options: &options,
            settings: &settings,
            driver: &driver,
            store: &store,
            workers: setup.workers,
            shard_size: setup.shard_size,
            once: false,
            events: &events,
            cancel: &cancel,
        };
        let work = tokio::time::timeout(PATIENCE, apply_in_shards(&run, &plan, observed));
        let report = work.await.unwrap_or_else(|_| panic!("hosts wait for each other"));
        let mut list = Vec::new();
        while let Ok(event) = heard.try_recv() {
            list.push(event);
        }
        SimulatedRun { plan, report, events: list }
    })
}

/// Returns the largest number of windows that were open at once.
pub fn count_open_windows(events: &[Event]) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for event in events {
        match event {
            Event::WindowOpened { .. } => open += 1,
            Event::WindowClosed { .. } => open -= 1,
            _ => {}
        }
        most = most.max(open);
    }
    most
}

fn worker_settings(stage: &SimulatedProject) -> WorkerSettings {
    WorkerSettings {
        state: String::new(),
        trust: true,
        parallel: stage.parallel,
        timeout: stage.timeout,
        offline: false,
        step: Vec::new(),
        skip: stage.skip.clone(),
        max_disruption: DisruptionClass::D3,
        bases: false,
        all_facts: false,
        evict_busy: None,
    }
}

/// Starts workers as threads.
struct ThreadDriver {
    stage: Arc<SimulatedProject>,
    store: ObjectStore,
    kill: KillRule,
    foreign_report: bool,
    deaf_to_news: bool,
    started: AtomicUsize,
}

impl ThreadDriver {
    fn new(stage: &Arc<SimulatedProject>, store: &ObjectStore) -> Self {
        Self {
            stage: stage.clone(),
            store: store.clone(),
            kill: Arc::new(|_, _| false),
            foreign_report: false,
            deaf_to_news: false,
            started: AtomicUsize::new(0),
        }
    }
}

impl WorkerDriver for ThreadDriver {
    fn start_worker<'w>(&'w self, task: &'w Utf8Path) -> WorkerFuture<'w, Result<Box<dyn WorkerHandle>, String>> {
        Box::pin(async move {
            let task: WorkerTask = self.store.get(task.file_stem().unwrap_or_default())?;
            task.check_version()?;
            let (orders, queue) = mpsc::unbounded_channel();
            let (sender, messages) = mpsc::unbounded_channel();
            let (kill, killed) = oneshot::channel();
            let (ended, end) = oneshot::channel();
            let others = self.stage.hosts.iter().map(HostName::new).filter(|host| !task.hosts.contains(host));
            for host in others.filter(|_| self.foreign_report) {
                let _ = sender.send(WorkerMessage::HostDone { host, report: "00".to_owned(), down: true });
            }
            let worker = ThreadWorker { stage: self.stage.clone(), store: self.store.clone(), task, messages: sender };
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    tokio::select! {
                        () = worker.do_task(queue) => {}
                        _ = killed => {}
                    }
                });
                let _ = ended.send(());
            });
            let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
            let (rule, kill) = (self.kill.clone(), Some(kill));
            let is_deaf = self.deaf_to_news && number == 1;
            Ok(Box::new(ThreadHandle { number, rule, is_deaf, orders, messages, kill, end }) as Box<dyn WorkerHandle>)
        })
    }
}

struct ThreadHandle {
    number: usize,
    rule: KillRule,
    /// Whether its news, and the message that it dies after, are lost.
    is_deaf: bool,
    orders: mpsc::UnboundedSender<WorkerOrder>,
    messages: mpsc::UnboundedReceiver<WorkerMessage>,
    /// `None` once the worker was killed.
    kill: Option<oneshot::Sender<()>>,
    end: oneshot::Receiver<()>,
}

impl WorkerHandle for ThreadHandle {
    fn next_message(&mut self) -> WorkerFuture<'_, Option<Result<WorkerMessage, String>>> {
        Box::pin(async move {
            loop {
                self.kill.as_ref()?;
                let message = self.messages.recv().await?;
                let is_lost = self.is_deaf && matches!(message, WorkerMessage::News { .. });
                if (self.rule)(self.number, &message) {
                    let _ = self.kill.take().map(|kill| kill.send(()));
                    if self.is_deaf {
                        return None;
                    }
                }
                if !is_lost {
                    return Some(Ok(message));
                }
            }
        })
    }

    fn send_order(&mut self, order: WorkerOrder) -> WorkerFuture<'_, ()> {
        let _ = self.orders.send(order);
        Box::pin(std::future::ready(()))
    }

    fn wait_for_end(self: Box<Self>) -> WorkerFuture<'static, String> {
        Box::pin(async move {
            let _ = self.end.await;
            "killed".to_owned()
        })
    }
}

/// Does a task as `forge worker` does.
struct ThreadWorker {
    stage: Arc<SimulatedProject>,
    store: ObjectStore,
    task: WorkerTask,
    messages: mpsc::UnboundedSender<WorkerMessage>,
}

impl ThreadWorker {
    async fn do_task(&self, mut orders: mpsc::UnboundedReceiver<WorkerOrder>) {
        let (inbox, start, cancel) = (UpdateInbox::default(), StartOrder::default(), CancelSignal::default());
        self.send_message(WorkerMessage::Ready { version: WORKER_VERSION });
        let begins = async {
            while let Some(order) = orders.recv().await {
                match order {
                    WorkerOrder::Begin => return true,
                    other => follow_order(other, &inbox, &start, &cancel),
                }
            }
            false
        };
        if !begins.await {
            return;
        }
        let follow = async {
            while let Some(order) = orders.recv().await {
                follow_order(order, &inbox, &start, &cancel);
            }
            cancel.raise_level();
            std::future::pending().await
        };
        tokio::select! {
            () = self.do_job(&inbox, &start, &cancel) => self.send_message(WorkerMessage::Finished),
            () = follow => {}
        }
    }

    async fn do_job(&self, inbox: &UpdateInbox, start: &StartOrder, cancel: &CancelSignal) {
        match &self.task.job {
            WorkerJob::Apply { plan, failed } => self.apply_plan((plan, *failed), inbox, start, cancel).await,
            WorkerJob::Observe { outside, .. } => self.record_hosts(outside).await,
        }
    }

    async fn record_hosts(&self, outside: &OutsideState) {
        let mut options = self.stage.run_options();
        (options.replay.part, options.replay.keep, options.replay.outside) = (true, true, outside.clone());
        let project = self.stage.load_project();
        let (events, _heard) = mpsc::unbounded_channel();
        let seen = observe_hosts(&project, &self.task.hosts, &options, &events).await;
        let recording = self.store.put(&Recording::from_observed(&project, &seen)).unwrap();
        self.send_message(WorkerMessage::Recorded { recording, keys: seen.list_host_keys() });
    }

    async fn apply_plan(
        &self,
        (digest, failed): (&str, usize),
        inbox: &UpdateInbox,
        start: &StartOrder,
        cancel: &CancelSignal,
    ) {
        let shard: ShardPlan = self.store.get(digest).unwrap();
        let hosts: Vec<HostName> = self.task.hosts.iter().filter(|host| !self.repeat_report(host)).cloned().collect();
        let (store, reports, news) = (self.store.clone(), self.messages.clone(), self.messages.clone());
        let hand_over = move |report: &HostReport, down: bool| {
            let digest = store.put(report).unwrap();
            store.note_host_report(&report.host, &digest, down).unwrap();
            let _ = reports.send(WorkerMessage::HostDone { host: report.host.clone(), report: digest, down });
        };
        let tell = move |host: &HostName, told: HostNews| {
            let _ = news.send(WorkerMessage::News { host: host.clone(), news: told });
        };
        let role = WorkerRole::new(self.task.run.clone(), failed, start.clone(), hand_over, tell)
            .after_workers(self.task.replaced)
            .with_inbox(inbox.clone());
        let mut options = RunOptions { worker: Some(Arc::new(role)), ..self.stage.run_options() };
        (options.replay.part, options.replay.outside) = (true, shard.outside.clone());
        let project = self.stage.load_project();
        let (events, mut heard) = mpsc::unbounded_channel();
        let work = async {
            let events = events;
            let mut seen = observe_for_change(&project, &hosts, &options, &events).await;
            let plan = bind_shard_plan(&project, &shard, &hosts, &mut seen, &options);
            apply(&project, &plan, seen, &options, &events, cancel).await
        };
        let forward = async {
            while let Some(event) = heard.recv().await {
                self.send_message(WorkerMessage::Event { event });
            }
        };
        tokio::join!(work, forward);
    }

    fn repeat_report(&self, host: &HostName) -> bool {
        let Some((report, down)) = self.store.find_host_report(host) else { return false };
        self.send_message(WorkerMessage::HostDone { host: host.clone(), report, down });
        true
    }

    fn send_message(&self, message: WorkerMessage) {
        let _ = self.messages.send(message);
    }
}

fn follow_order(order: WorkerOrder, inbox: &UpdateInbox, start: &StartOrder, cancel: &CancelSignal) {
    match order {
        WorkerOrder::HoldBack { why } => start.hold_back(why),
        WorkerOrder::HoldHosts { hosts, why } => start.hold_hosts(hosts, &why),
        WorkerOrder::Answer { host, answer } => inbox.deliver_update(BoardUpdate::Answered { host, answer }),
        WorkerOrder::Exports { values } => inbox.deliver_update(BoardUpdate::Exported(values)),
        WorkerOrder::Stop => drop(cancel.raise_level()),
        WorkerOrder::Begin | WorkerOrder::Alive => {}
    }
}
