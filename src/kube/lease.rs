//! A `Lease` that names one run as the holder of a lock, and is renewed while the run works.
//!
//! Only the API's own clock decides whether a lease is stale: the clocks of the machines that run forge may differ.

use super::request_error::ApiRequestError;
use super::served_kinds::ApiCollection;
use super::{ClusterApi, KubeError};
use crate::model::{UntrustedText, Value};
use crate::object::ObjectId;
use crate::transport::LockOwner;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A lease that has not been renewed for this long may be taken by another run.
const LEASE_DURATION: Duration = Duration::from_secs(30);
const RENEW_INTERVAL: Duration = Duration::from_secs(8);
/// Time that a request has before another run may take the lease.
const REQUEST_MARGIN: Duration = Duration::from_secs(4);
const LOSS_POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(super) const OWNER_ANNOTATION: &str = "forge/owner";

/// Why a lock was not acquired.
#[derive(Clone, Debug)]
pub enum ClusterLockError {
    /// Another run holds it: its self-description.
    Held(UntrustedText),
    /// The API or the connection to it failed: the lock may or may not be free.
    Failed(KubeError),
}

/// A lease, and the holder to write into it.
#[derive(Clone)]
pub(super) struct ClusterLease {
    place: ApiCollection,
    id: ObjectId,
    holder: String,
    owner: String,
    clock: fn() -> jiff::Timestamp,
}

/// What becomes of a lease whose holder does not reach the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseExpiry {
    /// It counts as lost once another run may take it.
    Lost,
    /// It is lost only if another run has taken it: without the API, the holder can do nothing that needs the lock.
    Kept,
}

/// Why a run may not act as the holder of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseLoss {
    /// It names another holder, or none.
    Taken,
    /// It was not renewed in time: another run may hold it.
    Overdue,
}

/// The renewal of a lease so far.
struct RenewalState {
    expiry: LeaseExpiry,
    /// When the last request that wrote the lease began: the API wrote it then or later.
    renewed: Mutex<Instant>,
    /// Whether the lease named another holder, or none.
    is_taken: AtomicBool,
}

impl RenewalState {
    fn note_renewal(&self, began: Instant) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }

    /// Returns why another run may hold the lease before a request that begins now is answered, if so. The time decides, not
    /// the result of a renewal: one that hangs has none.
    fn find_loss(&self) -> Option<LeaseLoss> {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_overdue = renewed.elapsed() + REQUEST_MARGIN >= LEASE_DURATION;
        match self.is_taken.load(Ordering::Relaxed) {
            true => Some(LeaseLoss::Taken),
            false => (self.expiry == LeaseExpiry::Lost && is_overdue).then_some(LeaseLoss::Overdue),
        }
    }
}

/// A lease that this run holds. Dropping it ends its renewal; then it expires.
pub struct HeldLease {
    cluster: ClusterApi,
    pub(super) lease: ClusterLease,
    state: Arc<RenewalState>,
    renewal: tokio::task::JoinHandle<()>,
}

impl HeldLease {
    /// Renews a lease until it is dropped, or until another run has it. `began` is the time before it was acquired.
    pub(super) fn start_renewal(cluster: ClusterApi, lease: ClusterLease, expiry: LeaseExpiry, began: Instant) -> Self {
        let state = RenewalState { expiry, renewed: Mutex::new(began), is_taken: AtomicBool::new(false) };
        let state = Arc::new(state);
        let renewal = tokio::spawn(renew_until_taken(cluster.clone(), lease.clone(), state.clone()));
        Self { cluster, lease, state, renewal }
    }

    /// Returns the time of the API.
    pub(super) async fn read_server_time(&self) -> Result<Option<jiff::Timestamp>, ApiRequestError> {
        self.lease.read_server_time(&self.cluster).await
    }

    /// Reports whether another run may hold the lease.
    pub fn is_lost(&self) -> bool {
        self.find_loss().is_some()
    }

    pub(super) fn find_loss(&self) -> Option<LeaseLoss> {
        self.state.find_loss()
    }

    /// Waits until another run may hold the lease.
    pub(super) async fn wait_for_loss(&self) -> LeaseLoss {
        loop {
            if let Some(loss) = self.find_loss() {
                return loss;
            }
            tokio::time::sleep(LOSS_POLL_INTERVAL).await;
        }
    }

