//! The model of a fabric: hosts with one adapter per rail, cables, leaf switches, spine switches and the cables between
//! switches. It knows which parts a flow between two hosts passes.
//!
//! Traffic stays within a rail. Between two leaves it passes one spine, which the destination determines, as the
//! routing of InfiniBand does (`D-mod-K`: the destination's number modulo the number of spines).

/// The number of a host in its fabric.
pub type HostIndex = usize;

/// One part that can be bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FabricPart {
    /// The machine: everything that its adapters share.
    Host(HostIndex),
    /// The adapter of a host in a rail.
    Adapter(HostIndex, usize),
    /// The cable between that adapter and its leaf, with both of its ends.
    HostCable(HostIndex, usize),
    /// A leaf switch.
    Leaf(usize),
    /// A spine switch.
    Spine(usize),
    /// The cable between a leaf and a spine.
    SwitchCable(usize, usize),
    /// What all leaves of a rail share: their configuration.
    Rail(usize),
}

/// Traffic from one host to another in one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailFlow {
    /// The sender.
    pub from: HostIndex,
    /// The receiver.
    pub to: HostIndex,
    /// The rail of both adapters.
    pub rail: usize,
}

/// How hosts, rails and switches are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricModel {
    hosts: usize,
    rails: usize,
    leaves: usize,
    spines: usize,
    /// By host, then by rail.
    leaf_of: Vec<Vec<usize>>,
    /// By host: the spine that traffic to it passes.
    spine_of: Vec<usize>,
    /// Whether an adapter can be tested with itself, which passes no cable.
    loopback: bool,
    /// By leaf: the rail that is accused in its place, because all hosts of that rail, and no other adapters, are on it.
    joined_rail: Vec<Option<usize>>,
    /// Whether a measurement of two hosts has traffic in both directions.
    both_directions: bool,
    /// Whether the spine of a host is assumed: then a route may be slow that another destination does not use.
    uncertain_routes: bool,
}

impl FabricModel {
    /// Returns a fabric of hosts with the leaf of each of their rails, and a number of spines.
    ///
    /// # Errors
    /// An error message if the hosts have different numbers of rails, or none.
    pub fn new(leaf_of: Vec<Vec<usize>>, spines: usize) -> Result<Self, String> {
        let rails = leaf_of.first().map_or(0, Vec::len);
        if rails == 0 {
            return Err("a fabric needs a host with a rail".to_owned());
        }
        if let Some(host) = leaf_of.iter().position(|leaves| leaves.len() != rails) {
            return Err(format!("host {host} has {} rails; the first host has {rails}", leaf_of[host].len()));
        }
        let leaves = leaf_of.iter().flatten().max().map_or(0, |leaf| leaf + 1);
        let mut in_leaf = vec![0; leaves];
        let spine_of = leaf_of
            .iter()
            .map(|of_host| {
                let position = in_leaf[of_host[0]];
                in_leaf[of_host[0]] += 1;
                if spines == 0 { 0 } else { position % spines }
            })
            .collect();
        Ok(Self {
            hosts: leaf_of.len(),
            rails,
            leaves,
            spines,
            joined_rail: join_rails(&leaf_of, leaves),
            leaf_of,
            spine_of,
            loopback: true,
            both_directions: false,
            uncertain_routes: false,
        })
    }

    /// Returns a fabric whose switches are not known: one switch per rail.
    ///
    /// # Errors
    /// As [`FabricModel::new`].
    pub fn without_topology(hosts: usize, rails: usize) -> Result<Self, String> {
        Self::new(vec![(0..rails).collect(); hosts], 0)
    }

    /// Returns a rail-optimised fabric of two tiers: units of `unit` hosts have one leaf per rail.
    ///
    /// # Errors
    /// As [`FabricModel::new`].
    pub fn two_tiers(hosts: usize, rails: usize, unit: usize, spines: usize) -> Result<Self, String> {
        let leaves = |host: usize| (0..rails).map(|rail| host / unit.max(1) * rails + rail).collect();
        Self::new((0..hosts).map(leaves).collect(), spines)
    }

