//! The state of a release, and its differences from the declaration. Nothing is written, and no revision is created.

use super::super::api::CHANGED_OBJECT_READS;
use super::super::{ClusterApi, KubeError};
use super::api::{HelmApplyOptions, HelmApplyResult, HelmObjectClient, HelmReplaceResult};
use super::chart::LocalHelmChart;
use super::flags::{self, HelmUpgradeOptions};
use super::output::{self, HelmUpgradeDryRun};
use super::program::HelmProgram;
use super::render::ChartRenderer;
use super::stored_release::{StoredRelease, StoredReleaseReader, read_manifest};
use crate::model::{SecretStore, Value};
use crate::object::{COMPARISON_MANAGER, HELM_MANAGER, ObjectDrift, diff_manifests, diff_values};
use crate::object::{
    ChartCrd, ChartInfo, FieldChange, LiveObject, ReleaseFieldConflict, ReleaseQuery, ReleaseState, ReleaseStatus,
};
use crate::object::{ManifestObject, overlay_object};
use crate::object::{collect_images, drop_revision_changes, find_owning_release};
use futures_util::{StreamExt, TryStreamExt, stream};
use secrecy::SecretString;
use tokio::sync::OnceCell;

/// Maximum number of concurrent object queries.
const CONCURRENT_REQUESTS: usize = 8;

/// A live object that differs from its manifest.
pub(super) struct DriftedHelmObject {
    pub object: ManifestObject,
    /// `None` if it is missing.
    pub seen: Option<HelmLiveComparison>,
    pub told: LiveObject,
}

/// A CRD of the chart that exists in another version.
pub(super) struct OutdatedDefinition {
    pub definition: ManifestObject,
    pub live: Value,
    /// What it becomes if it is renewed.
    pub becomes: Value,
}

/// The live objects of a manifest, compared.
#[derive(Default)]
pub(super) struct ManifestComparison {
    pub drifted: Vec<DriftedHelmObject>,
    /// Objects that cannot be compared, since their definition lacks fields of the manifest: why, one for each.
    undefined: Vec<String>,
    /// The titles of objects that were compared without a dry run.
    computed: Vec<String>,
}

/// The comparison of one object.
struct ComparedObject {
    found: ObjectComparison,
    /// Whether the account may not ask for a dry run, so that forge computed the result of an apply by itself.
    computed: bool,
}

enum ObjectComparison {
    Same,
    Drifted(Box<DriftedHelmObject>),
    /// Its definition lacks a field of the manifest: the message.
    Undefined(String),
}

pub(super) struct HelmLiveComparison {
    pub live: Value,
    pub becomes: Value,
    pub drifted: ObjectDrift,
}

/// One release, with everything needed to observe it.
pub(super) struct ReleaseObserver<'c> {
    pub helm: &'c HelmProgram,
    pub stored: StoredReleaseReader<'c>,
    pub objects: HelmObjectClient<'c>,
    pub asked: &'c ReleaseQuery,
    pub secrets: &'c SecretStore,
    pub chart: Option<LocalHelmChart>,
    /// Why the chart of a release that is to be removed is missing.
    missing_chart: Option<String>,
    kube_version: String,
    /// Cached: each read is a process.
    definitions: OnceCell<Vec<ManifestObject>>,
}

impl<'c> ReleaseObserver<'c> {
    /// Prepares an observation: finds helm, the kinds that the API serves, and the chart.
    pub async fn open_release(
        cluster: &'c ClusterApi,
        asked: &'c ReleaseQuery,
        secrets: &'c SecretStore,
    ) -> Result<Self, KubeError> {
        let (helm, served, kube_version) =
            tokio::try_join!(cluster.open_helm(), cluster.discover_api(), cluster.server_version())?;
        let (chart, missing_chart) = match &asked.chart {
            Some(chart) => match cluster.helm_options().obtain_chart(helm, chart).await {
                Ok(chart) => (Some(chart), None),
                Err(error) if asked.absent => (None, Some(error.message)),
                Err(error) => return Err(error),
            },
            None => (None, None),
        };
        let objects = HelmObjectClient { cluster, served, home: &asked.namespace };
        let stored = StoredReleaseReader { cluster, helm, name: &asked.name, namespace: &asked.namespace };
        let definitions = OnceCell::new();
        Ok(Self { helm, stored, objects, asked, secrets, chart, missing_chart, kube_version, definitions })
    }

