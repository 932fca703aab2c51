//! Chooses the run that separates the suspects of a slow run best.

use super::fabric::{FabricModel, FabricPart, HostIndex, RailFlow};
use super::group_run::GroupRun;
use super::part_set::PartSet;

/// The least use of a run: below it, the run separates nothing.
const LEAST_USE: f64 = 0.005;
/// What each part costs that is not cleared and not among the suspects: the run may be slow because of it.
const UNCLEARED_COST: f64 = 0.000_3;
/// What each flow costs: among equally useful runs, the smallest is taken.
const FLOW_COST: f64 = 0.000_01;
/// How many suspects of each sort get runs of their own.
const PROBED_SUSPECTS: usize = 6;
/// For more suspects of one sort than that, only the best other end of a flow is considered.
const MANY_SUSPECTS: usize = 72;
/// In how many rails a spine is probed.
const PROBED_RAILS: usize = 3;
/// How many hosts are considered as the other end of a flow.
const PARTNERS: usize = 4;

/// How likely each part is to be bad, relative to the others.
#[derive(Clone, Debug)]
pub struct SuspectWeights {
    /// By the number of the part; 0 for a part that is cleared.
    weights: Vec<f64>,
    /// Every part with a weight.
    open: PartSet,
    known: Vec<usize>,
    /// By rail: its hosts, the least suspicious first.
    ranked_hosts: Vec<Vec<HostIndex>>,
}

impl SuspectWeights {
    /// Returns weights by the numbers of the parts, and the parts that are known to be bad: no run may pass them.
    pub fn new(fabric: &FabricModel, weights: Vec<f64>, known: Vec<usize>) -> Self {
        let mut open = PartSet::with_capacity(weights.len());
        weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0).for_each(|(part, _)| open.insert(part));
        let mut ranked = Self { weights, open, known, ranked_hosts: Vec::new() };
        ranked.ranked_hosts = (0..fabric.rail_count()).map(|rail| ranked.rank_hosts(fabric, rail)).collect();
        ranked
    }

    fn rank_hosts(&self, fabric: &FabricModel, rail: usize) -> Vec<HostIndex> {
        let mut hosts: Vec<(f64, HostIndex)> = (0..fabric.host_count())
            .map(|host| (self.weigh_end(fabric, host, rail), host))
            .filter(|(weight, _)| weight.is_finite())
            .collect();
        hosts.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        hosts.into_iter().map(|(_, host)| host).collect()
    }

    /// Returns the weight of what a flow of the host passes up to its leaf; infinite with a part known to be bad.
    fn weigh_end(&self, fabric: &FabricModel, host: HostIndex, rail: usize) -> f64 {
        let parts = [
            FabricPart::Host(host),
            FabricPart::Adapter(host, rail),
            FabricPart::HostCable(host, rail),
            FabricPart::Leaf(fabric.leaf_of(host, rail)),
        ];
        let numbers = parts.map(|part| fabric.part_number(fabric.joined_part(part)));
        match numbers.iter().any(|number| self.is_known(*number)) {
            true => f64::INFINITY,
            false => numbers.iter().map(|number| self.of(*number)).sum(),
        }
    }

    /// Returns the weight of a part.
    pub fn of(&self, part: usize) -> f64 {
        self.weights[part]
    }

    /// Returns the rails whose best host is least suspicious.
    fn best_rails(&self, fabric: &FabricModel) -> Vec<usize> {
        let best = |rail: &usize| self.ranked_hosts[*rail].first().map(|host| self.weigh_end(fabric, *host, *rail));
        let mut rails: Vec<(f64, usize)> =
            (0..self.ranked_hosts.len()).filter_map(|rail| Some((best(&rail)?, rail))).collect();
        rails.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        rails.into_iter().map(|(_, rail)| rail).take(PROBED_RAILS).collect()
    }

    fn is_known(&self, part: usize) -> bool {
        self.known.contains(&part)
    }
}

/// Returns the run whose result tells most about the suspects of `target`; `None` if no run separates them.
pub fn choose_run(
    fabric: &FabricModel,
    target: &GroupRun,
    suspects: &PartSet,
    weights: &SuspectWeights,
) -> Option<GroupRun> {
    let total: f64 = suspects.iter().map(|part| weights.of(part)).sum();
    let rated = candidate_runs(fabric, target, suspects, weights).into_iter().filter_map(|run| {
        let covered = run.covered_parts(fabric);
        if weights.known.iter().any(|part| covered.contains(*part)) {
            return None;
        }
        let share: f64 = suspects.iter().filter(|part| covered.contains(*part)).map(|part| weights.of(part)).sum();
        let share = share / total;
        let outside = covered.without(suspects).count_common(&weights.open);
        let use_of_run = share * (1.0 - share);
        let costs = outside as f64 * UNCLEARED_COST + run.flows.len() as f64 * FLOW_COST;
        (use_of_run >= LEAST_USE).then_some((use_of_run - costs, run))
    });
    rated.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, run)| run)
}

