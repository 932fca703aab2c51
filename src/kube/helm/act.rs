//! Brings a release about: what a killed helm left, definitions, the upgrade, and what that does not repair.

use super::super::{Cluster, KubeError, Say};
use super::api::{Applied, Apply};
use super::flags::{self, Upgrade};
use super::manifest::Object;
use super::observe::{Found, HELM, Look, Noted};
use super::program::Said;
use crate::model::{SecretStore, Value};
use crate::probe::{ReleaseAsked, ReleaseState, ReleaseStatus};
use std::time::Duration;

/// What helm itself needs beside the time that it waits: forge's limit lies that much above helm's.
const BESIDE: Duration = Duration::from_secs(120);
/// The limit of the API's taking up a new kind.
const ESTABLISHED: Duration = Duration::from_secs(30);
/// How often something is told of a helm that works.
const TOLD: Duration = Duration::from_secs(10);

/// Something to do with a release.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseCall {
    pub asked: ReleaseAsked,
    pub deed: Deed,
    /// Seconds that helm waits, for hooks too.
    pub timeout_s: u64,
    /// Waits until everything is ready, and rolls back where it does not come to that.
    pub wait: bool,
    /// Whether hooks run.
    pub hooks: bool,
    /// Seconds after which a pending release is one that a killed helm left.
    pub stale_s: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// An install or an upgrade, then whatever of the live objects that left as it was. With `force`, fields are taken from
    /// their other owners.
    Upgrade {
        force: bool,
    },
    /// Live objects as the release's manifest says: no revision is made and no hook runs.
    Mend,
    Uninstall,
}

impl ReleaseCall {
    /// Returns what it does, for people.
    pub fn told(&self) -> String {
        let what = match self.deed {
            Deed::Upgrade { .. } => "helm upgrade --install",
            Deed::Mend => "mend live objects of",
            Deed::Uninstall => "helm uninstall",
        };
        format!("{what} {} in {}", self.asked.name, self.asked.namespace)
    }
}

impl Cluster {
    /// Looks at a release. Nothing is written, and no revision is made.
    ///
    /// # Errors
    /// If helm or the API cannot be asked, or the chart cannot be had or rendered.
    pub async fn release(&self, asked: &ReleaseAsked, secrets: &SecretStore) -> Result<ReleaseState, KubeError> {
        Look::at(self, asked, secrets).await?.state().await
    }

    /// Does something with a release, and tells meanwhile how far it is.
    ///
    /// # Errors
    /// If helm fails, with what it says; if somebody else's helm is at work; and as [`Cluster::release`].
    pub async fn bring(&self, call: &ReleaseCall, secrets: &SecretStore, say: Say<'_>) -> Result<(), KubeError> {
        let mut work = Work { look: Look::at(self, &call.asked, secrets).await?, call, secrets, say };
        let done = work.all().await;
        // Charts bring kinds, and an uninstall may take some away.
        self.forget().await;
        done
    }
}

struct Work<'w> {
    look: Look<'w>,
    call: &'w ReleaseCall,
    secrets: &'w SecretStore,
    say: Say<'w>,
}

