//! What forge does to a cluster: calls, one after the other, each by whoever holds the cluster's lock.

use super::api::{Place, Refusal, Served};
use super::clean::{self, revealed};
use super::defined::ESTABLISHED;
use super::fields::without;
use super::{JobCall, KubeError, Marks, ReleaseCall, Stopped, Writer};
use crate::model::{SecretStore, Value};
use crate::probe::ObjectId;
use std::time::Duration;
use tokio::time::Instant;

/// How often it is looked whether something has come about.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Told how far a call is.
pub type Say<'s> = &'s (dyn Fn(&str) + Send + Sync);

/// One change of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A server-side apply, which takes over what others set. Placeholders stand in it for secrets.
    Apply { object: Value },
    /// Takes out what stands at these JSON pointers, if the object is still of that version.
    Strip { id: ObjectId, version: String, pointers: Vec<String> },
    /// Deletes the very object of that uid, with what it owns, and waits until it is gone.
    Delete { id: ObjectId, uid: String },
    /// Waits until a condition of the object is true.
    Await { id: ObjectId, condition: String, limit_s: u64 },
    /// Sets and takes out labels, annotations and taints of a node.
    Mark(Box<Marks>),
    /// Runs a workload that proves something, and takes it away.
    Job(Box<JobCall>),
    /// Forgets that such a workload ever succeeded.
    Unprove { id: ObjectId },
    /// Something with a Helm release.
    Release(Box<ReleaseCall>),
}

impl Call {
    /// Returns what it does, for people.
    pub fn told(&self) -> String {
        match self {
            Self::Apply { object } => match ObjectId::of(object) {
                Some(id) => format!("apply {id}"),
                None => "apply what has no name".to_owned(),
            },
            Self::Strip { id, pointers, .. } => format!("take out of {id}: {}", pointers.join(", ")),
            Self::Delete { id, .. } => format!("delete {id}"),
            Self::Await { id, condition, limit_s } => format!("wait until {id} is {condition}, at most {limit_s} s"),
            Self::Mark(marks) => marks.told(),
            Self::Job(call) => call.told(),
            Self::Unprove { id } => format!("forget that {id} succeeded"),
            Self::Release(call) => call.told(),
        }
    }
}

impl Writer {
    /// Carries out one call, within `limit`. Returns what there is to say about it.
    ///
    /// # Errors
    /// The lock is lost, the API refuses, or what is waited for did not come.
    pub async fn act(
        &self,
        call: &Call,
        limit: Duration,
        secrets: &SecretStore,
        say: Say<'_>,
        stopped: Stopped<'_>,
    ) -> Result<String, KubeError> {
        self.held()?;
        if let Call::Job(job) = call {
            // It has limits of its own, and what it made is taken away after each of them.
            return self.prove(job, secrets, say, stopped).await;
        }
        if let Call::Release(release) = call {
            // It has a limit of its own, and a helm that works is not left behind.
            return self.looker.cluster.bring(release, secrets, say).await.map(|()| call.told());
        }
        let done = match tokio::time::timeout(limit, self.carry_out(call, secrets)).await {
            Ok(done) => done,
            Err(_) => return Err(self.late(call, limit).await),
        };
        done.map_err(|refusal| refusal.error(self.looker.cluster.server()))
    }

    async fn carry_out(&self, call: &Call, secrets: &SecretStore) -> Result<String, Refusal> {
        // Asked anew each time: the call before may have brought a kind.
        let served = Served::default();
        let cluster = &self.looker.cluster;
        match call {
            Call::Apply { object } => {
                let id = ObjectId::of(object).ok_or_else(|| own("an object without kind or name"))?;
                let place = self.place(&id, &served).await?;
                cluster.apply(&place, &id, &revealed(object, secrets), true, false).await?;
            }
            Call::Strip { id, version, pointers } => {
                let place = self.place(id, &served).await?;
                let raw = cluster.get(&place, id).await?.ok_or_else(|| own(&format!("there is no {id} any more")))?;
                if raw.pointer("/metadata/resourceVersion").and_then(Value::as_str) != Some(version) {
                    return Err(own(&format!("{id} was changed meanwhile")));
                }
                cluster.replace(&place, id, &without(&raw, pointers), false).await?;
            }
            Call::Delete { id, uid } => self.delete(id, uid, &served).await?,
            Call::Await { id, condition, limit_s } => self.until(id, condition, *limit_s, &served).await?,
            Call::Mark(marks) => cluster.mark(marks).await?,
            Call::Unprove { id } => self.unprove(id).await?,
            Call::Job(_) | Call::Release(_) => return Err(own("a run is no object")),
        }
        Ok(call.told())
    }

    async fn late(&self, call: &Call, limit: Duration) -> KubeError {
        let why = format!("not done within {:.0} s: {}", limit.as_secs_f64(), call.told());
        match call {
            Call::Delete { id, .. } => self.stays(id, why).await,
            _ => KubeError::new(why),
        }
    }

    async fn place(&self, id: &ObjectId, served: &Served) -> Result<Place, Refusal> {
        let place = self.looker.cluster.place(id, served).await?;
        place.ok_or_else(|| own(&format!("the API serves no `{}` of `{}`", id.kind, id.api_version)))
    }

    async fn until(&self, id: &ObjectId, condition: &str, limit_s: u64, served: &Served) -> Result<(), Refusal> {
        let place = self.place(id, served).await?;
        let end = Instant::now() + Duration::from_secs(limit_s);
        loop {
            let object = self.looker.cluster.get(&place, id).await?;
            let found = object.as_ref().and_then(|object| clean::condition(object, condition));
            let holds = match &object {
                Some(definition) if condition == ESTABLISHED => self.looker.cluster.serves(definition).await?,
                _ => found.is_some_and(|found| found["status"] == "True"),
            };
            if holds {
                return Ok(());
            }
            if Instant::now() >= end {
                let why = match found {
                    Some(found) if found["status"] == "True" => "the API serves no such kind yet",
                    found => found.and_then(|found| found["message"].as_str()).unwrap_or("nobody says so yet"),
                };
                return Err(own(&format!("{id} is not {condition} after {limit_s} s: {why}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Says why forge itself goes no further.
pub(super) fn own(message: &str) -> Refusal {
    Refusal::Said { code: 409, message: message.to_owned(), causes: Vec::new() }
}
