//! From what is declared and what is planned to the portions it goes out in.

use super::waves::waves;
use super::{Quorum, Rollout};
use crate::config::{self, Project};
use crate::model::{HostName, Verdict};
use crate::plan::{HostPlan, Reach};
use std::collections::BTreeSet;

/// Returns in which portions `hosts` change. Percentages are of all of them.
pub(in crate::plan) fn rollout(project: &Project, hosts: &[HostPlan]) -> Rollout {
    let declared = &project.rollout;
    let of = |share: config::Share| share.of(hosts.len());
    let canaries = canaries(declared, hosts);
    let windows: Vec<HostName> =
        hosts.iter().filter(|h| h.window.is_some() && h.acts()).map(|h| h.host.clone()).collect();
    let silent = hosts.iter().filter(|host| host.reach != Reach::Observed);
    let unavailable: Vec<HostName> = silent.map(|host| host.host.clone()).collect();
    let quorum = quorum(project, &windows);
    let max_unavailable = of(declared.max_unavailable);
    let room = max_unavailable.saturating_sub(unavailable.len());
    let waves = waves(&windows, &canaries.iter().cloned().collect(), room, &quorum);
    Rollout {
        canaries,
        max_unavailable,
        max_restarting: declared.max_restarting.map(of),
        max_failed: declared.max_failed.map(of),
        unavailable: if waves.is_empty() { Vec::new() } else { unavailable },
        quorum: if waves.is_empty() { Vec::new() } else { quorum },
        hours: declared.hours.filter(|_| !waves.is_empty()).map(|hours| hours.to_string()),
        waves,
    }
}

/// Returns the hosts that receive all their changes first: the first changing ones, in plan order, before those that
/// cannot get through anyway.
fn canaries(declared: &config::Rollout, hosts: &[HostPlan]) -> Vec<HostName> {
    let Some(share) = declared.canary else { return Vec::new() };
    let mut changing: Vec<&HostPlan> = hosts.iter().filter(|host| host.changes()).collect();
    changing.sort_by_key(|host| !gets_through(host));
    changing.iter().take(share.of(hosts.len())).map(|host| host.host.clone()).collect()
}

fn gets_through(host: &HostPlan) -> bool {
    let hindered = |verdict| matches!(verdict, Verdict::Blocked(_) | Verdict::Unknown);
    host.refused.is_none() && !host.steps.iter().any(|step| step.waits_for.is_some() || hindered(step.verdict))
}

/// Returns the declared quorums, for as far as hosts of theirs are taken out of service.
fn quorum(project: &Project, windows: &[HostName]) -> Vec<Quorum> {
    let windows: BTreeSet<&HostName> = windows.iter().collect();
    let hosts = |group: &str| project.groups.get(group).into_iter().flatten().cloned().collect::<BTreeSet<_>>();
    let named = project.rollout.quorum.iter().map(|(group, _)| Quorum { group: group.clone(), hosts: hosts(group) });
    named.filter(|quorum| quorum.hosts.iter().any(|host| windows.contains(host))).collect()
}
