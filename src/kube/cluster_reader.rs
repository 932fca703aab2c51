//! Read-only access to a cluster: live objects, and the results of dry runs.

use super::api::FIELD_MANAGER;
use super::request_error::{ApiRequestError, parse_conflict_manager};
use super::served_kinds::{ApiCollection, ApiKindCache};
use super::{ClusterApi, KubeError, records};
use crate::model::{SecretStore, Value};
use crate::object::{
    AddedField, ObjectCondition, ObjectDryRun, ObjectFieldConflict, ObjectId, ObjectInfo, ObjectState,
};
use crate::object::{Redactor, find_added_fields, last_set_time, list_field_managers, remove_pointers};
use crate::object::{reveal_object, strip_server_fields};
use crate::probe::{Probe, ProbeReading, ScriptAccount, UnansweredReason};
use futures_util::StreamExt;
use std::collections::BTreeSet;

/// Maximum number of concurrent probes.
const CONCURRENT_PROBES: usize = 8;

/// Queries a cluster's API, read-only.
///
/// Architecture Invariant: it has no methods that change the cluster. Predicted changes come from dry runs, which the
/// API does not store.
#[derive(Clone)]
pub struct ClusterReader {
    pub(super) cluster: ClusterApi,
    /// The inventory's name of the cluster; its records are named after it.
    pub(super) name: String,
}

/// A probe with its result.
pub type AnsweredProbe = (Probe, Result<ProbeReading, UnansweredReason>);

impl ClusterReader {
    /// Creates it; `name` is the inventory's name of the cluster.
    pub fn new(cluster: ClusterApi, name: &str) -> Self {
        Self { cluster, name: name.to_owned() }
    }

    /// Closes the session that the connection goes through.
    pub async fn close(self) {
        self.cluster.close().await;
    }

    /// Runs `probes`. A probe that the API refuses has an unknown result.
    ///
    /// # Errors
    /// The API does not answer, or rejects the credentials.
    pub async fn observe_probes(
        &self,
        probes: &BTreeSet<Probe>,
        secrets: &SecretStore,
    ) -> Result<Vec<AnsweredProbe>, KubeError> {
        let served = ApiKindCache::default();
        self.cluster.clear_discovery().await;
        let one = |probe: Probe| {
            let served = &served;
            async move {
                let answer = self.answer_probe(&probe, served, secrets).await;
                (probe, answer)
            }
        };
        let all: Vec<_> =
            futures_util::stream::iter(probes.iter().cloned().map(one)).buffered(CONCURRENT_PROBES).collect().await;
        all.into_iter().map(|(probe, answer)| Ok((probe, self.to_reading_result(answer)?))).collect()
    }

    /// # Errors
    /// No further request can succeed.
    fn to_reading_result(
        &self,
        answer: Result<ProbeReading, ApiRequestError>,
    ) -> Result<Result<ProbeReading, UnansweredReason>, KubeError> {
        match answer {
            Ok(reading) => Ok(Ok(reading)),
            Err(ApiRequestError::Away(error)) => Err(error),
            Err(said) => Ok(Err(UnansweredReason::new(said.into_kube_error(self.cluster.server()).message))),
        }
    }

    async fn answer_probe(
        &self,
        probe: &Probe,
        served: &ApiKindCache,
        secrets: &SecretStore,
    ) -> Result<ProbeReading, ApiRequestError> {
        Ok(match probe {
            Probe::Object { id, want } => {
                let want = want.as_deref().and_then(|text| serde_json::from_str(text).ok());
                ProbeReading::Object(self.observe_object(id, want.as_ref(), served, secrets).await?)
            }
            Probe::Proof { id } => ProbeReading::Proof(Box::new(self.read_proof(id, served).await?)),
            Probe::Objects(asked) => ProbeReading::Objects(self.cluster.query_objects(asked, served, secrets).await?),
            Probe::ClusterFact { name } => ProbeReading::ClusterFact(self.cluster.read_fact(name).await?),
            Probe::Contents { namespace } => {
                ProbeReading::Contents(self.cluster.list_namespace_contents(namespace, served).await?)
            }
            Probe::Release(asked) => match self.cluster.observe_release(asked, secrets).await {
                Ok(state) => ProbeReading::Release(Box::new(state)),
                // Errors of helm or of a chart affect this probe only.
                Err(error) => return Err(ApiRequestError::Local(error.message)),
            },
            Probe::Records => ProbeReading::Records(Box::new(records::read_records(&self.cluster, &self.name).await?)),
            Probe::Account => ProbeReading::Account(ScriptAccount::Root),
            _ => return Err(ApiRequestError::Local("is a probe for a host".to_owned())),
        })
    }