    /// Returns the same fabric for a test that cannot run in loopback: an adapter and its cable are then one suspect.
    #[must_use]
    pub fn without_loopback(self) -> Self {
        Self { loopback: false, ..self }
    }

    /// Returns the same fabric with the spine that traffic to each host passes.
    #[must_use]
    pub fn with_spines_of(self, spine_of: Vec<usize>) -> Self {
        Self { spine_of, ..self }
    }

    /// Returns the same fabric for measurements that have traffic in both directions.
    #[must_use]
    pub fn in_both_directions(self) -> Self {
        Self { both_directions: true, ..self }
    }

    /// Returns the same fabric with assumed routes: a host is then named only if it is also slow within its leaf.
    #[must_use]
    pub fn with_uncertain_routes(self) -> Self {
        Self { uncertain_routes: true, ..self }
    }

    /// Returns whether the routes between leaves are assumed.
    pub fn has_uncertain_routes(&self) -> bool {
        self.uncertain_routes
    }

    /// Returns whether a flow stays within a leaf.
    pub fn is_local(&self, flow: RailFlow) -> bool {
        self.leaf_of(flow.from, flow.rail) == self.leaf_of(flow.to, flow.rail)
    }

    /// Returns whether an adapter can be tested with itself.
    pub fn has_loopback(&self) -> bool {
        self.loopback
    }

    /// Returns the number of hosts.
    pub fn host_count(&self) -> usize {
        self.hosts
    }

    /// Returns the number of rails.
    pub fn rail_count(&self) -> usize {
        self.rails
    }

    /// Returns the leaf of a host in a rail.
    pub fn leaf_of(&self, host: HostIndex, rail: usize) -> usize {
        self.leaf_of[host][rail]
    }

    /// Returns the spine that traffic to a host passes; `None` without spines.
    pub fn spine_of(&self, host: HostIndex) -> Option<usize> {
        (self.spines > 0).then(|| self.spine_of[host])
    }

    /// Returns the rail of a leaf: that of the first adapter in it.
    pub fn rail_of_leaf(&self, leaf: usize) -> Option<usize> {
        self.leaf_of.iter().find_map(|leaves| leaves.iter().position(|of| *of == leaf))
    }

    /// Returns the leaf of a rail that has only one, if no other rail uses it.
    pub fn leaf_of_rail(&self, rail: usize) -> Option<usize> {
        self.joined_rail.iter().position(|joined| *joined == Some(rail))
    }

