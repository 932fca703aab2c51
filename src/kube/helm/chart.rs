//! Charts: fetched once and kept, and what they say of themselves.

use super::super::{Access, KubeError};
use super::flags;
use super::program::{Helm, Login};
use super::read::ChartFile;
use super::shipped::lay;
use crate::model::hex;
use crate::probe::{ChartAsked, ChartFrom};
use camino::{Utf8Path, Utf8PathBuf};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The limit of fetching a chart.
const LIMIT: Duration = Duration::from_secs(300);

/// Which helm is run, and where charts are kept that it fetched.
#[derive(Clone, Debug)]
pub struct HelmOptions {
    /// Looked up on the PATH where it is no path itself.
    pub program: Utf8PathBuf,
    /// `None`: nothing is kept, and nothing can be fetched.
    pub charts: Option<Utf8PathBuf>,
    /// What is not kept yet is an error.
    pub offline: bool,
}

impl Default for HelmOptions {
    fn default() -> Self {
        Self { program: "helm".into(), charts: None, offline: false }
    }
}

/// A chart on this machine.
#[derive(Debug)]
pub(super) struct Chart {
    pub path: Utf8PathBuf,
    pub file: ChartFile,
}

/// A packed chart that `helm pull` fetched, in the folder of charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedChart {
    /// Lowercase hex SHA-256 of the packed chart.
    pub sha256: String,
    pub bytes: u64,
    /// Whether it was fetched just now.
    pub new: bool,
}

impl HelmOptions {
    /// Fetches a chart from a repository or registry, unless it is kept already. No cluster is contacted. Returns `None` for
    /// charts that are not fetched: of the inventory's tree, and those that ship with forge.
    ///
    /// # Errors
    /// If it is not available, is another version, or has another digest.
    pub async fn fetch_chart(&self, access: &Access, asked: &ChartAsked) -> Result<Option<FetchedChart>, KubeError> {
        let Some(folder) = self.folder(asked)? else { return Ok(None) };
        let (path, new) = match packed(&folder) {
            Some(path) => (path, false),
            None if self.offline => return Err(not_kept(asked)),
            None => {
                let login = Login {
                    kubeconfig: access.kubeconfig.clone(),
                    context: access.context.clone(),
                    withheld: access.withheld.clone(),
                    _made: None,
                };
                (self.bring(&Helm::open(&self.program, login).await?, asked).await?.path, true)
            }
        };
        if let Some(sha256) = &asked.sha256 {
            check_digest(&path, sha256)?;
        }
        let bytes = read(&path)?;
        Ok(Some(FetchedChart { sha256: hex(&Sha256::digest(&bytes)), bytes: bytes.len() as u64, new }))
    }

    /// Returns the folder in which a fetched chart is kept; `None` for charts that are not fetched.
    fn folder(&self, asked: &ChartAsked) -> Result<Option<Utf8PathBuf>, KubeError> {
        let (repository, chart) = match &asked.from {
            ChartFrom::Repository { url, name } => (url.as_str(), name),
            ChartFrom::Oci(url) => ("", url),
            ChartFrom::Path(_) | ChartFrom::BuiltIn(_) => return Ok(None),
        };
        let root = self.charts.as_ref().ok_or_else(|| KubeError::new("there is no place for charts"))?;
        let key = format!("{repository}\n{chart}\n{}", asked.version);
        Ok(Some(root.join(&hex(&Sha256::digest(key.as_bytes()))[..16])))
    }

