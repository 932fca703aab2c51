//! Actions on a release: recovery from a killed helm, CRDs, the upgrade, and the repair of remaining drift.

use super::super::published_schema::SCHEMA_TIMEOUT;
use super::super::{ClusterApi, ClusterProgressFn, KubeError};
use super::api::{HelmApplyOptions, HelmApplyResult};
use super::flags::{self, HelmUpgradeOptions};
use super::observe::{DriftedHelmObject, OutdatedDefinition, ReleaseObserver};
use super::program::HelmOutput;
use super::stored_release::StoredRelease;
use crate::model::{SecretStore, Value};
use crate::object::{HELM_MANAGER, ManifestObject, ReleaseAction, ReleaseCall};
use crate::object::{ReleaseQuery, ReleaseState, ReleaseStatus};
use std::time::Duration;

/// Extra time for helm in addition to its own wait: forge's limit is that much longer than helm's.
const HELM_GRACE_PERIOD: Duration = Duration::from_secs(120);
/// Time limit for the API to serve a new kind.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between progress messages of a running helm.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

impl ClusterApi {
    /// Reads the state of a release. Nothing is written, and no revision is created.
    ///
    /// # Errors
    /// A query of helm or the API fails, or the chart is not available or cannot be rendered.
    pub async fn observe_release(
        &self,
        asked: &ReleaseQuery,
        secrets: &SecretStore,
    ) -> Result<ReleaseState, KubeError> {
        ReleaseObserver::open_release(self, asked, secrets).await?.read_state().await
    }

    /// Executes an action on a release and reports progress.
    ///
    /// # Errors
    /// Helm fails: its message; another helm process is working on the release; and as [`ClusterApi::observe_release`].
    pub async fn execute_release_call(
        &self,
        call: &ReleaseCall,
        secrets: &SecretStore,
        say: ClusterProgressFn<'_>,
    ) -> Result<(), KubeError> {
        let mut work = ReleaseExecutor {
            look: ReleaseObserver::open_release(self, &call.asked, secrets).await?,
            call,
            secrets,
            say,
        };
        let done = work.execute_all().await;
        // Charts add kinds, and an uninstall may remove some.
        self.clear_discovery().await;
        done
    }
}

struct ReleaseExecutor<'w> {
    look: ReleaseObserver<'w>,
    call: &'w ReleaseCall,
    secrets: &'w SecretStore,
    say: ClusterProgressFn<'w>,
}

