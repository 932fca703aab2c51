//! Runs the `helm` program: one cluster, a home of its own, and an end that is waited for.

use super::super::KubeError;
use super::version::{HelmVersion, helm_version};
use crate::model::SecretStore;
use camino::{Utf8Path, Utf8PathBuf};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tempfile::{NamedTempFile, TempDir};
use tokio::process::Command;

/// Bytes read of what it prints. The largest known answer, an upgrade of volcano as JSON, has 2.8 MB.
const CAP: u64 = 32 * 1024 * 1024;
/// The limit of one question.
const LIMIT: Duration = Duration::from_secs(60);

/// Variables that change what helm does, beside the three folders that are set: none of them was declared.
const VARIABLES: &[&str] = &[
    "HELM_BIN",
    "HELM_BURST_LIMIT",
    "HELM_COLOR",
    "HELM_CONTENT_CACHE",
    "HELM_DEBUG",
    "HELM_DRIVER",
    "HELM_DRIVER_SQL_CONNECTION_STRING",
    "HELM_KUBEAPISERVER",
    "HELM_KUBEASGROUPS",
    "HELM_KUBEASUSER",
    "HELM_KUBECAFILE",
    "HELM_KUBECONTEXT",
    "HELM_KUBEINSECURE_SKIP_TLS_VERIFY",
    "HELM_KUBETLS_SERVER_NAME",
    "HELM_KUBETOKEN",
    "HELM_MAX_HISTORY",
    "HELM_NAMESPACE",
    "HELM_NO_PLUGINS",
    "HELM_PLUGINS",
    "HELM_QPS",
    "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CACHE",
    "HELM_REPOSITORY_CONFIG",
    "KUBECONFIG",
];

