//! Charts: fetched once and cached, with their metadata.

use super::super::KubeError;
use super::builtin_charts::unpack_chart;
use super::chart_answers::{ChartAnswers, ChartDigest};
use super::flags;
use super::output::ChartFile;
use super::program::{HelmProgram, HelmTarget};
use crate::model::to_hex;
use crate::object::ClusterAccess;
use crate::object::{ChartQuery, ChartQuerySource};
use camino::{Utf8Path, Utf8PathBuf};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The time limit for fetching a chart.
const PULL_TIMEOUT: Duration = Duration::from_secs(300);

/// The helm program, and the cache for fetched charts.
#[derive(Clone, Debug)]
pub struct HelmOptions {
    /// A path, or a name to look up on the PATH.
    pub program: Utf8PathBuf,
    /// The cache folder; without one, charts cannot be fetched.
    pub charts: Option<Utf8PathBuf>,
    /// Whether a chart that is not cached is an error.
    pub offline: bool,
    /// What helm has already answered about charts.
    pub answers: ChartAnswers,
}

impl Default for HelmOptions {
    fn default() -> Self {
        Self { program: "helm".into(), charts: None, offline: false, answers: ChartAnswers::default() }
    }
}

/// A chart on this machine.
#[derive(Debug)]
pub(super) struct LocalHelmChart {
    pub path: Utf8PathBuf,
    /// `None` if answers about it are not kept.
    pub digest: Option<ChartDigest>,
    pub file: ChartFile,
}

/// A packed chart that `helm pull` fetched, in the cache folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedChart {
    /// Lowercase hex SHA-256 of the packed chart.
    pub sha256: String,
    /// The size of the packed chart in bytes.
    pub bytes: u64,
    /// Whether this call fetched it.
    pub new: bool,
}

impl HelmOptions {
    /// Finds helm, for a cluster. No cluster is contacted.
    ///
    /// # Errors
    /// As [`HelmProgram::open`].
    pub(in crate::kube) async fn open_program(&self, login: HelmTarget) -> Result<HelmProgram, KubeError> {
        HelmProgram::open(&self.program, login, self.answers.clone()).await
    }

    /// Fetches a chart from a repository or registry, unless it is cached. No cluster is contacted. Returns `None` for
    /// charts that need no fetching: those in the inventory's tree, and the built-in ones.
    ///
    /// # Errors
    /// The chart is not available, has another version, or has another digest.
    pub async fn fetch_chart(
        &self,
        access: &ClusterAccess,
        asked: &ChartQuery,
    ) -> Result<Option<FetchedChart>, KubeError> {
        let Some(folder) = self.chart_folder(asked)? else { return Ok(None) };
        let (path, new) = match find_packed_chart(&folder) {
            Some(path) => (path, false),
            None if self.offline => return Err(not_cached_error(asked)),
            None => {
                let login = HelmTarget {
                    kubeconfig: access.kubeconfig.clone(),
                    context: access.context.clone(),
                    withheld: access.withheld.clone(),
                    _made: None,
                };
                (self.obtain_chart(&self.open_program(login).await?, asked).await?.path, true)
            }
        };
        if let Some(sha256) = &asked.sha256 {
            check_digest(&path, sha256)?;
        }
        let bytes = read_chart(&path)?;
        Ok(Some(FetchedChart { sha256: to_hex(&Sha256::digest(&bytes)), bytes: bytes.len() as u64, new }))
    }

    /// Returns the cache folder of a fetched chart; `None` for charts that need no fetching.
    fn chart_folder(&self, asked: &ChartQuery) -> Result<Option<Utf8PathBuf>, KubeError> {
        let (repository, chart) = match &asked.from {
            ChartQuerySource::Repository { url, name } => (url.as_str(), name),
            ChartQuerySource::Oci(url) => ("", url),
            ChartQuerySource::Path(_) | ChartQuerySource::BuiltIn(_) => return Ok(None),
        };
        let root = self.charts.as_ref().ok_or_else(|| KubeError::new("no cache folder for charts"))?;
        let key = format!("{repository}\n{chart}\n{}", asked.version);
        Ok(Some(root.join(&to_hex(&Sha256::digest(key.as_bytes()))[..16])))
    }

