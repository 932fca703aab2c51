//! Stops a run: the first request finishes running steps, the second one detaches.

use std::sync::Arc;
use tokio::sync::watch;

/// The level of a stop request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    #[default]
    No,
    /// Finishes running steps and starts no others.
    Finish,
    /// Exits now; long steps continue on their hosts.
    Detach,
}

/// A stop request that all parts of a run can see.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<Stop>>);

impl Default for Cancel {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Stop::No)))
    }
}

impl Cancel {
    /// Raises the level: `No` → `Finish` → `Detach`. Returns the new level.
    pub fn raise(&self) -> Stop {
        self.0.send_modify(|stop| {
            *stop = match stop {
                Stop::No => Stop::Finish,
                Stop::Finish | Stop::Detach => Stop::Detach,
            }
        });
        self.level()
    }

    pub fn level(&self) -> Stop {
        *self.0.borrow()
    }

    /// Returns when the level is at least `stop`.
    pub async fn reached(&self, stop: Stop) {
        let mut watch = self.0.subscribe();
        // The sender lives as long as this value, so waiting cannot fail.
        let _ = watch.wait_for(|level| *level >= stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_wish_detaches() {
        let cancel = Cancel::default();
        assert_eq!(cancel.level(), Stop::No);
        assert_eq!(cancel.raise(), Stop::Finish);
        cancel.clone().reached(Stop::Finish).await;
        assert_eq!(cancel.raise(), Stop::Detach);
        assert_eq!(cancel.raise(), Stop::Detach);
        cancel.reached(Stop::Detach).await;
    }
}
