//! One writer per cluster: a `Lease` that names the lock holder, renewed while it works.
//!
//! Only the API's own clock decides whether a lease is stale: the clocks of the machines that run forge may differ.

use super::records::{ensure_namespace, own_object_name};
use super::request_error::ApiRequestError;
use super::served_kinds::ApiCollection;
use super::{ClusterReader, KubeError};
use crate::model::{UntrustedText, Value};
use crate::object::ObjectId;
use crate::transport::LockOwner;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A lease that has not been renewed for this long may be taken by another run.
const LEASE_DURATION: Duration = Duration::from_secs(30);
const RENEW_INTERVAL: Duration = Duration::from_secs(8);

const OWNER_ANNOTATION: &str = "forge/owner";

/// Changes a cluster while it holds the lock.
pub struct ClusterWriter {
    pub(super) looker: ClusterReader,
    lease: ClusterLease,
    lost: Arc<AtomicBool>,
    renewal: tokio::task::JoinHandle<()>,
    moved: Vec<String>,
}

/// Why the lock was not acquired.
#[derive(Clone, Debug)]
pub enum ClusterLockError {
    /// Another run holds it: its self-description.
    Held(UntrustedText),
    /// The API or the connection to it failed: the lock may or may not be free.
    Failed(KubeError),
}

/// The lease of one cluster, and the holder to write into it.
#[derive(Clone)]
struct ClusterLease {
    place: ApiCollection,
    id: ObjectId,
    holder: String,
    owner: String,
    clock: fn() -> jiff::Timestamp,
}

impl ClusterReader {
    /// Acquires the cluster's lock. `clock` supplies the times shown to people.
    ///
    /// # Errors
    /// Another run holds it, or the API refuses the request.
    pub async fn acquire_lock(
        &self,
        owner: &LockOwner,
        clock: fn() -> jiff::Timestamp,
    ) -> Result<ClusterWriter, ClusterLockError> {
        let server = self.cluster.server().to_owned();
        let failed = |refusal: ApiRequestError| ClusterLockError::Failed(refusal.into_kube_error(&server));
        ensure_namespace(&self.cluster).await.map_err(failed)?;
        let name = own_object_name("lock", &self.name);
        let lease = ClusterLease {
            place: ApiCollection::new("coordination.k8s.io/v1", "leases", true),
            id: ObjectId {
                api_version: "coordination.k8s.io/v1".to_owned(),
                kind: "Lease".to_owned(),
                namespace: Some(self.cluster.namespace().to_owned()),
                name,
            },
            holder: format!("{} {}@{} {}", owner.run, owner.user, owner.controller, owner.pid),
            owner: owner.to_text(),
            clock,
        };
        if let Some(other) = lease.try_acquire(self).await.map_err(failed)? {
            return Err(ClusterLockError::Held(other));
        }
        match self.move_former_records(&lease).await {
            Ok(moved) => Ok(ClusterWriter::new(self.clone(), lease, moved)),
            Err(refused) => {
                lease.release(self).await;
                Err(refused)
            }
        }
    }

    /// Moves records from the former namespace, unless a run that uses another namespace works on the cluster. The
    /// caller holds `lease`.
    async fn move_former_records(&self, lease: &ClusterLease) -> Result<Vec<String>, ClusterLockError> {
        let failed =
            |refusal: ApiRequestError| ClusterLockError::Failed(refusal.into_kube_error(self.cluster.server()));
        if let Some(other) = lease.find_other_holder(self).await.map_err(failed)? {
            return Err(ClusterLockError::Held(other));
        }
        self.cluster.move_former_objects(&self.name).await.map_err(failed)
    }
}

