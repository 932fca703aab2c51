//! Completes the observation of hosts that read exported values: the worker of their shard does not know those of other
//! shards, and does not ask for what the steps declare with them.

use super::host_keys::HostKeys;
use super::shared_exports::SharedExports;
use crate::config::Project;
use crate::engine::observed_hosts::ObservedHosts;
use crate::engine::recording::Recording;
use crate::model::HostName;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A value may be read by a step that exports another one, and so on: each needs an observation of its own.
const MAX_PASSES: usize = 4;

/// Returns what `replay` reads from a recording, and the recording, once the readers of exported values were observed with
/// those values. `record` observes hosts with the values that an observation of all hosts has.
pub async fn complete_observation(
    project: &Project,
    (mut recording, mut keys): (Recording, HostKeys),
    replay: impl AsyncFn(Arc<Recording>) -> ObservedHosts,
    record: impl AsyncFn(&[HostName], &ObservedHosts) -> (Recording, HostKeys),
) -> (ObservedHosts, Arc<Recording>) {
    let (mut before, mut passes) = (Vec::new(), 0);
    loop {
        let whole = Arc::new(recording);
        let mut observed = replay(whole.clone()).await;
        let due = list_uninformed_readers(project, &observed);
        if due.is_empty() || due == before || passes == MAX_PASSES {
            observed.add_host_keys(&keys);
            return (observed, whole);
        }
        let (again, new_keys) = record(&due, &observed).await;
        keys.add_keys(new_keys);
        drop(observed);
        recording = Arc::unwrap_or_clone(whole).replace_hosts(again);
        (before, passes) = (due, passes + 1);
    }
}

/// Returns the hosts that read exported values of other hosts, and were not asked for something that their steps need.
fn list_uninformed_readers(project: &Project, observed: &ObservedHosts) -> Vec<HostName> {
    let lacking = observed.seen.iter().filter(|seen| seen.is_observed() && seen.observation.lacks_recorded_answers());
    let lacking: Vec<&HostName> = lacking.map(|seen| &seen.host).collect();
    if lacking.is_empty() {
        return Vec::new();
    }
    let exports = SharedExports::new(project, observed.published.clone());
    let reads = |host: &&HostName| {
        let own = BTreeSet::from([HostName::clone(host)]);
        let names = exports.list_names(project, &own);
        exports.list_planned(&names, &own, &observed.secrets).exports.iter().any(|entry| entry.is_known())
    };
    lacking.into_iter().filter(reads).cloned().collect()
}
