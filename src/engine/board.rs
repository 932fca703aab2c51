//! What hosts know of each other during a run: how far each step got where, and exported values.

use crate::config::Exports;
use crate::graph::StepIndex;
use crate::model::{HostName, SecretStore};
use crate::plan::Published;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// How far a step got on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// Failed, blocked, skipped: no phase was reached.
    Nothing,
    Configured,
    Effective,
}

/// Values that steps share. Replaced whole, so that a reader sees one state.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    pub published: Published,
    /// What templates see of `published`.
    pub exports: Exports,
    pub secrets: SecretStore,
}

/// The state that the board's readers wait on.
#[derive(Debug, Default)]
pub struct Standing {
    reached: BTreeMap<(StepIndex, HostName), Reached>,
    finished: BTreeSet<HostName>,
    waiting: BTreeSet<HostName>,
    failed: BTreeSet<HostName>,
    shared: Arc<Shared>,
}

/// The board.
#[derive(Debug)]
pub struct Board {
    standing: Mutex<Standing>,
    version: watch::Sender<u64>,
}

impl Board {
    pub fn new(shared: Shared) -> Self {
        let standing = Standing { shared: Arc::new(shared), ..Standing::default() };
        Self { standing: Mutex::new(standing), version: watch::Sender::new(0) }
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.read(|standing| standing.shared.clone())
    }

    pub fn change_shared(&self, change: impl FnOnce(&mut Shared)) {
        self.write(|standing| {
            let shared = Arc::make_mut(&mut standing.shared);
            change(shared);
            shared.exports = shared.published.exports();
        });
    }

    /// Reads what stands now.
    pub fn now<T>(&self, read: impl FnOnce(&Standing) -> T) -> T {
        self.read(read)
    }

    /// Enters how far a step got; of several turns the least counts.
    pub fn reach(&self, step: StepIndex, host: &HostName, reached: Reached) {
        self.write(|standing| {
            let slot = standing.reached.entry((step, host.clone())).or_insert(reached);
            *slot = (*slot).min(reached);
        });
    }

    /// A host is done: steps it never reached will not be.
    pub fn finish(&self, host: &HostName, failed: bool) {
        self.change_shared(|shared| shared.published.leave(host));
        self.write(|standing| {
            standing.finished.insert(host.clone());
            if failed {
                standing.failed.insert(host.clone());
            }
        });
    }

    pub fn set_waiting(&self, host: &HostName, waits: bool) {
        self.write(|standing| match waits {
            true => standing.waiting.insert(host.clone()),
            false => standing.waiting.remove(host),
        });
    }

    pub fn failed(&self) -> usize {
        self.read(|standing| standing.failed.len())
    }

    /// Waits until `answer` has one.
    pub async fn until<T>(&self, answer: impl Fn(&Standing) -> Option<T>) -> T {
        let mut version = self.version.subscribe();
        loop {
            version.mark_unchanged();
            if let Some(found) = self.read(&answer) {
                return found;
            }
            // The sender lives as long as the board, so waiting cannot fail.
            let _ = version.changed().await;
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Standing) -> T) -> T {
        read(&self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, write: impl FnOnce(&mut Standing) -> T) -> T {
        let result = write(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.send_modify(|version| *version += 1);
        result
    }
}

impl Standing {
    /// Returns how far a step got on a host, once that is decided.
    pub fn of(&self, step: StepIndex, host: &HostName) -> Option<Reached> {
        let known = self.reached.get(&(step, host.clone())).copied();
        known.or_else(|| self.finished.contains(host).then_some(Reached::Nothing))
    }

    /// Returns how far a step got on each of `hosts`, once that is decided for all.
    pub fn of_all<'h>(
        &self,
        step: StepIndex,
        hosts: impl IntoIterator<Item = &'h HostName>,
    ) -> Option<Vec<(HostName, Reached)>> {
        hosts.into_iter().map(|host| Some((host.clone(), self.of(step, host)?))).collect()
    }

    /// Returns whether every one of `hosts` is done, or waits for hosts that may not begin before it.
    pub fn gate_open<'h>(&self, hosts: impl IntoIterator<Item = &'h HostName>) -> bool {
        hosts.into_iter().all(|host| self.finished.contains(host) || self.waiting.contains(host))
    }

    pub fn has_failed(&self, host: &HostName) -> bool {
        self.failed.contains(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_barrier_counts_hosts_that_are_done_without_reaching_it() {
        let board = Arc::new(Board::new(Shared::default()));
        let (a, b) = (HostName::new("a"), HostName::new("b"));
        let step = StepIndex(0);
        let waiter = tokio::spawn({
            let (board, hosts) = (board.clone(), [a.clone(), b.clone()]);
            async move { board.until(|s| s.of_all(step, &hosts)).await }
        });
        board.reach(step, &a, Reached::Effective);
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        board.finish(&b, true);
        assert_eq!(waiter.await.unwrap(), vec![(a, Reached::Effective), (b, Reached::Nothing)]);
    }

    #[test]
    fn of_several_turns_the_least_counts() {
        let board = Board::new(Shared::default());
        let host = HostName::new("a");
        board.reach(StepIndex(1), &host, Reached::Effective);
        board.reach(StepIndex(1), &host, Reached::Nothing);
        board.reach(StepIndex(1), &host, Reached::Effective);
        assert_eq!(board.read(|s| s.of(StepIndex(1), &host)), Some(Reached::Nothing));
    }
}
