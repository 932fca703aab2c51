//! Recordings: what hosts answered, raw, to be planned from later without a session.
//!
//! Architecture Invariant: no secret enters a recording. What a recipe exports as a secret is left out as a whole, the
//! host's key for digests is taken out, and every text is scrubbed of the values that the run knows as secret. In a
//! recording of its own, machine ids, UUIDs and serial numbers are replaced (`redact`); in a saved plan they stay.

use super::observe::Observed;
use crate::config::Project;
use crate::facts;
use crate::model::{HostName, SecretStore, Untrusted};
use crate::plan::{HostSeen, NodeSeen, Reach, Unreachable};
use crate::probe::{self, Exchange, Observation, Probe};
use crate::transport::{ErrorKind, TransportError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The version of the form. Additions keep it; anything else raises it.
const VERSION: u32 = 1;

/// What hosts answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    pub version: u32,
    /// The version of forge that wrote it.
    pub forge: String,
    /// `field`: from a host; `simulated`: from a simulated one; `source`: from a program's source; `reconstructed`: by hand.
    pub origin: String,
    /// What it is of, for people.
    #[serde(default)]
    pub about: String,
    pub hosts: Vec<HostRecording>,
}

/// What one host answered, in the order in which it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostRecording {
    pub host: HostName,
    pub reach: Reach,
    pub answers: Vec<Exchange>,
    /// What the cluster's API told of its node, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeSeen>,
}

/// What the version is read from before the rest is.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

impl Recording {
    /// Collects what was kept of an observation.
    pub fn of(project: &Project, observed: &Observed) -> Self {
        let secret = SecretExports::of(project);
        let hosts = observed.seen.iter().map(|seen| host(seen, &secret, &observed.secrets)).collect();
        let forge = env!("CARGO_PKG_VERSION").to_owned();
        let is_simulated = |seen: &HostSeen| project.is_simulated(&seen.host) || seen.facts.hardware_is_simulated();
        let origin = if observed.seen.iter().any(is_simulated) { "simulated" } else { "field" };
        Self { version: VERSION, forge, origin: origin.to_owned(), about: String::new(), hosts }
    }

    /// Returns the same of some of its hosts.
    pub fn narrowed(&self, hosts: &[HostName]) -> Self {
        let kept = self.hosts.iter().filter(|recorded| hosts.contains(&recorded.host)).cloned().collect();
        Self { hosts: kept, ..self.clone() }
    }

    /// Returns the same with the commands of checks told by digest: they are found again, and cannot be run.
    pub fn without_commands(mut self) -> Self {
        let exchanges = self.hosts.iter_mut().flat_map(|host| &mut host.answers);
        for probe in exchanges.flat_map(|exchange| &mut exchange.probes) {
            *probe = probe::without_script(probe);
        }
        self
    }

    /// Reads the text of a recording.
    ///
    /// # Errors
    /// It is none, or one of another version: a lowercase fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let no = |error: serde_json::Error| format!("it is not a recording: {error}");
        let head: Head = serde_json::from_str(text).map_err(no)?;
        match head.version {
            VERSION => serde_json::from_str(text).map_err(no),
            other => Err(format!("it is of version {other}, and this forge reads version {VERSION}")),
        }
    }

    /// Returns what the cluster's API told of a host's node.
    pub(super) fn node(&self, host: &HostName) -> NodeSeen {
        let recorded = self.hosts.iter().find(|recorded| recorded.host == *host);
        let unknown = || NodeSeen::Unknown { why: "the recording does not tell".into() };
        recorded.and_then(|recorded| recorded.node.clone()).unwrap_or_else(unknown)
    }

    /// Returns what a host answered. One that is not in the recording answered nothing.
    ///
    /// # Errors
    /// It could not be reached then.
    pub(super) fn answers(&self, host: &HostName) -> Result<Observation, TransportError> {
        let Some(recorded) = self.hosts.iter().find(|recorded| recorded.host == *host) else {
            return Ok(Observation::default());
        };
        match &recorded.reach {
            Reach::Observed => Ok(probe::replay(&recorded.answers, &facts::snippets())),
            Reach::Unreachable(why) => Err(unreachable(why)),
        }
    }
}

fn unreachable(why: &Unreachable) -> TransportError {
    TransportError {
        kind: ErrorKind::Connect,
        message: why.why.raw().to_owned(),
        hint: why.hint.as_ref().map(|hint| hint.raw().to_owned()),
        said: None,
        address: why.address.as_ref().map(|address| address.raw().to_owned()),
        retryable: false,
        sent_anything: false,
    }
}

fn host(seen: &HostSeen, secret: &SecretExports, secrets: &SecretStore) -> HostRecording {
    let scrub = |text: &str| secrets.scrub(text);
    let mut answers = seen.observation.exchanges().to_vec();
    for exchange in &mut answers {
        match exchange.probes.iter().any(|probe| secret.is(probe)) {
            true => exchange.withhold("is a secret, which a recording does not hold"),
            false => exchange.clean(&scrub),
        }
    }
    let reach = match &seen.reach {
        Reach::Observed => Reach::Observed,
        Reach::Unreachable(why) => {
            Reach::Unreachable(Unreachable { why: Untrusted::from(scrub(why.why.raw())), ..why.clone() })
        }
    };
    HostRecording { host: seen.host.clone(), reach, answers, node: seen.node.clone() }
}

/// Names of exported values that are secret, with the steps that export them.
struct SecretExports(BTreeSet<String>);

impl SecretExports {
    fn of(project: &Project) -> Self {
        let mut names = BTreeSet::new();
        for recipe in project.recipes.values() {
            for step in &recipe.steps {
                for export in step.exports.values().filter(|export| export.secret) {
                    names.insert(format!("export {} of {}/{}", export.name, recipe.name, step.name));
                }
            }
        }
        Self(names)
    }

    /// The question behind an export is named after it, and after the turn in brackets where there are several.
    fn is(&self, probe: &Probe) -> bool {
        let Probe::Check { id, .. } = probe else { return false };
        let whole = id.split_once('[').map_or(id.as_str(), |(whole, _)| whole);
        self.0.contains(id) || self.0.contains(whole)
    }
}
