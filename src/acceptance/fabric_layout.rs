//! Where hosts are in the fabric: the leaf of each adapter, and the spines.

use super::fabric::FabricModel;
use crate::model::HostName;
use std::collections::{BTreeMap, BTreeSet};

/// The leaves and spines of a fabric, with the adapters that are connected to each leaf.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FabricLayout {
    /// Names of leaves.
    leaves: Vec<String>,
    /// Names of spines. Empty if how leaves are connected is not declared.
    spines: Vec<String>,
    places: BTreeMap<HostName, Vec<AdapterPlace>>,
    /// The number of adapters by leaf and rail.
    counts: BTreeMap<(usize, Option<String>), usize>,
}

/// Where an adapter is connected.
#[derive(Clone, Debug, PartialEq)]
struct AdapterPlace {
    /// `None` for every adapter of the host.
    rail: Option<String>,
    /// The number of the leaf.
    leaf: usize,
    /// How many adapters of this rail were connected to the leaf before.
    position: usize,
}

/// A fabric of the tested hosts with the names of its switches.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedFabric {
    /// Hosts and rails have the numbers of the caller's lists.
    pub model: FabricModel,
    /// Names of leaves by their number in the model.
    pub leaves: Vec<String>,
    /// Names of spines. Empty if the model's only spine is a substitute for switches that are not declared.
    pub spines: Vec<String>,
}

impl FabricLayout {
    /// Adds a leaf and returns its number.
    pub fn add_leaf(&mut self, name: &str) -> usize {
        self.leaves.push(name.to_owned());
        self.leaves.len() - 1
    }

    /// Sets the names of the spines. Traffic to the hosts of a leaf passes them in turn.
    pub fn set_spines(&mut self, names: Vec<String>) {
        self.spines = names;
    }

    /// Connects an adapter of a host, or all of them, to a leaf.
    ///
    /// # Errors
    /// The number of the leaf that the adapter is connected to already.
    pub fn place_adapter(&mut self, host: &HostName, rail: Option<&str>, leaf: usize) -> Result<(), usize> {
        let mut places = self.find_places(host, rail).into_iter().peekable();
        if places.peek().is_some() {
            return places.find(|place| place.leaf != leaf).map_or(Ok(()), |other| Err(other.leaf));
        }
        let rail = rail.map(str::to_owned);
        let count = self.counts.entry((leaf, rail.clone())).or_default();
        let place = AdapterPlace { rail, leaf, position: *count };
        *count += 1;
        self.places.entry(host.clone()).or_default().push(place);
        Ok(())
    }

    /// Returns whether no leaf is known.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Returns whether any adapter of a host has a place.
    pub fn has_host(&self, host: &HostName) -> bool {
        self.places.contains_key(host)
    }

    /// Returns the place of an adapter; without a rail, the places of all adapters of the host.
    fn find_places(&self, host: &HostName, rail: Option<&str>) -> Vec<&AdapterPlace> {
        let is_of_rail =
            |place: &&AdapterPlace| rail.is_none() || place.rail.is_none() || place.rail.as_deref() == rail;
        self.places.get(host).into_iter().flatten().filter(is_of_rail).collect()
    }

    /// Returns the name of the leaf of an adapter. Without a rail, a host has one place: all of its leaves together.
    pub fn name_leaf(&self, host: &HostName, rail: Option<&str>) -> Option<String> {
        let leaves: BTreeSet<usize> = self.find_places(host, rail).into_iter().map(|place| place.leaf).collect();
        let names: Vec<&str> = leaves.into_iter().map(|leaf| self.leaves[leaf].as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Returns for each host the number of its leaf in a rail. Hosts with the same number share a leaf.
    ///
    /// # Errors
    /// The first host whose adapter has no place.
    pub fn number_leaves<'h>(&self, hosts: &[&'h HostName], rail: Option<&str>) -> Result<Vec<usize>, &'h HostName> {
        let mut names = Vec::new();
        hosts.iter().map(|host| Ok(number_name(&mut names, self.name_leaf(host, rail).ok_or(*host)?))).collect()
    }

    /// Returns the fabric of some hosts and rails; `None` if an adapter has no place.
    pub fn build_model(&self, hosts: &[HostName], rails: &[Option<String>]) -> Option<PlacedFabric> {
        let mut leaves = Vec::new();
        let mut leaf_of = Vec::with_capacity(hosts.len());
        for host in hosts {
            let names = rails.iter().map(|rail| self.name_leaf(host, rail.as_deref()));
            let numbers = names.map(|name| Some(number_name(&mut leaves, name?)));
            leaf_of.push(numbers.collect::<Option<Vec<usize>>>()?);
        }
        let is_split = (0..rails.len()).any(|rail| leaf_of.iter().any(|own| own[rail] != leaf_of[0][rail]));
        let spines = if is_split { self.spines.len().max(1) } else { 0 };
        let first_rail = rails.first().and_then(Option::as_deref);
        let spine_of = |host: &HostName| self.find_places(host, first_rail).first().map_or(0, |place| place.position);
        let model = FabricModel::new(leaf_of, spines).ok()?;
        let model = model.with_spines_of(hosts.iter().map(|host| spine_of(host) % spines.max(1)).collect());
        let model = model.without_loopback().in_both_directions().with_uncertain_routes();
        Some(PlacedFabric { model, leaves, spines: self.spines.clone() })
    }
}

