//! The purposes of an observation, and the facts that each needs.

use super::facts_used::list_facts_used;
use super::run_options::RunOptions;
use crate::config::Project;
use std::collections::BTreeSet;

/// The purpose of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObservationPurpose {
    Read,
    Change,
    Drift {
        /// Whether to probe all facts by which hosts are compared.
        outliers: bool,
    },
}

impl ObservationPurpose {
    /// Returns the facts that the project reads, and those that only this purpose needs. A recording is used beyond the
    /// facts that its project reads: it has all of them.
    pub fn list_needed_facts(self, project: &Project, options: &RunOptions) -> BTreeSet<String> {
        match self {
            _ if options.replay.record => crate::facts::fact_names().map(str::to_owned).collect(),
            Self::Drift { .. } => add_proof_facts(add_health_facts(list_facts_used(project)), project),
            Self::Read | Self::Change => add_device_holders(list_facts_used(project)),
        }
    }

    /// Returns the facts that are probed only to compare hosts.
    pub fn list_compared_facts(self, facts: &BTreeSet<String>) -> BTreeSet<String> {
        match self {
            Self::Drift { outliers: true } => {
                let compared = crate::facts::outliers::compared_facts().map(str::to_owned);
                compared.filter(|fact| !facts.contains(fact)).collect()
            }
            _ => BTreeSet::new(),
        }
    }
}

/// Adds the health facts of the hardware that the project manages.
fn add_health_facts(mut facts: BTreeSet<String>) -> BTreeSet<String> {
    for (fact, about) in crate::drift::health::HEALTH_FACTS {
        if about.iter().any(|about| facts.contains(*about)) {
            facts.insert(fact.to_owned());
        }
    }
    facts
}

/// Adds the fact that shows which processes keep a window from opening, if the project manages hardware with devices.
fn add_device_holders(mut facts: BTreeSet<String>) -> BTreeSet<String> {
    let mut about = crate::drift::health::HEALTH_FACTS.iter().flat_map(|(_, about)| *about);
    if about.any(|about| facts.contains(*about)) {
        facts.insert("holders".to_owned());
    }
    facts
}

/// Adds the facts that results of acceptance tests rest on.
fn add_proof_facts(mut facts: BTreeSet<String>, project: &Project) -> BTreeSet<String> {
    facts.extend(crate::drift::list_proof_facts(project).map(str::to_owned));
    facts
}
