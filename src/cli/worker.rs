//! `forge worker`: does one task of a coordinator, in a process or a pod of its own.

use super::backend::{Backend, ObservePurpose, VerbEvents};
use super::error::CliError;
use super::interrupt::InterruptSignals;
use super::settings::CliSettings;
use super::verb_context::{LoadedProject, VerbContext, VerbResult, block_on};
use crate::config::StepFilter;
use crate::diag::{DiagList, DiagSeverity};
use crate::engine::{
    BoardUpdate, Event, HostNews, HostReport, ObservationKind, OutsideState, ShardPlan, StartOrder, UpdateInbox,
    WORKER_VERSION, WorkerJob, WorkerMessage, WorkerOrder, WorkerRole, WorkerTask,
};
use crate::model::{ExitCode, HostName};
use crate::plan::PlanPolicy;
use crate::state::{LineAppender, ObjectStore, SILENCE_LIMIT, StoreLockKind, WorkerChannel};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Do one task of a coordinator (started by `--engine`, not by people)
///
/// Reads a task from the store of a run, waits for the order to begin, observes or changes the hosts of the task, and
/// stores a recording or reports next to the task. Orders are read from standard input and messages written to standard
/// output, one JSON document per line; with `--channel`, both are files of that folder.
/// Exits as `forge plan` or `forge apply` does. A task can be done twice: hosts with a stored report are not contacted
/// again, and on all others each step is evaluated again before it acts.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct WorkerArgs {
    /// The file of the task, in the folder `objects` of its store
    #[arg(value_name = "TASK")]
    pub task: Utf8PathBuf,
    /// The folder with orders and messages, for a worker in a pod
    #[arg(long, value_name = "FOLDER", requires = "pod")]
    pub channel: Option<Utf8PathBuf>,
    /// The name of the pod. Of several pods of one task, the first one does it
    #[arg(long, value_name = "NAME", requires = "channel")]
    pub pod: Option<String>,
}

pub fn run_worker<B: Backend>(cx: &VerbContext<'_, B>, args: &WorkerArgs) -> VerbResult {
    let (store, task) = read_task(&args.task)?;
    let settings = build_settings(cx.settings, &task);
    let cx = &cx.with_settings(&settings);
    block_on(async {
        // From the beginning: the first process of a container ignores signals that it does not catch.
        let mut stop = InterruptSignals::start_listening()?;
        let channel = args.channel.as_deref().map(WorkerChannel::open);
        let orders = OrderReader::<B>::start(channel.as_ref());
        if let (Some(channel), Some(pod)) = (&channel, &args.pod) {
            claim_task(&orders, &mut stop, channel, pod).await?;
        }
        let output = MessageWriter::new(cx, channel.as_ref());
        // Before the order to begin: while this lock is held, no coordinator of a later run starts.
        let lock = match task.job {
            WorkerJob::Apply { .. } => Some(lock_store(&store)?),
            WorkerJob::Observe { .. } => None,
        };
        output.write_message(&WorkerMessage::Ready { version: WORKER_VERSION });
        let begins = tokio::select! {
            begins = orders.await_begin() => begins,
            () = stop.next_interrupt() => false,
        };
        if !begins {
            return Err(CliError::interrupted("stopped before it began; nothing was contacted"));
        }
        let loaded = match load_project(cx, &task) {
            Ok(project) => (project, task.hosts.clone()),
            Err(why) => {
                output.write_message(&WorkerMessage::Refused { why: why.clone() });
                output.finish();
                return Err(CliError::input(why));
            }
        };
        let worker = TaskRun { cx, store, task, output, orders };
        let exit = worker.do_task(loaded, &mut stop).await;
        worker.output.finish();
        drop(lock);
        exit
    })
}

/// Makes this pod the one that does the task.
///
/// # Errors
/// Another pod does it: returned once its coordinator is gone or this pod is stopped, because the end of a pod would end
/// the Job, and with it the other pod. Unexpected: the channel cannot be used.
async fn claim_task<B: Backend>(
    orders: &OrderReader<B>,
    stop: &mut InterruptSignals,
    channel: &WorkerChannel,
    pod: &str,
) -> Result<(), CliError> {
    let claimed = channel.claim(pod).map_err(|error| store_error(format!("`{}`: {error}", channel.folder())))?;
    if claimed {
        return Ok(());
    }
    tokio::select! {
        () = orders.await_stop() => {}
        () = stop.next_interrupt() => {}
    }
    Err(CliError::interrupted("another pod does this task; nothing was contacted"))
}

