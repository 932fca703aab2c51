//! Starts and follows workers: processes on this machine, or pods.

use super::worker_task::{WorkerMessage, WorkerOrder};
use camino::Utf8Path;
use std::future::Future;
use std::pin::Pin;

/// A future that a driver returns.
pub type WorkerFuture<'w, T> = Pin<Box<dyn Future<Output = T> + Send + 'w>>;

/// Starts workers.
pub trait WorkerDriver: Send + Sync {
    /// Starts a worker for the task in a file of the store.
    ///
    /// # Errors
    /// No worker can be started: a lowercase fragment.
    fn start_worker<'w>(&'w self, task: &'w Utf8Path) -> WorkerFuture<'w, Result<Box<dyn WorkerHandle>, String>>;
}

/// A worker. Dropping the handle tells it to stop.
pub trait WorkerHandle: Send {
    /// Returns its next message; `None` once there is none any more. Can be dropped and called again.
    fn next_message(&mut self) -> WorkerFuture<'_, Option<Result<WorkerMessage, String>>>;

    /// Sends an order.
    fn send_order(&mut self, order: WorkerOrder) -> WorkerFuture<'_, ()>;

    /// Waits for its end and returns how it ended: a lowercase fragment.
    fn wait_for_end(self: Box<Self>) -> WorkerFuture<'static, String>;
}

/// Starts no worker: the reason is that of each attempt.
#[derive(Clone, Debug)]
pub struct UnavailableDriver(pub String);

impl WorkerDriver for UnavailableDriver {
    fn start_worker<'w>(&'w self, _task: &'w Utf8Path) -> WorkerFuture<'w, Result<Box<dyn WorkerHandle>, String>> {
        Box::pin(async move { Err(self.0.clone()) })
    }
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEnd {
    /// It has done its task.
    Finished,
    /// It did not do the task, and contacted nothing: why.
    Refused(String),
    /// It ended before it was done: how.
    Died(String),
}