    /// Returns the chart as a file or folder, after checking its version and digest.
    ///
    /// # Errors
    /// The chart is not available, has another version, or has another digest.
    pub(super) async fn obtain_chart(
        &self,
        helm: &HelmProgram,
        asked: &ChartQuery,
    ) -> Result<LocalHelmChart, KubeError> {
        let path = match &asked.from {
            ChartQuerySource::Path(path) => Utf8PathBuf::from(path),
            ChartQuerySource::BuiltIn(name) => unpack_chart(name, helm.home()?)?,
            ChartQuerySource::Repository { .. } | ChartQuerySource::Oci(_) => self.find_or_pull(helm, asked).await?,
        };
        if let Some(sha256) = &asked.sha256 {
            check_digest(&path, sha256)?;
        }
        let digest = ChartDigest::read(&path);
        let args = flags::show_chart_args(path.as_str());
        let said = helm.run_chart_query((&path, digest.as_ref()), &args, None, 0).await?;
        if !said.ok {
            return Err(KubeError::new(format!("`{}` is not a valid chart: {}", chart_name(&path), said.error)));
        }
        let file = serde_json::from_value(crate::object::parse_document(&said.stdout).unwrap_or_default());
        let file: ChartFile =
            file.map_err(|_| KubeError::new(format!("the chart `{}` has no name or no version", chart_name(&path))))?;
        match file.version == asked.version {
            true => Ok(LocalHelmChart { path, digest, file }),
            false => Err(KubeError::new(format!(
                "the chart `{}` has version `{}`, but `{}` is declared",
                file.name, file.version, asked.version
            ))
            .hint("declare the version in the chart's `Chart.yaml`, or use the right chart")),
        }
    }

    /// Returns a chart from the cache folder, fetching it if it is missing.
    async fn find_or_pull(&self, helm: &HelmProgram, asked: &ChartQuery) -> Result<Utf8PathBuf, KubeError> {
        let folder = self.chart_folder(asked)?.ok_or_else(|| KubeError::new("a local chart is not fetched"))?;
        if let Some(found) = find_packed_chart(&folder) {
            return Ok(found);
        }
        if self.offline {
            return Err(not_cached_error(asked));
        }
        pull_chart(helm, asked, &folder).await?;
        let chart = asked.from.name();
        find_packed_chart(&folder)
            .ok_or_else(|| KubeError::new(format!("helm fetched `{chart}`, but wrote no packed chart")))
    }
}

fn not_cached_error(asked: &ChartQuery) -> KubeError {
    let chart = asked.from.name();
    KubeError::new(format!("the chart `{chart}` {} is not cached, and `--offline` is set", asked.version))
        .hint("run once without `--offline`")
}

/// Fetches into a folder that appears only when it is complete.
async fn pull_chart(helm: &HelmProgram, asked: &ChartQuery, folder: &Utf8Path) -> Result<(), KubeError> {
    let chart = asked.from.name();
    let repository = match &asked.from {
        ChartQuerySource::Repository { url, .. } => Some(url.as_str()),
        _ => None,
    };
    let lost = |error: std::io::Error| KubeError::new(format!("the chart `{chart}` cannot be cached: {error}"));
    let root = folder.parent().unwrap_or(folder);
    fs_err::create_dir_all(root).map_err(lost)?;
    let new = tempfile::Builder::new().prefix(".new-").tempdir_in(root).map_err(lost)?;
    let into = new.path().to_string_lossy().into_owned();
    let said = helm.run_fetch(&flags::pull_args(chart, repository, &asked.version, &into), PULL_TIMEOUT).await?;
    if !said.ok {
        let why = format!("the chart `{chart}` {} cannot be fetched: {}", asked.version, said.error);
        let error = KubeError::new(why);
        return Err(error.hint("check its address and version, or declare a packed chart of this machine as `path`"));
    }
    // If another run has fetched it in the meantime, that copy is used.
    match fs_err::rename(new.keep(), folder) {
        Err(error) if find_packed_chart(folder).is_none() => Err(lost(error)),
        _ => Ok(()),
    }
}

fn find_packed_chart(folder: &Utf8Path) -> Option<Utf8PathBuf> {
    let found = folder.read_dir_utf8().ok()?.filter_map(Result::ok).map(|entry| entry.into_path());
    found.filter(|path| path.extension() == Some("tgz")).min()
}

fn read_chart(path: &Utf8Path) -> Result<Vec<u8>, KubeError> {
    fs_err::read(path).map_err(|error| KubeError::new(format!("the chart cannot be read: {error}")))
}

fn check_digest(path: &Utf8Path, declared: &str) -> Result<(), KubeError> {
    let found = to_hex(&Sha256::digest(read_chart(path)?));
    match found == declared {
        true => Ok(()),
        false => Err(KubeError::new(format!(
            "the chart `{}` has the sha256 {found}, declared is {declared}",
            chart_name(path)
        ))
        .hint("use the right chart, or correct `sha256`")),
    }
}

/// Returns a chart's file name: messages do not show folders of this machine.
fn chart_name(path: &Utf8Path) -> &str {
    path.file_name().unwrap_or(path.as_str())
}
