//! Where a cluster keeps what was applied to it: a ConfigMap for each inventory, beside a key for digests of secrets.

use super::api::{MANAGER, Place, Refusal};
use super::{Cluster, KubeError, Writer};
use crate::model::{Untrusted, Value, hex};
use crate::probe::{ObjectId, RecordsState};
use base64::Engine as _;
use serde_json::json;

/// The namespace of what forge itself keeps in a cluster.
pub const NAMESPACE: &str = "forge-system";

/// The API takes no object above 1 MiB.
const MOST: usize = 900 * 1024;

const KEY: &str = "forge-key";

/// Returns the name of an object that is forge's own, for the inventory's cluster: names of objects know no capitals and no
/// `_`.
pub(super) fn name_of(what: &str, cluster: &str) -> String {
    let plain: String = cluster.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect();
    let plain = plain.trim_end_matches(['-', '.']);
    match plain == cluster {
        true => format!("forge-{what}-{cluster}"),
        false => {
            use sha2::{Digest, Sha256};
            format!("forge-{what}-{plain}-{}", &hex(&Sha256::digest(cluster.as_bytes()))[..8])
        }
    }
}

/// Returns the key of a record in the map: such keys know neither `%` nor `@`, and end at 253 bytes.
pub(super) fn key_of(name: &str) -> String {
    use sha2::{Digest, Sha256};
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') { c } else { '_' };
    let shown: String = name.trim_end_matches(".json").chars().map(plain).take(200).collect();
    format!("{shown}.{}.json", &hex(&Sha256::digest(name.as_bytes()))[..12])
}

pub(super) fn core(kind: &str, name: &str) -> (Place, ObjectId) {
    let plural = match kind {
        "Namespace" => "namespaces",
        "Secret" => "secrets",
        _ => "configmaps",
    };
    let namespace = (kind != "Namespace").then(|| NAMESPACE.to_owned());
    let id = ObjectId { api_version: "v1".to_owned(), kind: kind.to_owned(), name: name.to_owned(), namespace };
    (Place::new("v1", plural, kind != "Namespace"), id)
}

/// Reads the records of the inventory's cluster, and the key.
pub(super) async fn read(cluster: &Cluster, name: &str) -> Result<RecordsState, Refusal> {
    let (place, id) = core("ConfigMap", &name_of("applied", name));
    let map = cluster.get(&place, &id).await?;
    let data = map.as_ref().and_then(|map| map["data"].as_object());
    let records =
        data.into_iter().flatten().filter_map(|(key, text)| Some((key.clone(), Untrusted::from(text.as_str()?))));
    Ok(RecordsState { records: records.collect(), key: key(cluster).await?, running: Vec::new(), window: None })
}

/// Reads the key; who may not read secrets does without.
async fn key(cluster: &Cluster) -> Result<Option<String>, Refusal> {
    let (place, id) = core("Secret", KEY);
    let secret = match cluster.get(&place, &id).await {
        Err(refusal) if refusal.is(403) => return Ok(None),
        secret => secret?,
    };
    let text = secret.as_ref().and_then(|secret| secret.pointer("/data/key")?.as_str());
    let bytes = text.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    Ok(bytes.filter(|bytes| bytes.len() == 32).map(|bytes| hex(&bytes)))
}

/// Makes forge's namespace where there is none.
pub(super) async fn namespace(cluster: &Cluster) -> Result<(), Refusal> {
    let (place, id) = core("Namespace", NAMESPACE);
    if cluster.get(&place, &id).await?.is_some() {
        return Ok(());
    }
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE, "labels": { "app.kubernetes.io/managed-by": MANAGER } } });
    cluster.apply(&place, &id, &object, true, false).await.map(drop)
}

impl Writer {
    /// Returns the key for digests of secrets, made where there is none.
    ///
    /// # Errors
    /// The lock is lost, or the API refuses.
    pub async fn key(&self) -> Result<String, KubeError> {
        self.held()?;
        self.made_key().await.map_err(|refusal| refusal.error(self.looker.cluster.server()))
    }

    async fn made_key(&self) -> Result<String, Refusal> {
        let cluster = &self.looker.cluster;
        if let Some(key) = key(cluster).await? {
            return Ok(key);
        }
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| Refusal::Away(KubeError::new(format!("no random numbers: {error}"))))?;
        let (place, id) = core("Secret", KEY);
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": KEY, "namespace": NAMESPACE }, "data": { "key": data } });
        match cluster.create(&place, &id, &object, false).await {
            // Another inventory's run was faster.
            Err(refusal) if refusal.is(409) => {}
            made => drop(made?),
        }
        key(cluster).await?.ok_or_else(|| {
            Refusal::Away(
                KubeError::new(format!("the Secret `{NAMESPACE}/{KEY}` holds no key"))
                    .hint("delete it: the next apply makes one"),
            )
        })
    }

    /// Adds records, by name, to those that the cluster keeps.
    ///
    /// # Errors
    /// The lock is lost, they grow too large, or the API refuses.
    pub async fn write_records(&self, records: &[(String, String)]) -> Result<(), KubeError> {
        self.held()?;
        let server = self.looker.cluster.server();
        for _ in 0..3 {
            match self.try_records(records).await? {
                Ok(()) => return Ok(()),
                Err(refusal) if refusal.is(409) => {}
                Err(refusal) => return Err(refusal.error(server)),
            }
        }
        Err(KubeError::new(format!("somebody else writes the records in `{NAMESPACE}` at the same time")))
    }

    async fn try_records(&self, records: &[(String, String)]) -> Result<Result<(), Refusal>, KubeError> {
        let cluster = &self.looker.cluster;
        let (place, id) = core("ConfigMap", &name_of("applied", &self.looker.name));
        let there = match cluster.get(&place, &id).await {
            Ok(there) => there,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut data = there.as_ref().and_then(|map| map["data"].as_object()).cloned().unwrap_or_default();
        data.extend(records.iter().map(|(name, text)| (key_of(name), Value::from(text.as_str()))));
        let size: usize = data.iter().map(|(key, text)| key.len() + text.as_str().map_or(0, str::len)).sum();
        if size > MOST {
            let error = KubeError::new(format!(
                "the records of this cluster come to {} kB, and the API keeps 1 MiB",
                size / 1024
            ));
            return Err(error.hint("declare large objects as a chart, or in an inventory of their own"));
        }
        let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": id.name, "namespace": NAMESPACE }, "data": data });
        if let Some(version) = there.as_ref().and_then(|map| map.pointer("/metadata/resourceVersion")) {
            object["metadata"]["resourceVersion"] = version.clone();
        }
        Ok(cluster.apply(&place, &id, &object, true, false).await.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_a_key_each() {
        assert_eq!(
            key_of("lab@web%2Fsite.json"),
            format!("lab_web_2Fsite.{}.json", &key_of("lab@web%2Fsite.json")[15..27])
        );
        assert_ne!(key_of("lab@a%2Fb.json"), key_of("lab@a@2Fb.json"));
        assert!(key_of(&"x".repeat(500)).len() < 253);
    }

    #[test]
    fn names_of_clusters_become_names_of_objects() {
        assert_eq!(name_of("applied", "lab-1.a"), "forge-applied-lab-1.a");
        assert_eq!(name_of("applied", "Lab_1"), "forge-applied-lab-1-2b96fd57");
        assert_ne!(name_of("applied", "Lab-1"), name_of("applied", "lab-1"));
    }
}
