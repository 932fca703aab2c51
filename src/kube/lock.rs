//! One writer per cluster: a [lease](super::lease) that names the lock holder, renewed while it works.

use super::lease::{ClusterLease, ClusterLockError, HeldLease, LeaseExpiry, LeaseLoss};
use super::records::{ensure_namespace, own_object_name};
use super::request_error::ApiRequestError;
use super::{ClusterReader, KubeError};
use crate::transport::LockOwner;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::time::Instant;

/// Changes a cluster while it holds the lock.
pub struct ClusterWriter {
    pub(super) looker: ClusterReader,
    /// The uids of the objects that calls applied, by their claims, until they are taken.
    pub(super) applied: Mutex<BTreeMap<String, String>>,
    pub(super) held: HeldLease,
    moved: Vec<String>,
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
        let lease = ClusterLease::new(self.cluster.namespace(), name, owner, clock);
        let began = Instant::now();
        if let Some(other) = lease.try_acquire(&self.cluster).await.map_err(failed)? {
            return Err(ClusterLockError::Held(other));
        }
        // Many records take longer to move than the lease lasts.
        let held = HeldLease::start_renewal(self.cluster.clone(), lease, LeaseExpiry::Lost, began);
        match self.move_former_records(&held.lease).await {
            Ok(moved) => Ok(ClusterWriter { looker: self.clone(), applied: Mutex::default(), held, moved }),
            Err(refused) => {
                held.release().await;
                Err(refused)
            }
        }
    }

    /// Moves records from the former namespace, unless a run that uses another namespace works on the cluster. The
    /// caller holds `lease`.
    async fn move_former_records(&self, lease: &ClusterLease) -> Result<Vec<String>, ClusterLockError> {
        let failed =
            |refusal: ApiRequestError| ClusterLockError::Failed(refusal.into_kube_error(self.cluster.server()));
        if let Some(other) = lease.find_other_holder(&self.cluster).await.map_err(failed)? {
            return Err(ClusterLockError::Held(other));
        }
        self.cluster.move_former_objects(&self.name).await.map_err(failed)
    }
}

impl ClusterWriter {
    /// Returns a description of each object with records that was moved from the former namespace.
    pub fn moved_records(&self) -> &[String] {
        &self.moved
    }

    /// Returns the read-only access to the same cluster.
    pub fn reader(&self) -> &ClusterReader {
        &self.looker
    }

    /// Does `work` as the holder of the lock. If another run may hold it meanwhile, the request of that moment is abandoned:
    /// its answer is not awaited, and it is not sent again.
    ///
    /// # Errors
    /// Another run may hold the lock, or `work` fails.
    pub(super) async fn work_under_lock<T>(
        &self,
        work: impl Future<Output = Result<T, KubeError>>,
    ) -> Result<T, KubeError> {
        self.check_lock()?;
        tokio::select! {
            biased;
            done = work => done,
            loss = self.held.wait_for_loss() => Err(lock_loss_error(loss)),
        }
    }

    /// Makes requests as [`ClusterWriter::work_under_lock`].
    ///
    /// # Errors
    /// Another run may hold the lock, or the API refuses a request.
    pub(super) async fn request_under_lock<T>(
        &self,
        requests: impl Future<Output = Result<T, ApiRequestError>>,
    ) -> Result<T, KubeError> {
        let server = self.looker.cluster.server();
        self.work_under_lock(async { requests.await.map_err(|refusal| refusal.into_kube_error(server)) }).await
    }

    /// # Errors
    /// Another run may hold the lock.
    pub(super) fn check_lock(&self) -> Result<(), KubeError> {
        self.held.find_loss().map_or(Ok(()), |loss| Err(lock_loss_error(loss)))
    }

    /// Returns the run that holds the lock.
    pub(super) fn run_id(&self) -> &str {
        self.held.lease.run_id()
    }

    /// Returns the clock for times shown to people.
    pub(super) fn clock(&self) -> fn() -> jiff::Timestamp {
        self.held.lease.clock()
    }

    /// Releases the lock.
    pub async fn unlock(self) -> ClusterReader {
        self.held.release().await;
        self.looker
    }
}

fn lock_loss_error(loss: LeaseLoss) -> KubeError {
    let why = match loss {
        LeaseLoss::Taken => "the Lease of the cluster lock names another holder, or none",
        LeaseLoss::Overdue => "the cluster lock was not renewed in time: another run may hold it",
    };
    KubeError::new(why).hint("run again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::lease::OWNER_ANNOTATION;
    use crate::kube::tests::{json_reply, start_api, status_reply};
    use crate::model::Value;
    use crate::transport::ProcessMark;
    use serde_json::json;
    use std::sync::atomic::Ordering;

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
            ("POST", _) if request.body.contains("generateName") => {
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
            ("POST", _) if request.body.contains("generateName") => {
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
