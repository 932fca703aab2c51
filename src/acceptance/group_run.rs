//! One measurement: the hosts of a group run a test together, and the slowest of their flows is the result.

use super::fabric::{FabricModel, FabricPart, HostIndex, RailFlow};
use super::part_set::PartSet;
use super::schedule;
use std::collections::{BTreeMap, BTreeSet};

/// What runs at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRun {
    /// Flows between two hosts.
    pub flows: Vec<RailFlow>,
    /// Adapters that are tested with themselves.
    pub loopbacks: Vec<(HostIndex, usize)>,
}

impl GroupRun {
    /// Returns a run in which each host sends to the next one in every rail.
    pub fn ring(hosts: &[HostIndex], rails: &[usize]) -> Self {
        let flows = rails.iter().flat_map(|rail| ring_flows(hosts, *rail)).collect();
        Self { flows, loopbacks: Vec::new() }
    }

    /// Returns a run of one flow.
    pub fn single(flow: RailFlow) -> Self {
        Self { flows: vec![flow], loopbacks: Vec::new() }
    }

    /// Returns a run of a host's adapters with themselves.
    pub fn loopback(host: HostIndex, rails: impl IntoIterator<Item = usize>) -> Self {
        Self { flows: Vec::new(), loopbacks: rails.into_iter().map(|rail| (host, rail)).collect() }
    }

    /// Returns the hosts that take part, in order.
    pub fn hosts(&self) -> Vec<HostIndex> {
        let of_flows = self.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let hosts: BTreeSet<HostIndex> = of_flows.chain(self.loopbacks.iter().map(|(host, _)| *host)).collect();
        hosts.into_iter().collect()
    }

    /// Returns the rails that are used, in order.
    pub fn rails(&self) -> Vec<usize> {
        let of_flows = self.flows.iter().map(|flow| flow.rail);
        let rails: BTreeSet<usize> = of_flows.chain(self.loopbacks.iter().map(|(_, rail)| *rail)).collect();
        rails.into_iter().collect()
    }

    /// Returns whether nothing runs.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.loopbacks.is_empty()
    }

    /// Returns whether the run passes none of `parts`.
    pub fn is_free_of(&self, fabric: &FabricModel, parts: &PartSet) -> bool {
        self.covered_parts(fabric).count_common(parts) == 0
    }

    /// Returns every part that the run passes.
    pub fn covered_parts(&self, fabric: &FabricModel) -> PartSet {
        let mut covered = PartSet::with_capacity(fabric.part_count());
        self.flows.iter().for_each(|flow| fabric.visit_flow(*flow, |part| covered.insert(part)));
        self.loopbacks.iter().for_each(|(host, rail)| fabric.visit_loopback(*host, *rail, |part| covered.insert(part)));
        covered
    }
}

fn ring_flows(hosts: &[HostIndex], rail: usize) -> Vec<RailFlow> {
    match hosts.len() {
        0 | 1 => Vec::new(),
        count => (0..count).map(|at| RailFlow { from: hosts[at], to: hosts[(at + 1) % count], rail }).collect(),
    }
}

/// Returns the groups that are tested first: √n groups, ordered so that neighbours are in different leaves and that a
/// group passes as few spines as possible. Together they pass every part.
pub fn screening_groups(fabric: &FabricModel) -> Vec<Vec<HostIndex>> {
    let mut hosts: Vec<HostIndex> = (0..fabric.host_count()).collect();
    let mut met: BTreeMap<usize, usize> = BTreeMap::new();
    let positions: Vec<usize> = hosts
        .iter()
        .map(|host| {
            let count = met.entry(fabric.leaf_of(*host, 0)).or_default();
            *count += 1;
            *count
        })
        .collect();
    hosts.sort_by_key(|host| (fabric.spine_of(*host), positions[*host], fabric.leaf_of(*host, 0), *host));
    schedule::split_in_root_groups(&hosts)
}

/// Returns a run of a group in all rails, without the flows that pass one of `known`.
pub fn ring_around(fabric: &FabricModel, group: &[HostIndex], known: &[FabricPart]) -> GroupRun {
    let mut run = GroupRun::default();
    for rail in 0..fabric.rail_count() {
        let passes_known = |host: &HostIndex| {
            let parts = [
                FabricPart::Host(*host),
                FabricPart::Adapter(*host, rail),
                FabricPart::HostCable(*host, rail),
                FabricPart::Leaf(fabric.leaf_of(*host, rail)),
            ];
            parts.into_iter().any(|part| known.contains(&fabric.joined_part(part)))
        };
        let hosts: Vec<HostIndex> = group.iter().copied().filter(|host| !passes_known(host)).collect();
        run.flows.extend(ring_flows(&hosts, rail));
    }
    run.flows.retain(|flow| {
        let mut free = true;
        fabric.visit_flow(*flow, |part| free &= !known.contains(&fabric.part_at(part)));
        free
    });
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screening_passes_every_part() {
        for (hosts, rails, unit, spines) in [(232, 8, 29, 16), (64, 4, 16, 8), (12, 1, 12, 0), (3, 1, 3, 0)] {
            let fabric = FabricModel::two_tiers(hosts, rails, unit, spines).unwrap();
            let all: Vec<usize> = (0..rails).collect();
            let mut covered = PartSet::default();
            for group in screening_groups(&fabric) {
                covered.insert_all(&GroupRun::ring(&group, &all).covered_parts(&fabric));
            }
            let joined = |number: &usize| fabric.joined_part(fabric.part_at(*number)) != fabric.part_at(*number);
            let missing = (0..fabric.part_count()).filter(|number| !covered.contains(*number) && !joined(number));
            let missing: Vec<FabricPart> = missing.map(|number| fabric.part_at(number)).collect();
            assert_eq!(missing, [], "{hosts} hosts");
        }
    }

    #[test]
    fn known_parts_are_avoided() {
        let fabric = FabricModel::two_tiers(8, 2, 4, 2).unwrap();
        let known = [FabricPart::Host(2), FabricPart::Leaf(2), FabricPart::SwitchCable(1, 0)];
        let run = ring_around(&fabric, &[0, 4, 1, 5, 2, 6, 3, 7], &known);
        let covered = run.covered_parts(&fabric);
        assert!(known.iter().all(|part| !covered.contains(fabric.part_number(*part))));
        assert!(!run.hosts().contains(&2) && run.rails() == [0, 1]);
    }
}
