//! Resources that a host's records list as made by steps, and which of these are known to be gone since.

use super::case::HostContext;
use super::undeclared::removed;
use crate::kube::{NodeMark, NodeMarkChanges};
use crate::model::{SecretStore, StepId, Value};
use crate::probe::{AptOfferPolicy, ObjectId, ObjectState, PathState, Probe, ProbeReading, UserState};
use crate::resource::Resource;
use crate::state::{FormerIdentity, RecordIdentity};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Kind and name of a resource on a host.
type RecordedClaim = (String, String);

/// One resource that a step made or removed.
#[derive(Clone, Debug)]
pub(super) struct RecordedResource {
    pub step: String,
    pub kind: String,
    pub title: String,
    /// `None` for old records, which did not contain an identity.
    pub identity: Option<RecordIdentity>,
    time: Option<Timestamp>,
    /// Whether it is the resource of the step's last apply, not of an earlier one.
    pub latest: bool,
    /// Whether the record says that it was removed.
    pub removed: bool,
}

/// Returns the identity of a resource, with secrets masked.
pub fn identity(resource: &dyn Resource) -> RecordIdentity {
    let plain = |list: Vec<(&'static str, String)>| {
        list.into_iter().map(|(kind, name)| (kind.to_owned(), SecretStore::mask(&name))).collect()
    };
    RecordIdentity { claims: plain(resource.claims()), part_of: plain(resource.shares()) }
}

/// Returns the former resources that the next record of a step, now about `now`, must list: all earlier resources of
/// the step except those that are known to be gone.
pub fn left(case: &HostContext<'_>, step: &StepId, now: &RecordIdentity) -> Vec<FormerIdentity> {
    let mut owned = OwnedClaims::default();
    owned.add(now);
    let own = case.record(step).map(|record| of_record(&step.to_string(), record)).unwrap_or_default();
    let own: Vec<RecordedResource> =
        own.into_iter().filter(|memory| !memory.removed && memory.lost(case, &[], &owned)).collect();
    // Usually there are none, and then the records of other steps need not be read.
    let all = if own.is_empty() { Vec::new() } else { memories(case) };
    own.iter().filter(|memory| memory.lost(case, &all, &owned)).filter_map(RecordedResource::former).collect()
}

/// Returns all resources that the records of this cluster list.
pub(super) fn memories(case: &HostContext<'_>) -> Vec<RecordedResource> {
    let cluster = &case.ground.project.cluster;
    let records = case.seen.records.keys().filter_map(|step| Some((step, case.seen.record(cluster, step)?)));
    records.flat_map(|(step, record)| of_record(step, record)).collect()
}

fn of_record(step: &str, record: &Value) -> Vec<RecordedResource> {
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    let part = |key: &str| record.get(key).cloned().unwrap_or_default();
    let identity = RecordIdentity::deserialize(part("identity")).ok().or_else(|| named_by_title(text("title")));
    let latest = RecordedResource {
        step: step.to_owned(),
        kind: text("kind").to_owned(),
        title: text("title").to_owned(),
        identity,
        time: text("time").parse().ok(),
        latest: true,
        removed: removed(record),
    };
    let left = Vec::<FormerIdentity>::deserialize(part("left")).unwrap_or_default();
    [latest].into_iter().chain(left.into_iter().map(|former| RecordedResource::before(step, former))).collect()
}

/// Returns the identity for an old record, which has only a title: a path identifies a resource for all kinds.
fn named_by_title(title: &str) -> Option<RecordIdentity> {
    let claims = vec![("path".to_owned(), title.to_owned())];
    title.starts_with('/').then_some(RecordIdentity { claims, part_of: Vec::new() })
}

impl RecordedResource {
    fn before(step: &str, former: FormerIdentity) -> Self {
        Self {
            step: step.to_owned(),
            kind: former.kind,
            title: former.title,
            identity: Some(former.identity),
            time: former.time.parse().ok(),
            latest: false,
            removed: false,
        }
    }

    /// Returns the form in which a later record lists it.
    fn former(&self) -> Option<FormerIdentity> {
        let (kind, title, identity) = (self.kind.clone(), self.title.clone(), self.identity.clone()?);
        Some(FormerIdentity { kind, title, identity, time: self.time.map(|time| time.to_string()).unwrap_or_default() })
    }

    /// Returns whether any part of it is neither `owned` now nor reported as gone by the host or by a later record.
    pub fn lost(&self, case: &HostContext<'_>, all: &[RecordedResource], owned: &OwnedClaims) -> bool {
        let Some(identity) = &self.identity else { return false };
        let later = |claim: &RecordedClaim| all.iter().any(|memory| memory.succeeds(self, claim));
        let told = |claim: &RecordedClaim| owned.wholes.contains(claim) || is_gone(case, claim) || later(claim);
        !identity.part_of.iter().any(told)
            && !identity.claims.iter().all(|claim| owned.parts.contains(claim) || told(claim))
    }