/// Reads a task. Its name is the digest of its content.
fn read_task(path: &Utf8Path) -> Result<(ObjectStore, WorkerTask), CliError> {
    let wrong = |why: String| CliError::input(format!("cannot do task `{path}`: {why}"));
    let objects = path.parent().filter(|folder| folder.file_name() == Some("objects"));
    let root = objects.and_then(Utf8Path::parent).ok_or_else(|| wrong("it is not in a store".to_owned()))?;
    let store = ObjectStore::new(root);
    let task: WorkerTask = store.get(path.file_stem().unwrap_or_default()).map_err(wrong)?;
    task.check_version().map_err(wrong)?;
    Ok((store, task))
}

fn lock_store(store: &ObjectStore) -> Result<crate::state::StoreLock, CliError> {
    let failed = |why: String| CliError::unexpected(anyhow::anyhow!("cannot lock the store: {why}"));
    let lock = store.try_lock(StoreLockKind::Workers, false).map_err(failed)?;
    lock.ok_or_else(|| failed("a coordinator waits for it".to_owned()))
}

fn build_settings(settings: &CliSettings, task: &WorkerTask) -> CliSettings {
    let own = &task.settings;
    let policy = PlanPolicy { max_disruption: own.max_disruption, bases: own.bases, ..PlanPolicy::default() };
    let mut settings = settings.with_policy(policy, own.evict_busy.clone()).with_offline(own.offline);
    settings.set_state_folder(Utf8Path::new(&own.state));
    settings.trust = own.trust;
    settings.parallel = own.parallel.max(1);
    settings.timeout = own.timeout;
    settings.filter = StepFilter::new(&own.step, &own.skip);
    // The hosts of the task are exactly those that are named: the cluster's API is not added.
    settings.on = Some(String::new());
    settings.replay.part = true;
    settings.replay.record = own.all_facts;
    settings.replay.keep = matches!(task.job, WorkerJob::Observe { .. });
    settings
}

/// Loads the inventory, if it is still the one of the task.
///
/// # Errors
/// It is invalid, or its files changed: a lowercase fragment.
fn load_project<B: Backend>(cx: &VerbContext<'_, B>, task: &WorkerTask) -> Result<B::Project, String> {
    let (project, diags, _) = cx.backend.load_project(Utf8Path::new(&task.inventory), cx.settings);
    let project = match project {
        Some(project) if !diags.has_errors() => project,
        _ => return Err(format!("inventory `{}` is invalid: {}", task.inventory, describe_first_error(&diags))),
    };
    let now = cx.backend.project(&project).list_input_files();
    let changed = crate::config::describe_changed_inputs(&task.inputs, &now);
    match changed.is_empty() {
        true => Ok(project),
        false => Err(format!("the inputs of the plan have changed: {}", changed.join("; "))),
    }
}

fn describe_first_error(diags: &DiagList) -> String {
    let error = diags.0.iter().find(|diag| diag.severity == DiagSeverity::Error);
    error.map_or_else(|| "no error was reported".to_owned(), |diag| diag.message.clone())
}

/// Writes messages, one per line.
#[derive(Clone)]
struct MessageWriter(Arc<Mutex<MessageSink>>);

enum MessageSink {
    Stream(Box<dyn Write + Send>),
    Channel(LineAppender),
    /// The last message was written.
    Closed,
}

impl MessageWriter {
    fn new<B>(cx: &VerbContext<'_, B>, channel: Option<&WorkerChannel>) -> Self {
        let sink = match channel {
            Some(channel) => MessageSink::Channel(channel.write_messages()),
            None => MessageSink::Stream((cx.console.out)()),
        };
        Self(Arc::new(Mutex::new(sink)))
    }

    /// Writes a message. If nothing reads any more, the orders have ended too, and the work is stopping.
    fn write_message(&self, message: &WorkerMessage) {
        let Ok(line) = serde_json::to_string(message) else { return };
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            MessageSink::Stream(out) => drop(writeln!(out, "{line}").and_then(|()| out.flush())),
            MessageSink::Channel(lines) => lines.append(&line),
            MessageSink::Closed => {}
        }
    }

    /// Waits until all messages are stored.
    fn finish(&self) {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let MessageSink::Channel(lines) = std::mem::replace(&mut *sink, MessageSink::Closed) {
            lines.finish();
        }
    }
}

/// Reads the coordinator's orders from standard input, or from a channel.
struct OrderReader<B: Backend> {
    orders: tokio::sync::Mutex<mpsc::UnboundedReceiver<WorkerOrder>>,
    start: StartOrder,
    inbox: UpdateInbox,
    cancel: B::Cancel,
}