impl ReleaseExecutor<'_> {
    async fn execute_all(&mut self) -> Result<(), KubeError> {
        let noted = self.look.stored.read_release().await?;
        let is_upgrade = noted.as_ref().is_some_and(StoredRelease::is_installed);
        if let Some(noted) = noted.filter(|noted| noted.info.status.is_pending()) {
            self.recover_pending(&noted).await?;
        }
        match self.call.deed {
            ReleaseAction::Uninstall => self.uninstall().await,
            ReleaseAction::Repair => self.repair_drift().await,
            ReleaseAction::Rollback { revision } => self.rollback(revision).await,
            ReleaseAction::Upgrade { force } => {
                self.install_definitions(is_upgrade).await?;
                self.adopt_definitions().await?;
                self.upgrade(force).await?;
                self.look.objects.cluster.clear_discovery().await;
                self.repair_with_new_kinds().await
            }
        }
    }

    fn upgrade_options(&self) -> HelmUpgradeOptions<'_> {
        HelmUpgradeOptions {
            name: &self.call.asked.name,
            namespace: &self.call.asked.namespace,
            chart: self.look.chart.as_ref().map_or("", |chart| chart.path.as_str()),
            timeout_s: self.call.timeout_s,
            wait: self.call.wait,
            hooks: self.call.hooks,
            force_conflicts: false,
        }
    }

    /// Runs a helm command that changes something, and reports progress until it ends.
    async fn run_helm(&mut self, args: Vec<String>, input: bool) -> Result<HelmOutput, KubeError> {
        let what = format!("helm {}", args.first().map_or("", String::as_str));
        let limit = Duration::from_secs(self.call.timeout_s) + HELM_GRACE_PERIOD;
        let values = if input { Some(self.look.secret_values()?) } else { None };
        let run = self.look.helm.run_change(&args, values.as_ref(), limit, self.secrets);
        tokio::pin!(run);
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        let mut seconds = 0;
        loop {
            tokio::select! {
                said = &mut run => return said,
                _ = ticks.tick() => {
                    (self.say)(&if seconds == 0 { what.clone() } else { format!("{what}: {seconds} s") });
                    seconds += PROGRESS_INTERVAL.as_secs();
                }
            }
        }
    }

    async fn run_helm_checked(&mut self, args: Vec<String>, input: bool) -> Result<(), KubeError> {
        let what = args.first().cloned().unwrap_or_default();
        let said = self.run_helm(args, input).await?;
        match said.ok {
            true => Ok(()),
            false => Err(self.helm_error(&what, &said.error).await),
        }
    }

    /// Builds the error from helm's message and the warnings of the release's objects: helm 3 does not report why an
    /// object did not become ready.
    async fn helm_error(&self, what: &str, error: &str) -> KubeError {
        let objects = &self.look.objects;
        let warnings = objects.list_warnings(&self.call.asked.name).await.unwrap_or_default();
        let error = KubeError::new(format!("`helm {what}`: {error}"));
        match warnings.is_empty() {
            true => error,
            false => error.hint(format!("warnings in the cluster: {}", warnings.join("; "))),
        }
    }

    /// Cleans up after a killed helm. A release that was never deployed is uninstalled.
    async fn recover_pending(&mut self, noted: &StoredRelease) -> Result<(), KubeError> {
        let info = &noted.info;
        if info.age_s < self.call.stale_s {
            let error = format!("another helm process is running: `{}` for {} s", info.status.name(), info.age_s);
            return Err(KubeError::new(error).hint("wait until it ends; `stale_after` sets when it counts as killed"));
        }
        let force_conflicts = info.server_side;
        let told = HelmUpgradeOptions { force_conflicts, hooks: false, wait: false, ..self.upgrade_options() };
        let args = match info.earlier && info.status != ReleaseStatus::Uninstalling {
            true => flags::rollback_args(self.look.helm.major(), &told, None),
            false => flags::uninstall_args(&told),
        };
        self.run_helm_checked(args, false).await
    }

    async fn rollback(&mut self, revision: u64) -> Result<(), KubeError> {
        let noted = self.look.stored.read_release().await?;
        let force_conflicts = noted.is_some_and(|noted| noted.info.server_side);
        let told = HelmUpgradeOptions { force_conflicts, ..self.upgrade_options() };
        self.run_helm_checked(flags::rollback_args(self.look.helm.major(), &told, Some(revision)), false).await
    }

    async fn uninstall(&mut self) -> Result<(), KubeError> {
        self.run_helm_checked(flags::uninstall_args(&self.upgrade_options()), false).await
    }

    async fn upgrade(&mut self, force: bool) -> Result<(), KubeError> {
        let told = HelmUpgradeOptions { force_conflicts: force, ..self.upgrade_options() };
        self.run_helm_checked(flags::upgrade_args(self.look.helm.major(), &told), true).await
    }

    /// Installs CRDs that a later chart version added, and renews those that it changed: helm installs CRDs with the first
    /// release only. Hooks that renew them run after it, if at all: an upgrade that a hook ends leaves no new object with
    /// an old definition.
    async fn install_definitions(&mut self, is_upgrade: bool) -> Result<(), KubeError> {
        let Some(chart) = &self.look.chart else { return Ok(()) };
        for definition in self.look.chart_definitions(chart, is_upgrade).await? {
            if self.look.objects.get_live(definition).await?.is_none() {
                (self.say)(&format!("installing CRD {}", definition.name()));
                let how = HelmApplyOptions { manager: "forge", force: false };
                // A CRD that another user created in the meantime stays as it is, like one from before.
                let (HelmApplyResult::Becomes(_) | HelmApplyResult::Conflict(_) | HelmApplyResult::Undefined(_)) =
                    self.look.objects.apply_object(definition, how).await?;
                self.wait_until_served(definition).await?;
            }
        }
        let outdated = self.look.find_outdated_definitions(chart, is_upgrade).await?;
        if outdated.is_empty() {
            return Ok(());
        }
        let cluster = self.look.objects.cluster;
        let becomes: Vec<(Value, Value)> =
            outdated.iter().map(|outdated| (outdated.live.clone(), outdated.becomes.clone())).collect();
        let before = cluster.read_changing_kinds(&becomes).await;
        for OutdatedDefinition { definition, .. } in &outdated {
            (self.say)(&format!("renewing CRD {}", definition.name()));
            let how = HelmApplyOptions { manager: "forge", force: true };
            match self.look.objects.apply_object(definition, how).await? {
                HelmApplyResult::Becomes(_) => self.wait_until_served(definition).await?,
                HelmApplyResult::Conflict(_) | HelmApplyResult::Undefined(_) => {
                    return Err(KubeError::new(format!("`{}` could not be renewed", definition.name())));
                }
            }
        }
        for kind in cluster.wait_for_new_schemas(before, SCHEMA_TIMEOUT).await {
            // The API publishes only a part of each schema, and the changed fields may not be in it: helm decides.
            (self.say)(&format!("no new schema of {kind} seen in the API within {} s", SCHEMA_TIMEOUT.as_secs()));
        }
        Ok(())
    }

    /// Makes CRDs that an earlier version of the chart had in its folder `crds` part of the release: helm refuses to
    /// change them otherwise.
    async fn adopt_definitions(&mut self) -> Result<(), KubeError> {
        if self.call.adopt {
            for name in self.look.adopt_definitions().await? {
                (self.say)(&format!("taking over CRD {name}"));
            }
        }
        Ok(())
    }

    async fn wait_until_served(&self, definition: &ManifestObject) -> Result<(), KubeError> {
        let objects = &self.look.objects;
        let wait = async {
            loop {
                let live = objects.get_live(definition).await?;
                let served = match &live {
                    Some(live) => objects.cluster.serves_definition(live).await,
                    None => Ok(false),
                };
                match served {
                    Ok(true) => return Ok(()),
                    Ok(false) => tokio::time::sleep(Duration::from_millis(200)).await,
                    Err(refusal) => return Err(refusal.into_kube_error(objects.cluster.server())),
                }
            }
        };
        let late =
            || KubeError::new(format!("`{}` not served after {} s", definition.name(), ESTABLISH_TIMEOUT.as_secs()));
        tokio::time::timeout(ESTABLISH_TIMEOUT, wait).await.unwrap_or_else(|_| Err(late()))
    }

    /// Reads the state again, with the kinds that the chart has just added, and repairs drift.
    async fn repair_with_new_kinds(&mut self) -> Result<(), KubeError> {
        let look = ReleaseObserver::open_release(self.look.objects.cluster, &self.call.asked, self.secrets).await?;
        let mut again = ReleaseExecutor { look, call: self.call, secrets: self.secrets, say: self.say };
        again.repair_drift().await
    }

    async fn repair_drift(&mut self) -> Result<(), KubeError> {
        let Some(noted) = self.look.stored.read_release().await? else { return Ok(()) };
        for found in self.look.compare_live(&noted.manifest).await?.drifted {
            (self.say)(&format!("repairing {}", found.told.object));
            self.repair_object(&found).await?;
        }
        Ok(())
    }

    async fn repair_object(&self, found: &DriftedHelmObject) -> Result<(), KubeError> {
        let objects = &self.look.objects;
        if let Some(seen) = &found.seen {
            return objects
                .replace_live(
                    &found.object,
                    &seen.drifted.repaired_object(&found.object, &seen.live, &seen.becomes),
                    HELM_MANAGER,
                )
                .await;
        }
        let mut value = found.object.value.clone();
        add_ownership_metadata(&mut value, &self.call.asked);
        let object = ManifestObject { text: value.to_string(), value };
        let how = HelmApplyOptions { manager: HELM_MANAGER, force: true };
        match objects.apply_object(&object, how).await? {
            HelmApplyResult::Becomes(_) => Ok(()),
            HelmApplyResult::Conflict(_) => {
                Err(KubeError::new(format!("`{}` was created in the meantime", found.told.object)))
            }
            HelmApplyResult::Undefined(why) => Err(KubeError::new(format!("`{}`: {why}", found.told.object))),
        }
    }
}

/// Adds helm's ownership metadata to an object, as helm does.
fn add_ownership_metadata(object: &mut Value, asked: &ReleaseQuery) {
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