/// Returns every variable that helm is not given as it stands in the environment.
pub fn helm_variables() -> Vec<&'static str> {
    VARIABLES.iter().chain(&["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]).copied().collect()
}

/// Variables by which Go's programs go through a proxy. The API is reached without one, as by forge itself.
const PROXIES: &[&str] =
    &["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"];

/// Which cluster helm is to talk to.
#[derive(Clone, Debug)]
pub(in crate::kube) struct Login {
    pub kubeconfig: Utf8PathBuf,
    pub context: String,
    /// Environment variables that hold secrets of the inventory.
    pub withheld: Arc<BTreeSet<String>>,
    /// Where the kubeconfig was made for this: it goes with the last who holds it.
    pub _made: Option<Arc<NamedTempFile>>,
}

/// The program, with a cluster and a home.
#[derive(Debug)]
pub(in crate::kube) struct Helm {
    pub version: HelmVersion,
    program: Utf8PathBuf,
    login: Login,
    home: TempDir,
}

/// What a helm said as it ended.
#[derive(Debug)]
pub(in crate::kube) struct Said {
    pub ok: bool,
    pub stdout: String,
    /// The last line that is no warning, secrets masked.
    pub error: String,
}

impl Helm {
    /// Looks which helm there is. No cluster is contacted.
    ///
    /// # Errors
    /// As [`helm_version`], and if there is no place for its folders.
    pub async fn open(program: &Utf8Path, login: Login) -> Result<Self, KubeError> {
        let version = helm_version(program, &login.withheld).await?;
        let home = tempfile::Builder::new().prefix("forge-helm-").tempdir();
        let home = home.map_err(|error| KubeError::new(format!("helm has no place for its folders: {error}")))?;
        Ok(Self { version, program: program.to_owned(), login, home })
    }

    /// Returns the folder that goes when forge ends.
    ///
    /// # Errors
    /// Where its path is no text.
    pub fn home(&self) -> Result<&Utf8Path, KubeError> {
        let path = Utf8Path::from_path(self.home.path());
        path.ok_or_else(|| KubeError::new("the folder for temporary files has a name that is no text"))
    }

    pub fn major(&self) -> u32 {
        self.version.major
    }

    /// Asks, and ends a helm that does not answer in time. `input` is read by it from stdin.
    pub async fn ask(&self, args: &[String], input: Option<&SecretString>) -> Result<Said, KubeError> {
        let mut run = self.prepare(args, input)?;
        run.command.kill_on_drop(true);
        run.end(LIMIT, &SecretStore::default())
            .await?
            .ok_or_else(|| KubeError::new(format!("`helm {}` did not end within {} s", verb(args), LIMIT.as_secs())))
    }

    /// Changes something. Who waits for it may go away: it is never ended by forge, only by its own limit.
    pub async fn change(
        &self,
        args: &[String],
        input: Option<&SecretString>,
        limit: Duration,
        secrets: &SecretStore,
    ) -> Result<Said, KubeError> {
        let mut run = self.prepare(args, input)?;
        // A Ctrl-C at the terminal is for forge, which lets what it began end.
        run.command.process_group(0);
        run.end(limit, secrets).await?.ok_or_else(|| {
            KubeError::new(format!("`helm {}` is still at work after {} s", verb(args), limit.as_secs()))
                .hint("it was left alone: the next run waits for it, or finishes what it began")
        })
    }

    /// Fetches a chart: the only call that goes to the network, through the machine's proxy.
    pub async fn fetch(&self, args: &[String], limit: Duration) -> Result<Said, KubeError> {
        let mut run = self.bare(args, None)?;
        run.command.kill_on_drop(true);
        run.end(limit, &SecretStore::default())
            .await?
            .ok_or_else(|| KubeError::new(format!("`helm {}` did not end within {} s", verb(args), limit.as_secs())))
    }

    fn prepare(&self, args: &[String], input: Option<&SecretString>) -> Result<Run, KubeError> {
        let mut run = self.bare(args, input)?;
        run.command.arg("--kubeconfig").arg(&self.login.kubeconfig).arg("--kube-context").arg(&self.login.context);
        PROXIES.iter().for_each(|name| {
            run.command.env_remove(name);
        });
        Ok(run)
    }

    fn bare(&self, args: &[String], input: Option<&SecretString>) -> Result<Run, KubeError> {
        let (stdout, stderr) = (nameless()?, nameless()?);
        let mut command = Command::new(&self.program);
        command.args(args).stdin(input.map_or_else(|| Ok(Stdio::null()), stdin)?);
        command.stdout(again(&stdout)?).stderr(again(&stderr)?).current_dir(self.home.path());
        VARIABLES.iter().copied().chain(self.login.withheld.iter().map(String::as_str)).for_each(|name| {
            command.env_remove(name);
        });
        for folder in ["cache", "config", "data"] {
            command.env(format!("HELM_{}_HOME", folder.to_uppercase()), self.home.path().join(folder));
        }
        Ok(Run { command, stdout, stderr })
    }
}

/// A helm that is about to start.
struct Run {
    command: Command,
    stdout: File,
    stderr: File,
}

impl Run {
    /// Starts it and waits; `None` when it did not end in time.
    async fn end(mut self, limit: Duration, secrets: &SecretStore) -> Result<Option<Said>, KubeError> {
        let mut child =
            self.command.spawn().map_err(|error| KubeError::new(format!("`helm` cannot start: {error}")))?;
        let Ok(ended) = tokio::time::timeout(limit, child.wait()).await else { return Ok(None) };
        let ended = ended.map_err(|error| KubeError::new(format!("`helm` was lost: {error}")))?;
        let error = last_line(&secrets.scrub(&text(&mut self.stderr)?), ended);
        Ok(Some(Said { ok: ended.success(), stdout: text(&mut self.stdout)?, error }))
    }
}

/// Returns the line that says why: helm writes warnings before it, also where all is well.
fn last_line(stderr: &str, ended: std::process::ExitStatus) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.clone().rev().find(|line| line.starts_with("Error: ")).or_else(|| lines.next_back());
    match line {
        Some(line) => line.trim_start_matches("Error: ").to_owned(),
        None => ended.to_string(),
    }
}

fn verb(args: &[String]) -> &str {
    args.first().map_or("", String::as_str)
}

/// Returns what a helm reads from stdin: a file without a name, so that no other program finds it.
fn stdin(input: &SecretString) -> Result<Stdio, KubeError> {
    let mut file = nameless()?;
    let written = file.write_all(input.expose_secret().as_bytes()).and_then(|()| file.rewind());
    written.map_err(|error| KubeError::new(format!("values for helm cannot be written: {error}")))?;
    Ok(file.into())
}

fn nameless() -> Result<File, KubeError> {
    tempfile::tempfile().map_err(|error| KubeError::new(format!("no temporary file for helm: {error}")))
}

fn again(file: &File) -> Result<Stdio, KubeError> {
    let file = file.try_clone().map_err(|error| KubeError::new(format!("no temporary file for helm: {error}")))?;
    Ok(file.into())
}

fn text(file: &mut File) -> Result<String, KubeError> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(CAP + 1).read_to_end(&mut bytes));
    read.map_err(|error| KubeError::new(format!("what helm said cannot be read: {error}")))?;
    match bytes.len() as u64 > CAP {
        true => Err(KubeError::new(format!("helm says more than {} MB", CAP / 1024 / 1024))),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}
