//! Renders charts: for the release and the kinds of a server, or for a declared release of Kubernetes without a server.

use super::super::KubeError;
use super::HelmOptions;
use super::chart::LocalHelmChart;
use super::flags::{self, HelmTemplateOptions};
use super::program::{HelmProgram, HelmTarget};
use crate::model::{SecretStore, Value};
use crate::object::{
    ChartInfo, ClusterAccess, ManifestObject, ReleaseQuery, ReleaseState, collect_images, pair_image_sources,
    parse_definitions, parse_rendered, reveal_value,
};
use secrecy::SecretString;
use std::collections::BTreeMap;

/// What the rendering of a release depends on, in addition to its chart.
pub(super) struct ChartRenderer<'c> {
    pub helm: &'c HelmProgram,
    pub asked: &'c ReleaseQuery,
    pub secrets: &'c SecretStore,
    pub kube_version: &'c str,
}

impl ChartRenderer<'_> {
    /// Returns values with their secrets.
    pub fn reveal_values(&self, values: &str) -> Result<Value, KubeError> {
        // Placeholders are replaced in the parsed value, because a secret needs escaping in JSON text.
        let values: Value = serde_json::from_str(values)
            .map_err(|error| KubeError::new(format!("the declared values are not valid JSON: {error}")))?;
        Ok(reveal_value(&values, self.secrets))
    }

    /// Renders the chart with `values`, and returns helm's output.
    async fn run_template(
        &self,
        chart: &LocalHelmChart,
        options: HelmTemplateOptions<'_>,
        values: &str,
        turn: u32,
    ) -> Result<String, KubeError> {
        let values = SecretString::from(self.reveal_values(values)?.to_string());
        let template = HelmTemplateOptions {
            name: &self.asked.name,
            namespace: &self.asked.namespace,
            chart: chart.path.as_str(),
            kube_version: self.kube_version,
            ..options
        };
        let (files, args) = ((chart.path.as_path(), chart.digest.as_ref()), flags::template_args(&template));
        let said = self.helm.run_chart_query(files, &args, Some(&values), turn).await?;
        match said.ok {
            true => Ok(said.stdout),
            false => Err(KubeError::new(format!(
                "the chart `{}` cannot be rendered: {}",
                chart.file.name,
                self.secrets.scrub_secrets(&said.error)
            ))),
        }
    }

    /// Renders the chart with `values`, including hooks. `turn` is another number to render the same again.
    pub async fn render_chart(
        &self,
        chart: &LocalHelmChart,
        apis: &[String],
        is_upgrade: bool,
        values: &str,
        turn: u32,
    ) -> Result<Vec<ManifestObject>, KubeError> {
        // With the CRDs, it is the query of `read_definitions`, unless these add API versions.
        let options = HelmTemplateOptions { apis, is_upgrade, hooks: true, crds: true, ..Default::default() };
        parse_rendered(&self.run_template(chart, options, values, turn).await?).map_err(KubeError::new)
    }

    /// Returns the CRDs in the folders `crds` of the chart and its enabled subcharts, by name. `helm show crds` lists
    /// those of disabled subcharts too, in random order, and helm 3 prints several as one document.
    pub async fn read_definitions(
        &self,
        chart: &LocalHelmChart,
        apis: &[String],
        is_upgrade: bool,
    ) -> Result<Vec<ManifestObject>, KubeError> {
        let options = HelmTemplateOptions { apis, is_upgrade, hooks: true, crds: true, ..Default::default() };
        parse_definitions(&self.run_template(chart, options, &self.asked.values, 0).await?).map_err(KubeError::new)
    }

    /// Returns the sources of the images in a mirror: those of the chart without the mirror.
    pub async fn find_image_sources(
        &self,
        chart: &LocalHelmChart,
        apis: &[String],
        is_upgrade: bool,
        rendered: &[ManifestObject],
    ) -> Result<BTreeMap<String, String>, KubeError> {
        let Some(upstream) = &self.asked.upstream else { return Ok(BTreeMap::new()) };
        let plain = self.render_chart(chart, apis, is_upgrade, upstream, 0).await?;
        let values = |objects: &[ManifestObject]| objects.iter().map(|one| one.value.clone()).collect::<Vec<_>>();
        Ok(pair_image_sources(&values(rendered), &values(&plain)))
    }
}

impl HelmOptions {
    /// Returns the state of a release in a cluster that does not exist yet: only the chart's own data, rendered for
    /// `kube_version`. No cluster is contacted.
    ///
    /// # Errors
    /// The chart is not available or cannot be rendered.
    pub async fn render_offline(
        &self,
        access: &ClusterAccess,
        asked: &ReleaseQuery,
        kube_version: &str,
        secrets: &SecretStore,
    ) -> Result<ReleaseState, KubeError> {
        let Some(query) = &asked.chart else { return Ok(ReleaseState::default()) };
        let login = HelmTarget {
            kubeconfig: access.kubeconfig.clone(),
            context: access.context.clone(),
            withheld: access.withheld.clone(),
            _made: None,
        };
        let helm = self.open_program(login).await?;
        let chart = self.obtain_chart(&helm, query).await?;
        let renderer = ChartRenderer { helm: &helm, asked, secrets, kube_version };
        let definitions = renderer.read_definitions(&chart, &[], false).await?;
        let apis: Vec<String> = definitions.iter().flat_map(ManifestObject::defined_api_versions).collect();
        let rendered = renderer.render_chart(&chart, &apis, false, &asked.values, 0).await?;
        let info = ChartInfo {
            name: chart.file.name.clone(),
            version: chart.file.version.clone(),
            images: collect_images(rendered.iter().map(|object| &object.value)),
            sources: renderer.find_image_sources(&chart, &apis, false, &rendered).await?,
            ..ChartInfo::default()
        };
        Ok(ReleaseState { chart: Some(info), ..ReleaseState::default() })
    }
}
