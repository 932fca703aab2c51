//! Applied records in the cluster: a ConfigMap for each inventory, and a key for digests of secrets.

use super::ClusterApi;
use super::api::FIELD_MANAGER;
use super::request_error::ApiRequestError;
use super::served_kinds::ApiCollection;
use crate::model::{UntrustedText, Value, to_hex};
use crate::object::{DEFAULT_NAMESPACE, ObjectId};
use crate::probe::RecordsState;
use base64::Engine as _;
use serde_json::json;

/// The namespace of earlier versions. Another product uses it, too: only objects that forge wrote are touched.
const FORMER_NAMESPACE: &str = "forge-system";

pub(super) const DIGEST_KEY_SECRET: &str = "forge-key";

/// The label by which an inventory finds the records of other inventories.
pub(super) const RECORDS_LABEL: &str = "forge/records";

/// The records of applies: a part of the object's name, and the value of its label.
pub(super) const APPLIED: &str = "applied";

/// Returns the name of an object of forge itself for the inventory's cluster. Object names allow neither uppercase
/// letters nor `_`.
pub(super) fn own_object_name(what: &str, cluster: &str) -> String {
    let plain: String = cluster.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect();
    let plain = plain.trim_end_matches(['-', '.']);
    match plain == cluster {
        true => format!("forge-{what}-{cluster}"),
        false => {
            use sha2::{Digest, Sha256};
            format!("forge-{what}-{plain}-{}", &to_hex(&Sha256::digest(cluster.as_bytes()))[..8])
        }
    }
}

/// Returns the key of a record in the map. Such keys allow neither `%` nor `@`, and have at most 253 bytes.
pub(super) fn record_map_key(name: &str) -> String {
    use sha2::{Digest, Sha256};
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') { c } else { '_' };
    let shown: String = name.trim_end_matches(".json").chars().map(plain).take(200).collect();
    format!("{shown}.{}.json", &to_hex(&Sha256::digest(name.as_bytes()))[..12])
}

fn core_object(kind: &str, name: &str, namespace: &str) -> (ApiCollection, ObjectId) {
    let plural = match kind {
        "Namespace" => "namespaces",
        "Secret" => "secrets",
        _ => "configmaps",
    };
    let namespace = (kind != "Namespace").then(|| namespace.to_owned());
    let id = ObjectId { api_version: "v1".to_owned(), kind: kind.to_owned(), name: name.to_owned(), namespace };
    (ApiCollection::new("v1", plural, kind != "Namespace"), id)
}

/// Reports whether forge wrote the object. Another product may use the same object name, and any program called `forge`
/// has the field manager `forge` by default: the data must have forge's own form, too.
fn is_written_by_forge(object: &Value) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let is_managed = entries.into_iter().flatten().any(|entry| entry["manager"] == FIELD_MANAGER);
    is_managed && (decode_key(object).is_some() || has_records_only(object))
}

fn has_records_only(map: &Value) -> bool {
    map["data"].as_object().is_some_and(|data| !data.is_empty() && data.keys().all(|key| is_record_key(key)))
}

