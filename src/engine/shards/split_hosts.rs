//! Divides hosts into shards.

use crate::config::Project;
use crate::model::{HostName, Value};
use std::collections::BTreeMap;

/// The variable of a host that names its site. Hosts of different sites are in different shards, so that a worker can run
/// near its hosts.
const SITE_VARIABLE: &str = "site";

/// Divides hosts into shards of at most `size`, by the value of their variable `site`. The same hosts in the same order
/// give the same shards; the shards of a site follow each other, and so do the hosts of a shard.
pub fn split_into_shards(project: &Project, hosts: &[HostName], size: usize) -> Vec<Vec<HostName>> {
    let site = |host: &HostName| {
        let value = project.hosts.get(host)?.vars.get(SITE_VARIABLE)?;
        Some(value.value.as_str().map_or_else(|| Value::to_string(&value.value), str::to_owned))
    };
    split_by_site(hosts, size, site)
}

fn split_by_site(hosts: &[HostName], size: usize, site: impl Fn(&HostName) -> Option<String>) -> Vec<Vec<HostName>> {
    let mut order: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut sites: Vec<Vec<HostName>> = Vec::new();
    for host in hosts {
        let number = *order.entry(site(host)).or_insert(sites.len());
        if number == sites.len() {
            sites.push(Vec::new());
        }
        sites[number].push(host.clone());
    }
    sites.iter().flat_map(|hosts| hosts.chunks(size.max(1)).map(<[HostName]>::to_vec)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<HostName> {
        (0..count).map(|at| HostName::new(format!("n{at}"))).collect()
    }

    #[test]
    fn shards_follow_sites_and_keep_the_order() {
        let site = |host: &HostName| match host.as_str() {
            "n0" | "n3" => Some("west".to_owned()),
            "n1" => None,
            _ => Some("east".to_owned()),
        };
        let shards = split_by_site(&names(6), 2, site);
        let shown: Vec<String> =
            shards.iter().map(|shard| shard.iter().map(HostName::as_str).collect::<Vec<_>>().join(",")).collect();
        assert_eq!(shown, ["n0,n3", "n1", "n2,n4", "n5"]);
        assert!(split_by_site(&[], 2, site).is_empty());
    }

    proptest! {
        #[test]
        fn every_host_is_in_one_shard(count in 0usize..200, size in 0usize..40, sites in 1usize..5) {
            let hosts = names(count);
            let site = |host: &HostName| Some((host.as_str().len() % sites).to_string());
            let shards = split_by_site(&hosts, size, site);
            let mut all: Vec<HostName> = shards.concat();
            all.sort();
            let mut expected = hosts;
            expected.sort();
            prop_assert_eq!(all, expected);
            prop_assert!(shards.iter().all(|shard| !shard.is_empty() && shard.len() <= size.max(1)));
        }
    }
}
