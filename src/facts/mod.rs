//! Facts: one file per fact. A fact is a snippet plus a pure parser.
//!
//! If only a part of a fact could not be read, that part is an object with the single key `unknown` and the reason.
//! Templates that read it are unknown with that reason.
//!
//! Architecture Invariant: a fact is never invented. A missing tool, a missing permission or an answer in an unexpected
//! format makes the fact unknown, with the reason. Null inside a fact means that the host does not have that item.

mod acs;
mod beegfs;
mod boot;
mod cgroup;
mod cluster;
pub mod command;
mod comparison_rules;
mod cpu;
mod disk;
mod dkms;
mod driver;
mod fabricmanager;
mod fact;
mod fact_map;
mod gdr;
mod governor;
mod gpu_readings;
mod gpu_state;
mod gpu_table;
mod gpus;
mod hardware_errors;
mod holders;
mod hugepages;
mod identity;
mod iommu;
mod kernel;
mod kernels;
mod limits;
mod machine;
mod memory;
mod modules;
mod network;
mod nvlinks;
mod nvswitch;
mod ofed;
mod os;
pub mod outliers;
mod packages;
mod pci;
mod rdma;
mod rdma_counters;
mod rdma_netns;
mod reboot;
mod roce;
mod secure_boot;
mod services;
mod simulated;
mod sm;
mod snippet_output;
mod time;
mod tools;
mod topology;
mod units;
mod unknown_part;
mod verbs;
mod virtualization;

pub use cluster::{ClusterFact, cluster_facts};
pub(crate) use cluster::{fact_probe, is_cluster_fact, parse_whole_quantity};
pub use fact::{Fact, FactShape};
pub use fact_map::{FactAnswer, FactMap, FactPool};
pub(crate) use unknown_part::unknown_reason;

use crate::model::Value;
use crate::probe::{FactSnippet, Observation, Probe, UnansweredReason};

/// The known facts of one host, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(pub FactMap);

/// Every fact, in the order of the reference. Facts that touch filesystems come after those that do not.
static ALL: [Fact; 45] = [
    os::FACT,
    kernel::FACT,
    boot::FACT,
    identity::FACT,
    machine::FACT,
    cpu::FACT,
    memory::FACT,
    pci::FACT,
    reboot::FACT,
    tools::FACT,
    virtualization::FACT,
    simulated::FACT,
    network::FACT,
    time::FACT,
    disk::FACT,
    packages::FACT,
    units::FACT,
    gpus::FACT,
    gpu_state::FACT,
    nvlinks::FACT,
    hardware_errors::FACT,
    nvswitch::FACT,
    driver::FACT,
    fabricmanager::FACT,
    gdr::FACT,
    holders::FACT,
    services::FACT,
    modules::FACT,
    topology::FACT,
    rdma::FACT,
    rdma_counters::FACT,
    rdma_netns::FACT,
    verbs::FACT,
    roce::FACT,
    ofed::FACT,
    sm::FACT,
    dkms::FACT,
    kernels::FACT,
    acs::FACT,
    iommu::FACT,
    secure_boot::FACT,
    limits::FACT,
    hugepages::FACT,
    governor::FACT,
    beegfs::FACT,
];

/// Returns every fact, in the order of the reference.
pub fn all_facts() -> &'static [Fact] {
    &ALL
}

/// Returns the name of every fact, of hosts and of the cluster.
pub fn fact_names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|fact| fact.name).chain(cluster_facts().iter().map(|fact| fact.name))
}

/// Reports whether a fact describes the kernel: its release and boot parameters, or the installed kernels.
pub fn is_kernel_fact(name: &str) -> bool {
    [&kernel::FACT, &kernels::FACT].iter().any(|fact| fact.name == name)
}

/// Returns the snippets of all facts, for [`compile_probes`](crate::probe::compile_probes).
pub fn fact_snippets() -> Vec<FactSnippet> {
    ALL.iter().map(|fact| fact.snippet).collect()
}

/// Returns the probes of all facts.
pub fn fact_probes() -> impl Iterator<Item = Probe> {
    ALL.iter().map(|fact| Probe::Fact { name: fact.name.to_owned() })
}

impl Facts {
    /// Returns the boot ID of the host: a boot is the span in which counters and effects of a reboot can be compared.
    pub fn boot_id(&self) -> Option<&str> {
        self.0.get("boot")?.as_ref().ok()?.get("id")?.as_str()
    }

    /// Returns whether the host reports that its hardware is simulated.
    pub fn is_hardware_simulated(&self) -> bool {
        self.0.get(simulated::FACT.name).is_some_and(|fact| fact.as_ref().is_ok_and(Value::is_string))
    }

    /// Parses the facts in an observation.
    pub fn from_observation(seen: &Observation) -> Self {
        let mut facts = FactMap::default();
        for fact in all_facts() {
            let probe = Probe::Fact { name: fact.name.to_owned() };
            if !seen.has_answer(&probe) {
                continue;
            }
            let value = match seen.get(&probe) {
                Ok(crate::probe::ProbeReading::Output(output)) => (fact.parse)(output),
                Ok(_) => Err(UnansweredReason::new("unexpected type of answer")),
                Err(unknown) => Err(unknown),
            };
            facts.insert(fact.name, value);
        }
        facts.merge(cluster::observed_cluster_facts(seen).collect());
        Self(facts)
    }
}

#[cfg(test)]
mod sysfs_tests;

#[cfg(test)]
mod tests;
