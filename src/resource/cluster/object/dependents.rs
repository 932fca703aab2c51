//! Objects that the API deletes with another one: the contents of a namespace, and the objects of a kind.

use crate::model::Value;
use crate::object::ObjectId;
use crate::probe::{ObjectsQuery, Observation, Probe, ProbeReading, UnansweredReason};
use crate::resource::shared::support::contents;
use std::collections::BTreeMap;

/// Number of dependents that a message names.
const SHOWN_DEPENDENTS: usize = 5;

/// Returns the query for all objects of a kind.
pub(in crate::resource) fn query_kind(api_version: String, kind: String) -> ObjectsQuery {
    ObjectsQuery { api_version, kind, namespace: None, name: None, labels: BTreeMap::new() }
}

/// Returns the probe for the dependents of `id`; `None` for kinds without any. `serves` selects the objects of the kind that
/// a CustomResourceDefinition defines.
pub(in crate::resource) fn dependents_probe(id: &ObjectId, serves: Option<ObjectsQuery>) -> Option<Probe> {
    match id.kind.as_str() {
        "Namespace" => Some(Probe::Contents { namespace: id.name.clone() }),
        _ => serves.map(|query| Probe::Objects(Box::new(query))),
    }
}

/// Returns the names of the dependents: `ConfigMap settings` of a namespace, `Part web/one` of a kind. Those that are being
/// deleted are left out, and of a namespace those that another one owns.
///
/// # Errors
/// They could not be listed, for example because the API does not serve the kind in this version.
pub(in crate::resource) fn list_dependents(seen: &Observation, probe: &Probe) -> Result<Vec<String>, UnansweredReason> {
    let Probe::Objects(query) = probe else {
        let found = contents(seen, probe)?;
        return Ok(if found.roots.is_empty() { found.first.clone() } else { found.roots.clone() });
    };
    let ProbeReading::Objects(Some(objects)) = seen.get(probe)? else {
        let why = format!("the API serves no `{}` of `{}`", query.kind, query.api_version);
        return Err(UnansweredReason::new(format!("{why}: whether objects of it exist is not known")));
    };
    let stays = |object: &&Value| object.pointer("/metadata/deletionTimestamp").is_none();
    Ok(objects.iter().filter(stays).filter_map(ObjectId::from_object).map(|id| id.to_string()).collect())
}

/// Reports whether [`list_dependents`] gives `object` the name `dependent`, as a dependent of `id`.
pub(in crate::resource) fn is_dependent(id: &ObjectId, object: &ObjectId, dependent: &str) -> bool {
    let ObjectId { kind, name, namespace, .. } = object;
    match id.kind.as_str() {
        "Namespace" => namespace.as_ref() == Some(&id.name) && format!("{kind} {name}") == dependent,
        _ => object.to_string() == dependent,
    }
}

/// Says which dependents keep `id` from being deleted, as a lowercase fragment.
pub(in crate::resource) fn describe_dependents(id: &ObjectId, names: &[&str]) -> String {
    let why = match id.kind.as_str() {
        "Namespace" => format!("{id} is not empty"),
        _ => format!("objects of {id} exist"),
    };
    let more = if names.len() > SHOWN_DEPENDENTS { " and more" } else { "" };
    format!("{why}: {}{more}", names[..names.len().min(SHOWN_DEPENDENTS)].join(", "))
}