impl<B: Backend> OrderReader<B> {
    fn start(channel: Option<&WorkerChannel>) -> Self {
        let (sender, orders) = mpsc::unbounded_channel();
        // An unknown order is of another version, whose coordinator has refused this worker.
        let forward = move |line: &str| match serde_json::from_str(line) {
            Ok(order) => sender.send(order).is_ok(),
            Err(_) => true,
        };
        match channel {
            // A thread of its own, which ends with the process: reading standard input cannot be interrupted.
            None => drop(std::thread::spawn(move || {
                let _ = std::io::stdin().lines().map_while(Result::ok).all(|line| forward(&line));
            })),
            Some(channel) => {
                let mut follower = channel.follow_orders(SILENCE_LIMIT);
                tokio::spawn(async move {
                    while let Some(lines) = follower.next_lines().await {
                        if !lines.iter().all(|line| forward(line)) {
                            return;
                        }
                    }
                });
            }
        }
        Self {
            orders: tokio::sync::Mutex::new(orders),
            start: StartOrder::default(),
            inbox: UpdateInbox::default(),
            cancel: B::Cancel::default(),
        }
    }

    /// Waits for the order to begin. Returns whether it came, rather than the end of the orders or one to stop.
    async fn await_begin(&self) -> bool {
        let mut orders = self.orders.lock().await;
        loop {
            match orders.recv().await {
                Some(WorkerOrder::Begin) => return true,
                Some(WorkerOrder::HoldBack { why }) => self.start.hold_back(why),
                Some(WorkerOrder::HoldHosts { hosts, why }) => self.start.hold_hosts(hosts, &why),
                Some(WorkerOrder::Answer { host, answer }) => {
                    self.inbox.deliver_update(BoardUpdate::Answered { host, answer });
                }
                Some(WorkerOrder::Exports { values }) => self.inbox.deliver_update(BoardUpdate::Exported(values)),
                Some(WorkerOrder::Alive) => {}
                Some(WorkerOrder::Stop) | None => return false,
            }
        }
    }

    /// Waits for an order to stop, or the end of the orders.
    async fn await_stop(&self) {
        let mut orders = self.orders.lock().await;
        while !matches!(orders.recv().await, Some(WorkerOrder::Stop) | None) {}
    }

