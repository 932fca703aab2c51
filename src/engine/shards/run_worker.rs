//! Follows one worker from its start to its end.

use super::worker_driver::{WorkerDriver, WorkerEnd, WorkerHandle};
use super::worker_task::{WORKER_VERSION, WorkerMessage, WorkerOrder, WorkerTask};
use crate::state::ObjectStore;
use tokio::sync::watch;

/// The orders to all workers of a run, in order. A worker that starts later gets the earlier ones too.
pub(super) type WorkerOrders = watch::Receiver<Vec<WorkerOrder>>;

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
    let mut worker = FollowedWorker { handle, orders, sent: 0, ended: None };
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
    /// How many orders it has.
    sent: usize,
    ended: Option<WorkerEnd>,
}

impl FollowedWorker {
    /// Returns the next message, and passes on new orders meanwhile.
    async fn next_message(&mut self) -> Option<Result<WorkerMessage, String>> {
        loop {
            let new: Vec<WorkerOrder> = self.orders.borrow_and_update().iter().skip(self.sent).cloned().collect();
            self.sent += new.len();
            for order in new {
                self.handle.send_order(order).await;
            }
            tokio::select! {
                message = self.handle.next_message() => return message,
                // The coordinator keeps the sender while workers run.
                Ok(()) = self.orders.changed() => {}
            }
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
