//! Limits concurrent restarts of one service to the number of hosts that the rollout permits.

use crate::graph::StepIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for hosts that restart each service.
#[derive(Debug)]
pub struct RestartLimiter {
    most: Option<usize>,
    steps: Mutex<BTreeMap<StepIndex, Arc<Semaphore>>>,
}

impl RestartLimiter {
    /// Permits `most` hosts at once; any number for `None`.
    pub fn new(most: Option<usize>) -> Self {
        Self { most, steps: Mutex::default() }
    }

    /// Returns once a host may restart the services of `steps`. The result holds the places until it is dropped. Places
    /// are acquired in the order of the steps, which prevents deadlocks between hosts.
    pub async fn acquire_permits(&self, steps: BTreeSet<StepIndex>) -> Vec<OwnedSemaphorePermit> {
        let Some(most) = self.most else { return Vec::new() };
        let mut places = Vec::new();
        for step in steps {
            let own = {
                let mut all = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(step).or_insert_with(|| Arc::new(Semaphore::new(most.max(1)))).clone()
            };
            // The semaphore is never closed, so acquiring cannot fail.
            places.extend(own.acquire_owned().await.ok());
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn restart_limit_applies_to_each_service_separately() {
        let restarts = RestartLimiter::new(Some(1));
        let step = |at| BTreeSet::from([StepIndex(at)]);
        let first = restarts.acquire_permits(step(1)).await;
        assert_eq!((first.len(), restarts.acquire_permits(step(2)).await.len()), (1, 1));
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, restarts.acquire_permits(step(1))).await.is_err(), "the place is taken");
        drop(first);
        assert_eq!(restarts.acquire_permits(step(1)).await.len(), 1);
        assert!(RestartLimiter::new(None).acquire_permits(step(1)).await.is_empty());
    }
}
