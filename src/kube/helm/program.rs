//! Runs the `helm` program: with one cluster and a home of its own, and waits until it ends.

use super::super::KubeError;
use super::super::api_message::hide_quoted_objects;
use super::chart_answers::{ChartAnswers, ChartDigest, ChartQueryKey};
use super::version::{HelmVersion, query_helm_version};
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

/// Size limit of its output in bytes. The largest known output, an upgrade of volcano as JSON, has 2.8 MB.
const MAX_OUTPUT_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum number of lines with causes of an error.
const MAX_CAUSE_LINES: usize = 8;
/// The time limit of one query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Variables that change helm's behavior, in addition to the three folders that forge sets: none of them is declared.
const REMOVED_VARIABLES: &[&str] = &[
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

/// Returns every variable that forge removes or replaces in helm's environment.
pub fn helm_variables() -> Vec<&'static str> {
    REMOVED_VARIABLES.iter().chain(&["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]).copied().collect()
}

/// Proxy variables of Go programs. Helm connects to the API without a proxy, like forge itself.
const PROXY_VARIABLES: &[&str] =
    &["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"];

/// The cluster for helm.
#[derive(Clone, Debug)]
pub(in crate::kube) struct HelmTarget {
    pub kubeconfig: Utf8PathBuf,
    pub context: String,
    /// Environment variables with secrets of the inventory.
    pub withheld: Arc<BTreeSet<String>>,
    /// The temporary kubeconfig, if one was written: it is deleted with its last owner.
    pub _made: Option<Arc<NamedTempFile>>,
}

/// The helm program, with a cluster and a home.
#[derive(Debug)]
pub(in crate::kube) struct HelmProgram {
    pub version: HelmVersion,
    program: Utf8PathBuf,
    login: HelmTarget,
    home: TempDir,
    answers: ChartAnswers,
}

/// The output of a finished helm.
#[derive(Debug)]
pub(in crate::kube) struct HelmOutput {
    pub ok: bool,
    pub stdout: String,
    /// The last error with its causes, as one line, secrets masked.
    pub error: String,
}

impl HelmProgram {
    /// Finds helm and its version. No cluster is contacted.
    ///
    /// # Errors
    /// As [`query_helm_version`], and if its folders cannot be created.
    pub async fn open(program: &Utf8Path, login: HelmTarget, answers: ChartAnswers) -> Result<Self, KubeError> {
        let version = query_helm_version(program, &login.withheld).await?;
        let home = tempfile::Builder::new().prefix("forge-helm-").tempdir();
        let home = home.map_err(|error| KubeError::new(format!("cannot create a folder for helm: {error}")))?;
        Ok(Self { version, program: program.to_owned(), login, home, answers })
    }

    /// Returns its temporary folder, which is deleted when forge exits.
    ///
    /// # Errors
    /// The path is not UTF-8.
    pub fn home(&self) -> Result<&Utf8Path, KubeError> {
        let path = Utf8Path::from_path(self.home.path());
        path.ok_or_else(|| KubeError::new("the path of the folder for temporary files is not UTF-8"))
    }

    pub fn major(&self) -> u32 {
        self.version.major
    }

    /// Runs a query, and kills helm if it does not end in time. Helm reads `input` from stdin.
    pub async fn run_query(&self, args: &[String], input: Option<&SecretString>) -> Result<HelmOutput, KubeError> {
        let mut run = self.prepare_command(args, input)?;
        run.command.kill_on_drop(true);
        run.run_with_limit(QUERY_TIMEOUT, &SecretStore::default()).await?.ok_or_else(|| {
            KubeError::new(format!("`helm {}` timed out after {} s", subcommand_name(args), QUERY_TIMEOUT.as_secs()))
        })
    }

    /// Runs a query whose answer depends on a chart, by its path and digest, and on `input` only: it is asked once per
    /// run. `turn` counts queries that are asked again to compare their answers.
    pub(super) async fn run_chart_query(
        &self,
        (chart, digest): (&Utf8Path, Option<&ChartDigest>),
        args: &[String],
        input: Option<&SecretString>,
        turn: u32,
    ) -> Result<HelmOutput, KubeError> {
        let key = digest.map(|digest| {
            // Built-in charts have a folder of their own for each connection.
            let args: Vec<&str> = args.iter().map(String::as_str).filter(|arg| *arg != chart.as_str()).collect();
            ChartQueryKey::new([self.program.as_str(), &self.version.text], digest, &args, input, turn)
        });
        if let Some(stdout) = key.as_ref().and_then(|key| self.answers.find(key)) {
            return Ok(HelmOutput { ok: true, stdout: stdout.as_ref().to_owned(), error: String::new() });
        }
        let said = self.run_query(args, input).await?;
        if let Some(key) = key.filter(|_| said.ok) {
            self.answers.keep(key, &said.stdout);
        }
        Ok(said)
    }

    /// Runs a change. Even if the caller stops waiting, forge never kills it: only its own time limit ends it.
    pub async fn run_change(
        &self,
        args: &[String],
        input: Option<&SecretString>,
        limit: Duration,
        secrets: &SecretStore,
    ) -> Result<HelmOutput, KubeError> {
        let mut run = self.prepare_command(args, input)?;
        // Ctrl-C at the terminal is for forge, which lets running changes finish.
        run.command.process_group(0);
        run.run_with_limit(limit, secrets).await?.ok_or_else(|| {
            KubeError::new(format!("`helm {}` is still running after {} s", subcommand_name(args), limit.as_secs()))
                .hint("it was not killed: run again, which waits for it or recovers the release")
        })
    }

    /// Fetches a chart: the only command that uses the network, through the machine's proxy.
    pub async fn run_fetch(&self, args: &[String], limit: Duration) -> Result<HelmOutput, KubeError> {
        let mut run = self.base_command(args, None)?;
        run.command.kill_on_drop(true);
        run.run_with_limit(limit, &SecretStore::default()).await?.ok_or_else(|| {
            KubeError::new(format!("`helm {}` timed out after {} s", subcommand_name(args), limit.as_secs()))
        })
    }

    fn prepare_command(&self, args: &[String], input: Option<&SecretString>) -> Result<HelmCommand, KubeError> {
        let mut run = self.base_command(args, input)?;
        run.command.arg("--kubeconfig").arg(&self.login.kubeconfig).arg("--kube-context").arg(&self.login.context);
        PROXY_VARIABLES.iter().for_each(|name| {
            run.command.env_remove(name);
        });
        Ok(run)
    }

    fn base_command(&self, args: &[String], input: Option<&SecretString>) -> Result<HelmCommand, KubeError> {
        let (stdout, stderr) = (create_unnamed_file()?, create_unnamed_file()?);
        let mut command = Command::new(&self.program);
        command.args(args).stdin(input.map_or_else(|| Ok(Stdio::null()), stdin_from_secret)?);
        command.stdout(clone_as_stdio(&stdout)?).stderr(clone_as_stdio(&stderr)?).current_dir(self.home.path());
        REMOVED_VARIABLES.iter().copied().chain(self.login.withheld.iter().map(String::as_str)).for_each(|name| {
            command.env_remove(name);
        });
        for folder in ["cache", "config", "data"] {
            command.env(format!("HELM_{}_HOME", folder.to_uppercase()), self.home.path().join(folder));
        }
        Ok(HelmCommand { command, stdout, stderr })
    }
}

/// A prepared helm command.
struct HelmCommand {
    command: Command,
    stdout: File,
    stderr: File,
}

impl HelmCommand {
    /// Starts it and waits; `None` if it did not end in time.
    async fn run_with_limit(mut self, limit: Duration, secrets: &SecretStore) -> Result<Option<HelmOutput>, KubeError> {
        let mut child =
            self.command.spawn().map_err(|error| KubeError::new(format!("cannot start `helm`: {error}")))?;
        let Ok(ended) = tokio::time::timeout(limit, child.wait()).await else { return Ok(None) };
        let ended = ended.map_err(|error| KubeError::new(format!("cannot wait for `helm`: {error}")))?;
        let error = find_error(&secrets.scrub_secrets(&read_output(&mut self.stderr)?), ended);
        let error = hide_quoted_objects(&error).into_owned();
        Ok(Some(HelmOutput { ok: ended.success(), stdout: read_output(&mut self.stdout)?, error }))
    }
}

/// Returns the error: helm prints warnings before it, and also on success. Its causes are on the lines that follow:
///
/// ```text
/// Error: UPGRADE FAILED: pre-upgrade hooks failed: 1 error occurred:
///         * job gpu-operator-upgrade-crd failed: BackoffLimitExceeded
/// ```
fn find_error(stderr: &str, ended: std::process::ExitStatus) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.iter().rposition(|line| line.starts_with("Error: ")) {
        Some(start) => {
            let causes = lines[start + 1..].iter().filter(|line| !is_log_line(line)).take(MAX_CAUSE_LINES);
            let first = lines[start].trim_start_matches("Error: ").to_owned();
            causes.fold(first, |error, cause| join_cause(&error, cause))
        }
        None => lines.last().map_or_else(|| ended.to_string(), |line| (*line).to_owned()),
    }
}

/// Appends a cause to an error, on the same line.
fn join_cause(error: &str, cause: &str) -> String {
    let cause = cause.trim_start_matches(['*', '-']).trim_start();
    match error.ends_with(':') {
        true => format!("{error} {cause}"),
        false => format!("{error}; {cause}"),
    }
}

/// Reports whether a line is a log message of helm or of its libraries: `level=WARN …`, `W1124 22:31:07.1 …`.
fn is_log_line(line: &str) -> bool {
    let klog = |line: &str| {
        let mut bytes = line.bytes();
        matches!(bytes.next(), Some(b'I' | b'W' | b'E')) && bytes.by_ref().take(4).all(|byte| byte.is_ascii_digit())
    };
    ["level=", "time=", "WARNING", "walk.go:"].iter().any(|start| line.starts_with(start))
        || (line.len() > 5 && klog(line))
}

fn subcommand_name(args: &[String]) -> &str {
    args.first().map_or("", String::as_str)
}

/// Returns helm's stdin: an unnamed file, so that no other program finds it.
fn stdin_from_secret(input: &SecretString) -> Result<Stdio, KubeError> {
    let mut file = create_unnamed_file()?;
    let written = file.write_all(input.expose_secret().as_bytes()).and_then(|()| file.rewind());
    written.map_err(|error| KubeError::new(format!("cannot write values for helm: {error}")))?;
    Ok(file.into())
}

fn create_unnamed_file() -> Result<File, KubeError> {
    tempfile::tempfile().map_err(|error| KubeError::new(format!("cannot create a temporary file for helm: {error}")))
}

fn clone_as_stdio(file: &File) -> Result<Stdio, KubeError> {
    let file = file.try_clone();
    let file = file.map_err(|error| KubeError::new(format!("cannot open a temporary file for helm: {error}")))?;
    Ok(file.into())
}

fn read_output(file: &mut File) -> Result<String, KubeError> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| KubeError::new(format!("helm's output cannot be read: {error}")))?;
    match bytes.len() as u64 > MAX_OUTPUT_BYTES {
        true => Err(KubeError::new(format!("helm printed more than {} MB", MAX_OUTPUT_BYTES / 1024 / 1024))),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}
