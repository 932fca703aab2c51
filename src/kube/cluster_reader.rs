//! Read-only access to a cluster: live objects, and the results of dry runs.

use super::api::{CHANGED_OBJECT_READS, FIELD_MANAGER};
use super::deletion_blocker::find_blocker;
use super::request_error::{ApiRequestError, parse_conflict_manager};
use super::served_kinds::{ApiCollection, ApiKindCache};
use super::{ClusterApi, KubeError, records};
use crate::model::{SecretStore, Value};
use crate::object::{
    AddedField, FieldPath, FormerFields, ListOrder, ObjectCondition, ObjectDryRun, ObjectFieldConflict, ObjectId,
    ObjectInfo, ObjectState,
};
use crate::object::{
    Redactor, find_added_fields, find_differences, find_order_differences, last_set_time, list_field_managers,
    remove_pointers, restore_list_order, restore_orders,
};
use crate::object::{find_status_lag, overlay_object, reveal_object, strip_server_fields};
use crate::probe::{Probe, ProbeReading, ScriptAccount, UnansweredReason};
use futures_util::StreamExt;
use std::collections::{BTreeMap, BTreeSet};

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

/// An object, and the result of a dry run for it: two requests.
struct ObjectRead {
    state: ObjectState,
    /// Whether the dry run was of another version of the object than the one that was read: their differences are then
    /// also those that another client made.
    changed_meanwhile: bool,
}

/// Returns the version of an object that the API has stored; a dry run of an apply has that of the object before it, and
/// none if that does not exist (measured with Kubernetes 1.20).
fn stored_version(object: &Value) -> Option<&str> {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str)
}

/// Number of fields added by hand that are tried one by one if the API refuses to remove all of them.
const MAX_SINGLE_REMOVALS: usize = 20;

/// Number of nodes from which one list costs less than a request for each of them.
const MIN_NODES_TO_LIST: usize = 5;

