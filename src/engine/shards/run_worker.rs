//! Follows one worker from its start to its end.

use super::worker_driver::{WorkerDriver, WorkerEnd, WorkerHandle};
use super::worker_task::{WORKER_VERSION, WorkerMessage, WorkerOrder, WorkerTask};
use crate::state::ObjectStore;
use tokio::sync::mpsc;

/// The orders to one worker, in order.
pub(super) type WorkerOrders = mpsc::UnboundedReceiver<WorkerOrder>;

/// Starts a worker for `task` and hands its messages to `receive` until it ends.
pub(super) async fn run_worker(
    driver: &dyn WorkerDriver,
    store: &ObjectStore,
    task: &WorkerTask,
    orders: WorkerOrders,
    mut receive: impl FnMut(WorkerMessage),
) -> WorkerEnd {
    let started = async { driver.start_worker(&store.object_path(&store.put(task)?)).await };
    let handle = match started.await {
        Ok(handle) => handle,
        Err(why) => return WorkerEnd::Died(why),
    };
    let mut worker = FollowedWorker { handle, orders, ended: None };
    while let Some(message) = worker.next_message().await {
        match message {
            Ok(message) => worker.note_message(message, &mut receive).await,
            Err(why) => worker.ended = Some(WorkerEnd::Died(why)),
        }
    }
    let how = worker.handle.wait_for_end().await;
    worker.ended.unwrap_or(WorkerEnd::Died(how))
}

struct FollowedWorker {
    handle: Box<dyn WorkerHandle>,
    orders: WorkerOrders,
    ended: Option<WorkerEnd>,
}

impl FollowedWorker {
    /// Returns the next message, and passes on new orders meanwhile.
    async fn next_message(&mut self) -> Option<Result<WorkerMessage, String>> {
        loop {
            let order = tokio::select! {
                biased;
                // The coordinator may have no more orders.
                Some(order) = self.orders.recv() => order,
                message = self.handle.next_message() => return message,
            };
            self.handle.send_order(order).await;
        }
    }

    async fn note_message(&mut self, message: WorkerMessage, receive: &mut impl FnMut(WorkerMessage)) {
        match message {
            WorkerMessage::Ready { version: WORKER_VERSION } => self.handle.send_order(WorkerOrder::Begin).await,
            WorkerMessage::Ready { version } => {
                let why = format!("it speaks version {version}; this forge supports version {WORKER_VERSION}");
                self.ended = Some(WorkerEnd::Refused(why));
                self.handle.send_order(WorkerOrder::Stop).await;
            }
            WorkerMessage::Finished => self.ended = Some(WorkerEnd::Finished),
            WorkerMessage::Refused { why } => self.ended = Some(WorkerEnd::Refused(why)),
            other => receive(other),
        }
    }
}
