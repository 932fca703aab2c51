//! One run of a workload: made, watched, told, taken away, whatever becomes of it.

use super::shape::{RUN, mark, of_run};
use super::store::pods;
use super::why::Seen;
use super::{Aim, JobCall, logs};
use crate::kube::api::{Place, Refusal, Served};
use crate::kube::call::own;
use crate::kube::clean::revealed;
use crate::kube::{KubeError, Say, Writer};
use crate::model::{SecretStore, Value};
use crate::probe::{ObjectId, Proven};
use std::time::Duration;
use tokio::time::Instant;

/// How often it is looked how far it is.
const PAUSE: Duration = Duration::from_secs(1);
/// Looks in a row that may fail: an API server restarts.
const LAPSES: usize = 10;
/// How long its pods may take to leave.
const LEAVING: Duration = Duration::from_secs(120);

/// Whether the user wants to stop.
pub type Stopped<'s> = &'s (dyn Fn() -> bool + Send + Sync);

/// A workload that a run made.
struct Made<'c> {
    call: &'c JobCall,
    id: ObjectId,
    uid: String,
    place: Place,
    namespace: String,
    /// Finds its pods.
    selector: String,
}

/// How it ended, as far as that is known.
enum End {
    Good(String),
    Bad { why: String, seen: Seen },
}

impl Writer {
    /// Runs a workload and takes it away again. Returns what it came to.
    ///
    /// # Errors
    /// It failed, did not end in time, or was not as it has to be: why, with the last lines of its logs; the user stopped it;
    /// or the API refuses.
    pub(in crate::kube) async fn prove(
        &self,
        call: &JobCall,
        secrets: &SecretStore,
        say: Say<'_>,
        stopped: Stopped<'_>,
    ) -> Result<String, KubeError> {
        self.held()?;
        let server = self.looker.cluster.server();
        let refused = |refusal: Refusal| refusal.error(server);
        // What was proven once is not any more, until it is again.
        self.looker.keep(&call.id, None).await.map_err(refused)?;
        let made = self.make(call, secrets).await.map_err(refused)?;
        let end = self.watch(&made, say, stopped).await;
        let told = match end {
            Ok(End::Good(said)) => Ok(said),
            Ok(End::Bad { why, seen }) => Err(self.failure(&made, &why, &seen).await),
            Err(refusal) => Err(refused(refusal)),
        };
        let gone = self.take_away(&made).await;
        let said = told?;
        gone.map_err(refused)?;
        let time = (self.clock())().to_string();
        let proven = Proven { digest: call.digest.clone(), time, run: self.run().to_owned(), said: said.clone() };
        self.looker.keep(&call.id, Some(&proven)).await.map_err(refused)?;
        Ok(format!("{} {said}", call.id))
    }

