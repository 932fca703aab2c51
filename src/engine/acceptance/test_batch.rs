//! Which hosts are out of service at the same time.

use crate::config::Project;
use crate::model::HostName;
use std::collections::BTreeSet;

/// How many hosts may be out of service, and of which groups only one host may be.
pub struct DrainBudget {
    limit: usize,
    quorums: Vec<BTreeSet<HostName>>,
}

impl DrainBudget {
    /// Returns the budget of `rollout`. A percentage is of all machines of the inventory.
    pub fn from_rollout(project: &Project) -> Self {
        let hosts = |group: &String| project.groups.get(group).into_iter().flatten().cloned().collect();
        let limit = project.rollout.max_unavailable.resolve_count(project.machine_names().count());
        Self { limit: limit.max(1), quorums: project.rollout.quorum.iter().map(|(group, _)| hosts(group)).collect() }
    }

    /// Returns how many hosts can be out of service at the same time.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Divides hosts into batches. `paired`: a host alone cannot be measured, so the last batch gets a host of the one
    /// before it.
    pub(super) fn split_in_batches<'h>(&self, hosts: &[&'h HostName], paired: bool) -> Vec<Vec<&'h HostName>> {
        let mut left: Vec<&HostName> = hosts.to_vec();
        let mut batches: Vec<Vec<&HostName>> = Vec::new();
        while !left.is_empty() {
            let mut batch = Vec::new();
            left.retain(|host| {
                let fits = batch.len() < self.limit && self.fits_quorums(host, &batch);
                batch.extend(fits.then_some(*host));
                !fits
            });
            if let ([only], Some(before)) = (batch.as_slice(), batches.last().filter(|_| paired && self.limit > 1)) {
                let peer = before.iter().rev().find(|host| *host != only && self.fits_quorums(host, &batch));
                batch.splice(0..0, peer.copied());
            }
            batches.push(batch);
        }
        batches
    }

    /// Returns whether no host of a quorum of `host` is in the batch.
    fn fits_quorums(&self, host: &HostName, batch: &[&HostName]) -> bool {
        let mut own = self.quorums.iter().filter(|group| group.contains(host));
        own.all(|group| !batch.iter().any(|other| group.contains(*other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(limit: usize, quorum: &[&str], hosts: &[&str], paired: bool) -> Vec<Vec<String>> {
        let names: Vec<HostName> = hosts.iter().map(|name| HostName::new(*name)).collect();
        let group: BTreeSet<HostName> = quorum.iter().map(|name| HostName::new(*name)).collect();
        let budget = DrainBudget { limit, quorums: if group.is_empty() { Vec::new() } else { vec![group] } };
        let batches = budget.split_in_batches(&names.iter().collect::<Vec<_>>(), paired);
        batches.into_iter().map(|batch| batch.into_iter().map(|host| host.as_str().to_owned()).collect()).collect()
    }

    #[test]
    fn batches_respect_the_budget() {
        let hosts = ["a", "b", "c", "d", "e"];
        assert_eq!(split(2, &[], &hosts, true), [vec!["a", "b"], vec!["c", "d"], vec!["d", "e"]], "a pair of the last");
        assert_eq!(split(2, &[], &hosts, false), [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
        assert_eq!(split(9, &[], &hosts, true), [hosts.to_vec()]);
        assert_eq!(split(1, &[], &hosts[..2], true), [vec!["a"], vec!["b"]]);
    }

    #[test]
    fn one_host_of_a_quorum_is_out_of_service_at_a_time() {
        let etcd = ["a", "b", "c"];
        assert_eq!(split(3, &etcd, &["a", "b", "c", "x"], false), [vec!["a", "x"], vec!["b"], vec!["c"]]);
        assert_eq!(split(3, &etcd, &["a", "x", "b"], true), [vec!["a", "x"], vec!["x", "b"]]);
        assert_eq!(split(3, &etcd, &["a", "b"], true), [vec!["a"], vec!["b"]], "no peer is possible");
    }
}
