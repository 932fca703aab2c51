//! Objects that a step declared before and no longer declares, found through its record and deleted.

use super::DeclaredObject;
use crate::model::{FormerIdentity, RecordIdentity, Value};
use crate::object::ObjectId;
use crate::probe::Probe;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Returns the objects that a record names and `now` does not contain.
pub(super) fn obsolete_objects(record: &Value, now: &[DeclaredObject]) -> Vec<ObjectId> {
    let kept: BTreeSet<String> = now.iter().map(|declared| declared.id.to_claim()).collect();
    let claims = recorded_claims(record, "object");
    claims.iter().filter(|claim| !kept.contains(*claim)).filter_map(|claim| ObjectId::from_claim(claim)).collect()
}

/// Returns the claims of a kind that a record names: those of the last declaration, and those of earlier declarations
/// that are not known to be removed.
pub(in crate::resource) fn recorded_claims(record: &Value, kind: &str) -> BTreeSet<String> {
    let part = |key: &str| record.get(key).cloned().unwrap_or_default();
    // A removed declaration has no claims.
    let removed = record.get("absent").and_then(Value::as_bool) == Some(true);
    let latest = RecordIdentity::deserialize(part("identity")).ok().filter(|_| !removed);
    let before = Vec::<FormerIdentity>::deserialize(part("left")).unwrap_or_default();
    let identities = latest.into_iter().chain(before.into_iter().map(|former| former.identity));
    identities.flat_map(|identity| identity.claims).filter(|(known, _)| known == kind).map(|(_, name)| name).collect()
}

/// Returns the probes of these objects.
pub(in crate::resource) fn obsolete_probes(record: &Value, now: &[DeclaredObject]) -> Vec<Probe> {
    obsolete_objects(record, now).iter().map(ObjectId::to_probe).collect()
}
