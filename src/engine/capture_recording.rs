//! Makes a recording of what was observed, without secrets.

use super::observed_hosts::ObservedHosts;
use super::recording::{HostIndex, HostRecording, RECORDING_VERSION, Recording};
use crate::config::Project;
use crate::model::{SecretStore, UntrustedText};
use crate::plan::{HostReachability, MissingCluster, ObservedHost, UnreachableReason};
use crate::probe::Probe;
use std::collections::BTreeSet;

impl Recording {
    /// Collects the stored answers of an observation.
    pub fn from_observed(project: &Project, observed: &ObservedHosts) -> Self {
        if let Some(recorded) = &observed.recorded {
            return Self::clone(recorded);
        }
        let exports = ExportProbes::from_project(project);
        let hosts = observed.seen.iter().map(|seen| record_host(seen, &exports, &observed.secrets)).collect();
        let forge = env!("CARGO_PKG_VERSION").to_owned();
        let is_simulated = |seen: &ObservedHost| project.is_simulated(&seen.host) || seen.facts.is_hardware_simulated();
        let origin = if observed.seen.iter().any(is_simulated) { "simulated" } else { "field" };
        Self {
            version: RECORDING_VERSION,
            forge,
            origin: origin.to_owned(),
            about: String::new(),
            recorded: String::new(),
            hosts,
            index: HostIndex::default(),
        }
    }
}

fn record_host(seen: &ObservedHost, exports: &ExportProbes, secrets: &SecretStore) -> HostRecording {
    let scrub = |text: &str| secrets.scrub_secrets(text);
    let mut answers = seen.observation.exchanges().to_vec();
    for exchange in &mut answers {
        let has_probe = |names| exchange.probes.iter().any(|probe| has_export_probe(names, probe));
        if has_probe(&exports.secret) {
            exchange.withhold_answer("is a secret, and recordings contain no secrets");
        } else if has_probe(&exports.open) && exchange.contains_secret(&scrub) {
            // A masked value would pass as the one that the host exports.
            exchange.withhold_answer("contains a secret, and recordings contain no secrets");
        } else {
            exchange.remove_secrets(&scrub);
        }
    }
    let reach = match &seen.reach {
        HostReachability::Observed => HostReachability::Observed,
        HostReachability::Unreachable(why) => HostReachability::Unreachable(UnreachableReason {
            why: UntrustedText::from(scrub(why.why.raw())),
            ..why.clone()
        }),
    };
    let missing = seen
        .missing
        .clone()
        .map(|missing| MissingCluster { why: UntrustedText::from(scrub(missing.why.raw())), ..missing });
    HostRecording { host: seen.host.clone(), reach, answers, node: seen.node.clone(), missing }
}

/// The names of exported values, with the steps that export them.
#[derive(Default)]
struct ExportProbes {
    secret: BTreeSet<String>,
    /// Those that may contain a secret by accident.
    open: BTreeSet<String>,
}

impl ExportProbes {
    fn from_project(project: &Project) -> Self {
        let mut names = Self::default();
        for recipe in project.recipes.values() {
            for step in &recipe.steps {
                for export in step.exports.values() {
                    let own = if export.secret { &mut names.secret } else { &mut names.open };
                    own.insert(format!("export {} of {}/{}", export.name, recipe.name, step.name));
                }
            }
        }
        names
    }
}

/// Reports whether a probe reads one of the exports `names`. Such probes are named after the export, with the turn's key in
/// brackets.
fn has_export_probe(names: &BTreeSet<String>, probe: &Probe) -> bool {
    let Probe::Check(check) = probe else { return false };
    let id = &check.id;
    let whole = id.split_once('[').map_or(id.as_str(), |(whole, _)| whole);
    names.contains(id) || names.contains(whole)
}
