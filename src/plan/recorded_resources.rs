//! Resources that a host's records list as made by steps, and which of these are known to be gone since.

use super::host_context::HostContext;
use super::model::StepPlan;
use super::record_identity::read_record_identity;
use super::removal_record::{is_kept_record, is_removal_record};
use crate::model::{FormerIdentity, RecordIdentity, SecretStore, StepId, Value, list_directories, resolve_directories};
use crate::object::{NodeMark, NodeMarkChanges, ObjectId, ObjectState};
use crate::probe::{Observation, PathState, Probe, ProbeReading, UserState};
use crate::resource::{AttributeChange, ChangeAspect, Resource, kind_traits};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Kind and name of a resource on a host.
pub(super) type RecordedClaim = (String, String);

/// One resource that a step made or removed.
#[derive(Clone, Debug)]
pub(super) struct RecordedResource {
    pub step: String,
    pub kind: String,
    pub title: String,
    /// Digest of the declaration; empty for a former identity.
    pub digest: String,
    /// `None` for old records, which did not contain an identity.
    pub identity: Option<RecordIdentity>,
    pub time: Option<Timestamp>,
    /// Whether it is the resource of the step's last apply, not of an earlier one.
    pub latest: bool,
    /// Whether the record says that it was removed, or kept by the removal of its recipe.
    pub removed: bool,
}

/// Returns the identity of a resource, with secrets masked.
pub fn resource_identity(resource: &dyn Resource) -> RecordIdentity {
    let plain = |list: Vec<(&'static str, String)>| {
        list.into_iter().map(|(kind, name)| (kind.to_owned(), SecretStore::mask_placeholders(&name))).collect()
    };
    RecordIdentity { claims: plain(resource.lasting_claims()), part_of: plain(resource.shared_claims()) }
}

/// Returns the former resources that the next record of a step, now about `now`, must list: all earlier resources of
/// the step except those that are known to be gone.
pub fn collect_former_resources(case: &HostContext<'_>, step: &StepId, now: &RecordIdentity) -> Vec<FormerIdentity> {
    let mut owned = OwnedClaims::default();
    owned.add_identity(now);
    let own = case.find_record(step).map(|record| parse_record(&step.to_string(), record)).unwrap_or_default();
    let own: Vec<RecordedResource> =
        own.into_iter().filter(|memory| !memory.removed && memory.is_orphaned(case, &[], &owned)).collect();
    // Usually there are none, and then the records of other steps need not be read.
    let all = if own.is_empty() { Vec::new() } else { list_recorded_resources(case) };
    own.iter().filter(|memory| memory.is_orphaned(case, &all, &owned)).filter_map(RecordedResource::to_former).collect()
}

/// Returns what the record of a step names and the resource that it declares now does not.
pub(super) fn list_former_claims(
    case: &HostContext<'_>,
    step: &StepId,
    now: &RecordIdentity,
) -> BTreeSet<RecordedClaim> {
    let own = case.find_record(step).map(|record| parse_record(&step.to_string(), record)).unwrap_or_default();
    let identities = own.into_iter().filter(|memory| !memory.removed).filter_map(|memory| memory.identity);
    let claims = identities.flat_map(|identity| identity.claims);
    claims.filter(|claim| !now.claims.contains(claim) && !now.part_of.contains(claim)).collect()
}

/// Returns all resources that the records of this cluster list.
pub(super) fn list_recorded_resources(case: &HostContext<'_>) -> Vec<RecordedResource> {
    let cluster = &case.ground.project.cluster;
    let records = case.seen.records.keys().filter_map(|step| Some((step, case.seen.find_record(cluster, step)?)));
    records.flat_map(|(step, record)| parse_record(step, record)).collect()
}

fn parse_record(step: &str, record: &Value) -> Vec<RecordedResource> {
    let left = record.get("left").cloned().unwrap_or_default();
    let left = Vec::<FormerIdentity>::deserialize(left).unwrap_or_default();
    let former = left.into_iter().map(|former| RecordedResource::from_former(step, former));
    [parse_latest_record(step, record)].into_iter().chain(former).collect()
}

/// Returns the resource of the step's last apply.
pub(super) fn parse_latest_record(step: &str, record: &Value) -> RecordedResource {
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    RecordedResource {
        step: step.to_owned(),
        kind: text("kind").to_owned(),
        title: text("title").to_owned(),
        digest: text("digest").to_owned(),
        identity: read_record_identity(record),
        time: text("time").parse().ok(),
        latest: true,
        removed: is_removal_record(record) || is_kept_record(record),
    }
}