    /// Releases the lease.
    pub async fn release(self) {
        self.renewal.abort();
        self.lease.release(&self.cluster).await;
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

impl ClusterLease {
    /// Describes the lease `name` of a run. Nothing is contacted.
    pub fn new(namespace: &str, name: String, owner: &LockOwner, clock: fn() -> jiff::Timestamp) -> Self {
        Self {
            place: ApiCollection::new("coordination.k8s.io/v1", "leases", true),
            id: ObjectId {
                api_version: "coordination.k8s.io/v1".to_owned(),
                kind: "Lease".to_owned(),
                namespace: Some(namespace.to_owned()),
                name,
            },
            holder: format!("{} {}@{} {}", owner.run, owner.user, owner.controller, owner.pid),
            owner: owner.to_text(),
            clock,
        }
    }

    /// Returns the run that is written into it.
    pub fn run_id(&self) -> &str {
        self.holder.split(' ').next().unwrap_or_default()
    }

    /// Returns the clock for times shown to people.
    pub fn clock(&self) -> fn() -> jiff::Timestamp {
        self.clock
    }

    /// Takes the lease. Returns the other holder if that fails.
    pub async fn try_acquire(&self, cluster: &ClusterApi) -> Result<Option<UntrustedText>, ApiRequestError> {
        for _ in 0..3 {
            let there = cluster.get_object(&self.place, &self.id).await?;
            if let Some(other) = self.find_active_holder(cluster, there.as_ref()).await? {
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
    pub async fn find_other_holder(&self, cluster: &ClusterApi) -> Result<Option<UntrustedText>, ApiRequestError> {
        for namespace in cluster.other_lock_namespaces() {
            let id = ObjectId { namespace: Some(namespace.to_owned()), ..self.id.clone() };
            let there = match cluster.get_object(&self.place, &id).await {
                // A user without rights there cannot have held it.
                Err(refusal) if refusal.has_code(403) => continue,
                there => there?,
            };
            // A lease of another product has no such annotation.
            let ours = there.filter(|there| there["metadata"]["annotations"][OWNER_ANNOTATION].is_string());
            if let Some(other) = self.find_active_holder(cluster, ours.as_ref()).await? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    async fn find_active_holder(
        &self,
        cluster: &ClusterApi,
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
        let (now, last) = (self.read_server_time(cluster).await?, find_last_write(there));
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
    pub async fn renew(&self, cluster: &ClusterApi) -> Result<bool, ApiRequestError> {
        let there = cluster.get_object(&self.place, &self.id).await?;
        let ours = there.as_ref().is_some_and(|there| there["spec"]["holderIdentity"] == *self.holder);
        if ours {
            cluster.replace_object(&self.place, &self.id, &self.build_object(there.as_ref()), false).await?;
        }
        Ok(ours)
    }

    /// Releases the lease if this run still holds it.
    pub async fn release(&self, cluster: &ClusterApi) {
        let Ok(Some(mut there)) = cluster.get_object(&self.place, &self.id).await else { return };
        if there["spec"]["holderIdentity"] == *self.holder {
            there["spec"]["holderIdentity"] = Value::from("");
            // A lease that could not be released expires.
            let _ = cluster.replace_object(&self.place, &self.id, &there, false).await;
        }
    }

    /// Returns the time of the API: the API sets timestamps even in dry runs.
    async fn read_server_time(&self, cluster: &ClusterApi) -> Result<Option<jiff::Timestamp>, ApiRequestError> {
        let object = json!({
            "apiVersion": self.id.api_version, "kind": self.id.kind,
            "metadata": { "generateName": "forge-clock-", "namespace": self.id.namespace },
        });
        let made = cluster.create_object(&self.place, &self.id, &object, true).await?;
        Ok(made.pointer("/metadata/creationTimestamp").and_then(Value::as_str).and_then(|time| time.parse().ok()))
    }
}

/// Returns the last modification time of an object, by the API's clock.
fn find_last_write(object: &Value) -> Option<jiff::Timestamp> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    entries.iter().filter_map(|entry| entry["time"].as_str()?.parse().ok()).max()
}

/// Renews a lease until another run holds it. After errors, the API may answer again: as long as no other run has taken the
/// lease, it can be renewed, even if it has expired.
async fn renew_until_taken(cluster: ClusterApi, lease: ClusterLease, state: Arc<RenewalState>) {
    loop {
        tokio::time::sleep(RENEW_INTERVAL).await;
        let began = Instant::now();
        // One that hangs would keep the next one from being tried.
        match tokio::time::timeout(LEASE_DURATION, lease.renew(&cluster)).await {
            Ok(Ok(true)) => state.note_renewal(began),
            Ok(Ok(false)) => return state.is_taken.store(true, Ordering::Relaxed),
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another run may take a lease 30 s after its last renewal.
    #[test]
    fn lease_is_lost_by_time_whatever_its_renewal_does() {
        let state = |expiry, seconds_ago| RenewalState {
            expiry,
            renewed: Mutex::new(Instant::now() - Duration::from_secs(seconds_ago)),
            is_taken: AtomicBool::new(false),
        };
        let find_loss = |seconds_ago| state(LeaseExpiry::Lost, seconds_ago).find_loss();
        let overdue = Some(LeaseLoss::Overdue);
        assert_eq!([0, 25, 26, 90].map(find_loss), [None, None, overdue, overdue]);
        let kept = state(LeaseExpiry::Kept, 90);
        assert_eq!(kept.find_loss(), None);
        kept.is_taken.store(true, Ordering::Relaxed);
        assert_eq!(kept.find_loss(), Some(LeaseLoss::Taken));
        let renewed = state(LeaseExpiry::Lost, 90);
        renewed.note_renewal(Instant::now());
        assert_eq!(renewed.find_loss(), None, "no other run has taken it meanwhile");
    }
}