    /// Follows orders until they end, which counts as one to stop. Then never returns.
    async fn follow_orders(&self, backend: &B) {
        let mut orders = self.orders.lock().await;
        loop {
            match orders.recv().await {
                Some(WorkerOrder::Begin | WorkerOrder::Alive) => {}
                Some(WorkerOrder::HoldBack { why }) => self.start.hold_back(why),
                Some(WorkerOrder::HoldHosts { hosts, why }) => self.start.hold_hosts(hosts, &why),
                Some(WorkerOrder::Answer { host, answer }) => {
                    self.inbox.deliver_update(BoardUpdate::Answered { host, answer });
                }
                Some(WorkerOrder::Exports { values }) => self.inbox.deliver_update(BoardUpdate::Exported(values)),
                Some(WorkerOrder::Stop) => backend.request_stop(&self.cancel),
                None => {
                    backend.request_stop(&self.cancel);
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// A task at work.
struct TaskRun<'a, B: Backend> {
    cx: &'a VerbContext<'a, B>,
    store: ObjectStore,
    task: WorkerTask,
    output: MessageWriter,
    orders: OrderReader<B>,
}

impl<B: Backend> TaskRun<'_, B> {
    async fn do_task(&self, loaded: LoadedProject<B::Project>, stop: &mut InterruptSignals) -> VerbResult {
        let backend = self.cx.backend;
        let work = async {
            match &self.task.job {
                WorkerJob::Observe { kind, outside } => self.record_hosts(&loaded, *kind, outside).await,
                WorkerJob::Apply { plan, failed } => self.apply_plan(loaded, plan, *failed).await,
            }
        };
        tokio::pin!(work);
        loop {
            tokio::select! {
                ending = &mut work => return ending,
                () = self.orders.follow_orders(backend) => {}
                () = stop.next_interrupt() => backend.request_stop(&self.orders.cancel),
            }
        }
    }

    async fn record_hosts(
        &self,
        loaded: &LoadedProject<B::Project>,
        kind: ObservationKind,
        outside: &OutsideState,
    ) -> VerbResult {
        let ask = match kind {
            ObservationKind::Declared => ObservePurpose::Declared,
            ObservationKind::Drift { outliers } => ObservePurpose::Drift { outliers },
        };
        let mut settings = self.cx.settings.clone();
        settings.replay.outside = outside.clone();
        let seen = self.observe_hosts(loaded, ask, &settings).await;
        let recording = self.cx.backend.build_recording(&loaded.0, &seen);
        let recording = self.store.put(&recording).map_err(store_error)?;
        let keys = self.cx.backend.list_host_keys(&seen);
        self.output.write_message(&WorkerMessage::Recorded { recording, keys });
        self.output.write_message(&WorkerMessage::Finished);
        Ok(ExitCode::Done)
    }

    async fn observe_hosts(
        &self,
        (project, hosts): &LoadedProject<B::Project>,
        ask: ObservePurpose,
        settings: &CliSettings,
    ) -> B::HostObservations {
        let work = |events| self.cx.backend.observe_hosts(project, hosts, ask, settings, events);
        self.forward_events(work).await
    }

    async fn forward_events<T, F: Future<Output = T>>(&self, work: impl FnOnce(VerbEvents) -> F) -> T {
        let (sender, mut events) = mpsc::unbounded_channel::<Event>();
        let forward = async {
            while let Some(event) = events.recv().await {
                self.output.write_message(&WorkerMessage::Event { event });
            }
        };
        let (result, ()) = tokio::join!(work(sender), forward);
        result
    }

    async fn apply_plan(&self, loaded: LoadedProject<B::Project>, plan: &str, failed: usize) -> VerbResult {
        let shard: ShardPlan = self.store.get(plan).map_err(store_error)?;
        let (project, hosts) = loaded;
        let (done, hosts): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|host| self.repeat_report(host));
        let sent = Arc::new(Mutex::new(BTreeSet::new()));
        let settings = self.with_role(failed, &sent, OutsideState { done, ..shard.outside.clone() });
        let loaded = (project, hosts);
        let mut seen = self.observe_hosts(&loaded, ObservePurpose::Change, &settings).await;
        let (project, hosts) = loaded;
        let plan = self.cx.backend.bind_shard_plan(&project, &shard, &hosts, &mut seen, &settings);
        let cancel = self.orders.cancel.clone();
        let work = |events| self.cx.backend.apply(&project, &plan, seen, &settings, events, cancel);
        let report = self.forward_events(work).await;
        // Hosts that were left running have a report only here.
        let sent = sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for host in report.hosts.iter().filter(|host| !sent.contains(&host.host)) {
            self.store_report(host, true);
        }
        self.output.write_message(&WorkerMessage::Finished);
        Ok(report.exit_code())
    }

    /// Returns the settings of the run: reports go to the coordinator as soon as a host is done.
    fn with_role(&self, failed: usize, sent: &Arc<Mutex<BTreeSet<HostName>>>, outside: OutsideState) -> CliSettings {
        let (store, output, sent) = (self.store.clone(), self.output.clone(), sent.clone());
        let hand_over = move |report: &HostReport, down: bool| {
            sent.lock().unwrap_or_else(PoisonError::into_inner).insert(report.host.clone());
            hand_over_report(&store, &output, report, down);
        };
        let output = self.output.clone();
        let tell = move |host: &HostName, news: HostNews| {
            output.write_message(&WorkerMessage::News { host: host.clone(), news });
        };
        let role = WorkerRole::new(self.task.run.clone(), failed, self.orders.start.clone(), hand_over, tell)
            .after_workers(self.task.replaced)
            .with_inbox(self.orders.inbox.clone());
        let mut settings = self.cx.settings.clone();
        settings.worker = Some(Arc::new(role));
        settings.replay.outside = outside;
        settings
    }

    fn store_report(&self, report: &HostReport, down: bool) {
        hand_over_report(&self.store, &self.output, report, down);
    }

    /// Announces the report of a host that an earlier worker finished. Returns whether there is one.
    fn repeat_report(&self, host: &HostName) -> bool {
        let Some((report, down)) = self.store.find_host_report(host) else { return false };
        self.output.write_message(&WorkerMessage::HostDone { host: host.clone(), report, down });
        true
    }
}

/// Stores the report of a host and announces it. Without a stored report, the coordinator has the host done again.
fn hand_over_report(store: &ObjectStore, output: &MessageWriter, report: &HostReport, down: bool) {
    let stored = store.put(report).and_then(|digest| {
        store.note_host_report(&report.host, &digest, down)?;
        Ok(digest)
    });
    match stored {
        Ok(digest) => {
            output.write_message(&WorkerMessage::HostDone { host: report.host.clone(), report: digest, down });
        }
        Err(why) => tracing::warn!(host = report.host.as_str(), why, "the report cannot be stored"),
    }
}

fn store_error(why: String) -> CliError {
    CliError::unexpected(anyhow::anyhow!("cannot use the store: {why}"))
}