impl Work<'_> {
    async fn all(&mut self) -> Result<(), KubeError> {
        let noted = self.look.noted(true).await?;
        if let Some(noted) = noted.filter(|noted| noted.info.status.is_pending()) {
            self.recover(&noted).await?;
        }
        match self.call.deed {
            Deed::Uninstall => self.uninstall().await,
            Deed::Mend => self.mend().await,
            Deed::Upgrade { force } => {
                self.define().await?;
                self.upgrade(force).await?;
                self.look.objects.cluster.forget().await;
                self.mend_anew().await
            }
        }
    }

    fn told(&self) -> Upgrade<'_> {
        Upgrade {
            name: &self.call.asked.name,
            namespace: &self.call.asked.namespace,
            chart: self.look.chart.as_ref().map_or("", |chart| chart.path.as_str()),
            timeout_s: self.call.timeout_s,
            wait: self.call.wait,
            hooks: self.call.hooks,
            force_conflicts: false,
        }
    }

    /// Runs a helm that changes something to its end, and says every now and then that it is at work.
    async fn helm(&mut self, args: Vec<String>, input: bool) -> Result<Said, KubeError> {
        let what = format!("helm {}", args.first().map_or("", String::as_str));
        let limit = Duration::from_secs(self.call.timeout_s) + BESIDE;
        let values = if input { Some(self.look.values()?) } else { None };
        let run = self.look.helm.change(&args, values.as_ref(), limit, self.secrets);
        tokio::pin!(run);
        let mut ticks = tokio::time::interval(TOLD);
        let mut seconds = 0;
        loop {
            tokio::select! {
                said = &mut run => return said,
                _ = ticks.tick() => {
                    (self.say)(&if seconds == 0 { what.clone() } else { format!("{what}: {seconds} s") });
                    seconds += TOLD.as_secs();
                }
            }
        }
    }

    async fn must(&mut self, args: Vec<String>, input: bool) -> Result<(), KubeError> {
        let what = args.first().cloned().unwrap_or_default();
        let said = self.helm(args, input).await?;
        match said.ok {
            true => Ok(()),
            false => Err(self.failed(&what, &said.error).await),
        }
    }

    /// Returns what helm said, with what the cluster says of the release's objects: helm 3 names no cause of what did not become ready.
    async fn failed(&self, what: &str, error: &str) -> KubeError {
        let objects = &self.look.objects;
        let warnings = objects.warnings(&self.call.asked.name).await.unwrap_or_default();
        let error = KubeError::new(format!("`helm {what}`: {error}"));
        match warnings.is_empty() {
            true => error,
            false => error.hint(format!("the cluster warns: {}", warnings.join("; "))),
        }
    }

    /// Clears what a killed helm left. A release of which nothing was ever deployed is taken away.
    async fn recover(&mut self, noted: &Noted) -> Result<(), KubeError> {
        let info = &noted.info;
        if info.age_s < self.call.stale_s {
            let error = format!("another helm is at work: `{}` since {} s", info.status.name(), info.age_s);
            return Err(KubeError::new(error).hint("wait for it; `stale_after` says when it counts as killed"));
        }
        let force_conflicts = info.server_side;
        let told = Upgrade { force_conflicts, hooks: false, wait: false, ..self.told() };
        let args = match info.earlier && info.status != ReleaseStatus::Uninstalling {
            true => flags::rollback(self.look.helm.major(), &told),
            false => flags::uninstall(&told),
        };
        self.must(args, false).await
    }

    async fn uninstall(&mut self) -> Result<(), KubeError> {
        self.must(flags::uninstall(&self.told()), false).await
    }

    async fn upgrade(&mut self, force: bool) -> Result<(), KubeError> {
        let told = Upgrade { force_conflicts: force, ..self.told() };
        self.must(flags::upgrade(self.look.helm.major(), &told), true).await
    }

    /// Brings in definitions that a chart came to have later: helm installs them with the first release only.
    async fn define(&mut self) -> Result<(), KubeError> {
        let Some(chart) = &self.look.chart else { return Ok(()) };
        for definition in self.look.definitions(chart).await? {
            if self.look.objects.get(definition).await?.is_none() {
                (self.say)(&format!("defining {}", definition.name()));
                let how = Apply { manager: "forge", force: false, dry: false };
                // Where somebody else made it meanwhile, it is theirs as it would be had they come earlier.
                let (Applied::Becomes(_) | Applied::Conflict(_)) = self.look.objects.apply(definition, how).await?;
                self.established(definition).await?;
            }
        }
        Ok(())
    }

    async fn established(&self, definition: &Object) -> Result<(), KubeError> {
        let objects = &self.look.objects;
        let wait = async {
            loop {
                let live = objects.get(definition).await?;
                let served = match &live {
                    Some(live) => objects.cluster.serves(live).await,
                    None => Ok(false),
                };
                match served {
                    Ok(true) => return Ok(()),
                    Ok(false) => tokio::time::sleep(Duration::from_millis(200)).await,
                    Err(refusal) => return Err(refusal.error(objects.cluster.server())),
                }
            }
        };
        let late =
            || KubeError::new(format!("`{}` is not served after {} s", definition.name(), ESTABLISHED.as_secs()));
        tokio::time::timeout(ESTABLISHED, wait).await.unwrap_or_else(|_| Err(late()))
    }

    /// Looks again, with the kinds that the chart has just brought, and mends.
    async fn mend_anew(&mut self) -> Result<(), KubeError> {
        let look = Look::at(self.look.objects.cluster, &self.call.asked, self.secrets).await?;
        let mut again = Work { look, call: self.call, secrets: self.secrets, say: self.say };
        again.mend().await
    }

    async fn mend(&mut self) -> Result<(), KubeError> {
        let Some(noted) = self.look.noted(true).await? else { return Ok(()) };
        for found in self.look.drift(&noted.manifest).await? {
            (self.say)(&format!("mending {}", found.told.object));
            self.mend_one(&found).await?;
        }
        Ok(())
    }

    async fn mend_one(&self, found: &Found) -> Result<(), KubeError> {
        let objects = &self.look.objects;
        if let Some(seen) = &found.seen {
            return objects.replace(&found.object, &seen.drifted.mended(&seen.live, &seen.becomes), HELM).await;
        }
        let mut value = found.object.value.clone();
        own(&mut value, &self.call.asked);
        let object = Object { text: value.to_string(), value };
        let how = Apply { manager: HELM, force: true, dry: false };
        match objects.apply(&object, how).await? {
            Applied::Becomes(_) => Ok(()),
            Applied::Conflict(_) => Err(KubeError::new(format!("`{}` came back meanwhile", found.told.object))),
        }
    }
}

/// Writes on an object whose it is, as helm does.
fn own(object: &mut Value, asked: &ReleaseAsked) {
    let Some(object) = object.as_object_mut() else { return };
    let mut put = |map: &str, key: &str, text: &str| {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Default::default()));
        let Some(metadata) = metadata.as_object_mut() else { return };
        let map = metadata.entry(map).or_insert_with(|| Value::Object(Default::default()));
        if let Some(map) = map.as_object_mut() {
            map.insert(key.to_owned(), text.into());
        }
    };
    put("labels", "app.kubernetes.io/managed-by", "Helm");
    put("annotations", "meta.helm.sh/release-name", &asked.name);
    put("annotations", "meta.helm.sh/release-namespace", &asked.namespace);
}
