//! The odd one out among observed hosts: which of them the inventory treats the same.

use crate::config::Project;
use crate::facts::outliers::{Candidate, Outliers, find};
use crate::model::HostName;
use crate::plan::HostSeen;

/// Compares the hosts that answered with the majority of those that are like them.
pub fn outliers(project: &Project, seen: &[HostSeen]) -> Outliers {
    let answered = seen.iter().filter(|seen| seen.is_observed() && !seen.host.is_cluster());
    let candidates: Vec<Candidate<'_>> = answered.map(|seen| candidate(project, seen)).collect();
    find(&candidates)
}

fn candidate<'a>(project: &'a Project, seen: &'a HostSeen) -> Candidate<'a> {
    let groups = project.hosts.get(&seen.host).map_or(&[][..], |host| &host.groups);
    Candidate { host: &seen.host, declared: declared(project, &seen.host), groups, facts: &seen.facts }
}

/// Returns which entries of `apply` a host has: two entries of one recipe, as for two versions of a driver, are two.
fn declared(project: &Project, host: &HostName) -> String {
    let instances = project.instances.get(host).into_iter().flatten();
    instances.map(|instance| format!("{} {:?}\n", instance.recipe.name, instance.span)).collect()
}