impl RecordedResource {
    fn from_former(step: &str, former: FormerIdentity) -> Self {
        Self {
            step: step.to_owned(),
            kind: former.kind,
            title: former.title,
            digest: String::new(),
            identity: Some(former.identity),
            time: former.time.parse().ok(),
            latest: false,
            removed: false,
        }
    }

    /// Returns the form in which a later record lists it.
    fn to_former(&self) -> Option<FormerIdentity> {
        let (kind, title, identity) = (self.kind.clone(), self.title.clone(), self.identity.clone()?);
        Some(FormerIdentity { kind, title, identity, time: self.time.map(|time| time.to_string()).unwrap_or_default() })
    }

    /// Returns whether any part of it is neither `owned` now nor reported as gone by the host or by a later record.
    pub fn is_orphaned(&self, case: &HostContext<'_>, all: &[RecordedResource], owned: &OwnedClaims) -> bool {
        let Some(identity) = &self.identity else { return false };
        let later = |claim: &RecordedClaim| all.iter().any(|memory| memory.supersedes_claim(self, claim));
        let is_left = |owns: &dyn Fn(&BTreeSet<RecordedClaim>, &RecordedClaim) -> bool| {
            let told = |claim: &RecordedClaim| owns(&owned.wholes, claim) || is_claim_gone(case, claim) || later(claim);
            !identity.part_of.iter().any(told)
                && !identity.claims.iter().all(|claim| owns(&owned.parts, claim) || told(claim))
        };
        // Usually it is owned by its own name, and then the paths of all declared resources need not be compared.
        is_left(&BTreeSet::contains) && is_left(&|claims, claim| contains_place(claims, &case.seen.observation, claim))
    }

    /// Returns whether this was recorded about the same resource after `other`: then this record applies.
    fn supersedes_claim(&self, other: &RecordedResource, claim: &RecordedClaim) -> bool {
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
    pub fn contains(&self, claim: &RecordedClaim) -> bool {
        self.wholes.contains(claim) || self.parts.contains(claim)
    }

    pub fn add_identity(&mut self, identity: &RecordIdentity) {
        self.wholes.extend(identity.claims.iter().cloned());
        self.parts.extend(identity.part_of.iter().cloned());
    }

    /// Returns the probes that show whether a resource and a declared one are the same, reached through different links.
    pub fn list_link_probes(&self, memory: &RecordedResource) -> BTreeSet<Probe> {
        let claims = memory.identity.iter().flat_map(|identity| identity.claims.iter().chain(&identity.part_of));
        let pairs = claims.flat_map(|claim| {
            let owned = [&self.wholes, &self.parts].into_iter().flat_map(|owned| list_namesakes(owned, claim));
            owned.flat_map(|path| list_directories(path).chain(list_directories(&claim.1)))
        });
        pairs.map(build_path_probe).collect()
    }

    /// Adds what the steps of a plan remove as members of a group of resources: packages of another driver branch, objects
    /// that a step of the cluster does not declare any more.
    pub fn add_removed_members(&mut self, steps: &[StepPlan]) {
        let changes = steps.iter().filter(|step| step.will_run()).flat_map(|step| {
            let gone = step.changes.iter().filter(|change| change.to.is_none());
            let in_cluster = kind_traits(&step.kind).in_cluster;
            let is_member = move |change: &&AttributeChange| in_cluster || change.mark.aspect == ChangeAspect::Version;
            gone.filter(is_member).map(move |change| (step, change))
        });
        let claim = |(step, change): (&StepPlan, &AttributeChange)| {
            let kind = if kind_traits(&step.kind).in_cluster { "object" } else { &*step.kind };
            Some((kind.to_owned(), change.mark.member.as_deref()?.to_owned()))
        };
        self.wholes.extend(changes.filter_map(claim));
    }
}

/// Returns whether `claims` contain a claim, or one whose path leads to the same place through links of the host.
fn contains_place(claims: &BTreeSet<RecordedClaim>, seen: &Observation, claim: &RecordedClaim) -> bool {
    let resolve = |path: &str| resolve_directories(path, |directory| find_link_target(seen, directory));
    claims.contains(claim) || list_namesakes(claims, claim).any(|path| resolve(path) == resolve(&claim.1))
}

/// Returns the other paths in `claims` whose last component is that of a claimed path.
fn list_namesakes<'c>(claims: &'c BTreeSet<RecordedClaim>, claim: &RecordedClaim) -> impl Iterator<Item = &'c str> {
    let own = file_name(claim).map(str::to_owned);
    let is_namesake = move |other: &&RecordedClaim| own.is_some() && file_name(other) == own.as_deref();
    let path = claim.1.clone();
    claims.iter().filter(is_namesake).map(|other| other.1.as_str()).filter(move |other| *other != path)
}

