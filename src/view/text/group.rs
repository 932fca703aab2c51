//! Groups equal items of several hosts, in an order that is consistent with the order on each host.

use crate::model::{HostName, StepId};
use crate::plan::{HostPlan, Plan, StepPlan, UnreachableReason};
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// One step and the hosts on which it has the same effect for the same reason.
pub struct StepGroup<'a> {
    pub step: &'a StepPlan,
    pub hosts: Vec<&'a HostName>,
}

/// Returns the groups of the steps selected by `keep`, in plan order.
pub fn group_steps<'a>(plan: &'a Plan, keep: impl Fn(&StepPlan) -> bool) -> Vec<StepGroup<'a>> {
    let all = plan.hosts.iter().flat_map(|host| host.steps.iter().map(move |step| (&host.host, step)));
    let kept = all.filter(|(_, step)| keep(step));
    let mut groups: Vec<StepGroup<'a>> =
        group_equal(kept, shown_fields).into_values().map(|(step, hosts)| StepGroup { step, hosts }).collect();
    let order = merge_step_order(&plan.hosts);
    groups.sort_by_key(|group| order.get(&group.step.id));
    groups
}

/// Collects the hosts of equal items, in order of first appearance.
pub fn group_equal<'a, T, K: Hash + Eq>(
    all: impl Iterator<Item = (&'a HostName, T)>,
    key: impl Fn(T) -> K,
) -> IndexMap<K, (T, Vec<&'a HostName>)>
where
    T: Copy,
{
    let mut groups: IndexMap<K, (T, Vec<&'a HostName>)> = IndexMap::new();
    for (host, thing) in all {
        groups.entry(key(thing)).or_insert_with(|| (thing, Vec::new())).1.push(host);
    }
    groups
}

/// Groups unreachable hosts by reason. A reason that differs only in the address is shown without the address.
pub fn group_unreachable<'a>(
    all: impl Iterator<Item = (&'a HostName, &'a UnreachableReason)>,
) -> Vec<(UnreachableReason, Vec<&'a HostName>)> {
    let groups = group_equal(all, UnreachableReason::without_address);
    let told = |(any, (one, hosts)): (UnreachableReason, (&UnreachableReason, Vec<_>))| match hosts.len() {
        1 => (one.clone(), hosts),
        _ => (any, hosts),
    };
    groups.into_iter().map(told).collect()
}

/// Returns the displayed fields of a step. The basis is not displayed: hosts may differ in parts that do not change.
fn shown_fields(step: &StepPlan) -> impl Hash + Eq + use<'_> {
    let what = (&step.id, &step.kind, &step.title, &step.verdict, &step.reason, &step.changes);
    let effect = (&step.disruption, &step.guard_s, &step.irreversible);
    (what, effect, &step.scope, &step.envelope, &step.waits_for, &step.held)
}

/// Merges the step orders of hosts. A new step is placed right after its predecessor on its host.
pub fn merge_step_order(hosts: &[HostPlan]) -> HashMap<&StepId, usize> {
    let mut merged: Vec<&StepId> = Vec::new();
    let mut known: HashSet<&StepId> = HashSet::new();
    for host in hosts {
        if host.steps.iter().any(|step| !known.contains(&step.id)) {
            merge_host_order(&mut merged, &mut known, host);
        }
    }
    merged.into_iter().enumerate().map(|(at, id)| (id, at)).collect()
}

fn merge_host_order<'a>(merged: &mut Vec<&'a StepId>, known: &mut HashSet<&'a StepId>, host: &'a HostPlan) {
    let mut next = 0;
    for step in &host.steps {
        if known.insert(&step.id) {
            merged.insert(next, &step.id);
            next += 1;
        } else if let Some(at) = merged.iter().position(|id| *id == &step.id) {
            next = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_hosts_with_equal_reasons_are_grouped() {
        let refused = |address: &str| UnreachableReason {
            address: Some(address.into()),
            ..UnreachableReason::new(format!("`{address}` refuses"), Some(format!("run `ssh {address}`").into()))
        };
        let hosts: Vec<HostName> = ["a", "b", "c"].map(HostName::new).into();
        let why = [refused("10.0.0.1"), refused("10.0.0.2"), UnreachableReason::new("no shell", None)];
        let groups = group_unreachable(hosts.iter().zip(&why));
        let both = UnreachableReason::new("`ADDRESS` refuses", Some("run `ssh ADDRESS`".into()));
        assert_eq!(groups, [(both, vec![&hosts[0], &hosts[1]]), (why[2].clone(), vec![&hosts[2]])]);
        assert_eq!(
            group_unreachable(hosts.iter().zip(&why[..1])),
            [(why[0].clone(), vec![&hosts[0]])],
            "a single host keeps its address"
        );
    }
}
