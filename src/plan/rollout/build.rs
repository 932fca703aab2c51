//! Builds the rollout from the inventory and the planned hosts.

use super::waves::build_waves;
use super::{QuorumGroup, RolloutPlan};
use crate::config::{self, Project};
use crate::model::{HostName, StepVerdict};
use crate::plan::{HostPlan, HostReachability, StepPlan, VerifyPlan};
use std::collections::BTreeSet;

/// Returns the rollout of `hosts`. Percentages are of all machines among them.
pub(in crate::plan) fn build_rollout(project: &Project, hosts: &[HostPlan]) -> RolloutPlan {
    let declared = &project.rollout;
    let machines = hosts.iter().filter(|host| !host.host.is_cluster()).count();
    let of = |share: config::HostShare| share.resolve_count(machines);
    let canaries = choose_canaries(declared, hosts, machines);
    let windows = list_window_hosts(hosts);
    let unavailable: Vec<HostName> = hosts
        .iter()
        .filter(|host| !host.host.is_cluster() && is_out_of_service(host))
        .map(|host| host.host.clone())
        .collect();
    let quorum = list_quorums(project, &windows);
    let selected: BTreeSet<&HostName> = hosts.iter().map(|host| &host.host).collect();
    let members: BTreeSet<&HostName> = quorum.iter().flat_map(|quorum| &quorum.hosts).collect();
    let unselected = members.difference(&selected).map(|host| (*host).clone()).collect();
    let max_unavailable = of(declared.max_unavailable);
    let room = max_unavailable.saturating_sub(unavailable.len());
    let waves = build_waves(&windows, &canaries.iter().cloned().collect(), room, &quorum);
    RolloutPlan {
        canaries,
        max_unavailable,
        max_restarting: declared.max_restarting.map(of),
        max_failed: declared.max_failed.map(of),
        unavailable: if waves.is_empty() { Vec::new() } else { unavailable },
        unselected: if waves.is_empty() { Vec::new() } else { unselected },
        quorum: if waves.is_empty() { Vec::new() } else { quorum },
        hours: declared.hours.filter(|_| !waves.is_empty()).map(|hours| hours.to_string()),
        // A plan does not depend on the clock: the engine adds it.
        closed: None,
        waves,
    }
}

/// Returns the hosts that are taken out of service. Those that an earlier run did not bring back come first: no other
/// host is taken out of service before they were tried.
fn list_window_hosts(hosts: &[HostPlan]) -> Vec<HostName> {
    let mut windows: Vec<&HostPlan> = hosts.iter().filter(|host| host.window.is_some() && host.will_run()).collect();
    windows.sort_by_key(|host| !is_left_open(host));
    windows.into_iter().map(|host| host.host.clone()).collect()
}

fn is_left_open(host: &HostPlan) -> bool {
    host.window.as_ref().is_some_and(|window| window.left_open.is_some())
}

/// Returns whether a host is out of service and, as far as is known, stays out.
fn is_out_of_service(host: &HostPlan) -> bool {
    host.reach != HostReachability::Observed || host.left_out || (is_left_open(host) && !can_complete(host))
}

/// Returns the hosts that receive all their changes first: the first changing ones, in plan order. Hosts that are
/// already out of service come first; hosts that cannot succeed come last.
///
/// A host that has a recipe already, and does not pass its verification, comes before them: as the canary of an earlier
/// run it has shown that the recipe must not go to further hosts. What cannot be evaluated did not pass.
fn choose_canaries(declared: &config::RolloutPolicy, hosts: &[HostPlan], machines: usize) -> Vec<HostName> {
    let Some(share) = declared.canary else { return Vec::new() };
    let machine_plans = || hosts.iter().filter(|host| !host.host.is_cluster());
    let mut changing: Vec<&HostPlan> = machine_plans().filter(|host| host.has_changes()).collect();
    let recipes = list_changing_recipes(&changing);
    changing.sort_by_key(|host| (!can_be_canary(host), !is_left_open(host)));
    let failed = machine_plans().filter(|host| has_failed_canary_test(host, &recipes));
    failed.chain(changing).take(share.resolve_count(machines)).map(|host| host.host.clone()).collect()
}

fn list_changing_recipes<'p>(hosts: &[&'p HostPlan]) -> BTreeSet<&'p str> {
    let steps = hosts.iter().flat_map(|host| &host.steps).filter(|step| step.will_run());
    steps.map(|step| &*step.id.recipe).collect()
}

/// Returns whether a host that this run does not change does not pass one of `recipes`, which it has: a verification
/// fails or cannot be evaluated, or a step cannot be evaluated while others match.
fn has_failed_canary_test(host: &HostPlan, recipes: &BTreeSet<&str>) -> bool {
    let fails = |verify: &VerifyPlan| {
        matches!(verify.verdict, StepVerdict::Change | StepVerdict::Unknown) && recipes.contains(&*verify.recipe)
    };
    let has = |recipe: &str| host.steps.iter().any(|s| *s.id.recipe == *recipe && s.verdict == StepVerdict::Ok);
    let is_open = |step: &StepPlan| {
        step.verdict == StepVerdict::Unknown && recipes.contains(&*step.id.recipe) && has(&step.id.recipe)
    };
    let is_observed = host.reach == HostReachability::Observed && host.refused.is_none() && host.hold.is_none();
    is_observed && !host.has_changes() && (host.verify.iter().any(fails) || host.steps.iter().any(is_open))
}

/// Returns whether a host can show that a change succeeds. One that an earlier run left out of service is tried again,
/// even if something cannot be evaluated there: otherwise the next host would take its place as canary.
fn can_be_canary(host: &HostPlan) -> bool {
    let is_hindered = |step: &StepPlan| matches!(step.verdict, StepVerdict::Blocked(_));
    can_complete(host) || is_left_open(host) && host.refused.is_none() && !host.steps.iter().any(is_hindered)
}

fn can_complete(host: &HostPlan) -> bool {
    let hindered = |verdict| matches!(verdict, StepVerdict::Blocked(_) | StepVerdict::Unknown);
    host.refused.is_none() && !host.steps.iter().any(|step| step.waits_for.is_some() || hindered(step.verdict))
}

/// Returns the declared quorums that contain a host which is taken out of service.
fn list_quorums(project: &Project, windows: &[HostName]) -> Vec<QuorumGroup> {
    let windows: BTreeSet<&HostName> = windows.iter().collect();
    let hosts = |group: &str| project.groups.get(group).into_iter().flatten().cloned().collect::<BTreeSet<_>>();
    let named =
        project.rollout.quorum.iter().map(|(group, _)| QuorumGroup { group: group.clone(), hosts: hosts(group) });
    named.filter(|quorum| quorum.hosts.iter().any(|host| windows.contains(host))).collect()
}
