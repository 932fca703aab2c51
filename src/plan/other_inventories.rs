//! Steps of other inventories that declare the same as a step here, but differently. Each apply of one undoes the other's.
//!
//! Each inventory has its own records on a host and in the cluster's API; those of the others show what they declared.

use super::declared_digest::digest_desired;
use super::host_context::{HostContext, StepInstance};
use super::model::HostWarning;
use super::recorded_resources::{RecordedClaim, parse_latest_record, resource_identity};
use crate::config::{ExpansionState, values_contradict};
use crate::model::Value;
use crate::object::ObjectId;
use crate::resource::Resource;
use std::collections::BTreeMap;

/// Number of steps that a warning names.
const NAMED_STEPS: usize = 3;

/// What the latest record of another inventory says about one claim.
struct ForeignClaim<'r> {
    cluster: &'r str,
    step: &'r str,
    kind: String,
    digest: String,
    removed: bool,
    /// Whether the step declared all of it, not a part.
    whole: bool,
    /// Whether its step has this claim alone: then equal steps have equal digests.
    single: bool,
    time: Option<jiff::Timestamp>,
    record: &'r Value,
}

type ForeignClaims<'r> = BTreeMap<RecordedClaim, Vec<ForeignClaim<'r>>>;

/// When this inventory was applied last to what it claims here, by whichever step.
type OwnTimes = BTreeMap<RecordedClaim, jiff::Timestamp>;

/// Returns a warning for each other inventory that has declared something here that a step of this one declares
/// differently.
pub(super) fn warn_other_inventories(case: &HostContext<'_>, turns: &[StepInstance<'_>]) -> Vec<HostWarning> {
    if case.ground.project.generated {
        return Vec::new();
    }
    let foreign = list_foreign_claims(case);
    if foreign.is_empty() {
        return Vec::new();
    }
    let own = list_own_times(case);
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for turn in turns {
        for claim in find_contradictions(case, turn, &foreign, &own) {
            let said = describe_contradiction(turn, claim.1, claim.0, &own);
            let told = found.entry(claim.1.cluster).or_default();
            // A step may claim several things, a name and a file.
            if !told.contains(&said) {
                told.push(said);
            }
        }
    }
    found.into_iter().map(|(cluster, steps)| build_warning(case, cluster, &steps)).collect()
}

/// Returns the claims in the latest records of other inventories. Records of the first versions name no inventory.
fn list_foreign_claims<'r>(case: &HostContext<'r>) -> ForeignClaims<'r> {
    let own = case.ground.project.cluster.as_str();
    let mut found = ForeignClaims::new();
    for (step, record) in case.seen.records.iter().flat_map(|(step, all)| all.iter().map(move |one| (step, one))) {
        let Some(cluster) = record.get("cluster").and_then(Value::as_str).filter(|cluster| *cluster != own) else {
            continue;
        };
        let memory = parse_latest_record(step, record);
        let Some(identity) = &memory.identity else { continue };
        let claims = identity.claims.iter().map(|claim| (claim, true));
        for (claim, whole) in claims.chain(identity.part_of.iter().map(|claim| (claim, false))) {
            let entry = ForeignClaim {
                cluster,
                step,
                kind: memory.kind.clone(),
                digest: memory.digest.clone(),
                removed: memory.removed,
                whole,
                single: identity.claims.len() == 1,
                time: memory.time,
                record,
            };
            add_latest(found.entry(claim.clone()).or_default(), entry);
        }
    }
    found
}

fn list_own_times(case: &HostContext<'_>) -> OwnTimes {
    let own = case.ground.project.cluster.as_str();
    let mut times = OwnTimes::new();
    for (step, record) in case.seen.records.iter().flat_map(|(step, all)| all.iter().map(move |one| (step, one))) {
        if record.get("cluster").and_then(Value::as_str).is_some_and(|cluster| cluster != own) {
            continue;
        }
        let memory = parse_latest_record(step, record);
        let (Some(identity), Some(time)) = (memory.identity, memory.time) else { continue };
        for claim in identity.claims.into_iter().chain(identity.part_of) {
            let latest = times.entry(claim).or_insert(time);
            *latest = time.max(*latest);
        }
    }
    times
}

