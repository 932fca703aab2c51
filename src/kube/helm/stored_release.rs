//! Helm's record of a release: read from its Secrets, or from helm where forge cannot read these.

use super::super::{ClusterApi, KubeError};
use super::flags;
use super::output::{self, HelmReleaseMetadata, HelmRevision, ListedRelease};
use super::program::HelmProgram;
use super::release_secret::{ListedRevision, SecretReadError};
use crate::model::Value;
use crate::object::{ForeignRelease, ManifestObject, ReleaseInfo, ReleaseRecord, ReleaseStatus, parse_manifest};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;

/// Maximum number of concurrent requests.
const CONCURRENT_REQUESTS: usize = 8;

/// How often a release whose revisions change while they are read is read.
const CHANGED_RELEASE_READS: usize = 3;

/// Helm's record of a release.
pub(super) struct StoredRelease {
    pub info: ReleaseInfo,
    pub manifest: Vec<ManifestObject>,
    /// Helm runs these when it removes the release, whatever its chart declares now.
    pub hooks: Vec<ManifestObject>,
    pub values: Value,
}

impl StoredRelease {
    /// Reports whether the release is more than the history of a removed one.
    pub fn is_installed(&self) -> bool {
        self.info.status != ReleaseStatus::Uninstalled
    }
}

/// Values and objects of an earlier revision.
pub(super) struct StoredRevision {
    pub manifest: Vec<ManifestObject>,
    pub values: Value,
}

/// Reads helm's record of one release.
#[derive(Clone, Copy)]
pub(super) struct StoredReleaseReader<'c> {
    pub cluster: &'c ClusterApi,
    pub helm: &'c HelmProgram,
    pub name: &'c str,
    pub namespace: &'c str,
}

/// Returns what Secrets answered; `None` if helm has to be asked.
fn known<T>(read: Result<T, SecretReadError>) -> Result<Option<T>, KubeError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(SecretReadError::Unreadable) => Ok(None),
        Err(SecretReadError::Away(error)) => Err(error),
    }
}