/// Returns the smallest run that passes `part`, none of `avoid` if there is such a run, and otherwise the least suspicious
/// parts; `None` if every run passes a part that is known to be bad.
pub fn narrow_run(
    fabric: &FabricModel,
    part: FabricPart,
    weights: &SuspectWeights,
    avoid: &PartSet,
) -> Option<GroupRun> {
    if let (FabricPart::Adapter(host, rail), true) = (part, fabric.has_loopback()) {
        return Some(GroupRun::loopback(host, [rail]));
    }
    let runs: Vec<GroupRun> =
        probing_flows(fabric, part, weights, PARTNERS).into_iter().map(GroupRun::single).collect();
    let free = runs.iter().find(|run| run.is_free_of(fabric, avoid));
    free.or(runs.first()).cloned()
}

/// Returns the smallest run that passes a host, its adapter or its cable and stays within its leaf; `None` for other
/// parts, and if no other host of the leaf can be measured.
pub fn local_run(fabric: &FabricModel, part: FabricPart, weights: &SuspectWeights) -> Option<GroupRun> {
    let is_of_host = matches!(part, FabricPart::Host(_) | FabricPart::Adapter(..) | FabricPart::HostCable(..));
    let flows = if is_of_host { probing_flows(fabric, part, weights, PARTNERS) } else { Vec::new() };
    flows.into_iter().find(|flow| fabric.is_local(*flow)).map(GroupRun::single)
}