    async fn make<'c>(&self, call: &'c JobCall, secrets: &SecretStore) -> Result<Made<'c>, Refusal> {
        let cluster = &self.looker.cluster;
        let place = cluster.place(&call.id, &Served::default()).await?;
        let unserved = || own(&format!("the API serves no `{}` of `{}`", call.id.kind, call.id.api_version));
        let place = place.ok_or_else(unserved)?;
        let object = of_run(&call.object, &mark(&self.looker.name, &call.id), self.run());
        let id = ObjectId::of(&object).ok_or_else(|| own("an object without kind or name"))?;
        let there = cluster.create(&place, &id, &revealed(&object, secrets), false).await?;
        Ok(Made {
            call,
            uid: there["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            place,
            namespace: call.id.namespace.clone().unwrap_or_default(),
            selector: format!("{RUN}={},{}={}", self.run(), super::shape::JOB, mark(&self.looker.name, &call.id)),
            id,
        })
    }

    /// Looks until it is told how it ends. A look that fails is no end.
    async fn watch(&self, made: &Made<'_>, say: Say<'_>, stopped: Stopped<'_>) -> Result<End, Refusal> {
        let (began, mut lapses, mut told) = (Instant::now(), 0, String::new());
        loop {
            match self.look(made).await {
                Ok(None) => return Ok(bad("it is gone: somebody deleted it", Seen::default())),
                Ok(Some(seen)) => {
                    lapses = 0;
                    if seen.state() != told {
                        told = seen.state();
                        say(&format!("{}: {told}", made.id));
                    }
                    if let Some(end) = self.end(made, seen, began.elapsed(), stopped()).await {
                        return Ok(end);
                    }
                }
                Err(refusal) if lapses >= LAPSES || stopped() => return Err(refusal),
                Err(_) => lapses += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn look(&self, made: &Made<'_>) -> Result<Option<Seen>, Refusal> {
        let cluster = &self.looker.cluster;
        let Some(object) = cluster.get(&made.place, &made.id).await? else { return Ok(None) };
        let pods = cluster.pods_where(&made.namespace, &made.selector).await?;
        Ok(Some(Seen { object, pods }))
    }

    /// Returns the end that was seen, if it is one.
    async fn end(&self, made: &Made<'_>, seen: Seen, took: Duration, stopped: bool) -> Option<End> {
        let (signs, limit_s) = match &made.call.aim {
            Aim::Ends { signs, within_s } => (signs, *within_s),
            Aim::StaysPending { signs, for_s } => (signs, *for_s),
        };
        let over = took.as_secs() >= limit_s;
        let (succeeded, failed) = (signs.succeeded.holds(&seen.object), signs.failed.holds(&seen.object));
        match &made.call.aim {
            _ if failed => Some(bad("it failed", seen)),
            Aim::Ends { .. } if succeeded => Some(self.good(made, seen, took).await),
            Aim::StaysPending { .. } if succeeded || seen.begun().is_some() => {
                let pod = seen.begun().and_then(|pod| pod["metadata"]["name"].as_str()).unwrap_or("of it").to_owned();
                Some(bad(&format!("it was to stay pending, and pod {pod} began"), seen))
            }
            _ if stopped => Some(bad("it was stopped with the run", seen)),
            Aim::Ends { .. } if over => Some(bad(&format!("it has not ended within {limit_s} s"), seen)),
            Aim::StaysPending { .. } if over => Some(self.stayed(made, seen, limit_s).await),
            _ => None,
        }
    }

    async fn good(&self, made: &Made<'_>, seen: Seen, took: Duration) -> End {
        let printed = match made.call.logs.expect.is_empty() && made.call.logs.deny.is_empty() {
            true => Vec::new(),
            false => self.looker.cluster.printed(&seen.pods).await,
        };
        if let Some(why) = logs::unfit(made.call, &printed) {
            return bad(&format!("it succeeded, but {why}"), seen);
        }
        let nodes = seen.nodes();
        let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.join(", ")) };
        End::Good(format!("succeeded after {} s{on}", took.as_secs()))
    }

    /// What nobody looks at stays pending too: somebody has to say why it does.
    async fn stayed(&self, made: &Made<'_>, seen: Seen, for_s: u64) -> End {
        let reasons = self.looker.cluster.reasons(&seen, &made.namespace).await;
        match reasons.first() {
            Some(first) => End::Good(format!("stayed pending for {for_s} s: {first}")),
            None => bad("it stays pending, but nobody says why: is its scheduler there", seen),
        }
    }

    async fn failure(&self, made: &Made<'_>, why: &str, seen: &Seen) -> KubeError {
        let cluster = &self.looker.cluster;
        let reasons = cluster.reasons(seen, &made.namespace).await;
        let mut message = format!("{}: {why}", made.id);
        if let Some(first) = reasons.first() {
            message.push_str(&format!(": {first}"));
        }
        // Of those that went well the last lines say little, where others did not.
        let failed: Vec<Value> = seen
            .pods
            .iter()
            .filter(|pod| pod.pointer("/status/phase").is_some_and(|p| p == "Failed"))
            .cloned()
            .collect();
        let of = if failed.is_empty() { &seen.pods } else { &failed };
        let begun: Vec<Value> =
            of.iter().filter(|pod| pod.pointer("/status/phase").is_some_and(|p| p != "Pending")).cloned().collect();
        let mut said: String = reasons.iter().skip(1).map(|reason| format!("{reason}\n")).collect();
        said.push_str(&logs::tails(&cluster.printed(&begun).await, made.call.logs.tail));
        KubeError::new(message).said(said)
    }

    /// Deletes it and waits until its pods have left: until then they hold what they asked for.
    async fn take_away(&self, made: &Made<'_>) -> Result<(), Refusal> {
        let cluster = &self.looker.cluster;
        match cluster.delete(&made.place, &made.id, &made.uid).await {
            Err(refusal) if refusal.is(404) || refusal.is(409) => {}
            done => drop(done?),
        }
        let end = Instant::now() + LEAVING;
        loop {
            let there = cluster.get(&made.place, &made.id).await?.is_some();
            let left = cluster.pods_where(&made.namespace, &made.selector).await?;
            if !there && left.is_empty() {
                return Ok(());
            }
            // Those that nobody collects are told to go.
            for pod in left.iter().filter(|pod| !there && pod["metadata"]["deletionTimestamp"].is_null()) {
                let Some(id) = ObjectId::of(&with_kind(pod)) else { continue };
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                match cluster.delete(&pods(), &id, uid).await {
                    Err(refusal) if refusal.is(404) || refusal.is(409) => {}
                    done => drop(done?),
                }
            }
            if Instant::now() >= end {
                let what = left.first().and_then(|pod| pod["metadata"]["name"].as_str());
                let what = what.map_or_else(|| made.id.to_string(), |pod| format!("pod {pod}"));
                return Err(own(&format!("{what} is still there {} s after it was told to go", LEAVING.as_secs())));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Forgets what was proven.
    pub(in crate::kube) async fn unprove(&self, id: &ObjectId) -> Result<(), Refusal> {
        self.looker.keep(id, None).await
    }
}

fn bad(why: &str, seen: Seen) -> End {
    End::Bad { why: why.to_owned(), seen }
}

/// Items of a list do not say of which kind they are.
fn with_kind(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}