    /// Returns the chart as a file or folder, checked to be the one that is declared.
    ///
    /// # Errors
    /// If it cannot be had, is another version, or has another digest.
    pub(super) async fn bring(&self, helm: &Helm, asked: &ChartAsked) -> Result<Chart, KubeError> {
        let path = match &asked.from {
            ChartFrom::Path(path) => Utf8PathBuf::from(path),
            ChartFrom::BuiltIn(name) => lay(name, helm.home()?)?,
            ChartFrom::Repository { .. } | ChartFrom::Oci(_) => self.kept(helm, asked).await?,
        };
        if let Some(sha256) = &asked.sha256 {
            check_digest(&path, sha256)?;
        }
        let said = helm.ask(&flags::show("chart", path.as_str()), None).await?;
        if !said.ok {
            return Err(KubeError::new(format!("`{}` is no chart: {}", name(&path), said.error)));
        }
        let file = serde_json::from_value(super::super::yaml::read(&said.stdout).unwrap_or_default());
        let file: ChartFile =
            file.map_err(|_| KubeError::new(format!("the chart `{}` says neither name nor version", name(&path))))?;
        match file.version == asked.version {
            true => Ok(Chart { path, file }),
            false => Err(KubeError::new(format!(
                "the chart `{}` is version `{}`, and `{}` is declared",
                file.name, file.version, asked.version
            ))
            .hint("declare the version that the chart itself says, or take the right chart")),
        }
    }

    /// Returns a chart out of the folder of charts, fetched where it is not there.
    async fn kept(&self, helm: &Helm, asked: &ChartAsked) -> Result<Utf8PathBuf, KubeError> {
        let folder = self.folder(asked)?.ok_or_else(|| KubeError::new("a chart of this machine is not fetched"))?;
        if let Some(found) = packed(&folder) {
            return Ok(found);
        }
        if self.offline {
            return Err(not_kept(asked));
        }
        fetch(helm, asked, &folder).await?;
        let chart = asked.from.name();
        packed(&folder).ok_or_else(|| KubeError::new(format!("helm fetched `{chart}`, and there is no packed chart")))
    }
}

fn not_kept(asked: &ChartAsked) -> KubeError {
    let chart = asked.from.name();
    KubeError::new(format!("the chart `{chart}` {} is not kept here, and nothing is fetched", asked.version))
        .hint("run once without `--offline`")
}

/// Fetches into a folder that appears only when the chart is in it.
async fn fetch(helm: &Helm, asked: &ChartAsked, folder: &Utf8Path) -> Result<(), KubeError> {
    let chart = asked.from.name();
    let repository = match &asked.from {
        ChartFrom::Repository { url, .. } => Some(url.as_str()),
        _ => None,
    };
    let lost = |error: std::io::Error| KubeError::new(format!("the chart `{chart}` cannot be kept: {error}"));
    let root = folder.parent().unwrap_or(folder);
    fs_err::create_dir_all(root).map_err(lost)?;
    let new = tempfile::Builder::new().prefix(".new-").tempdir_in(root).map_err(lost)?;
    let into = new.path().to_string_lossy().into_owned();
    let said = helm.fetch(&flags::pull(chart, repository, &asked.version, &into), LIMIT).await?;
    if !said.ok {
        let error = KubeError::new(format!("the chart `{chart}` {} cannot be fetched: {}", asked.version, said.error));
        return Err(error.hint("check its address and version; or declare a packed chart of this machine as `path`"));
    }
    // Another run may have fetched it meanwhile: that one is as good.
    match fs_err::rename(new.keep(), folder) {
        Err(error) if packed(folder).is_none() => Err(lost(error)),
        _ => Ok(()),
    }
}

fn packed(folder: &Utf8Path) -> Option<Utf8PathBuf> {
    let found = folder.read_dir_utf8().ok()?.filter_map(Result::ok).map(|entry| entry.into_path());
    found.filter(|path| path.extension() == Some("tgz")).min()
}

fn read(path: &Utf8Path) -> Result<Vec<u8>, KubeError> {
    fs_err::read(path).map_err(|error| KubeError::new(format!("the chart cannot be read: {error}")))
}

fn check_digest(path: &Utf8Path, declared: &str) -> Result<(), KubeError> {
    let found = hex(&Sha256::digest(read(path)?));
    match found == declared {
        true => Ok(()),
        false => {
            Err(KubeError::new(format!("the chart `{}` has the sha256 {found}, declared is {declared}", name(path)))
                .hint("take the right chart, or the right digest"))
        }
    }
}

/// Returns a chart's own name: folders of this machine are no part of what is told.
fn name(path: &Utf8Path) -> &str {
    path.file_name().unwrap_or(path.as_str())
}