/// Of several steps of one inventory that declared the same, only the last one counts: the others were renamed.
fn add_latest<'r>(known: &mut Vec<ForeignClaim<'r>>, entry: ForeignClaim<'r>) {
    let same = |other: &ForeignClaim<'_>| other.cluster == entry.cluster && other.whole && entry.whole;
    match known.iter_mut().find(|other| same(other)) {
        Some(other) if other.time < entry.time => *other = entry,
        Some(_) => {}
        None => known.push(entry),
    }
}

fn find_contradictions<'f, 'r>(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    foreign: &'f ForeignClaims<'r>,
    own_times: &OwnTimes,
) -> Vec<(&'f RecordedClaim, &'f ForeignClaim<'r>)> {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return Vec::new() };
    let own = resource_identity(resource.as_ref());
    let own = own.claims.iter().map(|claim| (claim, true)).chain(own.part_of.iter().map(|claim| (claim, false)));
    let mut found = Vec::new();
    for (claim, whole) in own {
        let Some((claim, others)) = foreign.get_key_value(claim) else { continue };
        let differs = |other: &&ForeignClaim<'_>| match (whole, other.whole) {
            (false, false) => false,
            (true, true) => contradicts(case, turn, resource.as_ref(), other, own_times.get(claim)),
            // A file as a whole, and a line or block in it.
            _ => !other.removed && !is_removal(turn, resource.as_ref()),
        };
        found.extend(others.iter().filter(differs).map(|other| (claim, other)));
    }
    found
}

fn is_removal(turn: &StepInstance<'_>, resource: &dyn Resource) -> bool {
    turn.expanded.absent || resource.claimed_value()["absent"] == true
}

fn contradicts(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    resource: &dyn Resource,
    other: &ForeignClaim<'_>,
    own_time: Option<&jiff::Timestamp>,
) -> bool {
    match (is_removal(turn, resource), other.removed) {
        (true, true) => false,
        (true, false) => true,
        // What another inventory removed may be taken over; only a later removal takes it away again.
        (false, true) => is_later(own_time, other),
        (false, false) if resource.kind() != other.kind => true,
        (false, false) => declares_otherwise(case, resource, other),
    }
}

/// Compares what the record shows; the digest if that is secret. Of steps with lists, such as packages, only what holds
/// for each item is compared.
fn declares_otherwise(case: &HostContext<'_>, resource: &dyn Resource, other: &ForeignClaim<'_>) -> bool {
    match other.record.get("value") {
        Some(value) => values_contradict(&resource.claimed_value(), value, resource.open_fields()),
        None => other.single && digest_desired(resource, case.ground.secrets, case.seen.key.as_deref()) != other.digest,
    }
}

/// Reports whether the other inventory was applied after this one, which was applied here before.
fn is_later(own_time: Option<&jiff::Timestamp>, other: &ForeignClaim<'_>) -> bool {
    own_time.zip(other.time).is_some_and(|(own, other)| other > *own)
}

fn describe_contradiction(
    turn: &StepInstance<'_>,
    other: &ForeignClaim<'_>,
    claim: &RecordedClaim,
    own_times: &OwnTimes,
) -> String {
    let (kind, name) = claim;
    let text = |key: &str| other.record.get(key).and_then(Value::as_str).unwrap_or("?");
    let run = || format!("in run {} by {} on {}", text("run"), text("user"), text("controller"));
    let last = match own_times.get(claim) {
        None => format!(", {}", run()),
        own if is_later(own, other) => format!(", applied after this one {}", run()),
        Some(_) => String::new(),
    };
    let what = match ObjectId::from_claim(name).filter(|_| kind == "object") {
        Some(object) => object.to_string(),
        None => format!("{kind} `{name}`"),
    };
    format!("{what} by `{}`, there by `{}`{last}", turn.expanded.id, other.step)
}

fn build_warning(case: &HostContext<'_>, cluster: &str, steps: &[String]) -> HostWarning {
    let named = steps.iter().take(NAMED_STEPS).map(String::as_str).collect::<Vec<_>>().join("; ");
    let more = match steps.len().saturating_sub(NAMED_STEPS) {
        0 => String::new(),
        more => format!("; {more} more"),
    };
    let records = match case.host.name.is_cluster() {
        true => "its ConfigMap in forge's namespace",
        false => "its records in `/var/lib/forge/applied`",
    };
    HostWarning {
        why: format!("cluster `{cluster}` was applied here with another declaration: {named}{more}").into(),
        hint: Some(format!(
            "each apply of one inventory undoes the other's: declare it in one of them; if the other is no longer used, \
             remove {records}"
        )),
    }
}