impl StoredReleaseReader<'_> {
    /// Returns the last revision; `None` if the release does not exist.
    pub async fn read_release(&self) -> Result<Option<StoredRelease>, KubeError> {
        match known(self.read_release_secrets().await)? {
            Some(found) => Ok(found),
            None => self.query_release().await,
        }
    }

    /// Returns an earlier revision.
    pub async fn read_revision(&self, revision: u64) -> Result<StoredRevision, KubeError> {
        let read = self.cluster.read_release_record(self.namespace, self.name, revision).await;
        match known(read)?.flatten() {
            Some(record) => Ok(StoredRevision { manifest: read_manifest(&record.manifest)?, values: record.values }),
            None => self.query_revision(revision).await,
        }
    }

    /// Returns the other releases of a chart that forge did not install, in all namespaces, by name.
    pub async fn find_foreign_releases(&self, chart: &str) -> Result<Vec<ForeignRelease>, KubeError> {
        match known(self.read_foreign_secrets(chart).await)? {
            Some(found) => Ok(found),
            None => self.query_foreign_releases(chart).await,
        }
    }

    async fn read_release_secrets(&self) -> Result<Option<StoredRelease>, SecretReadError> {
        for _ in 0..CHANGED_RELEASE_READS {
            let revisions = self.cluster.list_revisions(self.namespace, self.name).await?;
            let Some(last) = revisions.iter().max_by_key(|revision| revision.revision) else { return Ok(None) };
            // It does not exist if helm has removed it in the meantime.
            if let Some(record) = self.cluster.read_release_record(self.namespace, self.name, last.revision).await? {
                let info = self.describe_release(last, &revisions, &record);
                let read = |text: &str| read_manifest(text).map_err(SecretReadError::Away);
                let (manifest, hooks) = (read(&record.manifest)?, read(&record.hooks)?);
                return Ok(Some(StoredRelease { info, manifest, hooks, values: record.values }));
            }
        }
        Err(SecretReadError::Unreadable)
    }

    fn describe_release(
        &self,
        last: &ListedRevision,
        revisions: &[ListedRevision],
        record: &ReleaseRecord,
    ) -> ReleaseInfo {
        let mut earlier = revisions.iter().filter(|revision| revision.revision != last.revision);
        ReleaseInfo {
            revision: last.revision,
            status: ReleaseStatus::from_name(&record.status),
            chart: record.chart.clone(),
            version: record.version.clone(),
            age_s: record.began.map_or(0, age_in_seconds),
            description: record.description.as_str().into(),
            earlier: earlier.any(|revision| was_deployed(revision.status)),
            ours: last.ours,
            // Helm 3 applies on the client side, also releases of helm 4.
            server_side: record.server_side && self.helm.major() > 3,
        }
    }

    async fn read_foreign_secrets(&self, chart: &str) -> Result<Vec<ForeignRelease>, SecretReadError> {
        let mut last: BTreeMap<(String, String), ListedRevision> = BTreeMap::new();
        for revision in self.cluster.list_all_revisions().await? {
            let key = (revision.name.clone(), revision.namespace.clone());
            if last.get(&key).is_none_or(|known| known.revision < revision.revision) {
                last.insert(key, revision);
            }
        }
        let others = last.values().filter(|other| !other.ours && !self.is_this_release(&other.name, &other.namespace));
        let records = stream::iter(others).map(|other| async move {
            let record = self.cluster.read_release_record(&other.namespace, &other.name, other.revision).await?;
            Ok::<_, SecretReadError>(record.map(|record| (other, record)))
        });
        let records: Vec<_> = records.buffered(CONCURRENT_REQUESTS).try_collect().await?;
        let same = records.into_iter().flatten().filter(|(_, record)| record.chart == chart);
        let told = same.map(|(other, record)| ForeignRelease {
            name: other.name.clone(),
            namespace: other.namespace.clone(),
            version: record.version,
            status: record.status,
        });
        Ok(told.collect())
    }

    fn is_this_release(&self, name: &str, namespace: &str) -> bool {
        name == self.name && namespace == self.namespace
    }

    async fn query_helm(&self, what: &str, args: &[String]) -> Result<String, KubeError> {
        let said = self.helm.run_query(args, None).await?;
        match said.ok {
            true => Ok(said.stdout),
            false => Err(KubeError::new(format!("`helm {what}`: {}", said.error))),
        }
    }

    async fn list_releases(&self, ours: bool) -> Result<Vec<ListedRelease>, KubeError> {
        output::parse_json("list", &self.query_helm("list", &flags::list_args(self.helm.major(), ours)).await?)
    }

    async fn query_release(&self) -> Result<Option<StoredRelease>, KubeError> {
        let said = self.helm.run_query(&flags::history_args(self.name, self.namespace), None).await?;
        if !said.ok && output::is_release_not_found(&said.error) {
            return Ok(None);
        }
        if !said.ok {
            return Err(KubeError::new(format!("`helm history`: {}", said.error)));
        }
        let revisions: Vec<HelmRevision> = output::parse_json("history", &said.stdout)?;
        let [metadata, values, manifest, hooks] =
            ["metadata", "values", "manifest", "hooks"].map(|what| flags::get_args(what, self.name, self.namespace));
        let (ours, metadata, values, manifest, hooks) = tokio::try_join!(
            self.list_releases(true),
            self.query_helm("get metadata", &metadata),
            self.query_helm("get values", &values),
            self.query_helm("get manifest", &manifest),
            self.query_helm("get hooks", &hooks)
        )?;
        let metadata: HelmReleaseMetadata = output::parse_json("get metadata", &metadata)?;
        let is_ours = ours.iter().any(|listed| self.is_this_release(&listed.name, &listed.namespace));
        Ok(Some(StoredRelease {
            info: build_release_info(&metadata, &revisions, is_ours),
            manifest: read_manifest(&manifest)?,
            hooks: read_manifest(&hooks)?,
            values: output::parse_values(&values)?,
        }))
    }

    async fn query_revision(&self, revision: u64) -> Result<StoredRevision, KubeError> {
        let query = |what: &'static str| {
            let mut args = flags::get_args(what, self.name, self.namespace);
            args.push(format!("--revision={revision}"));
            async move { self.query_helm(&format!("get {what} --revision {revision}"), &args).await }
        };
        let (values, manifest) = tokio::try_join!(query("values"), query("manifest"))?;
        Ok(StoredRevision { manifest: read_manifest(&manifest)?, values: output::parse_values(&values)? })
    }

    async fn query_foreign_releases(&self, chart: &str) -> Result<Vec<ForeignRelease>, KubeError> {
        let (all, ours) = tokio::try_join!(self.list_releases(false), self.list_releases(true))?;
        let others = all
            .iter()
            .filter(|listed| !self.is_this_release(&listed.name, &listed.namespace) && !ours.contains(listed));
        let same = others.filter_map(|listed| Some((listed, listed.chart_version(chart)?)));
        let told = same.map(|(listed, version)| ForeignRelease {
            name: listed.name.clone(),
            namespace: listed.namespace.clone(),
            version: version.to_owned(),
            status: listed.status.clone(),
        });
        Ok(told.collect())
    }
}

