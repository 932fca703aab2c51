//! Recordings: the raw answers of hosts, from which plans can be made later without a session.
//!
//! Architecture Invariant: a recording contains no secrets. Values that a recipe exports as secrets are omitted, the
//! host's key for digests is removed, and all texts are scrubbed of the run's known secrets. In a standalone recording,
//! machine ids, UUIDs and serial numbers are replaced (`redact`); in a saved plan they are kept.

use crate::facts;
use crate::model::HostName;
use crate::object::ClusterAbsence;
use crate::plan::{HostReachability, MissingCluster, ObservedNode, UnreachableReason};
use crate::probe::{self, Observation, ProbeExchange, ReplaySections};
use crate::transport::{TransportError, TransportErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// The format version. Compatible additions keep it; any other change increments it.
pub(super) const RECORDING_VERSION: u32 = 1;

/// The answers of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// The version of the recording's format, 1. A recording with another version cannot be read.
    pub version: u32,
    /// The version of forge that wrote it.
    pub forge: String,
    /// `field`: from a host; `simulated`: from a simulated host; `source`: from a program's source; `reconstructed`: by
    /// hand.
    pub origin: String,
    /// A description for readers.
    #[serde(default)]
    pub about: String,
    /// When it was saved, by the clock of the controller. RFC 3339; empty in recordings of earlier versions and in saved plans.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recorded: String,
    /// The recorded hosts. For any other host there are no answers.
    pub hosts: Vec<HostRecording>,
    /// The positions of the hosts, once one is looked up.
    #[serde(skip)]
    pub(super) index: HostIndex,
}

/// The position of each recorded host: with thousands of hosts, each one is looked up. And what parses their answers.
#[derive(Debug, Default)]
pub(super) struct HostIndex {
    positions: OnceLock<HashMap<HostName, usize>>,
    sections: ReplaySections,
}

/// A copy builds its own.
impl Clone for HostIndex {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// It follows from the hosts, so it makes no difference between two recordings.
impl PartialEq for HostIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The answers of one host, in the order of the probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostRecording {
    /// The host as the inventory names it.
    pub host: HostName,
    /// Whether it could be reached when the recording was made.
    pub reach: HostReachability,
    /// The queries to the host and its raw answers; empty if it was unreachable.
    pub answers: Vec<ProbeExchange>,
    /// The API's state of the host's node, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<ObservedNode>,
    /// For a cluster that did not exist yet: how that was found out. Steps of the recorded hosts create it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingCluster>,
}

/// A host that two recordings contain: which of them is right cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTwice {
    /// The host, or the cluster's API.
    pub host: HostName,
    /// The name of the first recording that contains it.
    pub first: String,
    /// The name of the other one.
    pub second: String,
}

/// The part of a recording that every version has.
#[derive(Deserialize)]
struct RecordingHeader {
    version: u32,
}

impl Recording {
    /// Returns the recording limited to some of its hosts.
    pub fn narrow_to_hosts(&self, hosts: &[HostName]) -> Self {
        let wanted: HashSet<&HostName> = hosts.iter().collect();
        let kept = self.hosts.iter().filter(|recorded| wanted.contains(&recorded.host)).cloned().collect();
        self.with_hosts(kept)
    }

    /// Returns the answers of hosts that this forge recorded.
    pub(super) fn of_hosts(hosts: Vec<HostRecording>) -> Self {
        Self {
            version: RECORDING_VERSION,
            forge: env!("CARGO_PKG_VERSION").to_owned(),
            origin: "field".to_owned(),
            about: String::new(),
            recorded: String::new(),
            hosts,
            index: HostIndex::default(),
        }
    }

    fn with_hosts(&self, hosts: Vec<HostRecording>) -> Self {
        Self {
            version: self.version,
            forge: self.forge.clone(),
            origin: self.origin.clone(),
            about: self.about.clone(),
            recorded: self.recorded.clone(),
            hosts,
            index: HostIndex::default(),
        }
    }

    /// Combines recordings of different hosts, each with its name; `None` without any. A combined recording has the
    /// metadata of the first one; its origin is the least real one.
    ///
    /// # Errors
    /// A host is in two of them.
    pub fn merge<N: Into<String>>(named: impl IntoIterator<Item = (N, Self)>) -> Result<Option<Self>, RecordedTwice> {
        let mut merged: Option<Self> = None;
        let mut sources: HashMap<HostName, usize> = HashMap::new();
        let mut names: Vec<String> = Vec::new();
        for (number, (name, recording)) in named.into_iter().enumerate() {
            names.push(name.into());
            for recorded in &recording.hosts {
                if let Some(first) = sources.insert(recorded.host.clone(), number) {
                    let (first, second) = (names[first].clone(), names[number].clone());
                    return Err(RecordedTwice { host: recorded.host.clone(), first, second });
                }
            }
            match &mut merged {
                None => merged = Some(recording),
                Some(all) => all.append(recording),
            }
        }
        Ok(merged)
    }