impl ClusterLease {
    /// Takes the lease. Returns the other holder if that fails.
    async fn try_acquire(&self, looker: &ClusterReader) -> Result<Option<UntrustedText>, ApiRequestError> {
        let cluster = &looker.cluster;
        for _ in 0..3 {
            let there = cluster.get_object(&self.place, &self.id).await?;
            if let Some(other) = self.find_active_holder(looker, there.as_ref()).await? {
                return Ok(Some(other));
            }
            let wanted = self.build_object(there.as_ref());
            let done = match there {
                None => cluster.create_object(&self.place, &self.id, &wanted, false).await,
                Some(_) => cluster.replace_object(&self.place, &self.id, &wanted, false).await,
            };
            match done {
                Ok(_) => return Ok(None),
                // Another run was faster.
                Err(refusal) if refusal.has_code(409) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(Some("another run".into()))
    }

    /// Returns the holder of the lease in another namespace: a run of an earlier version, or with another setting.
    async fn find_other_holder(&self, looker: &ClusterReader) -> Result<Option<UntrustedText>, ApiRequestError> {
        for namespace in looker.cluster.other_lock_namespaces() {
            let id = ObjectId { namespace: Some(namespace.to_owned()), ..self.id.clone() };
            let there = match looker.cluster.get_object(&self.place, &id).await {
                // A user without rights there cannot have held it.
                Err(refusal) if refusal.has_code(403) => continue,
                there => there?,
            };
            // A lease of another product has no such annotation.
            let ours = there.filter(|there| there["metadata"]["annotations"][OWNER_ANNOTATION].is_string());
            if let Some(other) = self.find_active_holder(looker, ours.as_ref()).await? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    async fn find_active_holder(
        &self,
        looker: &ClusterReader,
        there: Option<&Value>,
    ) -> Result<Option<UntrustedText>, ApiRequestError> {
        let Some(there) = there else { return Ok(None) };
        let holder = there.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
        if holder.is_empty() || holder == self.holder {
            return Ok(None);
        }
        let told = UntrustedText::from(there["metadata"]["annotations"][OWNER_ANNOTATION].as_str().unwrap_or(holder));
        // A run of this machine that ended without reaching the API will not renew its lease.
        if LockOwner::find_ended_process(&told).is_some() {
            return Ok(None);
        }
        let lasts = there
            .pointer("/spec/leaseDurationSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(LEASE_DURATION.as_secs() as i64);
        let (now, last) = (looker.read_server_time().await?, find_last_write(there));
        // If a time is unknown, the lease counts as held.
        if let (Some(now), Some(last)) = (now, last)
            && now.as_second() - last.as_second() > lasts
        {
            return Ok(None);
        }
        Ok(Some(told))
    }

    fn build_object(&self, there: Option<&Value>) -> Value {
        let now = (self.clock)().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let mut object = json!({
            "apiVersion": self.id.api_version,
            "kind": self.id.kind,
            "metadata": { "name": self.id.name, "namespace": self.id.namespace, "annotations": { OWNER_ANNOTATION: self.owner } },
            "spec": { "holderIdentity": self.holder, "leaseDurationSeconds": LEASE_DURATION.as_secs(), "renewTime": now },
        });
        if let Some(version) = there.and_then(|there| there.pointer("/metadata/resourceVersion")) {
            object["metadata"]["resourceVersion"] = version.clone();
        }
        object
    }

    /// Renews the lease. Returns false if another run holds it.
    async fn renew(&self, looker: &ClusterReader) -> Result<bool, ApiRequestError> {
        let there = looker.cluster.get_object(&self.place, &self.id).await?;
        let ours = there.as_ref().is_some_and(|there| there["spec"]["holderIdentity"] == *self.holder);
        if ours {
            looker.cluster.replace_object(&self.place, &self.id, &self.build_object(there.as_ref()), false).await?;
        }
        Ok(ours)
    }

    /// Releases the lease if this run still holds it.
    async fn release(&self, looker: &ClusterReader) {
        let Ok(Some(mut there)) = looker.cluster.get_object(&self.place, &self.id).await else { return };
        if there["spec"]["holderIdentity"] == *self.holder {
            there["spec"]["holderIdentity"] = Value::from("");
            // A lease that could not be released expires.
            let _ = looker.cluster.replace_object(&self.place, &self.id, &there, false).await;
        }
    }
}

impl ClusterReader {
    /// Returns the time of the API: the API sets timestamps even in dry runs.
    async fn read_server_time(&self) -> Result<Option<jiff::Timestamp>, ApiRequestError> {
        let (place, id) = self.cluster.locate_own_object("ConfigMap", "forge-clock");
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "forge-clock-", "namespace": id.namespace } });
        let made = self.cluster.create_object(&place, &id, &object, true).await?;
        Ok(made.pointer("/metadata/creationTimestamp").and_then(Value::as_str).and_then(|time| time.parse().ok()))
    }
}

/// Returns the last modification time of an object, by the API's clock.
fn find_last_write(object: &Value) -> Option<jiff::Timestamp> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    entries.iter().filter_map(|entry| entry["time"].as_str()?.parse().ok()).max()
}

impl ClusterWriter {
    fn new(looker: ClusterReader, lease: ClusterLease, moved: Vec<String>) -> Self {
        let lost = Arc::new(AtomicBool::new(false));
        let renewal = tokio::spawn(renew_until_lost(looker.clone(), lease.clone(), lost.clone()));
        Self { looker, lease, lost, renewal, moved }
    }

