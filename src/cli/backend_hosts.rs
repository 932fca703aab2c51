//! The hosts of a project for a run: the selection with the cluster's API, and those that are not real.

use super::settings::CliSettings;
use crate::config::Project;
use crate::model::{HardwareBoard, HostName};

/// Returns the hosts that are sandboxes or whose hardware is simulated.
pub fn list_simulated_hosts(project: &Project) -> Vec<HostName> {
    project.hosts.keys().filter(|host| project.is_simulated(host)).cloned().collect()
}

/// Returns the sandboxes, each with its board.
pub fn list_sandbox_hosts(project: &Project) -> Vec<(HostName, Option<HardwareBoard>)> {
    let of = |host: HostName| project.hosts.get(&host).map(|found| (host, found.connect.hardware));
    list_simulated_hosts(project).into_iter().filter_map(of).collect()
}

/// Adds the cluster's API, which is observed with the hosts unless `--on` selects hosts.
pub fn add_cluster_host(project: &Project, hosts: &[HostName], settings: &CliSettings) -> Vec<HostName> {
    let own = project.cluster_member().filter(|own| settings.on.is_none() && !hosts.contains(own));
    hosts.iter().chain(own).cloned().collect()
}