fn number_name(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

impl PlacedFabric {
    /// Returns a fabric whose switches are not known.
    ///
    /// # Errors
    /// As [`FabricModel::new`].
    pub fn without_topology(hosts: usize, rails: usize) -> Result<Self, String> {
        let model = FabricModel::without_topology(hosts, rails)?.without_loopback();
        Ok(Self { model, leaves: Vec::new(), spines: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fabric::{FabricPart, RailFlow};
    use super::super::group_run::GroupRun;
    use super::super::isolation::{FaultIsolation, FinishedRun, IsolationReport, RunSpeed};
    use super::super::schedule::schedule_ring;
    use super::super::simulation::{SeededNumbers, SimulatedFabric};
    use super::*;

    fn list_hosts(count: usize) -> Vec<HostName> {
        (0..count).map(|at| HostName::new(format!("h{at:02}"))).collect()
    }

    /// Returns a fabric of four hosts per leaf.
    fn build_layout(hosts: &[HostName], spines: &[&str]) -> FabricLayout {
        let mut layout = FabricLayout::default();
        for unit in hosts.chunks(4) {
            let leaf = layout.add_leaf(&format!("leaf-{}", layout.leaves.len()));
            unit.iter().for_each(|host| layout.place_adapter(host, None, leaf).unwrap());
        }
        layout.set_spines(spines.iter().map(|name| (*name).to_owned()).collect());
        layout
    }

    /// Measures the ring, and what the search asks for, as `forge test` does.
    fn isolate(model: &FabricModel, mut measure: impl FnMut(&GroupRun) -> RunSpeed) -> IsolationReport {
        let flow = |(from, to)| GroupRun::single(RailFlow { from, to, rail: 0 });
        let ring = schedule_ring(model.host_count()).concat().into_iter().map(flow);
        let runs = ring.map(|run| FinishedRun { speed: measure(&run), run }).collect();
        let mut search = FaultIsolation::from_runs(model, runs, 20);
        while let Some(run) = search.next_run() {
            let speed = measure(&run);
            search.record_run(run, speed);
        }
        search.finish()
    }

    fn isolate_fault(placed: &PlacedFabric, fault: FabricPart) -> Vec<FabricPart> {
        let numbers = SeededNumbers::new(7);
        let faults = vec![(fault, 0.4)];
        let mut simulated = SimulatedFabric { fabric: &placed.model, faults, jitter: 0.05, disturbed: 0.0, numbers };
        let report = isolate(&placed.model, |run| simulated.measure(run));
        report.named.into_iter().map(|named| named.part).collect()
    }

    #[test]
    fn bad_leaf_uplinks_and_host_are_named() {
        let hosts = list_hosts(16);
        let placed = build_layout(&hosts, &[]).build_model(&hosts, &[None]).unwrap();
        assert_eq!(placed.leaves, ["leaf-0", "leaf-1", "leaf-2", "leaf-3"]);
        for leaf in 0..4 {
            assert_eq!(isolate_fault(&placed, FabricPart::Leaf(leaf)), [FabricPart::Leaf(leaf)]);
            let cables = FabricPart::SwitchCable(leaf, 0);
            assert_eq!(isolate_fault(&placed, cables), [cables]);
        }
        for host in 0..16 {
            assert_eq!(isolate_fault(&placed, FabricPart::Host(host)), [FabricPart::Host(host)]);
        }
        assert_eq!(isolate_fault(&placed, FabricPart::Spine(0)), [FabricPart::Spine(0)]);
    }

    #[test]
    fn leaf_of_two_hosts_is_named() {
        let hosts = list_hosts(5);
        let mut layout = FabricLayout::default();
        for (name, own) in [("a", &hosts[..2]), ("b", &hosts[2..4]), ("c", &hosts[4..])] {
            let leaf = layout.add_leaf(name);
            own.iter().for_each(|host| layout.place_adapter(host, None, leaf).unwrap());
        }
        let placed = layout.build_model(&hosts, &[None]).unwrap();
        for fault in [FabricPart::Leaf(1), FabricPart::SwitchCable(1, 0), FabricPart::Host(2)] {
            assert_eq!(isolate_fault(&placed, fault), [fault]);
        }
        assert_eq!(isolate_fault(&placed, FabricPart::Host(4)), [], "alone in its leaf, which may be bad instead");
    }

    #[test]
    fn cable_to_a_declared_spine_is_named() {
        let hosts = list_hosts(16);
        let placed = build_layout(&hosts, &["s1", "s2"]).build_model(&hosts, &[None]).unwrap();
        for cable in [FabricPart::SwitchCable(2, 1), FabricPart::SwitchCable(0, 0)] {
            assert_eq!(isolate_fault(&placed, cable), [cable]);
        }
    }

    /// A cable that only traffic to one host passes, because routes are not those that forge assumes.
    #[test]
    fn slow_route_does_not_accuse_its_host() {
        let hosts = list_hosts(16);
        for spines in [&[][..], &["s1", "s2"]] {
            let placed = build_layout(&hosts, spines).build_model(&hosts, &[None]).unwrap();
            for slow in 0..16 {
                let is_slow = |flow: &RailFlow| !placed.model.is_local(*flow) && [flow.from, flow.to].contains(&slow);
                let report = isolate(&placed.model, |run| match run.flows.iter().any(is_slow) {
                    true => RunSpeed::Slow(0.4),
                    false => RunSpeed::Fast(1.0),
                });
                let accused = report.named.iter().any(|named| named.part == FabricPart::Host(slow));
                assert!(!accused, "{slow}: {:?}", report.named);
            }
        }
    }

    #[test]
    fn tested_hosts_keep_their_places() {
        let hosts = list_hosts(8);
        let layout = build_layout(&hosts, &["s1", "s2"]);
        let some = [hosts[1].clone(), hosts[4].clone(), hosts[7].clone()];
        let placed = layout.build_model(&some, &[None]).unwrap();
        let spines: Vec<_> = (0..3).map(|host| placed.model.spine_of(host)).collect();
        assert_eq!(spines, [Some(1), Some(0), Some(1)], "by their places in the leaves, not among the tested hosts");
        assert_eq!(layout.number_leaves(&some.iter().collect::<Vec<_>>(), None), Ok(vec![0, 1, 1]));
        let other = HostName::new("x");
        assert_eq!(layout.build_model(&[hosts[0].clone(), other.clone()], &[None]), None);
        assert_eq!(layout.number_leaves(&[&hosts[0], &other], None), Err(&other));
    }

    #[test]
    fn host_in_one_leaf_per_rail_shares_leaves_as_a_whole() {
        let hosts = list_hosts(4);
        let mut layout = FabricLayout::default();
        for (unit, hosts) in hosts.chunks(2).enumerate() {
            for rail in ["mlx5_0", "mlx5_1"] {
                let leaf = layout.add_leaf(&format!("{unit}-{rail}"));
                hosts.iter().for_each(|host| layout.place_adapter(host, Some(rail), leaf).unwrap());
            }
        }
        let all: Vec<&HostName> = hosts.iter().collect();
        assert_eq!(layout.number_leaves(&all, None), Ok(vec![0, 0, 1, 1]));
        let rails = [Some("mlx5_0".to_owned()), Some("mlx5_1".to_owned())];
        let placed = layout.build_model(&hosts, &rails).unwrap();
        assert_eq!(placed.leaves, ["0-mlx5_0", "0-mlx5_1", "1-mlx5_0", "1-mlx5_1"]);
        assert_eq!(layout.place_adapter(&hosts[0], Some("mlx5_0"), 3), Err(0));
        assert_eq!(layout.place_adapter(&hosts[0], None, 0), Err(1), "its other adapter is on another leaf");
    }
}