/// Reports whether [`record_map_key`] builds such keys: `NAME.0123456789ab.json`.
fn is_record_key(key: &str) -> bool {
    let digest = key.strip_suffix(".json").and_then(|rest| rest.rsplit_once('.')).map(|(_, digest)| digest);
    digest.is_some_and(|digest| digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the key in the Secret, 32 bytes.
fn decode_key(secret: &Value) -> Option<Vec<u8>> {
    let text = secret.pointer("/data/key")?.as_str()?;
    base64::engine::general_purpose::STANDARD.decode(text).ok().filter(|bytes| bytes.len() == 32)
}

impl ClusterApi {
    /// Returns the collection and the name of an object of forge itself.
    pub(super) fn locate_own_object(&self, kind: &str, name: &str) -> (ApiCollection, ObjectId) {
        core_object(kind, name, self.namespace())
    }

    /// Returns the other namespaces in which a run may hold the lock of a cluster of the same name: a run of an earlier
    /// version, or with another `namespace`.
    pub(super) fn other_lock_namespaces(&self) -> impl Iterator<Item = &'static str> {
        [DEFAULT_NAMESPACE, FORMER_NAMESPACE].into_iter().filter(|other| *other != self.namespace())
    }

    /// Reads an object of forge itself; from the former namespace if it has not been moved yet.
    pub(super) async fn read_own_object(&self, kind: &str, name: &str) -> Result<Option<Value>, ApiRequestError> {
        let (place, id) = self.locate_own_object(kind, name);
        match self.get_object(&place, &id).await? {
            Some(object) => Ok(Some(object)),
            None => Ok(self.find_former_object(kind, name).await?.map(|(_, object)| object)),
        }
    }

    /// Finds an object that forge wrote in the former namespace. The default namespace is not a former one, even if the
    /// inventory names another: an inventory whose cluster has the same name may keep its records there.
    async fn find_former_object(&self, kind: &str, name: &str) -> Result<Option<(ObjectId, Value)>, ApiRequestError> {
        if self.namespace() == FORMER_NAMESPACE {
            return Ok(None);
        }
        let (place, id) = core_object(kind, name, FORMER_NAMESPACE);
        let found = match self.get_object(&place, &id).await {
            // A user without rights in the former namespace cannot have written there.
            Err(refusal) if refusal.has_code(403) => None,
            found => found?,
        };
        Ok(found.filter(is_written_by_forge).map(|object| (id, object)))
    }

    /// Moves forge's records of the inventory's cluster from the former namespace into its own. The key is copied, not
    /// moved: another inventory may need it there. Returns a description of each moved object. Requires the lock.
    pub(super) async fn move_former_objects(&self, cluster: &str) -> Result<Vec<String>, ApiRequestError> {
        let mut moved = Vec::new();
        if self.copy_former_object("Secret", DIGEST_KEY_SECRET).await?.is_some() {
            moved.push(format!("a copy of Secret {DIGEST_KEY_SECRET} to {}", self.namespace()));
        }
        for what in [APPLIED, "proven"] {
            let name = own_object_name(what, cluster);
            let Some((former, uid)) = self.copy_former_object("ConfigMap", &name).await? else { continue };
            let (place, _) = self.locate_own_object("ConfigMap", &name);
            match self.delete_object(&place, &former, &uid).await {
                Err(refusal) if refusal.has_code(404) || refusal.has_code(409) => {}
                deleted => drop(deleted?),
            }
            let from = former.namespace.as_deref().unwrap_or_default();
            moved.push(format!("ConfigMap {name} from {from} to {}", self.namespace()));
        }
        Ok(moved)
    }

    /// Copies an object of the former namespace unless one of that name exists. Returns its ID and uid.
    async fn copy_former_object(&self, kind: &str, name: &str) -> Result<Option<(ObjectId, String)>, ApiRequestError> {
        let (place, id) = self.locate_own_object(kind, name);
        if self.get_object(&place, &id).await?.is_some() {
            return Ok(None);
        }
        let Some((former, object)) = self.find_former_object(kind, name).await? else { return Ok(None) };
        let copy = json!({
            "apiVersion": "v1",
            "kind": kind,
            "metadata": { "name": name, "namespace": id.namespace, "labels": { "app.kubernetes.io/managed-by": FIELD_MANAGER } },
            "data": object["data"],
        });
        match self.create_object(&place, &id, &copy, false).await {
            Err(refusal) if refusal.has_code(409) => {}
            made => drop(made?),
        }
        Ok(Some((former, object["metadata"]["uid"].as_str().unwrap_or_default().to_owned())))
    }
}

/// Reads the records of the inventory's cluster and of other inventories, and the key.
pub(super) async fn read_records(cluster: &ClusterApi, name: &str) -> Result<RecordsState, ApiRequestError> {
    let own = cluster.read_own_object("ConfigMap", &own_object_name(APPLIED, name)).await?;
    let maps = list_other_maps(cluster, name).await.into_iter().chain(own);
    Ok(RecordsState {
        records: maps.flat_map(|map| list_records(&map)).collect(),
        key: read_digest_key(cluster).await?,
        running: Vec::new(),
        window: None,
        hold: None,
        writer: None,
        guards: Vec::new(),
    })
}

fn list_records(map: &Value) -> Vec<(String, UntrustedText)> {
    let data = map["data"].as_object().into_iter().flatten();
    data.filter_map(|(key, text)| Some((key.clone(), UntrustedText::from(text.as_str()?)))).collect()
}

/// Returns the records of other inventories of this cluster, in forge's namespace: they show whether another inventory
/// declares the same object. Without the right to list ConfigMaps, that remains unknown.
async fn list_other_maps(cluster: &ClusterApi, name: &str) -> Vec<Value> {
    let (place, own) = cluster.locate_own_object("ConfigMap", &own_object_name(APPLIED, name));
    let label = format!("{RECORDS_LABEL}={APPLIED}");
    let maps = cluster.list_objects(&place, own.namespace.as_deref(), Some(&label), None).await;
    let is_other = |map: &Value| map["metadata"]["name"] != own.name.as_str();
    maps.unwrap_or_default().into_iter().filter(|map| is_other(map) && has_records_only(map)).collect()
}

/// Reads the key; `None` for users without permission to read secrets.
pub(super) async fn read_digest_key(cluster: &ClusterApi) -> Result<Option<String>, ApiRequestError> {
    let secret = match cluster.read_own_object("Secret", DIGEST_KEY_SECRET).await {
        Err(refusal) if refusal.has_code(403) => return Ok(None),
        secret => secret?,
    };
    Ok(secret.as_ref().and_then(decode_key).map(|bytes| to_hex(&bytes)))
}

/// Creates forge's namespace if it does not exist.
pub(super) async fn ensure_namespace(cluster: &ClusterApi) -> Result<(), ApiRequestError> {
    let (place, id) = cluster.locate_own_object("Namespace", cluster.namespace());
    if cluster.get_object(&place, &id).await?.is_some() {
        return Ok(());
    }
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": id.name, "labels": { "app.kubernetes.io/managed-by": FIELD_MANAGER } } });
    cluster.apply_object(&place, &id, &object, true, false).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_keys_are_unique_and_bounded() {
        assert_eq!(
            record_map_key("lab@web%2Fsite.json"),
            format!("lab_web_2Fsite.{}.json", &record_map_key("lab@web%2Fsite.json")[15..27])
        );
        assert_ne!(record_map_key("lab@a%2Fb.json"), record_map_key("lab@a@2Fb.json"));
        assert!(record_map_key(&"x".repeat(500)).len() < 253);
    }

    #[test]
    fn only_objects_written_by_forge_are_recognized() {
        let object = |manager: &str, data: Value| json!({ "metadata": { "managedFields": [{ "manager": manager }] }, "data": data });
        let records = json!({ record_map_key("lab@web%2Fsite.json"): "{}" });
        let key = json!({ "key": base64::engine::general_purpose::STANDARD.encode([7; 32]) });
        for data in [&records, &key] {
            assert!(is_written_by_forge(&object("forge", data.clone())), "{data}");
            assert!(!is_written_by_forge(&object("operator", data.clone())), "{data}");
        }
        assert!(!is_written_by_forge(&object("forge", Value::Null)));
        let mixed = json!({ record_map_key("lab@web%2Fsite.json"): "{}", "config.yaml": "a: 1" });
        for theirs in [mixed, json!({ "key": "aHVudGVyMg==" }), json!({ "config.0123456789.json": "{}" })] {
            assert!(!is_written_by_forge(&object("forge", theirs.clone())), "{theirs}");
        }
    }

    #[test]
    fn object_names_are_valid_and_unique_per_cluster() {
        assert_eq!(own_object_name("applied", "lab-1.a"), "forge-applied-lab-1.a");
        assert_eq!(own_object_name("applied", "Lab_1"), "forge-applied-lab-1-2b96fd57");
        assert_ne!(own_object_name("applied", "Lab-1"), own_object_name("applied", "lab-1"));
    }
}