fn candidate_runs(
    fabric: &FabricModel,
    target: &GroupRun,
    suspects: &PartSet,
    weights: &SuspectWeights,
) -> Vec<GroupRun> {
    let mut runs = halves_of(target);
    let mut ranked: Vec<usize> = suspects.iter().collect();
    ranked.sort_by(|one, other| weights.of(*other).total_cmp(&weights.of(*one)).then(one.cmp(other)));
    let heaviest = ranked.first().map_or(0.0, |part| weights.of(*part));
    ranked.retain(|part| weights.of(*part) >= heaviest * 0.01);
    for sort in 0..7 {
        let of_sort: Vec<FabricPart> =
            ranked.iter().map(|part| fabric.part_at(*part)).filter(|part| sort_of(*part) == sort).collect();
        runs.extend(probe_halves(fabric, &of_sort, weights));
        for part in of_sort.iter().take(PROBED_SUSPECTS) {
            runs.extend(probing_flows(fabric, *part, weights, PARTNERS).into_iter().take(3).map(GroupRun::single));
            runs.extend(runs_of_host(fabric, *part, weights));
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn sort_of(part: FabricPart) -> usize {
    match part {
        FabricPart::Host(_) => 0,
        FabricPart::Adapter(..) => 1,
        FabricPart::HostCable(..) => 2,
        FabricPart::Leaf(_) => 3,
        FabricPart::Spine(_) => 4,
        FabricPart::SwitchCable(..) => 5,
        FabricPart::Rail(_) => 6,
    }
}

/// Returns parts of the run: half of its senders, half of its rails, its flows, its loopbacks.
fn halves_of(target: &GroupRun) -> Vec<GroupRun> {
    let hosts: Vec<HostIndex> = in_order_of_flows(target);
    let rails = target.rails();
    let (first_hosts, second_hosts) = hosts.split_at(hosts.len() / 2);
    let (first_rails, second_rails) = rails.split_at(rails.len() / 2);
    let halves = [(first_hosts, &rails[..]), (second_hosts, &rails), (&hosts, first_rails), (&hosts, second_rails)];
    let mut runs: Vec<GroupRun> = halves
        .into_iter()
        .map(|(hosts, rails)| {
            let mut run = target.clone();
            run.flows.retain(|flow| hosts.contains(&flow.from) && rails.contains(&flow.rail));
            run.loopbacks.retain(|(host, rail)| hosts.contains(host) && rails.contains(rail));
            run
        })
        .collect();
    runs.push(GroupRun { flows: target.flows.clone(), loopbacks: Vec::new() });
    runs.push(GroupRun { flows: Vec::new(), loopbacks: target.loopbacks.clone() });
    runs
}

fn in_order_of_flows(target: &GroupRun) -> Vec<HostIndex> {
    let senders = target.flows.iter().map(|flow| flow.from).chain(target.loopbacks.iter().map(|(host, _)| *host));
    let mut met = PartSet::default();
    senders
        .filter(|host| {
            let is_new = !met.contains(*host);
            met.insert(*host);
            is_new
        })
        .collect()
}

/// Returns a run that passes half of the parts, each in its least suspicious flow.
fn probe_halves(fabric: &FabricModel, parts: &[FabricPart], weights: &SuspectWeights) -> Vec<GroupRun> {
    if parts.len() < 2 {
        return Vec::new();
    }
    let partners = if parts.len() > MANY_SUSPECTS { 1 } else { PARTNERS };
    let (first, second) = parts.split_at(parts.len() / 2);
    [first, second]
        .into_iter()
        .map(|half| {
            let mut run = GroupRun::default();
            for part in half {
                match (part, fabric.has_loopback()) {
                    (FabricPart::Adapter(host, rail), true) => run.loopbacks.push((*host, *rail)),
                    _ => run.flows.extend(probing_flows(fabric, *part, weights, partners).first()),
                }
            }
            run
        })
        .collect()
}

/// Returns runs that separate a host from its adapters and cables.
fn runs_of_host(fabric: &FabricModel, part: FabricPart, weights: &SuspectWeights) -> Vec<GroupRun> {
    let (host, rail) = match part {
        FabricPart::Host(host) => (host, None),
        FabricPart::Adapter(host, rail) | FabricPart::HostCable(host, rail) => (host, Some(rail)),
        _ => return Vec::new(),
    };
    let others: Vec<usize> = (0..fabric.rail_count()).filter(|other| rail != Some(*other)).collect();
    let (first, second) = others.split_at(others.len() / 2);
    let mut runs = Vec::new();
    for rails in [first, second, &others] {
        let cheapest =
            |rail: &usize| cheapest_flows(fabric, flows_of_host(fabric, host, *rail, weights, PARTNERS), weights);
        let flows = rails.iter().filter_map(|rail| cheapest(rail).into_iter().next()).collect();
        runs.push(GroupRun { flows, loopbacks: Vec::new() });
        if fabric.has_loopback() {
            runs.push(GroupRun::loopback(host, rails.iter().copied()));
        }
    }
    if let (Some(rail), true) = (rail, fabric.has_loopback()) {
        runs.push(GroupRun::loopback(host, [rail]));
    }
    runs
}

/// Returns flows that pass `part`, the least suspicious first; none that passes a part known to be bad.
fn probing_flows(fabric: &FabricModel, part: FabricPart, weights: &SuspectWeights, partners: usize) -> Vec<RailFlow> {
    let flows = match part {
        FabricPart::Host(host) => {
            (0..fabric.rail_count()).flat_map(|rail| flows_of_host(fabric, host, rail, weights, partners)).collect()
        }
        FabricPart::Adapter(host, rail) | FabricPart::HostCable(host, rail) => {
            flows_of_host(fabric, host, rail, weights, partners)
        }
        FabricPart::Leaf(leaf) => flows_of_leaf(fabric, leaf, weights, partners),
        FabricPart::Spine(spine) => weights
            .best_rails(fabric)
            .into_iter()
            .flat_map(|rail| {
                let to = |host: &HostIndex| fabric.spine_of(*host) == Some(spine);
                flows_between(fabric, rail, &best_hosts(rail, weights, partners, to), weights, partners)
            })
            .collect(),
        FabricPart::SwitchCable(leaf, spine) => flows_of_switch_cable(fabric, leaf, spine, weights, partners),
        FabricPart::Rail(rail) => {
            flows_between(fabric, rail, &best_hosts(rail, weights, partners, |_| true), weights, partners)
        }
    };
    let number = fabric.part_number(part);
    let passes = |flow: &RailFlow| {
        let mut found = false;
        fabric.visit_flow(*flow, |part| found |= part == number);
        found
    };
    cheapest_flows(fabric, flows.into_iter().filter(passes).collect(), weights)
}

fn flows_of_host(
    fabric: &FabricModel,
    host: HostIndex,
    rail: usize,
    weights: &SuspectWeights,
    partners: usize,
) -> Vec<RailFlow> {
    let leaf = fabric.leaf_of(host, rail);
    let near = best_hosts(rail, weights, partners, |other| *other != host && fabric.leaf_of(*other, rail) == leaf);
    let far = best_hosts(rail, weights, partners, |other| fabric.leaf_of(*other, rail) != leaf);
    let both = |other: HostIndex| [RailFlow { from: host, to: other, rail }, RailFlow { from: other, to: host, rail }];
    near.into_iter().chain(far).flat_map(both).collect()
}

fn flows_of_leaf(fabric: &FabricModel, leaf: usize, weights: &SuspectWeights, partners: usize) -> Vec<RailFlow> {
    let Some(rail) = fabric.rail_of_leaf(leaf) else { return Vec::new() };
    let inside = best_hosts(rail, weights, partners, |host| fabric.leaf_of(*host, rail) == leaf);
    let mut flows: Vec<RailFlow> = Vec::new();
    for from in &inside {
        flows.extend(inside.iter().filter(|to| *to != from).map(|to| RailFlow { from: *from, to: *to, rail }));
        flows.extend(flows_of_host(fabric, *from, rail, weights, partners));
    }
    flows
}

fn flows_of_switch_cable(
    fabric: &FabricModel,
    leaf: usize,
    spine: usize,
    weights: &SuspectWeights,
    partners: usize,
) -> Vec<RailFlow> {
    let Some(rail) = fabric.rail_of_leaf(leaf) else { return Vec::new() };
    let inside = |host: &HostIndex| fabric.leaf_of(*host, rail) == leaf;
    let from_spine = |host: &HostIndex| fabric.spine_of(*host) == Some(spine);
    let pairs = [
        (
            best_hosts(rail, weights, partners, inside),
            spread_hosts(fabric, rail, weights, partners, |host| !inside(host) && from_spine(host)),
        ),
        (
            spread_hosts(fabric, rail, weights, partners, |host| !inside(host)),
            best_hosts(rail, weights, partners, |host| inside(host) && from_spine(host)),
        ),
    ];
    let cross = |(from, to): &(Vec<HostIndex>, Vec<HostIndex>)| {
        from.iter().flat_map(|from| to.iter().map(|to| RailFlow { from: *from, to: *to, rail })).collect::<Vec<_>>()
    };
    pairs.iter().flat_map(cross).collect()
}

/// Returns flows from the least suspicious hosts of other leaves and of the same leaf to each of `to`.
fn flows_between(
    fabric: &FabricModel,
    rail: usize,
    to: &[HostIndex],
    weights: &SuspectWeights,
    partners: usize,
) -> Vec<RailFlow> {
    let from = spread_hosts(fabric, rail, weights, partners, |_| true);
    let flow = |from: HostIndex, to: HostIndex| (from != to).then_some(RailFlow { from, to, rail });
    to.iter().flat_map(|to| from.iter().filter_map(move |from| flow(*from, *to))).collect()
}

/// Returns the least suspicious hosts in a rail.
fn best_hosts(
    rail: usize,
    weights: &SuspectWeights,
    partners: usize,
    wanted: impl Fn(&HostIndex) -> bool,
) -> Vec<HostIndex> {
    weights.ranked_hosts[rail].iter().copied().filter(wanted).take(partners).collect()
}

/// Returns the least suspicious host of each leaf, the best ones first.
fn spread_hosts(
    fabric: &FabricModel,
    rail: usize,
    weights: &SuspectWeights,
    partners: usize,
    wanted: impl Fn(&HostIndex) -> bool,
) -> Vec<HostIndex> {
    let mut leaves = Vec::new();
    let mut is_first = |host: &HostIndex| {
        let leaf = fabric.leaf_of(*host, rail);
        let is_new = !leaves.contains(&leaf);
        leaves.push(leaf);
        is_new
    };
    weights.ranked_hosts[rail]
        .iter()
        .copied()
        .filter(|host| wanted(host) && is_first(host))
        .take(2 * partners)
        .collect()
}

/// Sorts flows by the suspicion of all parts that they pass; flows with a part known to be bad are left out.
fn cheapest_flows(fabric: &FabricModel, flows: Vec<RailFlow>, weights: &SuspectWeights) -> Vec<RailFlow> {
    let weigh = |flow: &RailFlow| {
        let mut weight = 0.0;
        fabric.visit_flow(*flow, |part| {
            weight += if weights.is_known(part) { f64::INFINITY } else { weights.of(part) };
        });
        weight
    };
    let mut weighed: Vec<(f64, RailFlow)> = flows.into_iter().map(|flow| (weigh(&flow), flow)).collect();
    weighed.retain(|(weight, _)| weight.is_finite());
    weighed.sort_by(|one, other| one.0.total_cmp(&other.0));
    weighed.into_iter().map(|(_, flow)| flow).collect()
}