    async fn observe_object(
        &self,
        id: &ObjectId,
        want: Option<&Value>,
        served: &ApiKindCache,
        secrets: &SecretStore,
    ) -> Result<ObjectState, ApiRequestError> {
        let Some(place) = self.cluster.find_collection(id, served).await? else { return Ok(ObjectState::Unserved) };
        let raw = self.cluster.get_object(&place, id).await?;
        let mut info = raw.as_ref().map(read_object_info).unwrap_or_default();
        let mut becomes = None;
        if let Some(want) = want {
            let sent = reveal_object(want, secrets);
            match self.dry_run_apply(&place, id, &sent, &mut info).await? {
                ObjectDryRun::Becomes(object) => {
                    if let Some(raw) = &raw {
                        self.record_added_fields(&place, id, raw, &object, &sent, &mut info).await?;
                    }
                    becomes = Some(strip_server_fields(object));
                }
                other => info.dry = Some(other),
            }
        }
        let mut live = raw.map(strip_server_fields);
        let declared = want.or(live.as_ref()).cloned().unwrap_or_default();
        Redactor::for_object(&declared, Some(secrets)).mask_pair(&mut live, &mut becomes);
        info.live = live;
        info.dry = becomes.map(ObjectDryRun::Becomes).or(info.dry);
        Ok(ObjectState::Known(Box::new(info)))
    }

    /// Runs an apply as a dry run: first without force, so that the API names conflicting managers.
    async fn dry_run_apply(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        want: &Value,
        info: &mut ObjectInfo,
    ) -> Result<ObjectDryRun, ApiRequestError> {
        let first = self.cluster.apply_object(place, id, want, false, true).await;
        let answer = match first {
            Err(ApiRequestError::Said { code: 409, causes, .. }) if !causes.is_empty() => {
                info.conflicts = causes.iter().map(|(field, message)| parse_conflict(field, message, info)).collect();
                self.cluster.apply_object(place, id, want, true, true).await
            }
            other => other,
        };
        match answer {
            Ok(object) => Ok(ObjectDryRun::Becomes(object)),
            Err(refusal) if refusal.has_code(404) && id.namespace.is_some() => Ok(ObjectDryRun::NoNamespace),
            // Then it is unknown whether the API would refuse the apply.
            Err(refusal) if refusal.is_dry_run_unsupported() => Err(refusal),
            Err(refusal @ ApiRequestError::Said { code: 400..=499, .. }) if !refusal.has_code(403) => {
                Ok(ObjectDryRun::Refused(refusal.api_message()))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Finds fields that were added manually and can be removed. Fields that a dry run restores are not additions.
    async fn record_added_fields(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        raw: &Value,
        applied: &Value,
        sent: &Value,
        info: &mut ObjectInfo,
    ) -> Result<(), ApiRequestError> {
        let found = find_added_fields(raw, applied, FIELD_MANAGER, sent);
        let found: Vec<AddedField> = found.iter().filter_map(|added| added.to_added_field(raw)).collect();
        if found.is_empty() {
            return Ok(());
        }
        let pointers: Vec<String> = found.iter().map(|added| added.pointer.clone()).collect();
        match self.cluster.replace_object(place, id, &remove_pointers(raw, &pointers), true).await {
            Ok(left) => {
                let gone = |added: &AddedField| left.pointer(&added.pointer) != raw.pointer(&added.pointer);
                info.added = found.into_iter().filter(gone).collect();
            }
            Err(refusal @ (ApiRequestError::Said { .. } | ApiRequestError::Local(_))) => {
                info.stuck = Some(refusal.api_message())
            }
            Err(away) => return Err(away),
        }
        Ok(())
    }
}

fn parse_conflict(field: &str, message: &str, info: &ObjectInfo) -> ObjectFieldConflict {
    let manager = parse_conflict_manager(message).to_owned();
    ObjectFieldConflict { field: field.to_owned(), time: last_set_time(&info.managers, &manager), manager }
}

fn read_object_info(raw: &Value) -> ObjectInfo {
    let text = |pointer: &str| raw.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    ObjectInfo {
        uid: text("/metadata/uid"),
        version: text("/metadata/resourceVersion"),
        deleting: raw.pointer("/metadata/deletionTimestamp").is_some(),
        managers: list_field_managers(raw),
        conditions: parse_conditions(raw),
        ..ObjectInfo::default()
    }
}

fn parse_conditions(raw: &Value) -> Vec<ObjectCondition> {
    let all = raw.pointer("/status/conditions").and_then(Value::as_array);
    let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let one = |item: &Value| ObjectCondition {
        name: text(item, "type"),
        status: text(item, "status"),
        message: text(item, "message"),
    };
    all.into_iter().flatten().map(one).collect()
}
