//! Observes hosts with workers, and merges their recordings.

use super::host_keys::HostKeys;
use super::run_worker::run_worker;
use super::shared_exports::SharedExports;
use super::split_hosts::split_into_shards;
use super::worker_driver::{WorkerDriver, WorkerEnd};
use super::worker_role::OutsideState;
use super::worker_task::{
    ObservationKind, WORKER_VERSION, WorkerJob, WorkerMessage, WorkerSettings, WorkerTask, absolute_inventory,
};
use crate::config::Project;
use crate::engine::event::{Event, EventSender};
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::recording::{HostRecording, Recording};
use crate::model::HostName;
use crate::plan::{HostReachability, UnreachableReason};
use crate::state::ObjectStore;
use futures_util::StreamExt;
use futures_util::stream;
use std::collections::HashSet;
use tokio::sync::mpsc;

/// An observation that workers carry out.
#[derive(Clone, Copy)]
pub struct ShardedObservation<'a> {
    /// The inventory.
    pub project: &'a Project,
    /// The hosts, among them the cluster's API if it is observed.
    pub hosts: &'a [HostName],
    /// What is read.
    pub kind: ObservationKind,
    /// What is known of exported values, if the hosts were observed before without those of other shards.
    pub known: Option<&'a ObservedHosts>,
    /// The settings of each worker.
    pub settings: &'a WorkerSettings,
    /// The name of the run.
    pub run: &'a str,
    /// Starts the workers.
    pub driver: &'a dyn WorkerDriver,
    /// Where tasks and recordings are.
    pub store: &'a ObjectStore,
    /// How many workers run at once.
    pub workers: usize,
    /// How many hosts one worker observes.
    pub shard_size: usize,
    /// Where progress is reported.
    pub events: &'a EventSender,
}

/// Returns the answers and keys of all hosts. Hosts whose workers died twice are unreachable, with that reason.
pub async fn observe_in_shards(what: &ShardedObservation<'_>) -> (Recording, HostKeys) {
    let machines = what.hosts.iter().filter(|host| !host.is_cluster()).count();
    if what.known.is_none() {
        let _ = what.events.send(Event::ObserveStarted { hosts: machines });
    }
    let shards = split_into_shards(what.project, what.hosts, what.shard_size);
    let exports = what.known.map(|known| SharedExports::new(what.project, known.published.clone()));
    let exports = exports.as_ref();
    let work = shards
        .iter()
        .enumerate()
        .map(|(number, shard)| async move { (number, what.observe_shard(shard, exports).await) });
    let mut parts: Vec<(usize, (Recording, HostKeys))> =
        stream::iter(work).buffer_unordered(what.workers.max(1)).collect().await;
    parts.sort_by_key(|(number, _)| *number);
    let mut keys = HostKeys::default();
    let parts = parts.into_iter().map(|(number, (part, own_keys))| {
        keys.add_keys(own_keys);
        (format!("shard {number}"), part)
    });
    // Each part has only hosts of its own shard, and a host is in one shard.
    let recording = Recording::merge(parts).ok().flatten().unwrap_or_else(|| Recording::of_hosts(Vec::new()));
    (recording, keys)
}

impl ShardedObservation<'_> {
    async fn observe_shard(&self, shard: &[HostName], exports: Option<&SharedExports>) -> (Recording, HostKeys) {
        let mut why = String::new();
        for _attempt in 0..2 {
            match self.run_observer(shard, exports).await {
                Ok(recorded) => return recorded,
                Err(ended) => why = ended,
            }
        }
        let reason = UnreachableReason::new(format!("not observed: two attempts with a worker failed: {why}"), None);
        for host in shard {
            let _ = self.events.send(Event::Unreachable { host: host.clone(), why: reason.clone() });
        }
        (Recording::of_hosts(shard.iter().map(|host| unreachable_host(host, &reason)).collect()), HostKeys::default())
    }

    /// Returns the known ones of the exported values that hosts of a shard read.
    fn describe_outside(&self, shard: &[HostName], exports: Option<&SharedExports>) -> OutsideState {
        let (Some(exports), Some(known)) = (exports, self.known) else { return OutsideState::default() };
        let own = shard.iter().cloned().collect();
        exports.list_planned(&exports.list_names(self.project, &own), &own, &known.secrets)
    }

    async fn run_observer(
        &self,
        shard: &[HostName],
        exports: Option<&SharedExports>,
    ) -> Result<(Recording, HostKeys), String> {
        let task = WorkerTask {
            version: WORKER_VERSION,
            forge: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.run.to_owned(),
            inventory: absolute_inventory(self.project),
            inputs: self.project.list_input_files(),
            settings: self.settings.clone(),
            hosts: shard.to_vec(),
            job: WorkerJob::Observe { kind: self.kind, outside: self.describe_outside(shard, exports) },
            replaced: 0,
        };
        let (_orders, no_orders) = mpsc::unbounded_channel();
        let mut recorded = None;
        let end = run_worker(self.driver, self.store, &task, no_orders, |message| match message {
            WorkerMessage::Recorded { recording, keys } => recorded = Some((recording, keys)),
            WorkerMessage::Event { event: Event::ObserveStarted { .. } } => {}
            WorkerMessage::Event { event: Event::Connecting { .. } | Event::Observed { .. } }
                if self.known.is_some() => {}
            WorkerMessage::Event { event } => drop(self.events.send(event)),
            _ => {}
        })
        .await;
        match (end, recorded) {
            (WorkerEnd::Finished, Some((digest, keys))) => {
                let recording: Recording = self.store.get(&digest)?;
                check_recorded_hosts(&recording, shard).map(|()| (recording, keys))
            }
            (WorkerEnd::Finished, None) => Err("it stored no recording".to_owned()),
            (WorkerEnd::Refused(why) | WorkerEnd::Died(why), _) => Err(why),
        }
    }
}

/// Checks that a recording contains each host of a shard once, and no other host.
fn check_recorded_hosts(recording: &Recording, shard: &[HostName]) -> Result<(), String> {
    let mut open: HashSet<&HostName> = shard.iter().collect();
    let foreign = recording.hosts.iter().find(|recorded| !open.remove(&recorded.host));
    match (foreign, open.into_iter().min()) {
        (Some(foreign), _) => Err(format!("its recording contains `{}`, which it was not asked for", foreign.host)),
        (None, Some(missing)) => Err(format!("its recording does not contain `{missing}`")),
        (None, None) => Ok(()),
    }
}

fn unreachable_host(host: &HostName, why: &UnreachableReason) -> HostRecording {
    let reach = HostReachability::Unreachable(why.clone());
    HostRecording { host: host.clone(), reach, answers: Vec::new(), node: None, missing: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_of_a_worker_has_exactly_the_hosts_of_its_shard() {
        let [a, b, c] = ["a", "b", "c"].map(HostName::new);
        let why = UnreachableReason::new("x".to_owned(), None);
        let of =
            |hosts: &[&HostName]| Recording::of_hosts(hosts.iter().map(|host| unreachable_host(host, &why)).collect());
        let shard = [a.clone(), b.clone()];
        assert_eq!(check_recorded_hosts(&of(&[&b, &a]), &shard), Ok(()));
        assert_eq!(check_recorded_hosts(&of(&[&a]), &shard).unwrap_err(), "its recording does not contain `b`");
        let foreign = "its recording contains `c`, which it was not asked for";
        assert_eq!(check_recorded_hosts(&of(&[&a, &b, &c]), &shard).unwrap_err(), foreign);
        assert!(check_recorded_hosts(&of(&[&a, &b, &a]), &shard).is_err(), "twice");
    }
}
