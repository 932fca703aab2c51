//! Decides whether a host may be taken out of service now.

use super::RolloutPlan;
use crate::model::HostName;
use std::collections::BTreeSet;

/// The progress of a run's windows.
#[derive(Clone, Debug, Default)]
pub struct RolloutProgress {
    /// Hosts whose window is open.
    pub inside: BTreeSet<HostName>,
    /// Hosts that went out of service in this run and did not return to service, or were lost.
    pub down: BTreeSet<HostName>,
    /// Hosts that have finished their window or the run.
    pub past: BTreeSet<HostName>,
    /// Hosts whose devices another process uses, so that they wait: other hosts need not wait for them.
    pub busy: BTreeSet<HostName>,
    /// Number of leading waves that are over.
    pub over: usize,
}

impl RolloutProgress {
    /// Records that the window of a host opens.
    pub fn enter_window(&mut self, host: &HostName) {
        self.busy.remove(host);
        self.inside.insert(host.clone());
    }

    /// Records that a host has finished the run. If its window is open, it stays out of service.
    pub fn finish_host(&mut self, host: &HostName, plan: &RolloutPlan) {
        if self.inside.remove(host) {
            self.down.insert(host.clone());
        }
        self.busy.remove(host);
        self.past.insert(host.clone());
        self.count_finished_waves(plan);
    }

    /// Counts the waves that are over. A wave stays over even if one of its hosts was busy: that host follows later.
    pub fn count_finished_waves(&mut self, plan: &RolloutPlan) {
        let over = |host: &HostName| self.past.contains(host) || self.busy.contains(host);
        while plan.waves.get(self.over).is_some_and(|wave| wave.iter().all(over)) {
            self.over += 1;
        }
    }
}

/// The hosts that wait for a host that requests its window.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowWaiters {
    /// Whether a host inside its window waits for it, directly or through others.
    pub wanted: bool,
    /// Whether every host inside its window waits for hosts outside of theirs.
    pub stuck: bool,
}

/// The decision about a host that requests its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowDecision {
    /// The window may open now.
    Go,
    /// The window may not open yet: ask again when the progress changes.
    Wait,
    /// Its window will not open in this run: why, as a lowercase fragment.
    Never(String),
}

impl RolloutPlan {
    /// Returns whether `host`, which is part of `wave`, may be taken out of service now. Calls `waited` only if its
    /// result matters.
    pub fn admit_host(
        &self,
        host: &HostName,
        wave: usize,
        progress: &RolloutProgress,
        waited: impl FnOnce() -> WindowWaiters,
    ) -> WindowDecision {
        // A host that is already out of service does not increase the number of such hosts.
        let others = self.unavailable.iter().filter(|other| *other != host);
        let out: BTreeSet<&HostName> = others.chain(&progress.down).collect();
        if let Some(why) = self.check_budget(&out).or_else(|| self.check_quorum(host, &out)) {
            return WindowDecision::Never(why);
        }
        // A host may be counted as out of service from the start and be inside a window that was left open.
        let occupied = out.iter().copied().chain(&progress.inside).collect::<BTreeSet<&HostName>>();
        let full = occupied.len() >= self.max_unavailable;
        let free = !full && self.is_outside_quorums(host, &progress.inside);
        if free && wave <= progress.over {
            return WindowDecision::Go;
        }
        // A host that a host inside its window waits for skips the queue.
        match waited() {
            WindowWaiters { wanted: false, .. } => WindowDecision::Wait,
            WindowWaiters { wanted: true, .. } if free => WindowDecision::Go,
            WindowWaiters { stuck: false, .. } => WindowDecision::Wait,
            WindowWaiters { stuck: true, .. } => WindowDecision::Never(format!(
                "hosts inside their windows wait for this one, but `max_unavailable` ({}) leaves no room for it",
                self.max_unavailable
            )),
        }
    }

    fn check_budget(&self, out: &BTreeSet<&HostName>) -> Option<String> {
        let (count, most) = (out.len(), self.max_unavailable);
        (count >= most).then(|| {
            format!(
                "`max_unavailable` ({most}) is used up by {}",
                super::super::cross_host_edges::format_host_names(&clone_hosts(out))
            )
        })
    }

    fn check_quorum(&self, host: &HostName, out: &BTreeSet<&HostName>) -> Option<String> {
        let own = self.quorum.iter().filter(|quorum| quorum.hosts.contains(host));
        let lost = |quorum: &super::QuorumGroup| {
            let other = quorum.hosts.iter().find(|other| *other != host && out.contains(other))?;
            Some(format!("`{other}` of the quorum `{}` is out of service", quorum.group))
        };
        own.filter_map(lost).next()
    }

    fn is_outside_quorums(&self, host: &HostName, inside: &BTreeSet<HostName>) -> bool {
        let own = self.quorum.iter().filter(|quorum| quorum.hosts.contains(host));
        own.flat_map(|quorum| &quorum.hosts).all(|other| other == host || !inside.contains(other))
    }
}

fn clone_hosts(hosts: &BTreeSet<&HostName>) -> Vec<HostName> {
    hosts.iter().map(|host| (*host).clone()).collect()
}