    /// Returns a description of each object with records that was moved from the former namespace.
    pub fn moved_records(&self) -> &[String] {
        &self.moved
    }

    /// Returns the read-only access to the same cluster.
    pub fn reader(&self) -> &ClusterReader {
        &self.looker
    }

    /// # Errors
    /// The lock is no longer held.
    pub(super) fn check_lock(&self) -> Result<(), KubeError> {
        match self.lost.load(Ordering::Relaxed) {
            true => Err(KubeError::new("the cluster lock was lost: it was not renewed in time").hint("run again")),
            false => Ok(()),
        }
    }

    /// Returns the run that holds the lock.
    pub(super) fn run_id(&self) -> &str {
        self.lease.holder.split(' ').next().unwrap_or_default()
    }

    /// Returns the clock for times shown to people.
    pub(super) fn clock(&self) -> fn() -> jiff::Timestamp {
        self.lease.clock
    }

    /// Releases the lock.
    pub async fn unlock(self) -> ClusterReader {
        self.renewal.abort();
        self.lease.release(&self.looker).await;
        self.looker
    }
}

/// Renews a lease until another run holds it.
async fn renew_until_lost(looker: ClusterReader, lease: ClusterLease, lost: Arc<AtomicBool>) {
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(RENEW_INTERVAL).await;
        match lease.renew(&looker).await {
            Ok(true) => last = Instant::now(),
            Ok(false) => break,
            // The API may answer again before the lease expires.
            Err(_) if last.elapsed() + RENEW_INTERVAL < LEASE_DURATION => {}
            Err(_) => break,
        }
    }
    lost.store(true, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use crate::transport::ProcessMark;

    fn owner(run: &str) -> LockOwner {
        LockOwner {
            run: run.into(),
            user: "me".into(),
            controller: "c1".into(),
            pid: 7,
            process: None,
            since: "now".into(),
            what: "forge apply".into(),
        }
    }

    /// Acquires the lock while the namespace `forge-system` of earlier versions has a lease with these annotations,
    /// renewed a second ago. Returns the result, and the requests that change something.
    async fn lock_with_former_lease(annotations: Value) -> (Result<ClusterWriter, ClusterLockError>, Vec<String>) {
        let lease = |annotations: &Value, holder: &str| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "name": "forge-lock-lab", "annotations": annotations, "resourceVersion": "7",
                    "managedFields": [{ "time": "2026-11-21T09:30:14Z" }],
                },
                "spec": { "holderIdentity": holder, "leaseDurationSeconds": 30 },
            })
        };
        let (own, former) = (lease(&json!({}), "r2 me@c1 7"), lease(&annotations, "r1"));
        let taken = std::sync::atomic::AtomicBool::new(false);
        let (cluster, server) = start_api(move |request| match (request.method.as_str(), request.path.as_str()) {
            ("GET", path) if path.contains("forge-system/leases/") => json_reply(200, &former),
            ("GET", path) if path.contains("/leases/") && taken.load(Ordering::Relaxed) => json_reply(200, &own),
            ("GET", "/api/v1/namespaces/forge-provisioner") => json_reply(200, &json!({ "metadata": {} })),
            ("GET", _) => status_reply(404, "not found", json!({})),
            ("POST", path) if path.contains("configmaps") => {
                json_reply(201, &json!({ "metadata": { "creationTimestamp": "2026-11-21T09:30:15Z" } }))
            }
            ("POST", path) if path.contains("leases") => {
                taken.store(true, Ordering::Relaxed);
                json_reply(201, &json!({ "metadata": {} }))
            }
            _ => json_reply(200, &json!({ "metadata": {} })),
        })
        .await;
        let locked =
            ClusterReader::new(cluster, "lab").acquire_lock(&owner("r2"), || jiff::Timestamp::UNIX_EPOCH).await;
        let changing = server.asked().into_iter().filter(|asked| asked.method == "PUT");
        (locked, changing.map(|asked| format!("{} {}", asked.path.split('?').next().unwrap(), asked.body)).collect())
    }

    #[tokio::test]
    async fn held_lease_of_an_earlier_version_blocks_the_lock() {
        let (locked, puts) = lock_with_former_lease(json!({ OWNER_ANNOTATION: owner("r1").to_text() })).await;
        let Err(ClusterLockError::Held(held_by)) = locked else { panic!("acquired while an earlier version works") };
        assert_eq!(held_by.raw(), owner("r1").to_text());
        // The lease that was taken first is released.
        assert_eq!(puts.len(), 1, "{puts:?}");
        assert!(puts[0].contains("/namespaces/forge-provisioner/leases/forge-lock-lab "), "{puts:?}");
        assert!(puts[0].contains("\"holderIdentity\":\"\""), "{puts:?}");
        // A lease of another product is ignored.
        let (locked, puts) = lock_with_former_lease(json!({ "operator/owner": "pod-1" })).await;
        assert!(locked.is_ok() && puts.is_empty(), "{puts:?}");
    }

    /// Acquires a lock that `holder` renewed a second ago.
    async fn lock_held_by(holder: &LockOwner) -> Result<ClusterWriter, ClusterLockError> {
        let owner = LockOwner { run: "r2".into(), process: None, ..holder.clone() };
        let text = holder.to_text();
        let (cluster, _server) = start_api(move |request| match (request.method.as_str(), &request.path) {
            ("GET", path) if path.contains("/leases/") => json_reply(
                200,
                &json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {
                        "name": "forge-lock-lab", "annotations": { OWNER_ANNOTATION: text }, "resourceVersion": "7",
                        "managedFields": [{ "time": "2026-11-21T09:30:14Z" }],
                    },
                    "spec": { "holderIdentity": "r1", "leaseDurationSeconds": 30 },
                }),
            ),
            ("GET", _) => json_reply(200, &json!({ "metadata": {} })),
            ("POST", path) if path.contains("configmaps") => {
                json_reply(201, &json!({ "metadata": { "creationTimestamp": "2026-11-21T09:30:15Z" } }))
            }
            ("PUT", _) if request.body.contains("\"resourceVersion\":\"7\"") => {
                json_reply(200, &json!({ "metadata": {} }))
            }
            _ => status_reply(409, "the object has been modified", json!({})),
        })
        .await;
        ClusterReader::new(cluster, "lab").acquire_lock(&owner, || jiff::Timestamp::UNIX_EPOCH).await
    }

    #[tokio::test]
    async fn lease_of_an_ended_local_run_is_taken_over() {
        let own = ProcessMark::current_process().unwrap();
        let ended = ProcessMark::parse(&format!("{} 1", own.to_string().rsplit_once(' ').unwrap().0));
        let holder = LockOwner { process: ended, ..owner("r1") };
        assert!(lock_held_by(&holder).await.is_ok());
        for process in [None, Some(own)] {
            let holder = LockOwner { process, ..holder.clone() };
            let Err(ClusterLockError::Held(told)) = lock_held_by(&holder).await else { panic!("acquired a held lock") };
            assert_eq!(told.raw(), holder.to_text());
        }
    }
}