    /// Returns the hosts with an adapter in a leaf.
    pub fn hosts_in_leaf(&self, leaf: usize, rail: usize) -> impl Iterator<Item = HostIndex> + '_ {
        (0..self.hosts).filter(move |host| self.leaf_of[*host][rail] == leaf)
    }

    /// Returns the number of parts.
    pub fn part_count(&self) -> usize {
        self.start_of_rails() + self.rails
    }

    fn start_of_leaves(&self) -> usize {
        self.hosts + 2 * self.hosts * self.rails
    }

    fn start_of_switch_cables(&self) -> usize {
        self.start_of_leaves() + self.leaves + self.spines
    }

    fn start_of_rails(&self) -> usize {
        self.start_of_switch_cables() + self.leaves * self.spines
    }

    /// Returns the number of a part.
    pub fn part_number(&self, part: FabricPart) -> usize {
        match part {
            FabricPart::Host(host) => host,
            FabricPart::Adapter(host, rail) => self.hosts + host * self.rails + rail,
            FabricPart::HostCable(host, rail) => self.hosts * (1 + self.rails) + host * self.rails + rail,
            FabricPart::Leaf(leaf) => self.start_of_leaves() + leaf,
            FabricPart::Spine(spine) => self.start_of_leaves() + self.leaves + spine,
            FabricPart::SwitchCable(leaf, spine) => self.start_of_switch_cables() + leaf * self.spines + spine,
            FabricPart::Rail(rail) => self.start_of_rails() + rail,
        }
    }

    /// Returns the part with that number.
    pub fn part_at(&self, number: usize) -> FabricPart {
        let in_rails = |at: usize| (at / self.rails, at % self.rails);
        let leaves = self.start_of_leaves();
        if number < self.hosts {
            FabricPart::Host(number)
        } else if number < self.hosts * (1 + self.rails) {
            let (host, rail) = in_rails(number - self.hosts);
            FabricPart::Adapter(host, rail)
        } else if number < leaves {
            let (host, rail) = in_rails(number - self.hosts * (1 + self.rails));
            FabricPart::HostCable(host, rail)
        } else if number < leaves + self.leaves {
            FabricPart::Leaf(number - leaves)
        } else if number < self.start_of_switch_cables() {
            FabricPart::Spine(number - leaves - self.leaves)
        } else if number < self.start_of_rails() {
            let at = number - self.start_of_switch_cables();
            FabricPart::SwitchCable(at / self.spines, at % self.spines)
        } else {
            FabricPart::Rail(number - self.start_of_rails())
        }
    }

    /// Returns the part that is accused in place of `part`, if every test that passes one of them passes the other too:
    /// the host, if it has only one adapter; the adapter for its cable, without loopback; the rail, if it is one switch.
    pub fn joined_part(&self, part: FabricPart) -> FabricPart {
        match part {
            FabricPart::HostCable(host, rail) if !self.loopback => self.joined_part(FabricPart::Adapter(host, rail)),
            FabricPart::Adapter(host, _) if self.rails == 1 => FabricPart::Host(host),
            FabricPart::Leaf(leaf) => self.joined_rail[leaf].map_or(part, FabricPart::Rail),
            _ => part,
        }
    }

    /// Returns every part that cannot be distinguished from `part`, `part` included.
    pub fn parts_joined_with(&self, part: FabricPart) -> Vec<FabricPart> {
        let same = |other: &FabricPart| self.joined_part(*other) == part;
        (0..self.part_count()).map(|number| self.part_at(number)).filter(same).collect()
    }

    /// Calls `visit` with the number of every part that a flow passes, each once: parts that come twice would weigh more
    /// than others in the choice of runs. Only joined parts come several times.
    pub fn visit_flow(&self, flow: RailFlow, mut visit: impl FnMut(usize)) {
        let mut add = |part| visit(self.part_number(self.joined_part(part)));
        let leaves = [flow.from, flow.to].map(|host| self.leaf_of(host, flow.rail));
        for host in [flow.from, flow.to] {
            add(FabricPart::Host(host));
            add(FabricPart::Adapter(host, flow.rail));
            add(FabricPart::HostCable(host, flow.rail));
        }
        add(FabricPart::Leaf(leaves[0]));
        add(FabricPart::Rail(flow.rail));
        if leaves[0] == leaves[1] {
            return;
        }
        add(FabricPart::Leaf(leaves[1]));
        let forth = self.spine_of(flow.to);
        let back = self.spine_of(flow.from).filter(|back| self.both_directions && forth != Some(*back));
        for spine in forth.into_iter().chain(back) {
            add(FabricPart::Spine(spine));
            leaves.into_iter().for_each(|leaf| add(FabricPart::SwitchCable(leaf, spine)));
        }
    }

    /// Calls `visit` with the number of every part that a test of an adapter with itself passes: neither its cable nor
    /// a switch.
    pub fn visit_loopback(&self, host: HostIndex, rail: usize, mut visit: impl FnMut(usize)) {
        let parts = [FabricPart::Host(host), FabricPart::Adapter(host, rail)];
        parts.into_iter().for_each(|part| visit(self.part_number(self.joined_part(part))));
    }
}

