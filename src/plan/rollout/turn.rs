//! Whether a host may be taken out of service now.

use super::Rollout;
use crate::model::HostName;
use std::collections::BTreeSet;

/// How far a run is, as far as windows go.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Hosts whose window is open.
    pub inside: BTreeSet<HostName>,
    /// Hosts that went out of service in this run and did not come back as they should, or were lost.
    pub down: BTreeSet<HostName>,
    /// Hosts that are done with their window, or with the run.
    pub past: BTreeSet<HostName>,
    /// Hosts that wait for somebody who holds their devices: others need not wait for them.
    pub busy: BTreeSet<HostName>,
    /// How many of the first waves are over.
    pub over: usize,
}

impl Progress {
    /// A host is done with the run: if its window is open, it stays out of service.
    pub fn close(&mut self, host: &HostName, plan: &Rollout) {
        if self.inside.remove(host) {
            self.down.insert(host.clone());
        }
        self.busy.remove(host);
        self.past.insert(host.clone());
        self.count(plan);
    }

    /// Counts the waves that are over by now. A wave that was over stays so: a host that was busy then follows later.
    pub fn count(&mut self, plan: &Rollout) {
        let over = |host: &HostName| self.past.contains(host) || self.busy.contains(host);
        while plan.waves.get(self.over).is_some_and(|wave| wave.iter().all(over)) {
            self.over += 1;
        }
    }
}

/// Who waits for a host that asks for its window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waited {
    /// Whether a host inside its window does, be it through others.
    pub wanted: bool,
    /// Whether everybody inside waits for hosts outside.
    pub stuck: bool,
}

/// What becomes of a host that asks for its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    Go,
    Wait,
    /// It will not be its turn in this run: why, as a lowercase fragment.
    Never(String),
}

impl Rollout {
    /// Returns whether `host`, which is one of `wave`, may be taken out of service now. Who waits for it is only asked
    /// where it matters.
    pub fn turn(&self, host: &HostName, wave: usize, progress: &Progress, waited: impl FnOnce() -> Waited) -> Turn {
        // Taking out a host that is out of service already makes it no more of them.
        let others = self.unavailable.iter().filter(|other| *other != host);
        let out: BTreeSet<&HostName> = others.chain(&progress.down).collect();
        if let Some(why) = self.spent(&out).or_else(|| self.quorum_lost(host, &out)) {
            return Turn::Never(why);
        }
        let full = out.len() + progress.inside.len() >= self.max_unavailable;
        let free = !full && self.apart(host, &progress.inside);
        if free && wave <= progress.over {
            return Turn::Go;
        }
        // Whom others inside wait for does not stand in line.
        match waited() {
            Waited { wanted: false, .. } => Turn::Wait,
            Waited { wanted: true, .. } if free => Turn::Go,
            Waited { stuck: false, .. } => Turn::Wait,
            Waited { stuck: true, .. } => Turn::Never(format!(
                "hosts inside their windows wait for this one, and `max_unavailable` ({}) leaves it no room",
                self.max_unavailable
            )),
        }
    }

    fn spent(&self, out: &BTreeSet<&HostName>) -> Option<String> {
        let (count, most) = (out.len(), self.max_unavailable);
        (count >= most)
            .then(|| format!("`max_unavailable` ({most}) is used up by {}", super::super::span::named(&owned(out))))
    }

    fn quorum_lost(&self, host: &HostName, out: &BTreeSet<&HostName>) -> Option<String> {
        let own = self.quorum.iter().filter(|quorum| quorum.hosts.contains(host));
        let lost = |quorum: &super::Quorum| {
            let other = quorum.hosts.iter().find(|other| *other != host && out.contains(other))?;
            Some(format!("`{other}` of the quorum `{}` is out of service", quorum.group))
        };
        own.filter_map(lost).next()
    }

    fn apart(&self, host: &HostName, inside: &BTreeSet<HostName>) -> bool {
        let own = self.quorum.iter().filter(|quorum| quorum.hosts.contains(host));
        own.flat_map(|quorum| &quorum.hosts).all(|other| other == host || !inside.contains(other))
    }
}

fn owned(hosts: &BTreeSet<&HostName>) -> Vec<HostName> {
    hosts.iter().map(|host| (*host).clone()).collect()
}