/// Nodes that were read with one list, by name.
type ListedNodes = BTreeMap<String, Value>;

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
        let nodes = self.list_wanted_nodes(probes, &served).await?;
        let one = |probe: Probe| {
            let (served, nodes) = (&served, nodes.as_ref());
            async move {
                let answer = self.answer_probe(&probe, served, nodes, secrets).await;
                (probe, answer)
            }
        };
        let all: Vec<_> =
            futures_util::stream::iter(probes.iter().cloned().map(one)).buffered(CONCURRENT_PROBES).collect().await;
        all.into_iter().map(|(probe, answer)| Ok((probe, self.to_reading_result(answer)?))).collect()
    }

    /// Reads all nodes with one list if `probes` read many of them as they are. A refusal is left to the single requests: an
    /// account may be allowed these only.
    async fn list_wanted_nodes(
        &self,
        probes: &BTreeSet<Probe>,
        served: &ApiKindCache,
    ) -> Result<Option<ListedNodes>, KubeError> {
        let mut wanted = probes.iter().filter_map(|probe| match probe {
            Probe::Object { id, want: None } if is_node(id) => Some(id),
            _ => None,
        });
        let Some(first) = wanted.next().filter(|_| wanted.count() + 1 >= MIN_NODES_TO_LIST) else { return Ok(None) };
        let list = async {
            let Some(place) = self.cluster.find_collection(first, served).await? else { return Ok(None) };
            self.cluster.list_objects(&place, None, None, None).await.map(Some)
        };
        let nodes = match list.await {
            Ok(nodes) => nodes,
            Err(ApiRequestError::Away(error)) => return Err(error),
            Err(_) => None,
        };
        let by_name = |mut node: Value| {
            // Items of a list have neither `apiVersion` nor `kind`.
            node["apiVersion"] = first.api_version.as_str().into();
            node["kind"] = first.kind.as_str().into();
            Some((node.pointer("/metadata/name")?.as_str()?.to_owned(), node))
        };
        Ok(nodes.map(|nodes| nodes.into_iter().filter_map(by_name).collect()))
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
        nodes: Option<&ListedNodes>,
        secrets: &SecretStore,
    ) -> Result<ProbeReading, ApiRequestError> {
        Ok(match probe {
            Probe::Object { id, want } => {
                let want = want.as_deref().and_then(|text| serde_json::from_str(text).ok());
                let mut listed = nodes.filter(|_| want.is_none() && is_node(id));
                let mut reads = 1;
                let read = loop {
                    let read = self.observe_object(id, want.as_ref(), served, listed, secrets).await;
                    let changed = match &read {
                        // The API refuses to compare a version that is not the latest, or an object that is gone.
                        Err(refusal) => refusal.has_code(409) || refusal.has_code(404),
                        Ok(read) => read.changed_meanwhile,
                    };
                    if !changed || reads == CHANGED_OBJECT_READS {
                        break read?.state;
                    }
                    (listed, reads) = (None, reads + 1);
                };
                ProbeReading::Object(read)
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
        listed: Option<&ListedNodes>,
        secrets: &SecretStore,
    ) -> Result<ObjectRead, ApiRequestError> {
        let Some(place) = self.cluster.find_collection(id, served).await? else {
            return Ok(ObjectRead { state: ObjectState::Unserved, changed_meanwhile: false });
        };
        let raw = match listed {
            Some(nodes) => nodes.get(&id.name).cloned(),
            None => self.cluster.get_object(&place, id).await?,
        };
        let mut info = raw.as_ref().map(read_object_info).unwrap_or_default();
        let mut becomes = None;
        let mut changed_meanwhile = false;
        if let Some(want) = want {
            let sent = reveal_object(want, secrets);
            match self.dry_run_apply(&place, id, &sent, &mut info).await {
                // A read-only account compares by itself.
                Err(refusal) if refusal.has_code(403) => {
                    info.computed = true;
                    let object = raw.as_ref().map_or_else(|| sent.clone(), |raw| overlay_object(raw, &sent));
                    info.conflicts = raw.as_ref().map(|raw| find_conflicts(raw, &object, &info)).unwrap_or_default();
                    info.orders = raw.as_ref().map(|raw| find_order_differences(&sent, raw)).unwrap_or_default();
                    becomes = Some(strip_server_fields(object));
                }
                Err(refusal) => return Err(refusal),
                Ok(ObjectDryRun::Becomes(object)) => {
                    changed_meanwhile = raw.as_ref().and_then(stored_version) != stored_version(&object);
                    if let Some(raw) = &raw {
                        let removed = self.record_added_fields(&place, id, raw, &object, &sent, &mut info).await?;
                        let ordered = self.record_orders(&place, id, raw, &object, &sent, &mut info).await?;
                        let former = FormerFields::compare(raw, &ordered, FIELD_MANAGER, &removed);
                        info.former = Some(Box::new(former)).filter(|former| former.before != former.after);
                    }
                    becomes = Some(strip_server_fields(object));
                }
                Ok(other) => info.dry = Some(other),
            }
        }
        let mut live = raw.map(strip_server_fields);
        let declared = want.or(live.as_ref()).cloned().unwrap_or_default();
        let redactor = Redactor::for_object(&declared, Some(secrets));
        redactor.mask_pair(&mut live, &mut becomes);
        if let Some(former) = &mut info.former {
            let (mut before, mut after) = (Some(former.before.take()), Some(former.after.take()));
            redactor.mask_pair(&mut before, &mut after);
            (former.before, former.after) = (before.unwrap_or_default(), after.unwrap_or_default());
        }
        info.live = live;
        info.dry = becomes.map(ObjectDryRun::Becomes).or(info.dry);
        Ok(ObjectRead { state: ObjectState::Known(Box::new(info)), changed_meanwhile })
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
                info.conflicts =
                    causes.iter().map(|cause| parse_conflict(&cause.field, &cause.message, info)).collect();
                self.cluster.apply_object(place, id, want, true, true).await
            }
            other => other,
        };
        match answer {
            Ok(object) => Ok(ObjectDryRun::Becomes(object)),
            Err(refusal) if refusal.has_code(404) && id.namespace.is_some() => Ok(ObjectDryRun::NoNamespace),
            // Then it is unknown whether the API would refuse the apply.
            Err(refusal) if refusal.is_dry_run_unsupported() => Ok(ObjectDryRun::Unsupported(refusal.api_message())),
            Err(ApiRequestError::Rejected(message)) => Ok(ObjectDryRun::Rejected(message)),
            Err(refusal) if refusal.is_verdict() && !refusal.has_code(403) => {
                info.fixed = refusal.list_forbidden_fields();
                Ok(ObjectDryRun::Refused(refusal.api_message()))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Finds lists whose items are in another order than declared, and returns the object after the apply with their
    /// declared order. An order that a dry run restores, such as that of a webhook, is not a difference, neither now
    /// nor after the apply.
    async fn record_orders(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        raw: &Value,
        applied: &Value,
        sent: &Value,
        info: &mut ObjectInfo,
    ) -> Result<Value, ApiRequestError> {
        let (mut ordered_live, mut ordered) = (raw.clone(), applied.clone());
        let mut found = restore_list_order(sent, &mut ordered_live);
        let mut new = restore_list_order(sent, &mut ordered);
        let keep_changeable = |orders: &mut Vec<ListOrder>, restored: Vec<ListOrder>| {
            orders.retain(|order| restored.iter().all(|restored| restored.field != order.field));
        };
        if !found.is_empty() {
            let (restored, refused) = self.dry_run_order(place, id, sent, &ordered_live).await?;
            info.order_refused = refused;
            keep_changeable(&mut found, restored.clone());
            keep_changeable(&mut new, restored);
        }
        keep_changeable(&mut new, found.clone());
        if !new.is_empty() {
            let (restored, _) = self.dry_run_order(place, id, sent, &ordered).await?;
            keep_changeable(&mut new, restored);
        }
        let new = new.into_iter().map(|order| ListOrder { after_apply: true, ..order });
        info.orders = found.into_iter().chain(new).collect();
        let mut becomes = applied.clone();
        restore_orders(sent, &mut becomes, &info.orders);
        Ok(becomes)
    }

    /// Returns the lists of an object in declared order that a dry run puts into another order, and why the API refuses
    /// that order.
    async fn dry_run_order(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        sent: &Value,
        ordered: &Value,
    ) -> Result<(Vec<ListOrder>, Option<String>), ApiRequestError> {
        match self.cluster.replace_object(place, id, ordered, true).await {
            Ok(left) => Ok((find_order_differences(sent, &left), None)),
            // The field is immutable.
            Err(refusal) if refusal.has_code(422) => Ok((Vec::new(), Some(refusal.api_message()))),
            // Without the permission, or with a rejection, the apply fails with that answer.
            Err(refusal) if refusal.has_code(403) || matches!(refusal, ApiRequestError::Rejected(_)) => {
                Ok((Vec::new(), None))
            }
            // The object changed meanwhile, or the API is busy or failed: nothing is known about the order.
            Err(refusal) => Err(refusal),
        }
    }

    /// Finds fields that were added manually and can be removed, and returns their paths. Fields that a dry run
    /// restores are not additions.
    async fn record_added_fields(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        raw: &Value,
        applied: &Value,
        sent: &Value,
        info: &mut ObjectInfo,
    ) -> Result<Vec<FieldPath>, ApiRequestError> {
        let found = find_added_fields(raw, applied, FIELD_MANAGER, FIELD_MANAGER, sent);
        let found: Vec<(FieldPath, AddedField)> =
            found.iter().filter_map(|added| Some((added.path.clone(), added.to_added_field(raw)?))).collect();
        if found.is_empty() {
            return Ok(Vec::new());
        }
        match self.dry_run_removal(place, id, raw, &found).await? {
            Ok(removable) => {
                let (paths, added) = removable.into_iter().unzip();
                info.added = added;
                return Ok(paths);
            }
            Err(refusal) => {
                info.stuck = Some(refusal.api_message());
                info.fixed = refusal.list_forbidden_fields();
                if refusal.has_code(403) {
                    return Ok(Vec::new());
                }
            }
        }
        if let [(_, single)] = found.as_slice() {
            info.refused.push(single.clone());
            return Ok(Vec::new());
        }
        // One field that cannot be removed must not hide the others.
        let mut paths = Vec::new();
        info.untried = found.len().saturating_sub(MAX_SINGLE_REMOVALS);
        info.fixed.clear();
        for (path, added) in found.into_iter().take(MAX_SINGLE_REMOVALS) {
            match self.dry_run_removal(place, id, raw, &[(path, added.clone())]).await? {
                Ok(removable) => {
                    for (path, added) in removable {
                        paths.push(path);
                        info.added.push(added);
                    }
                }
                Err(refusal) => {
                    info.fixed.extend(refusal.list_forbidden_fields());
                    info.refused.push(added);
                }
            }
        }
        Ok(paths)
    }

    /// Returns those of the fields that a dry run removes, or the API's refusal.
    async fn dry_run_removal(
        &self,
        place: &ApiCollection,
        id: &ObjectId,
        raw: &Value,
        found: &[(FieldPath, AddedField)],
    ) -> Result<Result<Vec<(FieldPath, AddedField)>, ApiRequestError>, ApiRequestError> {
        let pointers: Vec<String> = found.iter().map(|(_, added)| added.pointer.clone()).collect();
        match self.cluster.replace_object(place, id, &remove_pointers(raw, &pointers), true).await {
            Ok(left) => {
                let gone = |(path, _): &&(FieldPath, AddedField)| path.find_value(&left) != path.find_value(raw);
                Ok(Ok(found.iter().filter(gone).cloned().collect()))
            }
            Err(refusal) if refusal.is_verdict() => Ok(Err(refusal)),
            // The object changed since it was read, or the API is busy or failed: nothing is known about the fields.
            Err(other) => Err(other),
        }
    }
}

fn is_node(id: &ObjectId) -> bool {
    id.api_version == "v1" && id.kind == "Node"
}

fn parse_conflict(field: &str, message: &str, info: &ObjectInfo) -> ObjectFieldConflict {
    let manager = parse_conflict_manager(message).to_owned();
    ObjectFieldConflict { field: field.to_owned(), time: last_set_time(&info.managers, &manager), manager }
}

/// Returns the managers of the fields that an apply would change, as the API names them in a dry run.
fn find_conflicts(raw: &Value, becomes: &Value, info: &ObjectInfo) -> Vec<ObjectFieldConflict> {
    let changed = find_differences(raw, becomes).into_iter().map(|difference| difference.path.to_string());
    let held = |field: String| {
        let other = info.managers.iter().filter(|known| known.manager != FIELD_MANAGER);
        let known = other.filter(|known| known.fields.iter().any(|own| covers_field(own, &field)));
        let last = known.max_by(|a, b| a.time.cmp(&b.time))?;
        Some(ObjectFieldConflict { field, manager: last.manager.clone(), time: last.time.clone() })
    };
    changed.filter_map(held).collect()
}

/// Reports whether the field that a manager owns is this one, or a list or map that contains it.
fn covers_field(owned: &str, field: &str) -> bool {
    let (owned, field) = (owned.replace('"', ""), field.replace('"', ""));
    field.strip_prefix(&owned).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn read_object_info(raw: &Value) -> ObjectInfo {
    let text = |pointer: &str| raw.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    ObjectInfo {
        uid: text("/metadata/uid"),
        version: text("/metadata/resourceVersion"),
        deleting: raw.pointer("/metadata/deletionTimestamp").is_some(),
        waits_for: find_blocker(raw).map(|blocker| blocker.text),
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
        lag: find_status_lag(raw, item),
    };
    all.into_iter().flatten().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use serde_json::json;

    fn node_probe(name: &str) -> Probe {
        let id = ObjectId { api_version: "v1".into(), kind: "Node".into(), namespace: None, name: name.into() };
        id.to_probe()
    }

    fn node_body(name: &str) -> Value {
        json!({ "metadata": { "name": name, "labels": { "rack": "r1" } }, "spec": {} })
    }

    /// Observes `count` nodes `n0`, `n1`, …, of which the API has all but `n0`. Returns the paths that were requested,
    /// and whether each node exists.
    async fn observe_nodes(count: usize, may_list: bool) -> (Vec<String>, Vec<bool>) {
        let (cluster, server) = start_api(move |request| {
            let path = request.path.split('?').next().unwrap_or_default().to_owned();
            match path.strip_prefix("/api/v1/") {
                None | Some("") => json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
                    { "name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node", "verbs": ["get", "list", "patch"] },
                ] })),
                Some("nodes") if may_list => {
                    let items: Vec<Value> = (1..count).map(|n| node_body(&format!("n{n}"))).collect();
                    json_reply(200, &json!({ "kind": "NodeList", "metadata": {}, "items": items }))
                }
                Some("nodes") => status_reply(403, "forbidden", json!({})),
                Some("nodes/n0") => status_reply(404, "not found", json!({})),
                Some(node) => {
                    let mut body = node_body(node.trim_start_matches("nodes/"));
                    (body["apiVersion"], body["kind"]) = (json!("v1"), json!("Node"));
                    json_reply(200, &body)
                }
            }
        })
        .await;
        let probes: BTreeSet<Probe> = (0..count).map(|n| node_probe(&format!("n{n}"))).collect();
        let seen = ClusterReader::new(cluster, "c").observe_probes(&probes, &SecretStore::default()).await.unwrap();
        let exists = |reading: Result<ProbeReading, UnansweredReason>| match reading {
            Ok(ProbeReading::Object(ObjectState::Known(info))) => {
                let live = info.live.as_ref();
                assert!(live.is_none_or(|live| live["kind"] == "Node" && live["metadata"]["labels"]["rack"] == "r1"));
                live.is_some()
            }
            other => panic!("{other:?}"),
        };
        let paths = server.asked().into_iter().map(|request| request.path).filter(|path| path.contains("nodes"));
        (paths.collect(), seen.into_iter().map(|(_, reading)| exists(reading)).collect())
    }

    #[tokio::test]
    async fn many_nodes_are_read_with_one_list() {
        let (paths, exist) = observe_nodes(1000, true).await;
        assert_eq!(paths.len(), 1, "{paths:?}");
        assert!(paths[0].starts_with("/api/v1/nodes?"), "{paths:?}");
        assert_eq!(exist.iter().filter(|exists| **exists).count(), 999);
    }

    #[tokio::test]
    async fn few_nodes_and_denied_lists_are_single_requests() {
        let (paths, exist) = observe_nodes(3, true).await;
        assert_eq!((paths.len(), exist), (3, vec![false, true, true]));
        let (paths, exist) = observe_nodes(6, false).await;
        assert_eq!((paths.len(), exist), (7, vec![false, true, true, true, true, true]));
    }

    /// Observes a node with a label that was added by hand. The API refuses the first `conflicts` comparisons, because
    /// the node has changed. Returns the number of reads, and the added fields.
    async fn observe_changing_node(conflicts: usize) -> (usize, Result<usize, String>) {
        let refusals = std::sync::atomic::AtomicUsize::new(0);
        let (cluster, server) = start_api(move |request| {
            let added = json!({ "manager": "kubectl-label", "operation": "Update", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": { "f:mine": {} } } } });
            let mut body = node_body("n1");
            (body["apiVersion"], body["kind"]) = (json!("v1"), json!("Node"));
            match (request.method.as_str(), request.path.split('?').next()) {
                (_, Some("/api/v1")) => json_reply(200, &json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
                    { "name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node", "verbs": ["get", "list", "patch"] },
                ] })),
                ("PUT", _) if refusals.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < conflicts => {
                    status_reply(409, "the object has been modified", json!({}))
                }
                ("PUT", _) => json_reply(200, &body),
                _ => {
                    body["metadata"]["labels"]["mine"] = json!("1");
                    body["metadata"]["managedFields"] = json!([added]);
                    json_reply(200, &body)
                }
            }
        })
        .await;
        let want = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" } }).to_string();
        let Probe::Object { id, .. } = node_probe("n1") else { unreachable!() };
        let probes = BTreeSet::from([Probe::Object { id, want: Some(want) }]);
        let seen = ClusterReader::new(cluster, "c").observe_probes(&probes, &SecretStore::default()).await.unwrap();
        let asked = server.asked();
        let reads = asked.iter().filter(|request| request.method == "GET" && request.path.contains("nodes/"));
        let added = match seen.into_iter().next().unwrap().1 {
            Ok(ProbeReading::Object(ObjectState::Known(info))) => Ok(info.added.len()),
            Err(unknown) => Err(format!("{unknown:?}")),
            other => panic!("{other:?}"),
        };
        (reads.count(), added)
    }

    #[tokio::test]
    async fn object_that_changes_while_it_is_read_is_read_again() {
        assert_eq!(observe_changing_node(0).await, (1, Ok(1)));
        assert_eq!(observe_changing_node(2).await, (3, Ok(1)));
        let (reads, added) = observe_changing_node(3).await;
        let why = added.unwrap_err();
        assert!(reads == 3 && why.contains("the object has been modified"), "{why}");
    }
}