    /// Returns whether this was recorded about the same resource after `other`: then this record applies.
    fn succeeds(&self, other: &RecordedResource, claim: &RecordedClaim) -> bool {
        self.time > other.time && self.identity.as_ref().is_some_and(|identity| identity.claims.contains(claim))
    }
}

/// Resources that steps declare, as a whole or in part.
#[derive(Debug, Default)]
pub(super) struct OwnedClaims {
    wholes: BTreeSet<RecordedClaim>,
    parts: BTreeSet<RecordedClaim>,
}

impl OwnedClaims {
    pub fn add(&mut self, identity: &RecordIdentity) {
        self.wholes.extend(identity.claims.iter().cloned());
        self.parts.extend(identity.part_of.iter().cloned());
    }
}

/// Returns whether the host reported that a resource does not exist. Without a probe the answer is false.
fn is_gone(case: &HostContext<'_>, claim: &RecordedClaim) -> bool {
    let told = probe(claim).and_then(|probe| case.seen.observation.get(&probe).ok());
    told.is_some_and(|reading| says_gone(reading) || mark(claim).is_some_and(|mark| lacks(reading, &mark)))
}

/// Returns the mark of a Kubernetes node (a label, annotation or taint) that a claim names.
fn mark((kind, name): &RecordedClaim) -> Option<NodeMark> {
    NodeMark::of_claim(name).filter(|_| kind == "node").map(|(_, mark)| mark)
}

/// Returns whether a node does not have the mark.
fn lacks(reading: &ProbeReading, mark: &NodeMark) -> bool {
    let ProbeReading::Object(ObjectState::Known(info)) = reading else { return false };
    info.live.as_ref().is_some_and(|node| mark.of(node).is_none())
}

fn says_gone(reading: &ProbeReading) -> bool {
    match reading {
        ProbeReading::Path(path) => *path == PathState::Absent,
        ProbeReading::User(user) => *user == UserState::Absent,
        ProbeReading::Unit(unit) => unit.load == "not-found",
        ProbeReading::Package(package) => package.version.is_none(),
        ProbeReading::Object(ObjectState::Unserved) => true,
        ProbeReading::Object(ObjectState::Known(info)) => info.live.is_none(),
        _ => false,
    }
}

fn probe((kind, name): &RecordedClaim) -> Option<Probe> {
    let name = name.clone();
    Some(match kind.as_str() {
        "path" => Probe::Path { path: name, want: None },
        "user" => Probe::User { name },
        "service" => Probe::Unit { name },
        "object" => ObjectId::of_claim(&name)?.probe(),
        "node" => NodeMarkChanges::id(&NodeMark::of_claim(&name)?.0).probe(),
        "package" => Probe::Package { name, offers: AptOfferPolicy::Unneeded },
        _ => return None,
    })
}

/// Returns the probes that show whether resources that may be left behind still exist.
pub(super) fn probes<'m>(memories: impl Iterator<Item = &'m RecordedResource>) -> BTreeSet<Probe> {
    memories
        .filter_map(|memory| memory.identity.as_ref())
        .flat_map(|identity| &identity.claims)
        .filter_map(probe)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{PackageState, UnitState};

    #[test]
    fn what_a_node_carries_no_more_is_gone() {
        let claim = ("node".to_owned(), "gpu-1 label team".to_owned());
        let node = |labels: Value| {
            let live = Some(serde_json::json!({ "metadata": { "labels": labels } }));
            ProbeReading::Object(ObjectState::Known(Box::new(crate::probe::ObjectInfo { live, ..Default::default() })))
        };
        let mark = mark(&claim).unwrap();
        assert!(lacks(&node(serde_json::json!({ "other": "x" })), &mark));
        assert!(!lacks(&node(serde_json::json!({ "team": "ml" })), &mark));
        assert!(!lacks(&ProbeReading::Object(ObjectState::Unserved), &mark));
        assert_eq!(probe(&claim), Some(NodeMarkChanges::id("gpu-1").probe()));
    }

    #[test]
    fn what_hosts_say_of_things_that_are_gone() {
        let unit = |load: &str| ProbeReading::Unit(UnitState { load: load.into(), ..UnitState::default() });
        assert!(says_gone(&unit("not-found")) && !says_gone(&unit("loaded")) && !says_gone(&unit("")));
        let package = |version: Option<&str>| {
            ProbeReading::Package(PackageState { version: version.map(Into::into), ..PackageState::default() })
        };
        assert!(says_gone(&package(None)) && !says_gone(&package(Some("1"))));
        assert!(says_gone(&ProbeReading::User(UserState::Absent)) && says_gone(&ProbeReading::Path(PathState::Absent)));
    }

    #[test]
    fn what_can_be_asked_for_is_asked_for() {
        let claim = |kind: &str| probe(&(kind.to_owned(), "x".to_owned()));
        assert!(["path", "user", "service", "package"].into_iter().all(|kind| claim(kind).is_some()));
        assert_eq!(claim("line"), None);
    }
}