    /// Returns the declared values with their secrets.
    pub fn secret_values(&self) -> Result<SecretString, KubeError> {
        Ok(SecretString::from(self.declared_values()?.to_string()))
    }

    fn declared_values(&self) -> Result<Value, KubeError> {
        self.renderer().reveal_values(&self.asked.values)
    }

    /// Returns `NAMESPACE/NAME`, as owners of objects are compared.
    pub(super) fn qualified_name(&self) -> String {
        format!("{}/{}", self.asked.namespace, self.asked.name)
    }

    fn renderer(&self) -> ChartRenderer<'_> {
        ChartRenderer { helm: self.helm, asked: self.asked, secrets: self.secrets, kube_version: &self.kube_version }
    }

    /// Renders the chart, including hooks.
    async fn render_chart(
        &self,
        chart: &LocalHelmChart,
        is_upgrade: bool,
        turn: u32,
    ) -> Result<Vec<ManifestObject>, KubeError> {
        let apis = self.collect_api_versions(chart, is_upgrade).await?;
        self.renderer().render_chart(chart, &apis, is_upgrade, &self.asked.values, turn).await
    }

    /// Returns the objects that an install or upgrade applies, without hooks.
    pub(super) async fn render_declared(&self) -> Result<Vec<ManifestObject>, KubeError> {
        let Some(chart) = &self.chart else { return Ok(Vec::new()) };
        let is_upgrade = self.stored.read_release().await?.is_some_and(|noted| noted.is_installed());
        Ok(self.render_chart(chart, is_upgrade, 0).await?.into_iter().filter(|object| !object.is_hook()).collect())
    }

    /// Returns the API versions that the cluster serves, including those of the chart's own CRDs.
    async fn collect_api_versions(&self, chart: &LocalHelmChart, is_upgrade: bool) -> Result<Vec<String>, KubeError> {
        let mut apis = self.objects.served.list_api_versions();
        for definition in self.chart_definitions(chart, is_upgrade).await? {
            apis.extend(definition.defined_api_versions());
        }
        apis.sort();
        apis.dedup();
        Ok(apis)
    }

    /// Returns the CRDs in the folders `crds` of the chart and its enabled subcharts, by name.
    pub async fn chart_definitions(
        &self,
        chart: &LocalHelmChart,
        is_upgrade: bool,
    ) -> Result<&[ManifestObject], KubeError> {
        let read = || async {
            let apis = self.objects.served.list_api_versions();
            self.renderer().read_definitions(chart, &apis, is_upgrade).await
        };
        self.definitions.get_or_try_init(read).await.map(Vec::as_slice)
    }

    /// Returns the manifest of a dry-run upgrade, with lookups, for this server; `None` if helm fails.
    async fn dry_run_manifest(&self, chart: &LocalHelmChart) -> Result<Option<Vec<ManifestObject>>, KubeError> {
        let (name, namespace) = (self.asked.name.as_str(), self.asked.namespace.as_str());
        let upgrade =
            HelmUpgradeOptions { name, namespace, chart: chart.path.as_str(), ..HelmUpgradeOptions::default() };
        let said = self.helm.run_query(&flags::dry_run_args(&upgrade), Some(&self.secret_values()?)).await?;
        if !said.ok {
            return Ok(None);
        }
        let rehearsed: HelmUpgradeDryRun = output::parse_json("upgrade --dry-run", &said.stdout)?;
        read_manifest(&rehearsed.manifest).map(Some)
    }

    /// Compares the live objects with the manifest.
    pub async fn compare_live(&self, manifest: &[ManifestObject]) -> Result<ManifestComparison, KubeError> {
        let looks = stream::iter(manifest).map(|object| self.compare_object(object)).buffered(CONCURRENT_REQUESTS);
        let found: Vec<ComparedObject> = looks.try_collect().await?;
        let mut compared = ManifestComparison::default();
        for (one, object) in found.into_iter().zip(manifest) {
            if one.computed {
                compared.computed.push(object.display_title(self.objects.home));
            }
            match one.found {
                ObjectComparison::Same => {}
                ObjectComparison::Drifted(object) => compared.drifted.push(*object),
                ObjectComparison::Undefined(why) => compared.undefined.push(why),
            }
        }
        Ok(compared)
    }

    /// Compares an object again if it changed while it was compared.
    async fn compare_object(&self, object: &ManifestObject) -> Result<ComparedObject, KubeError> {
        for _ in 0..CHANGED_OBJECT_READS {
            if let Some(compared) = self.compare_read(object).await? {
                return Ok(compared);
            }
        }
        Err(self.changing_object_error(object))
    }

    fn changing_object_error(&self, object: &ManifestObject) -> KubeError {
        KubeError::new(format!("{} keeps changing and cannot be compared", object.display_title(self.objects.home)))
    }

    /// Returns `None` if the object changed since it was read.
    async fn compare_read(&self, object: &ManifestObject) -> Result<Option<ComparedObject>, KubeError> {
        let certain = |found| Some(ComparedObject { found, computed: false });
        let Some(live) = self.objects.get_live(object).await? else {
            return Ok(certain(ObjectComparison::Drifted(Box::new(missing_object(object, self.objects.home)))));
        };
        let how = HelmApplyOptions { manager: COMPARISON_MANAGER, force: true };
        let title = || object.display_title(self.objects.home);
        let (becomes, computed) = match self.objects.dry_run_object(object, how).await? {
            None => (overlay_object(&live, &object.value), true),
            Some(HelmApplyResult::Becomes(becomes)) => (becomes, false),
            Some(HelmApplyResult::Conflict(_)) => return Err(self.changing_object_error(object)),
            Some(HelmApplyResult::Undefined(why)) => {
                return Ok(certain(ObjectComparison::Undefined(format!("{}: {why}", title()))));
            }
        };
        let mut drifted = ObjectDrift::compare_live(object, &live, &becomes);
        if !computed && drifted.is_repaired_by_replace() {
            let repaired = drifted.repaired_object(object, &live, &becomes);
            match self.objects.dry_run_replace(object, &repaired).await? {
                HelmReplaceResult::Becomes(left) => drifted.drop_restored(object, &live, &left),
                HelmReplaceResult::Refused => {}
                HelmReplaceResult::Changed => return Ok(None),
            }
        }
        let told = drifted.to_live_object(object, self.objects.home, &live, self.secrets);
        let found = told.map_or(ObjectComparison::Same, |told| {
            let seen = Some(HelmLiveComparison { live, becomes, drifted });
            ObjectComparison::Drifted(Box::new(DriftedHelmObject { object: object.clone(), seen, told }))
        });
        Ok(Some(ComparedObject { found, computed }))
    }

    /// Returns the chart's definitions that exist and differ from the chart: those of another version of it. Fields that
    /// the chart does not set are ignored, and so are definitions that belong to another release.
    pub async fn find_outdated_definitions(
        &self,
        chart: &LocalHelmChart,
        is_upgrade: bool,
    ) -> Result<Vec<OutdatedDefinition>, KubeError> {
        let definitions = self.chart_definitions(chart, is_upgrade).await?;
        let own = self.qualified_name();
        let is_ours = |live: &Value| find_owning_release(live).is_none_or(|owner| owner == own);
        let is_ours = &is_ours;
        let looks = stream::iter(definitions).map(|definition| async move {
            Ok::<_, KubeError>(match self.compare_object(definition).await?.found {
                ObjectComparison::Drifted(found) if !found.told.changed.is_empty() => {
                    let seen = found.seen.filter(|seen| is_ours(&seen.live));
                    seen.map(|HelmLiveComparison { live, becomes, .. }| OutdatedDefinition {
                        definition: definition.clone(),
                        live,
                        becomes,
                    })
                }
                _ => None,
            })
        });
        let found: Vec<Option<OutdatedDefinition>> = looks.buffered(CONCURRENT_REQUESTS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the fields that applying these objects would take over from other managers.
    async fn find_conflicts(&self, rendered: &[ManifestObject]) -> Result<Vec<ReleaseFieldConflict>, KubeError> {
        let ordinary = rendered.iter().filter(|object| !object.is_hook() && self.objects.knows_kind(object));
        let ask = |object| async move {
            let how = HelmApplyOptions { manager: HELM_MANAGER, force: false };
            let found = match self.objects.dry_run_object(object, how).await? {
                // The upgrade renews the definition first. A field that does not exist yet has no owner. An account that
                // may not ask for a dry run may not upgrade either.
                Some(HelmApplyResult::Becomes(_) | HelmApplyResult::Undefined(_)) | None => Vec::new(),
                Some(HelmApplyResult::Conflict(found)) => found,
            };
            let title = object.display_title(self.objects.home);
            let conflict = move |(field, by): (String, String)| ReleaseFieldConflict {
                object: title.clone(),
                field,
                by: by.into(),
            };
            Ok::<_, KubeError>(found.into_iter().map(conflict).collect::<Vec<_>>())
        };
        let found: Vec<Vec<ReleaseFieldConflict>> =
            stream::iter(ordinary).map(ask).buffered(CONCURRENT_REQUESTS).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the complete state of the release.
    pub async fn read_state(&self) -> Result<ReleaseState, KubeError> {
        let noted = self.stored.read_release().await?;
        let is_installed = noted.as_ref().is_some_and(StoredRelease::is_installed);
        let mut state = ReleaseState { release: noted.as_ref().map(|noted| noted.info.clone()), ..Default::default() };
        let mut undefined = Vec::new();
        // A removal does not depend on what the live objects are.
        if let Some(noted) = noted.as_ref().filter(|_| !self.asked.absent) {
            let compared = self.compare_live(&noted.manifest).await?;
            state.live = compared.drifted.into_iter().map(|found| found.told).collect();
            undefined = compared.undefined;
            state.computed = compared.computed;
        }
        if self.asked.absent {
            self.describe_removed_chart(noted.as_ref(), &mut state).await;
        } else if let Some(chart) = &self.chart {
            if !is_installed {
                state.foreign = self.stored.find_foreign_releases(&chart.file.name).await?;
            }
            self.compare_with_chart(chart, noted.as_ref(), &mut state).await?;
            if noted.as_ref().is_some_and(|noted| needs_upgrade(chart, noted, &state)) || !undefined.is_empty() {
                self.mark_outdated_definitions(chart, is_installed, &mut state).await?;
            }
        }
        // An interrupted upgrade leaves objects of the new version and definitions of the old one: the upgrade renews
        // them. Without such a definition, these objects cannot be compared.
        let renewed = state.chart.iter().flat_map(|chart| &chart.crds).any(|crd| crd.outdated || !crd.present);
        if let Some(why) = undefined.into_iter().next().filter(|_| self.chart.is_some() && !renewed) {
            return Err(KubeError::new(format!("cannot compare {why}")));
        }
        if let (Some(revision), Some(noted)) = (self.asked.revision, &noted) {
            self.compare_with_revision(revision, noted, &mut state).await?;
        }
        if let Some(noted) = noted.as_ref().filter(|_| self.asked.absent) {
            self.add_uninstall_losses(noted, &mut state).await?;
        }
        Ok(state)
    }

    /// Compares the release with an earlier revision of it.
    async fn compare_with_revision(
        &self,
        revision: u64,
        noted: &StoredRelease,
        state: &mut ReleaseState,
    ) -> Result<(), KubeError> {
        let wanted = self.stored.read_revision(revision).await?;
        state.values = diff_values(&noted.values, &wanted.values, self.secrets);
        state.manifest = diff_manifests(&noted.manifest, &wanted.manifest, self.objects.home, self.secrets);
        Ok(())
    }

    async fn mark_outdated_definitions(
        &self,
        chart: &LocalHelmChart,
        is_upgrade: bool,
        state: &mut ReleaseState,
    ) -> Result<(), KubeError> {
        let outdated = self.find_outdated_definitions(chart, is_upgrade).await?;
        let crds = state.chart.iter_mut().flat_map(|chart| &mut chart.crds);
        crds.for_each(|crd| crd.outdated = outdated.iter().any(|outdated| outdated.definition.name() == crd.name));
        Ok(())
    }

    /// Adds hooks and chart of a release that is to be removed. Helm removes the release by its own record: a chart that
    /// cannot be read, for example since it does not support a newer server, only makes the description shorter.
    async fn describe_removed_chart(&self, noted: Option<&StoredRelease>, state: &mut ReleaseState) {
        let is_installed = noted.is_some_and(StoredRelease::is_installed);
        let Some(noted) = noted.filter(|_| is_installed) else { return };
        state.hooks = noted.hooks.iter().filter_map(|hook| hook.to_hook(self.objects.home)).collect();
        let described = async |chart| {
            let rendered = self.render_chart(chart, true, 0).await?;
            self.read_chart_info(chart, &rendered, true).await
        };
        let described = match &self.chart {
            Some(chart) => described(chart).await.map(Some).map_err(|error| error.message),
            None => self.missing_chart.clone().map_or(Ok(None), Err),
        };
        match described {
            Ok(chart) => state.chart = chart,
            Err(why) => state.unrendered = Some(why.into()),
        }
    }

    async fn compare_with_chart(
        &self,
        chart: &LocalHelmChart,
        noted: Option<&StoredRelease>,
        state: &mut ReleaseState,
    ) -> Result<(), KubeError> {
        let installed = noted.filter(|noted| noted.is_installed());
        let (once, twice) = tokio::try_join!(
            self.render_chart(chart, installed.is_some(), 0),
            self.render_chart(chart, installed.is_some(), 1)
        )?;
        state.random = once != twice;
        state.chart = Some(self.read_chart_info(chart, &once, installed.is_some()).await?);
        let mut wanted: Vec<ManifestObject> = once.into_iter().filter(|object| !object.is_hook()).collect();
        self.add_definition_changes(installed, &wanted, state).await?;
        let Some(noted) = installed else { return Ok(()) };
        state.values = self.find_value_changes(noted)?;
        if !state.random {
            wanted = self.compare_manifests(chart, noted, wanted, state).await?;
        }
        if noted.info.server_side && needs_upgrade(chart, noted, state) {
            state.conflicts = self.find_conflicts(&wanted).await?;
        }
        Ok(())
    }

    /// Returns the objects that an upgrade would apply.
    async fn compare_manifests(
        &self,
        chart: &LocalHelmChart,
        noted: &StoredRelease,
        mut wanted: Vec<ManifestObject>,
        state: &mut ReleaseState,
    ) -> Result<Vec<ManifestObject>, KubeError> {
        let compare =
            |wanted: &[ManifestObject]| diff_manifests(&noted.manifest, wanted, self.objects.home, self.secrets);
        state.manifest = compare(&wanted);
        if !state.manifest.is_empty() && !noted.info.status.is_pending() {
            // Templates may look up objects in the cluster, which only works in a dry-run upgrade.
            wanted = self.dry_run_manifest(chart).await?.unwrap_or(wanted);
            state.manifest = drop_revision_changes(&state.manifest, compare(&wanted), noted.info.revision);
        }
        Ok(wanted)
    }

    async fn read_chart_info(
        &self,
        chart: &LocalHelmChart,
        rendered: &[ManifestObject],
        is_upgrade: bool,
    ) -> Result<ChartInfo, KubeError> {
        let definitions = self.chart_definitions(chart, is_upgrade).await?;
        let crds = stream::iter(definitions).map(|crd| async move {
            let present = self.objects.get_live(crd).await?.is_some();
            Ok::<_, KubeError>(ChartCrd { name: crd.name().to_owned(), present, outdated: false })
        });
        let apis = self.collect_api_versions(chart, is_upgrade).await?;
        Ok(ChartInfo {
            name: chart.file.name.clone(),
            version: chart.file.version.clone(),
            crds: crds.buffered(CONCURRENT_REQUESTS).try_collect().await?,
            hooks: rendered.iter().filter_map(|object| object.to_hook(self.objects.home)).collect(),
            images: collect_images(rendered.iter().map(|object| &object.value)),
            sources: self.renderer().find_image_sources(chart, &apis, is_upgrade, rendered).await?,
        })
    }

    fn find_value_changes(&self, noted: &StoredRelease) -> Result<Vec<FieldChange>, KubeError> {
        Ok(diff_values(&noted.values, &self.declared_values()?, self.secrets))
    }
}

fn needs_upgrade(chart: &LocalHelmChart, noted: &StoredRelease, state: &ReleaseState) -> bool {
    let info = &noted.info;
    let same = info.status == ReleaseStatus::Deployed && info.version == chart.file.version;
    !same || !state.values.is_empty() || !state.manifest.is_empty()
}

fn missing_object(object: &ManifestObject, home: &str) -> DriftedHelmObject {
    let told = LiveObject { object: object.display_title(home), missing: true, changed: Vec::new(), added: Vec::new() };
    DriftedHelmObject { object: object.clone(), seen: None, told }
}
