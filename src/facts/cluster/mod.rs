//! Facts of the cluster, read from its API. Hosts do not have them.

mod fact;
mod nodes;
mod quantity;
mod version;

pub use fact::ClusterFact;
pub use quantity::parse_whole_quantity;

use super::UnansweredReason;

use crate::model::{HostName, Value};
use crate::probe::{Observation, Probe, ProbeReading};

/// Every fact of the cluster, in the order of the reference.
static ALL: [ClusterFact; 2] = [version::FACT, nodes::FACT];

/// Returns every fact of the cluster, in the order of the reference.
pub fn cluster_facts() -> &'static [ClusterFact] {
    &ALL
}

/// Returns whether a fact belongs to the cluster.
pub fn is_cluster_fact(name: &str) -> bool {
    ALL.iter().any(|fact| fact.name == name)
}

/// Returns the probe of a fact, for a host or for the cluster's API; `None` if that target does not have the fact.
pub fn fact_probe(to: &HostName, name: &str) -> Option<Probe> {
    match (to.is_cluster(), is_cluster_fact(name)) {
        (true, true) => Some(Probe::ClusterFact { name: name.to_owned() }),
        (false, false) => Some(Probe::Fact { name: name.to_owned() }),
        _ => None,
    }
}

/// Parses the facts in an observation of the API.
pub(super) fn observed_cluster_facts(
    seen: &Observation,
) -> impl Iterator<Item = (String, Result<Value, UnansweredReason>)> + '_ {
    ALL.iter().filter_map(|fact| {
        let probe = Probe::ClusterFact { name: fact.name.to_owned() };
        let value = || match seen.get(&probe) {
            Ok(ProbeReading::ClusterFact(told)) => (fact.parse)(told),
            Ok(_) => Err(UnansweredReason::new("unexpected type of answer")),
            Err(unknown) => Err(unknown),
        };
        seen.has_answer(&probe).then(|| (fact.name.to_owned(), value()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_facts_and_cluster_facts_do_not_overlap() {
        let of_hosts = |name: &str| crate::facts::all_facts().iter().any(|fact| fact.name == name);
        assert!(ALL.iter().all(|fact| !of_hosts(fact.name) && !fact.doc.is_empty() && !fact.fields.is_empty()));
        let host = HostName::new("n1");
        assert_eq!(fact_probe(&host, "nodes"), None);
        assert_eq!(fact_probe(&HostName::cluster_api(), "os"), None);
        assert_eq!(
            fact_probe(&HostName::cluster_api(), "nodes"),
            Some(Probe::ClusterFact { name: "nodes".to_owned() })
        );
    }
}
