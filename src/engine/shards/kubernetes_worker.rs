//! Follows one worker in a pod: its messages come from the store, its end from the API.

use super::worker_driver::{WorkerFuture, WorkerHandle};
use super::worker_task::{WorkerMessage, WorkerOrder};
use crate::kube::{WorkerJobState, WorkerJobStates, WorkerJobs};
use crate::state::{LineAppender, LineFollower, WorkerChannel};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long messages may arrive after the API has reported the end: the volume may show them later.
const LAST_MESSAGES_LIMIT: Duration = Duration::from_secs(5);
/// How long the pod of a worker that died may take to be gone. Its replacement starts afterwards.
const POD_END_LIMIT: Duration = Duration::from_secs(90);

/// The states of a run's Jobs, and when the observation began; `None` before the first one.
pub(super) type ObservedJobs = watch::Receiver<Option<(Instant, WorkerJobStates)>>;

/// A worker in a pod.
pub(super) struct KubernetesWorker {
    jobs: WorkerJobs,
    name: String,
    channel: WorkerChannel,
    orders: LineAppender,
    messages: LineFollower,
    queue: VecDeque<String>,
    observed: ObservedJobs,
    /// Earlier observations say nothing about it.
    created: Instant,
    start_within: Duration,
    /// Whether it has read its task.
    is_ready: bool,
    /// Whether it wrote its last message.
    is_done: bool,
    is_stopped: bool,
    /// How it ended, and since when that is known.
    end: Option<(String, Instant)>,
}

impl KubernetesWorker {
    /// Follows the Job `name`, which was just created.
    pub fn new(
        jobs: WorkerJobs,
        name: String,
        channel: &WorkerChannel,
        observed: ObservedJobs,
        start_within: Duration,
    ) -> Self {
        let alive = serde_json::to_string(&WorkerOrder::Alive).unwrap_or_default();
        Self {
            jobs,
            name,
            orders: channel.write_orders(alive),
            messages: channel.follow_messages(),
            channel: channel.clone(),
            queue: VecDeque::new(),
            observed,
            created: Instant::now(),
            start_within,
            is_ready: false,
            is_done: false,
            is_stopped: false,
            end: None,
        }
    }

    /// Tells it to stop, once: two requests mean to leave running steps, and a pod that is deleted gets a signal, too. Also
    /// after its end, because a second pod of the Job may wait.
    fn stop_once(&mut self) {
        if !std::mem::replace(&mut self.is_stopped, true) {
            self.append_order(&WorkerOrder::Stop);
        }
    }

    fn append_order(&self, order: &WorkerOrder) {
        if let Ok(line) = serde_json::to_string(order) {
            self.orders.append(&line);
        }
    }

    /// Returns its next message; `None` after the last one, or once it ended without one.
    async fn receive_message(&mut self) -> Option<Result<WorkerMessage, String>> {
        loop {
            if let Some(line) = self.queue.pop_front() {
                return Some(self.parse_message(&line));
            }
            if self.is_done {
                return None;
            }
            // A volume that is away for a moment has no news.
            self.queue.extend(self.messages.read_lines().unwrap_or_default());
            if !self.queue.is_empty() {
                continue;
            }
            if self.end.as_ref().is_some_and(|(_, since)| since.elapsed() > LAST_MESSAGES_LIMIT) {
                return None;
            }
            if self.end.is_none() {
                self.end = self.find_end().await.map(|why| (why, Instant::now()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn parse_message(&mut self, line: &str) -> Result<WorkerMessage, String> {
        let message = serde_json::from_str(line);
        let message = message.map_err(|error| format!("a worker wrote an invalid message: {error}"))?;
        self.is_ready = true;
        self.is_done = matches!(message, WorkerMessage::Finished | WorkerMessage::Refused { .. });
        Ok(message)
    }

    /// Returns how it ended, as far as the API says so.
    async fn find_end(&self) -> Option<String> {
        let state = {
            let observed = self.observed.borrow();
            let (_, states) = observed.as_ref().filter(|(began, _)| *began > self.created)?;
            states.get(&self.name).cloned().unwrap_or_default()
        };
        let end = state.find_end(&self.name, self.channel.find_claimant().as_deref());
        match end {
            None if !self.is_ready && self.created.elapsed() > self.start_within => {
                Some(self.explain_wait(&state).await)
            }
            end => end,
        }
    }

    async fn explain_wait(&self, state: &WorkerJobState) -> String {
        let why = self.jobs.explain_wait(state).await;
        format!("it has not started within {} s: {why}", self.start_within.as_secs())
    }

    /// Ends its pod and returns how it ended.
    async fn end_pod(mut self) -> String {
        let how = match (&self.end, self.is_done) {
            (_, true) | (None, false) => "it was stopped".to_owned(),
            (Some((why, _)), false) => why.clone(),
        };
        self.stop_once();
        let (jobs, name) = (self.jobs.clone(), self.name.clone());
        if self.is_done {
            // It acts on no host any more. The end of the run deletes what is left of it.
            tokio::spawn(async move { jobs.delete(&name, Duration::ZERO).await });
            return how;
        }
        match jobs.delete(&name, POD_END_LIMIT).await {
            Ok(()) => how,
            Err(why) => format!("{how}; {why}"),
        }
    }
}

impl WorkerHandle for KubernetesWorker {
    fn next_message(&mut self) -> WorkerFuture<'_, Option<Result<WorkerMessage, String>>> {
        Box::pin(self.receive_message())
    }

    fn send_order(&mut self, order: WorkerOrder) -> WorkerFuture<'_, ()> {
        self.append_order(&order);
        Box::pin(std::future::ready(()))
    }

    fn wait_for_end(self: Box<Self>) -> WorkerFuture<'static, String> {
        Box::pin(self.end_pod())
    }
}

impl Drop for KubernetesWorker {
    fn drop(&mut self) {
        self.stop_once();
    }
}
