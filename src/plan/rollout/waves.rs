//! Divides hosts into waves: never more than the budget in one wave, canaries in separate waves before all others, and
//! never two hosts of a quorum together.

use super::QuorumGroup;
use crate::model::HostName;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the waves of `hosts`, in their order: each host is in the first wave after the canaries that has room and no
/// other host of its quorum. Without any room, each wave has one host: none may begin, but they are planned.
pub(super) fn build_waves(
    hosts: &[HostName],
    canaries: &BTreeSet<HostName>,
    room: usize,
    quorum: &[QuorumGroup],
) -> Vec<Vec<HostName>> {
    let (first, rest): (Vec<_>, Vec<_>) = hosts.iter().partition(|host| canaries.contains(*host));
    let mut waves = fill_waves(&first, room.max(1), quorum);
    waves.extend(fill_waves(&rest, room.max(1), quorum));
    waves
}

fn fill_waves(hosts: &[&HostName], room: usize, quorum: &[QuorumGroup]) -> Vec<Vec<HostName>> {
    let mut waves: Vec<Vec<HostName>> = Vec::new();
    // Skips full waves, and tracks for each quorum the first wave that its next host may join.
    let (mut full, mut next): (usize, BTreeMap<usize, usize>) = (0, BTreeMap::new());
    for host in hosts {
        let own: Vec<usize> = (0..quorum.len()).filter(|at| quorum[*at].hosts.contains(*host)).collect();
        let from = own.iter().filter_map(|at| next.get(at)).copied().fold(full, usize::max);
        let at = (from..waves.len()).find(|at| waves[*at].len() < room).unwrap_or(waves.len());
        if at == waves.len() {
            waves.push(Vec::new());
        }
        waves[at].push((*host).clone());
        next.extend(own.into_iter().map(|quorum| (quorum, at + 1)));
        while waves.get(full).is_some_and(|wave| wave.len() >= room) {
            full += 1;
        }
    }
    waves
}
