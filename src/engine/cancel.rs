//! Stops a run: the first request finishes running steps, the second one detaches.

use std::sync::Arc;
use tokio::sync::watch;

/// The level of a stop request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// The run continues.
    #[default]
    No,
    /// Finishes running steps and starts no others.
    Finish,
    /// Exits now; long steps continue on their hosts.
    Detach,
}

/// A stop request that all parts of a run can see.
#[derive(Clone, Debug)]
pub struct CancelSignal(Arc<watch::Sender<StopLevel>>);

impl Default for CancelSignal {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(StopLevel::No)))
    }
}

impl CancelSignal {
    /// Raises the level: `No` → `Finish` → `Detach`. Returns the new level.
    pub fn raise_level(&self) -> StopLevel {
        self.0.send_modify(|stop| {
            *stop = match stop {
                StopLevel::No => StopLevel::Finish,
                StopLevel::Finish | StopLevel::Detach => StopLevel::Detach,
            }
        });
        self.level()
    }

    /// Returns the highest level requested so far.
    pub fn level(&self) -> StopLevel {
        *self.0.borrow()
    }

    /// Returns when the level is at least `stop`.
    pub async fn wait_for_level(&self, stop: StopLevel) {
        let mut watch = self.0.subscribe();
        // The sender lives as long as this value, so waiting cannot fail.
        let _ = watch.wait_for(|level| *level >= stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn second_stop_request_detaches() {
        let cancel = CancelSignal::default();
        assert_eq!(cancel.level(), StopLevel::No);
        assert_eq!(cancel.raise_level(), StopLevel::Finish);
        cancel.clone().wait_for_level(StopLevel::Finish).await;
        assert_eq!(cancel.raise_level(), StopLevel::Detach);
        assert_eq!(cancel.raise_level(), StopLevel::Detach);
        cancel.wait_for_level(StopLevel::Detach).await;
    }
}