pub(super) fn read_manifest(text: &str) -> Result<Vec<ManifestObject>, KubeError> {
    parse_manifest(text).map_err(KubeError::new)
}

/// Reports whether there is something to roll back to in a revision with that status.
fn was_deployed(status: ReleaseStatus) -> bool {
    matches!(status, ReleaseStatus::Deployed | ReleaseStatus::Superseded)
}

fn build_release_info(metadata: &HelmReleaseMetadata, revisions: &[HelmRevision], ours: bool) -> ReleaseInfo {
    let last = revisions.iter().max_by_key(|revision| revision.revision);
    let mut earlier = revisions.iter().filter(|revision| Some(revision.revision) != last.map(|last| last.revision));
    let status = last.map_or_else(|| ReleaseStatus::from_name(&metadata.status), HelmRevision::status);
    ReleaseInfo {
        revision: last.map_or(metadata.revision, |last| last.revision),
        status,
        chart: metadata.chart.clone(),
        version: metadata.version.clone(),
        age_s: last.map_or(0, |last| age_in_seconds(last.updated)),
        description: last.map(|last| last.description.as_str().into()).unwrap_or_default(),
        earlier: earlier.any(|revision| was_deployed(revision.status())),
        ours,
        server_side: metadata.apply_method == "ssa",
    }
}