    /// Returns the recording with the hosts of `other` as they are there.
    pub(super) fn replace_hosts(mut self, other: Self) -> Self {
        let mut new: HashMap<HostName, HostRecording> =
            other.hosts.into_iter().map(|recorded| (recorded.host.clone(), recorded)).collect();
        for recorded in &mut self.hosts {
            if let Some(new) = new.remove(&recorded.host) {
                *recorded = new;
            }
        }
        self
    }

    fn append(&mut self, other: Self) {
        let rank =
            |origin: &str| ["field", "source", "simulated", "reconstructed"].iter().position(|one| *one == origin);
        if rank(&other.origin) > rank(&self.origin) {
            self.origin = other.origin;
        }
        self.hosts.extend(other.hosts);
        self.index = HostIndex::default();
    }

    fn find_host(&self, host: &HostName) -> Option<&HostRecording> {
        let build = || self.hosts.iter().enumerate().rev().map(|(at, recorded)| (recorded.host.clone(), at)).collect();
        self.index.positions.get_or_init(build).get(host).and_then(|at| self.hosts.get(*at))
    }

    /// Returns the recording with checks' commands replaced by digests: they can still be matched, but not run.
    pub fn without_commands(mut self) -> Self {
        let exchanges = self.hosts.iter_mut().flat_map(|host| &mut host.answers);
        for probe in exchanges.flat_map(|exchange| &mut exchange.probes) {
            *probe = probe::with_script_digest(probe);
        }
        self
    }

    /// Parses a recording.
    ///
    /// # Errors
    /// The text is not a recording or has another version: a lowercase fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let no = |error: serde_json::Error| format!("it is not a recording: {error}");
        // Recordings of many hosts are large: most of them are read only once.
        let read = serde_json::from_str::<Self>(text);
        let version = match &read {
            Ok(recording) => recording.version,
            Err(_) => serde_json::from_str::<RecordingHeader>(text).map_err(no)?.version,
        };
        match version {
            RECORDING_VERSION => read.map_err(no),
            other => Err(format!("it has version {other}; this forge supports version {RECORDING_VERSION}")),
        }
    }

    /// Returns the recorded API state of a host's node.
    pub(super) fn node_seen(&self, host: &HostName) -> ObservedNode {
        let recorded = self.find_host(host);
        let unknown = || ObservedNode::Unknown { why: "not in the recording".into() };
        recorded.and_then(|recorded| recorded.node.clone()).unwrap_or_else(unknown)
    }

    /// Returns the answers of a host; none if it is not in the recording.
    ///
    /// # Errors
    /// The host was unreachable when the recording was made.
    pub(super) fn replay_answers(&self, host: &HostName) -> Result<Observation, TransportError> {
        let Some(recorded) = self.find_host(host) else {
            return Ok(Observation::default());
        };
        if let Some(missing) = &recorded.missing {
            return Err(to_missing_error(missing));
        }
        match &recorded.reach {
            HostReachability::Observed => {
                Ok(probe::replay_exchanges(&recorded.answers, &facts::fact_snippets(), &self.index.sections))
            }
            HostReachability::Unreachable(why) => Err(to_recorded_error(why)),
        }
    }
}

fn to_missing_error(missing: &MissingCluster) -> TransportError {
    let kind = match missing.absence {
        ClusterAbsence::NoKubeconfig => TransportErrorKind::NoLogin,
        ClusterAbsence::NoAnswer => TransportErrorKind::NoAnswer,
    };
    TransportError { kind, ..to_recorded_error(&UnreachableReason::new(missing.why.clone(), None)) }
}

fn to_recorded_error(why: &UnreachableReason) -> TransportError {
    TransportError {
        kind: TransportErrorKind::Connect,
        message: why.why.raw().to_owned(),
        hint: why.hint.as_ref().map(|hint| hint.raw().to_owned()),
        said: None,
        address: why.address.as_ref().map(|address| address.raw().to_owned()),
        retryable: false,
        sent_anything: false,
    }
}
