//! The hosts that wait for steps of other hosts, and the hosts that are still awaited.

use crate::engine::run_state::RunStateData;
use crate::model::{HostName, StepId};
use crate::plan::{CrossHostWait, UnmetDependency};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The edge and the selection that a wait results from, by their addresses: thousands of hosts share a wait.
pub(super) type WaitKey = (usize, usize);

/// Hosts that wait for the same step of the same hosts.
struct OpenWait {
    wait: CrossHostWait,
    /// The step that is awaited.
    awaited: StepId,
    hosts: Arc<BTreeSet<HostName>>,
    /// Those of `hosts` on which it is not decided whether the step reached the phase.
    undecided: BTreeSet<HostName>,
    waiting: BTreeSet<HostName>,
}

impl OpenWait {
    fn update_host(&mut self, host: &HostName, data: &RunStateData) {
        match data.has_reached(self.wait.from, host, self.wait.phase) {
            Some(_) => self.undecided.remove(host),
            None => self.undecided.insert(host.clone()),
        };
    }

    /// Returns why too few hosts reached the phase, if so.
    fn describe_lack(&self, data: &RunStateData) -> Option<String> {
        let decided = data.have_all_reached(self.wait.from, &self.wait.hosts, self.wait.phase).unwrap_or_default();
        let (there, out): (Vec<_>, Vec<_>) = decided.into_iter().partition(|(_, is_there)| *is_there);
        let out: Vec<HostName> = out.into_iter().map(|(host, _)| host).collect();
        let shortfall = Some(self.wait.describe_missing(there.len(), &out)?);
        Some(UnmetDependency { shortfall, ..UnmetDependency::on_step(&self.awaited) }.describe_need())
    }
}

/// The answer to the hosts that wait for a step: why they lack it, if they do.
pub(super) type StepAnswers = Vec<(HostName, Option<String>)>;

/// The waits of a run.
#[derive(Default)]
pub(super) struct StepWaits(BTreeMap<WaitKey, OpenWait>);

impl StepWaits {
    /// Adds a host that waits. Returns the hosts that it waits for.
    pub fn add_waiting(
        &mut self,
        key: WaitKey,
        host: &HostName,
        awaited: &StepId,
        find_wait: impl FnOnce() -> CrossHostWait,
        data: &RunStateData,
    ) -> Arc<BTreeSet<HostName>> {
        let open = self.0.entry(key).or_insert_with(|| {
            let wait = find_wait();
            let hosts: Arc<BTreeSet<HostName>> = Arc::new(wait.hosts.iter().cloned().collect());
            let is_undecided = |host: &&HostName| data.has_reached(wait.from, host, wait.phase).is_none();
            let undecided = hosts.iter().filter(is_undecided).cloned().collect();
            OpenWait { awaited: awaited.clone(), hosts, undecided, waiting: BTreeSet::new(), wait }
        });
        open.waiting.insert(host.clone());
        open.hosts.clone()
    }

    /// Updates the waits for a host that has news.
    pub fn update_host(&mut self, host: &HostName, data: &RunStateData) {
        self.0.values_mut().filter(|open| open.hosts.contains(host)).for_each(|open| open.update_host(host, data));
    }

    /// Removes a host that does not wait any more.
    pub fn remove_waiting(&mut self, host: &HostName) {
        self.0.retain(|_, open| !(open.waiting.remove(host) && open.waiting.is_empty()));
    }

    /// Removes the waits that are decided. Returns the answers.
    pub fn take_decided(&mut self, data: &RunStateData) -> StepAnswers {
        let mut answers = StepAnswers::new();
        self.0.retain(|_, open| {
            let is_decided = open.undecided.is_empty();
            if is_decided {
                let lack = open.describe_lack(data);
                answers.extend(std::mem::take(&mut open.waiting).into_iter().map(|host| (host, lack.clone())));
            }
            !is_decided
        });
        answers
    }

    /// Reports whether a host waits for a step.
    pub fn is_waiting(&self, host: &HostName) -> bool {
        self.0.values().any(|open| open.waiting.contains(host))
    }

    /// Returns the hosts that others wait for.
    pub fn list_awaited(&self) -> BTreeSet<&HostName> {
        self.0.values().flat_map(|open| &open.undecided).collect()
    }

    /// Returns the waits that hold up themselves. If there are none, those for hosts that wait for no step: what these wait
    /// for, a window, holds them up. The other waits may end well once such a wait has ended.
    fn list_deadlocked(&self) -> BTreeSet<WaitKey> {
        let mut waits_of: BTreeMap<&HostName, Vec<WaitKey>> = BTreeMap::new();
        for (key, open) in &self.0 {
            open.waiting.iter().for_each(|host| waits_of.entry(host).or_default().push(*key));
        }
        let follow = |key: &WaitKey| {
            let awaited = self.0.get(key).into_iter().flat_map(|open| &open.undecided);
            awaited.filter_map(|host| waits_of.get(host)).flatten().copied().collect::<BTreeSet<WaitKey>>()
        };
        let next: BTreeMap<WaitKey, BTreeSet<WaitKey>> = self.0.keys().map(|key| (*key, follow(key))).collect();
        let is_in_cycle = |key: &WaitKey| {
            let (mut seen, mut due) = (BTreeSet::new(), vec![*key]);
            while let Some(one) = due.pop() {
                due.extend(next.get(&one).into_iter().flatten().copied().filter(|other| seen.insert(*other)));
            }
            seen.contains(key)
        };
        let cyclic: BTreeSet<WaitKey> = next.keys().copied().filter(is_in_cycle).collect();
        match cyclic.is_empty() {
            true => next.into_iter().filter(|(_, others)| others.is_empty()).map(|(key, _)| key).collect(),
            false => cyclic,
        }
    }

