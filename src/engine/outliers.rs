//! Outliers among observed hosts, compared with the hosts that the inventory treats the same.

use crate::config::Project;
use crate::facts::outliers::{OutlierCandidate, OutlierReport, find_outliers};
use crate::model::HostName;
use crate::plan::ObservedHost;

/// Compares each host that answered with the majority of similar hosts.
pub fn find_host_outliers(project: &Project, seen: &[ObservedHost]) -> OutlierReport {
    let answered = seen.iter().filter(|seen| seen.is_observed() && !seen.host.is_cluster());
    let candidates: Vec<OutlierCandidate<'_>> = answered.map(|seen| build_candidate(project, seen)).collect();
    find_outliers(&candidates)
}

fn build_candidate<'a>(project: &'a Project, seen: &'a ObservedHost) -> OutlierCandidate<'a> {
    let groups = project.hosts.get(&seen.host).map_or(&[][..], |host| &host.groups);
    OutlierCandidate {
        host: &seen.host,
        declared: list_declared_entries(project, &seen.host),
        groups,
        facts: &seen.facts,
    }
}

/// Returns the entries of `apply` for a host. Two entries of one recipe, as for two versions of a driver, are
/// different.
fn list_declared_entries(project: &Project, host: &HostName) -> String {
    let instances = project.instances.get(host).into_iter().flatten();
    instances.map(|instance| format!("{} {:?}\n", instance.recipe.name, instance.span)).collect()
}