/// Returns for each leaf the rail whose hosts are all on it, if no adapter of another rail is.
fn join_rails(leaf_of: &[Vec<usize>], leaves: usize) -> Vec<Option<usize>> {
    let mut users: Vec<Vec<(usize, usize)>> = vec![Vec::new(); leaves];
    for (host, own) in leaf_of.iter().enumerate() {
        own.iter().enumerate().for_each(|(rail, leaf)| users[*leaf].push((host, rail)));
    }
    let join = |users: &Vec<(usize, usize)>| {
        let rail = users.first()?.1;
        (users.len() == leaf_of.len() && users.iter().all(|(_, other)| *other == rail)).then_some(rail)
    };
    users.iter().map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::super::part_set::PartSet;
    use super::*;

    #[test]
    fn every_part_has_one_number() {
        let fabric = FabricModel::two_tiers(10, 3, 4, 2).unwrap();
        let parts: Vec<FabricPart> = (0..fabric.part_count()).map(|number| fabric.part_at(number)).collect();
        assert_eq!(parts.len(), 10 + 30 + 30 + 9 + 2 + 18 + 3);
        for (number, part) in parts.iter().enumerate() {
            assert_eq!(fabric.part_number(*part), number, "{part:?}");
        }
    }

    #[test]
    fn flow_between_leaves_passes_the_spine_of_its_destination() {
        let fabric = FabricModel::two_tiers(8, 2, 4, 2).unwrap();
        let parts = |from, to| {
            let mut covered = PartSet::default();
            fabric.visit_flow(RailFlow { from, to, rail: 1 }, |part| covered.insert(part));
            covered.iter().map(|number| fabric.part_at(number)).skip(6).collect::<Vec<_>>()
        };
        assert_eq!(parts(0, 1), [FabricPart::Leaf(1), FabricPart::Rail(1)]);
        let across = [
            FabricPart::Leaf(1),
            FabricPart::Leaf(3),
            FabricPart::Spine(1),
            FabricPart::SwitchCable(1, 1),
            FabricPart::SwitchCable(3, 1),
            FabricPart::Rail(1),
        ];
        assert_eq!(parts(0, 5), across);
    }

    #[test]
    fn parts_that_no_test_separates_are_one_suspect() {
        let plain = FabricModel::without_topology(3, 1).unwrap().without_loopback();
        let joined = plain.parts_joined_with(FabricPart::Host(1));
        assert_eq!(joined, [FabricPart::Host(1), FabricPart::Adapter(1, 0), FabricPart::HostCable(1, 0)]);
        assert_eq!(plain.parts_joined_with(FabricPart::Rail(0)), [FabricPart::Leaf(0), FabricPart::Rail(0)]);
        let railed = FabricModel::two_tiers(8, 2, 4, 2).unwrap();
        assert_eq!(railed.parts_joined_with(FabricPart::Adapter(1, 0)), [FabricPart::Adapter(1, 0)]);
        let cabled = railed.without_loopback().parts_joined_with(FabricPart::Adapter(1, 0));
        assert_eq!(cabled, [FabricPart::Adapter(1, 0), FabricPart::HostCable(1, 0)]);
    }

    #[test]
    fn leaf_is_joined_with_a_rail_only_if_nothing_else_is_on_it() {
        let one_switch = FabricModel::new(vec![vec![0, 0]; 4], 0).unwrap();
        assert_eq!(one_switch.joined_part(FabricPart::Leaf(0)), FabricPart::Leaf(0), "it carries both rails");
        let by_rack = FabricModel::new(vec![vec![0, 0], vec![0, 0], vec![1, 1], vec![1, 1]], 1).unwrap();
        assert_eq!(by_rack.joined_part(FabricPart::Leaf(1)), FabricPart::Leaf(1));
    }

    #[test]
    fn measurement_in_both_directions_passes_the_spines_of_both_hosts() {
        let fabric = FabricModel::two_tiers(8, 1, 4, 4).unwrap().in_both_directions();
        let mut covered = PartSet::default();
        fabric.visit_flow(RailFlow { from: 1, to: 6, rail: 0 }, |part| covered.insert(part));
        let is_spine = |part: &FabricPart| matches!(part, FabricPart::Spine(_));
        let spines: Vec<FabricPart> = covered.iter().map(|number| fabric.part_at(number)).filter(is_spine).collect();
        assert_eq!(spines, [FabricPart::Spine(1), FabricPart::Spine(2)]);
    }

    #[test]
    fn hosts_need_the_same_rails() {
        assert_eq!(FabricModel::new(Vec::new(), 0).unwrap_err(), "a fabric needs a host with a rail");
        let odd = FabricModel::new(vec![vec![0, 1], vec![0]], 0);
        assert_eq!(odd.unwrap_err(), "host 1 has 1 rails; the first host has 2");
    }
}