    /// Removes a wait that would last forever, because all hosts wait. Returns the answers.
    pub fn stop_stuck(&mut self) -> StepAnswers {
        let inside = self.list_deadlocked();
        // By what people see: addresses differ from run to run.
        let open = self.0.iter().filter(|(key, _)| inside.contains(*key));
        let first = open.min_by_key(|(_, open)| (&open.awaited, open.waiting.first()));
        let Some(open) = first.map(|(key, _)| *key).and_then(|key| self.0.remove(&key)) else {
            return StepAnswers::new();
        };
        let names: Vec<&str> = open.undecided.iter().map(HostName::as_str).collect();
        let names = crate::config::format_first_names(&names);
        let why =
            format!("needs `{}`, but {names} cannot go on: every host of this run waits for another one", open.awaited);
        open.waiting.into_iter().map(|host| (host, Some(why.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::reached_phase::ReachedPhase;
    use crate::engine::run_state::{SharedRunState, SharedValues};
    use crate::graph::StepIndex;
    use crate::model::{HostOutcome, StepPhase};
    use crate::plan::RolloutPlan;

    fn names(names: &[&str]) -> Vec<HostName> {
        names.iter().map(HostName::new).collect()
    }

    fn wait_for(hosts: &[HostName], least: usize) -> CrossHostWait {
        CrossHostWait {
            from: StepIndex(0),
            phase: StepPhase::Effective,
            hosts: hosts.to_vec(),
            cut: Vec::new(),
            least: Some(least),
        }
    }

    /// A host whose worker died is awaited again, once another worker works on it.
    #[test]
    fn wait_is_decided_when_every_host_is() {
        let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
        let (hosts, awaited) = (names(&["a", "b"]), StepId::new("r", "s"));
        let mut waits = StepWaits::default();
        let add = |waits: &mut StepWaits, host: &HostName| {
            board.read_data(|data| waits.add_waiting((1, 1), host, &awaited, || wait_for(&hosts, 2), data))
        };
        board.record_phase(StepIndex(0), &hosts[0], ReachedPhase::Effective);
        assert_eq!(add(&mut waits, &hosts[0]).len(), 2);
        add(&mut waits, &HostName::new("c"));
        assert_eq!(waits.list_awaited(), BTreeSet::from([&hosts[1]]));
        board.forget_unfinished(&hosts[0]);
        board.read_data(|data| waits.update_host(&hosts[0], data));
        board.finish_host(&hosts[1], HostOutcome::Failed);
        board.read_data(|data| waits.update_host(&hosts[1], data));
        assert_eq!(board.read_data(|data| waits.take_decided(data)), []);
        assert_eq!(waits.list_awaited(), BTreeSet::from([&hosts[0]]));
        board.record_phase(StepIndex(0), &hosts[0], ReachedPhase::Effective);
        board.read_data(|data| waits.update_host(&hosts[0], data));
        let lack = Some("needs `r/s` on 2 hosts, got 1; missing: b".to_owned());
        let answers = board.read_data(|data| waits.take_decided(data));
        assert_eq!(answers, [(hosts[0].clone(), lack.clone()), (HostName::new("c"), lack)]);
        assert!(!waits.is_waiting(&hosts[0]));
    }

    /// x waits for a, which waits for b, which waits for a: once the wait of a or b has ended, x may go on.
    #[test]
    fn only_a_wait_within_the_cycle_ends() {
        let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
        let mut waits = StepWaits::default();
        let add = |waits: &mut StepWaits, key: usize, host: &str, step: &str, on: &str| {
            let (host, awaited, hosts) = (HostName::new(host), StepId::new("r", step), names(&[on]));
            board.read_data(|data| waits.add_waiting((key, 0), &host, &awaited, || wait_for(&hosts, 1), data));
        };
        add(&mut waits, 1, "x", "a", "a");
        add(&mut waits, 2, "a", "m", "b");
        add(&mut waits, 3, "b", "z", "a");
        let ended = |waits: &mut StepWaits| waits.stop_stuck().into_iter().map(|(host, _)| host).collect::<Vec<_>>();
        assert_eq!(ended(&mut waits), names(&["a"]));
        // Now a waits for its window: the wait of b is stuck no more than that of x.
        assert_eq!(ended(&mut waits), names(&["x"]));
        add(&mut waits, 1, "x", "a", "b");
        assert_eq!(ended(&mut waits), names(&["b"]), "x waits for b");
    }

    #[test]
    fn stuck_wait_names_the_hosts_that_wait_as_well() {
        let board = SharedRunState::new(SharedValues::default(), RolloutPlan::default());
        let hosts = names(&["a", "b"]);
        let mut waits = StepWaits::default();
        for (key, step) in [(1, "z"), (2, "s")] {
            let awaited = StepId::new("r", step);
            board.read_data(|data| waits.add_waiting((key, 0), &hosts[0], &awaited, || wait_for(&hosts, 2), data));
        }
        let why = "needs `r/s`, but a, b cannot go on: every host of this run waits for another one";
        assert_eq!(waits.stop_stuck(), [(hosts[0].clone(), Some(why.to_owned()))]);
        waits.remove_waiting(&hosts[0]);
        assert_eq!(waits.stop_stuck(), []);
    }
}