fn file_name((claimed, path): &RecordedClaim) -> Option<&str> {
    path.rsplit_once('/').filter(|_| claimed == "path").map(|(_, name)| name)
}

fn find_link_target(seen: &Observation, path: &str) -> Option<String> {
    match seen.get(&build_path_probe(path)).ok()? {
        ProbeReading::Path(PathState::Present(info)) => Some(info.target.as_ref()?.raw().to_owned()),
        _ => None,
    }
}

fn build_path_probe(path: &str) -> Probe {
    Probe::Path { path: path.to_owned(), want: None }
}

/// Returns whether the host reported that a resource does not exist. Without a probe the answer is false.
fn is_claim_gone(case: &HostContext<'_>, claim: &RecordedClaim) -> bool {
    let told = build_claim_probe(claim).and_then(|probe| case.seen.observation.get(&probe).ok());
    told.is_some_and(|reading| {
        is_reading_absent(reading)
            || node_mark(claim).is_some_and(|mark| node_lacks_mark(reading, &mark))
            || kind_traits(&claim.0).claim_is_gone.is_some_and(|is_gone| is_gone(&claim.1, reading))
    })
}

/// Returns the mark of a Kubernetes node (a label, annotation or taint) that a claim names.
fn node_mark(claim: &RecordedClaim) -> Option<NodeMark> {
    let (node, mark) = NodeMark::from_record_key(&claim.1)?;
    let is_read = build_claim_probe(claim)? == NodeMarkChanges::node_id(&node).to_probe();
    is_read.then_some(mark)
}

/// Returns whether a node does not have the mark.
fn node_lacks_mark(reading: &ProbeReading, mark: &NodeMark) -> bool {
    let ProbeReading::Object(ObjectState::Known(info)) = reading else { return false };
    info.live.as_ref().is_some_and(|node| mark.value_on_node(node).is_none())
}

fn is_reading_absent(reading: &ProbeReading) -> bool {
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

/// Several kinds claim paths and objects; other claims belong to one kind, which builds their probe.
fn build_claim_probe((claimed, name): &RecordedClaim) -> Option<Probe> {
    match claimed.as_str() {
        "path" => Some(build_path_probe(name)),
        "object" => Some(ObjectId::from_claim(name)?.to_probe()),
        kind => kind_traits(kind).claim_probe?(name),
    }
}

/// Returns the probes that show whether resources that may be left behind still exist.
pub(super) fn list_claim_probes<'m>(memories: impl Iterator<Item = &'m RecordedResource>) -> BTreeSet<Probe> {
    memories
        .filter_map(|memory| memory.identity.as_ref())
        .flat_map(|identity| &identity.claims)
        .filter_map(build_claim_probe)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{PackageState, UnitState};

    #[test]
    fn removed_node_label_counts_as_absent() {
        let claim = ("node".to_owned(), "gpu-1 label team".to_owned());
        let node = |labels: Value| {
            let live = Some(serde_json::json!({ "metadata": { "labels": labels } }));
            ProbeReading::Object(ObjectState::Known(Box::new(crate::object::ObjectInfo { live, ..Default::default() })))
        };
        let mark = node_mark(&claim).unwrap();
        assert!(node_lacks_mark(&node(serde_json::json!({ "other": "x" })), &mark));
        assert!(!node_lacks_mark(&node(serde_json::json!({ "team": "ml" })), &mark));
        assert!(!node_lacks_mark(&ProbeReading::Object(ObjectState::Unserved), &mark));
        assert_eq!(build_claim_probe(&claim), Some(NodeMarkChanges::node_id("gpu-1").to_probe()));
    }

    #[test]
    fn absent_resources_are_recognized_from_readings() {
        let unit = |load: &str| ProbeReading::Unit(Box::new(UnitState { load: load.into(), ..UnitState::default() }));
        assert!(
            is_reading_absent(&unit("not-found"))
                && !is_reading_absent(&unit("loaded"))
                && !is_reading_absent(&unit(""))
        );
        let package = |version: Option<&str>| {
            ProbeReading::Package(Box::new(PackageState {
                version: version.map(Into::into),
                ..PackageState::default()
            }))
        };
        assert!(is_reading_absent(&package(None)) && !is_reading_absent(&package(Some("1"))));
        assert!(
            is_reading_absent(&ProbeReading::User(UserState::Absent))
                && is_reading_absent(&ProbeReading::Path(PathState::Absent))
        );
    }

    #[test]
    fn only_probeable_kinds_get_a_claim_probe() {
        let claim = |kind: &str| build_claim_probe(&(kind.to_owned(), "x".to_owned()));
        assert!(["path", "user", "service", "package"].into_iter().all(|kind| claim(kind).is_some()));
        assert_eq!(claim("line"), None);
    }
}
