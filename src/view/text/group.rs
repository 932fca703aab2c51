//! Groups equal items of several hosts, in an order that is consistent with the order on each host.

use crate::model::{HostName, StepId};
use crate::plan::{HostPlan, Plan, StepPlan, UnreachableReason};
use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// One step and the hosts on which it has the same effect for the same reason.
#[derive(Clone)]
pub struct StepGroup<'a> {
    pub step: &'a StepPlan,
    pub hosts: Vec<&'a HostName>,
    /// Whether its check printed something else on other hosts.
    pub check_differs: bool,
}

/// Steps by their addresses, which many hosts share: the fields of each are read once. A plan of many hosts has millions.
type StepAddresses<T> = HashMap<*const StepPlan, T, DefaultHashBuilder>;

/// Returns the groups of the steps selected by `keep`, in plan order.
pub fn group_steps<'a>(plan: &'a Plan, keep: impl Fn(&StepPlan) -> bool) -> Vec<StepGroup<'a>> {
    let all = plan.hosts.iter().flat_map(|host| host.steps.iter().map(move |step| (&host.host, step)));
    let mut groups: IndexMap<_, StepGroup<'a>, DefaultHashBuilder> = IndexMap::default();
    // The position of the step's group, if it is kept.
    let mut known: StepAddresses<Option<usize>> = HashMap::default();
    for (host, step) in all {
        let at = *known.entry(std::ptr::from_ref(step)).or_insert_with(|| {
            if !keep(step) {
                return None;
            }
            let entry = groups.entry(shown_fields(step));
            let at = entry.index();
            entry.or_insert_with(|| StepGroup { step, hosts: Vec::new(), check_differs: false });
            Some(at)
        });
        if let Some(at) = at {
            let group = &mut groups[at];
            group.check_differs |= !std::ptr::eq(group.step, step) && group.step.check != step.check;
            group.hosts.push(host);
        }
    }
    let mut groups: Vec<StepGroup<'a>> = groups.into_values().collect();
    if groups.is_empty() {
        return groups;
    }
    let order = merge_step_order(&plan.hosts);
    groups.sort_by_cached_key(|group| order.get(&group.step.id).copied());
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

/// Groups unreachable hosts by reason. Reasons that differ only in the address are shown as one with several addresses.
pub fn group_unreachable<'a>(
    all: impl Iterator<Item = (&'a HostName, &'a UnreachableReason)>,
) -> Vec<(UnreachableReason, Vec<&'a HostName>)> {
    let mut groups: IndexMap<UnreachableReason, Vec<(&HostName, &UnreachableReason)>> = IndexMap::new();
    for (host, why) in all {
        groups.entry(why.without_address()).or_default().push((host, why));
    }
    let join = |(any, group): (UnreachableReason, Vec<(&'a HostName, &UnreachableReason)>)| {
        let mut reasons = group.iter().map(|(_, why)| *why);
        let joined = reasons.next().map_or(any, |first| first.join_addresses(reasons));
        (joined, group.into_iter().map(|(host, _)| host).collect())
    };
    groups.into_iter().map(join).collect()
}

/// Returns the displayed fields of a step. The basis is not displayed: hosts may differ in parts that do not change.
fn shown_fields(step: &StepPlan) -> impl Hash + Eq + use<'_> {
    let what = (&step.id, &step.kind, &step.title, &step.verdict, &step.reason, &step.changes);
    let effect = (&step.disruption, &step.guard_s, &step.irreversible, step.partly_reversible);
    (what, effect, &step.scope, &step.envelope, &step.waits_for, &step.held)
}

/// Merges the step orders of hosts. A new step is placed right after its predecessor on its host.
pub fn merge_step_order(hosts: &[HostPlan]) -> HashMap<&StepId, usize> {
    let mut merged: Vec<&StepId> = Vec::new();
    let mut known: HashSet<&StepId> = HashSet::new();
    // Addresses whose steps are in `known`.
    let mut visited: StepAddresses<()> = HashMap::default();
    for host in hosts {
        let mut new = host.steps.iter().filter(|step| visited.insert(std::ptr::from_ref(*step), ()).is_none());
        if new.any(|step| !known.contains(&step.id)) {
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
        let both = UnreachableReason::new(
            "`10.0.0.1, 10.0.0.2` refuses",
            Some("run `ssh 10.0.0.1`; likewise for 10.0.0.2".into()),
        );
        assert_eq!(groups, [(both, vec![&hosts[0], &hosts[1]]), (why[2].clone(), vec![&hosts[2]])]);
        assert_eq!(
            group_unreachable(hosts.iter().zip(&why[..1])),
            [(why[0].clone(), vec![&hosts[0]])],
            "a single host keeps its address"
        );
        let (many, same) = (["1", "2", "3", "4", "5"].map(refused), ["1", "1"].map(refused));
        let hosts: Vec<HostName> = ["a", "b", "c", "d", "e"].map(HostName::new).into();
        let group = |why: &[UnreachableReason]| group_unreachable(hosts.iter().zip(why)).remove(0).0;
        assert_eq!(group(&many).why.raw(), "`1, 2, 3 and 2 more` refuses");
        assert_eq!(group(&many).hint.unwrap().raw(), "run `ssh 1`; likewise for 2, 3, 4 and 1 more");
        assert_eq!(group(&same), same[0], "an address of several hosts is named once");
    }
}
