//! Limits the number of hosts that run one step at once: to what the rollout permits for restarts of one service, or to
//! what the step declares (`at_once`).

use crate::graph::StepIndex;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for hosts in each limited step.
#[derive(Debug, Default)]
pub struct StepLimiter(Mutex<BTreeMap<StepIndex, Arc<Semaphore>>>);

impl StepLimiter {
    /// Returns once a host may run `steps`, each with the number of hosts that may run it at once. The result holds the
    /// places until it is dropped. Places are acquired in the order of the steps, which prevents deadlocks between hosts.
    pub async fn acquire_permits(&self, steps: BTreeMap<StepIndex, usize>) -> Vec<OwnedSemaphorePermit> {
        let mut places = Vec::new();
        for (step, most) in steps {
            let own = {
                let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    async fn limit_applies_to_each_step_separately() {
        let limiter = StepLimiter::default();
        let step = |at| BTreeMap::from([(StepIndex(at), 1)]);
        let first = limiter.acquire_permits(step(1)).await;
        assert_eq!((first.len(), limiter.acquire_permits(step(2)).await.len()), (1, 1));
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, limiter.acquire_permits(step(1))).await.is_err(), "the place is taken");
        drop(first);
        assert_eq!(limiter.acquire_permits(step(1)).await.len(), 1);
        assert!(limiter.acquire_permits(BTreeMap::new()).await.is_empty());
    }
}
