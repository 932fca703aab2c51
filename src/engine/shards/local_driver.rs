//! Workers as processes on this machine.

use super::worker_driver::{WorkerDriver, WorkerFuture, WorkerHandle};
use super::worker_task::{WorkerMessage, WorkerOrder};
use crate::transport::WorkerProcess;
use camino::Utf8Path;

/// Starts `forge worker TASK` for each task.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalProcessDriver;

struct LocalWorker(WorkerProcess);

impl WorkerDriver for LocalProcessDriver {
    fn start_worker<'w>(&'w self, task: &'w Utf8Path) -> WorkerFuture<'w, Result<Box<dyn WorkerHandle>, String>> {
        Box::pin(async move {
            let process = WorkerProcess::start(&["worker", task.as_str()]);
            let process = process.map_err(|error| format!("cannot start a worker: {error}"))?;
            Ok(Box::new(LocalWorker(process)) as Box<dyn WorkerHandle>)
        })
    }
}

impl WorkerHandle for LocalWorker {
    fn next_message(&mut self) -> WorkerFuture<'_, Option<Result<WorkerMessage, String>>> {
        Box::pin(async move {
            let line = self.0.next_line().await?;
            Some(serde_json::from_str(&line).map_err(|error| format!("a worker wrote an invalid message: {error}")))
        })
    }

    fn send_order(&mut self, order: WorkerOrder) -> WorkerFuture<'_, ()> {
        Box::pin(async move {
            if let Ok(line) = serde_json::to_string(&order) {
                self.0.send_line(&line).await;
            }
        })
    }

    fn wait_for_end(self: Box<Self>) -> WorkerFuture<'static, String> {
        Box::pin(self.0.wait_for_end())
    }
}