#[expect(clippy::disallowed_methods, reason = "the age of another helm's operation needs the clock")]
fn age_in_seconds(began: jiff::Timestamp) -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second() - began.as_second()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake_helm;
    use super::*;
    use crate::artifact::server::{Reply, Server};
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use serde_json::json;

    /// The folder with what real helms answered, and with the Secrets that they wrote: see `tests.rs`.
    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/helm");

    fn sample_secret(name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(format!("{SAMPLES}/{name}")).unwrap()).unwrap()
    }

    fn listed_secret(namespace: &str, name: &str, revision: u64, status: &str, ours: bool) -> Value {
        let revision = revision.to_string();
        let mut labels = json!({ "owner": "helm", "name": name, "version": revision, "status": status });
        if ours {
            labels["forge.release/managed"] = json!("true");
        }
        json!({ "metadata": { "name": "any", "namespace": namespace, "labels": labels } })
    }

    fn list_reply(items: &[Value]) -> Reply {
        json_reply(200, &json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items }))
    }

    /// Starts an API that answers lists with `listed`, and requests for one Secret with `secret`.
    async fn start_secrets(listed: Vec<Value>, secret: Option<Value>) -> (ClusterApi, Server) {
        start_api(move |request| match (request.path.split_once("/secrets/"), &secret) {
            (None, _) => list_reply(&listed),
            (Some(_), Some(secret)) => json_reply(200, secret),
            (Some(_), None) => status_reply(404, "not found", json!({})),
        })
        .await
    }

    /// A helm that answers with the samples, and notes that it was asked.
    const ANSWERS: &str = "echo \"$1 $2\" >>HERE/asked; case \"$1 $2\" in list*) f=list ;; history*) f=history ;; \
                           *manifest) cat SAMPLES/helm4-manifest.yaml; exit ;; *hooks) exit ;; *) f=$2 ;; esac; cat SAMPLES/helm4-$f.json";

    async fn answering_helm() -> (tempfile::TempDir, HelmProgram) {
        fake_helm(&ANSWERS.replace("SAMPLES", SAMPLES)).await
    }

    fn asked_helm(folder: &tempfile::TempDir) -> usize {
        std::fs::read_to_string(folder.path().join("asked")).map_or(0, |asked| asked.lines().count())
    }

    fn reader<'c>(cluster: &'c ClusterApi, helm: &'c HelmProgram) -> StoredReleaseReader<'c> {
        StoredReleaseReader { cluster, helm, name: "tiny", namespace: "s-helm4" }
    }

    fn two_revisions() -> Vec<Value> {
        let listed = |revision, status| listed_secret("s-helm4", "tiny", revision, status, true);
        vec![listed(10, "deployed"), listed(9, "superseded")]
    }

    #[tokio::test]
    async fn release_is_read_from_its_secret_without_helm() {
        let (cluster, server) = start_secrets(two_revisions(), Some(sample_secret("helm4-secret.json"))).await;
        let (folder, helm) = answering_helm().await;
        let found = reader(&cluster, &helm).read_release().await.unwrap().unwrap();
        let info = &found.info;
        assert_eq!((info.revision, info.status, info.version.as_str()), (10, ReleaseStatus::Deployed, "0.1.0"));
        assert!(info.earlier && info.ours && info.server_side);
        assert_eq!((found.values, found.manifest.len()), (json!({ "replicas": 2 }), 1));
        let paths: Vec<String> = server.asked().into_iter().map(|request| request.path).collect();
        assert!(paths[0].contains("labelSelector=owner%3Dhelm%2Cname%3Dtiny"), "{paths:?}");
        assert_eq!(paths[1], "/api/v1/namespaces/s-helm4/secrets/sh.helm.release.v1.tiny.v10");
        assert_eq!((paths.len(), asked_helm(&folder)), (2, 0));
    }

    #[tokio::test]
    async fn release_without_secrets_does_not_exist() {
        let (cluster, _server) = start_secrets(Vec::new(), None).await;
        let (folder, helm) = answering_helm().await;
        assert!(reader(&cluster, &helm).read_release().await.unwrap().is_none());
        assert_eq!(asked_helm(&folder), 0);
    }

    /// Helm 3 applies releases of helm 4 on the client side, which no other field manager can prevent.
    #[tokio::test]
    async fn helm_3_has_no_conflicts_with_field_managers() {
        let (cluster, _server) = start_secrets(two_revisions(), Some(sample_secret("helm4-secret.json"))).await;
        let (_folder, mut helm) = answering_helm().await;
        helm.version.major = 3;
        assert!(!reader(&cluster, &helm).read_release().await.unwrap().unwrap().info.server_side);
    }

    #[tokio::test]
    async fn helm_is_asked_if_the_secret_cannot_be_read() {
        let unknown = json!({ "metadata": { "name": "any" }, "data": { "release": "aHVudGVyMg==" } });
        let unlabeled = vec![json!({ "metadata": { "name": "any", "namespace": "s-helm4", "labels": {} } })];
        for (cluster, _server) in [
            start_api(|_| status_reply(403, "secrets is forbidden", json!({}))).await,
            start_secrets(two_revisions(), Some(unknown)).await,
            start_secrets(two_revisions(), Some(json!({ "metadata": { "name": "any" } }))).await,
            start_secrets(two_revisions(), None).await,
            start_secrets(unlabeled, None).await,
        ] {
            let (folder, helm) = answering_helm().await;
            let reader = reader(&cluster, &helm);
            let found = reader.read_release().await.unwrap().unwrap();
            assert_eq!((found.info.revision, found.info.version.as_str(), found.info.ours), (2, "0.1.0", true));
            assert_eq!((found.values, asked_helm(&folder)), (json!({ "replicas": 2 }), 6));
            assert_eq!(reader.read_revision(1).await.unwrap().values, json!({ "replicas": 2 }));
        }
    }

    #[tokio::test]
    async fn rejected_credentials_are_an_error() {
        let (cluster, _server) = start_api(|_| status_reply(401, "unauthorized", json!({}))).await;
        let (folder, helm) = answering_helm().await;
        assert!(reader(&cluster, &helm).read_release().await.is_err());
        assert_eq!(asked_helm(&folder), 0);
    }

    #[tokio::test]
    async fn foreign_releases_are_those_of_the_same_chart_that_forge_did_not_install() {
        let listed = vec![
            listed_secret("s-helm4", "tiny", 1, "deployed", false),
            listed_secret("b", "ours", 1, "deployed", true),
            listed_secret("b", "theirs", 2, "deployed", false),
            listed_secret("b", "theirs", 1, "superseded", true),
            listed_secret("a", "theirs", 1, "failed", false),
        ];
        let (cluster, server) = start_secrets(listed, Some(sample_secret("helm3-secret.json"))).await;
        let (folder, helm) = answering_helm().await;
        let reader = reader(&cluster, &helm);
        let found = reader.find_foreign_releases("tiny").await.unwrap();
        let told: Vec<_> = found.iter().map(|one| format!("{}/{} {}", one.namespace, one.name, one.version)).collect();
        assert_eq!(told, ["a/theirs 0.1.0", "b/theirs 0.1.0"]);
        let paths: Vec<String> = server.asked().into_iter().map(|request| request.path).collect();
        assert!(paths[0].starts_with("/api/v1/secrets?") && paths[0].contains("owner%3Dhelm"), "{paths:?}");
        assert_eq!(paths.len(), 3, "{paths:?}");
        assert_eq!(reader.find_foreign_releases("other").await.unwrap(), []);
        assert_eq!(asked_helm(&folder), 0);
    }
}
