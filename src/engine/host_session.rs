//! The engine's side of a session: read-only at first, writable once the host's lock is taken.

use super::cluster_session;
use super::read_only_session::ObservationSession;
use super::run_context::RunOptions;
use crate::config::{ConnectSettings, HostKeyPolicy, Project, SudoMode, TransportKind};
use crate::facts;
use crate::kube;
use crate::model::{HostName, SecretStore, UntrustedText};
use crate::probe::{self, CompiledProbes, Observation, Probe, ProbeCheckOptions};
use crate::script::{ScriptToken, ShellFragment, ShellScript};
use crate::transport::{
    self, ConnectionKind, ConnectionTarget, FilePayload, HostKeyCheck, HostReader, HostWriter, LockError, LockOwner,
    LongStep, ProgramEnvironment, ScriptOutput, TransportError, TransportErrorKind, TransportSession, UnitName,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Timeout of forge's own short scripts.
pub(super) const SHORT_SCRIPT_LIMIT: Duration = Duration::from_secs(60);

/// A session on one host.
pub(super) struct HostSession {
    end: HostSessionMode,
    questions: ObservationSettings,
}

enum HostSessionMode {
    Reading(HostReader),
    Writing(HostWriter),
    /// The cluster's API, read-only.
    Asking(kube::ClusterReader),
    /// The cluster's API, with its lock.
    Ruling(Box<kube::ClusterWriter>),
    /// No session: a host's recorded answers.
    Recorded(Observation),
    #[cfg(test)]
    Simulated(super::simulated_host::SimulatedHost),
}

/// The result of taking the writer lock.
pub(super) enum HostLockAttempt {
    Ours,
    /// Another run holds the lock: its description of itself.
    Held(UntrustedText),
    /// A job of an earlier run is still active.
    Busy(LeftoverWork),
}

/// A job that is active on a host although no run holds the lock.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LeftoverWork {
    /// A script: its owner's description of itself.
    Script(UntrustedText),
    /// A long step: its unit.
    Unit(UntrustedText),
}

/// The result of a script, with the token that frames its output.
pub(super) struct HostScriptOutput {
    pub finished: ScriptOutput,
    pub token: ScriptToken,
}

/// The result of a long step.
pub(super) struct LongStepReport {
    pub status: i32,
    pub tail: UntrustedText,
}

/// The settings for probes that do not depend on the session.
pub(super) struct ObservationSettings {
    checks: ProbeCheckOptions,
    /// Whether raw answers are stored.
    keep: bool,
    clock: fn() -> jiff::Timestamp,
}

impl ObservationSettings {
    pub fn from_options(options: &RunOptions) -> Self {
        let checks = ProbeCheckOptions { limit: options.timeout, confined: options.confined };
        Self { checks, keep: options.replay.record || options.replay.keep, clock: options.clock }
    }

    pub fn keeps_raw_answers(&self) -> bool {
        self.keep
    }

    pub fn compile_probes(&self, probes: &BTreeSet<Probe>) -> Result<CompiledProbes, TransportError> {
        let compiled = probe::compile_probes(probes, &facts::fact_snippets(), transport::random_token()?, self.checks);
        Ok(if self.keep { compiled.with_raw_answers() } else { compiled })
    }

    /// Sends the probes compiled by `ask` and records the times.
    pub async fn observe_and_stamp(
        &self,
        ask: impl Future<Output = Result<Observation, TransportError>>,
    ) -> Result<Observation, TransportError> {
        let began = (self.clock)();
        let mut observation = ask.await?;
        observation.set_time_range(began, (self.clock)());
        Ok(observation)
    }
}

/// The kind of connection to a host.
pub(super) enum OpenedConnection {
    Host(TransportSession),
    Cluster(Box<kube::ClusterReader>),
    /// No connection: a host's recorded answers.
    Recorded(Observation),
    #[cfg(test)]
    Simulated(super::simulated_host::SimulatedHost),
}

/// Opens a connection to a host or its substitute.
pub(super) async fn open_connection(
    project: &Project,
    options: &RunOptions,
    host: &HostName,
    secrets: &SecretStore,
) -> Result<OpenedConnection, TransportError> {
    if let Some(recording) = &options.replay.observed {
        return recording.replay_answers(host).map(OpenedConnection::Recorded);
    }
    if host.is_cluster() {
        return cluster_session::open_cluster_reader(project, options)
            .await
            .map(|looker| OpenedConnection::Cluster(Box::new(looker)));
    }
    #[cfg(test)]
    if let Some(sim) = super::simulated_host::SimulatedHost::from_connection(&find_declared_connection(project, host)) {
        return Ok(OpenedConnection::Simulated(sim?));
    }
    open_transport_session(project, options, host, secrets).await.map(OpenedConnection::Host)
}

/// Opens a session on a host.
pub(super) async fn open_transport_session(
    project: &Project,
    options: &RunOptions,
    host: &HostName,
    secrets: &SecretStore,
) -> Result<TransportSession, TransportError> {
    let mut target = build_target(host, &find_declared_connection(project, host), options);
    target.surroundings.withheld = project.secret_variables.clone();
    transport::open_session(host, &target, secrets).await
}

fn find_declared_connection(project: &Project, host: &HostName) -> ConnectSettings {
    project.hosts.get(host).map(|host| host.connect.clone()).unwrap_or_default()
}

impl ObservationSession for HostSession {
    async fn open(
        project: &Project,
        options: &RunOptions,
        host: &HostName,
        secrets: &SecretStore,
    ) -> Result<Self, TransportError> {
        let end = match open_connection(project, options, host, secrets).await? {
            OpenedConnection::Host(session) => HostSessionMode::Reading(HostReader::new(session)),
            OpenedConnection::Cluster(looker) => HostSessionMode::Asking(*looker),
            OpenedConnection::Recorded(answers) => HostSessionMode::Recorded(answers),
            #[cfg(test)]
            OpenedConnection::Simulated(sim) => HostSessionMode::Simulated(sim),
        };
        Ok(Self { end, questions: ObservationSettings::from_options(options) })
    }

    async fn observe(&self, probes: &BTreeSet<Probe>, secrets: &SecretStore) -> Result<Observation, TransportError> {
        if let HostSessionMode::Recorded(recorded) = &self.end {
            return Ok(probe::recall_answers(recorded, probes, &facts::fact_snippets()));
        }
        if let Some(looker) = self.cluster_reader() {
            return self
                .questions
                .observe_and_stamp(cluster_session::observe_cluster(
                    looker,
                    probes,
                    self.questions.keeps_raw_answers(),
                    secrets,
                ))
                .await;
        }
        let compiled = self.questions.compile_probes(probes)?;
        let ask = async {
            match &self.end {
                HostSessionMode::Reading(reader) => reader.observe_host(&compiled, secrets).await,
                HostSessionMode::Writing(writer) => writer.observe_host(&compiled, secrets).await,
                HostSessionMode::Recorded(_) | HostSessionMode::Asking(_) | HostSessionMode::Ruling(_) => {
                    Err(recording_error())
                }
                #[cfg(test)]
                HostSessionMode::Simulated(sim) => sim.observe_probes(&compiled, secrets).await,
            }
        };
        self.questions.observe_and_stamp(ask).await
    }

    /// Releases the writer lock if it was taken, and closes the session.
    async fn close(self) {
        match self.end {
            HostSessionMode::Reading(reader) => reader.session().clone().close().await,
            HostSessionMode::Writing(writer) => writer.release_lock().await.session().clone().close().await,
            HostSessionMode::Asking(looker) => looker.close().await,
            HostSessionMode::Ruling(writer) => writer.unlock().await.close().await,
            HostSessionMode::Recorded(_) => {}
            #[cfg(test)]
            HostSessionMode::Simulated(_) => {}
        }
    }
}

impl HostSession {
    /// Returns the reader of the cluster's API, if this is a connection to one.
    fn cluster_reader(&self) -> Option<&kube::ClusterReader> {
        match &self.end {
            HostSessionMode::Asking(looker) => Some(looker),
            HostSessionMode::Ruling(writer) => Some(writer.reader()),
            _ => None,
        }
    }

    /// Returns the writer of the cluster, if this is a connection to one and its lock is held.
    pub fn cluster_writer(&self) -> Option<&kube::ClusterWriter> {
        match &self.end {
            HostSessionMode::Ruling(writer) => Some(writer),
            _ => None,
        }
    }

    /// Runs a script once, without the writer lock. Its result is not evaluated.
    pub async fn run_script(
        &self,
        body: ShellFragment,
        limit: Duration,
        secrets: &SecretStore,
    ) -> Result<HostScriptOutput, TransportError> {
        let token = transport::random_token()?;
        let script = ShellScript { body, token: token.clone(), limit };
        let finished = match &self.end {
            HostSessionMode::Reading(reader) => reader.session().run_script(&script, secrets, None).await?,
            HostSessionMode::Writing(writer) => writer.session().run_script(&script, secrets, None).await?,
            HostSessionMode::Recorded(_) => return Err(recording_error()),
            HostSessionMode::Asking(_) | HostSessionMode::Ruling(_) => return Err(cluster_session::no_commands_error()),
            #[cfg(test)]
            HostSessionMode::Simulated(sim) => sim.run_acting_script(&script, secrets).await?,
        };
        Ok(HostScriptOutput { finished, token })
    }

    /// Takes the writer lock.
    pub async fn take_lock(&mut self, owner: &LockOwner) -> Result<HostLockAttempt, TransportError> {
        #[cfg(test)]
        if let HostSessionMode::Simulated(sim) = &self.end {
            return Ok(sim.take_lock());
        }
        if let HostSessionMode::Asking(looker) = &self.end {
            let (locked, writer) = cluster_session::lock_cluster(looker, owner, self.questions.clock).await?;
            if let Some(writer) = writer {
                self.end = HostSessionMode::Ruling(Box::new(writer));
            }
            return Ok(locked);
        }
        let reader = match &self.end {
            HostSessionMode::Reading(reader) => reader,
            HostSessionMode::Recorded(_) => return Err(recording_error()),
            _ => return Ok(HostLockAttempt::Ours),
        };
        match reader.acquire_lock(owner, None).await {
            Ok(writer) => {
                self.end = HostSessionMode::Writing(writer);
                Ok(HostLockAttempt::Ours)
            }
            Err(LockError::Held { owner }) => Ok(HostLockAttempt::Held(owner)),
            Err(LockError::Acting { owner }) => Ok(HostLockAttempt::Busy(LeftoverWork::Script(owner))),
            Err(LockError::Units { units }) => {
                Ok(HostLockAttempt::Busy(LeftoverWork::Unit(units.into_iter().next().unwrap_or_default())))
            }
            Err(LockError::Transport(error)) => Err(error),
        }
    }

    fn locked_writer(&self) -> Result<&HostWriter, TransportError> {
        match &self.end {
            HostSessionMode::Writing(writer) => Ok(writer),
            _ => Err(host_side_error("the host lock is not held".to_owned())),
        }
    }

    /// Runs an acting script once.
    pub async fn run_acting_script(
        &self,
        body: ShellFragment,
        limit: Duration,
        secrets: &SecretStore,
    ) -> Result<HostScriptOutput, TransportError> {
        let token = transport::random_token()?;
        let script = ShellScript { body, token: token.clone(), limit };
        #[cfg(test)]
        if let HostSessionMode::Simulated(sim) = &self.end {
            return Ok(HostScriptOutput { finished: sim.run_acting_script(&script, secrets).await?, token });
        }
        let finished = self.locked_writer()?.run_acting_script(&script, secrets, None).await?;
        Ok(HostScriptOutput { finished, token })
    }

    /// Runs an acting script once, with a file as its input.
    pub async fn send_file(
        &self,
        body: ShellFragment,
        limit: Duration,
        payload: FilePayload,
        secrets: &SecretStore,
    ) -> Result<HostScriptOutput, TransportError> {
        let token = transport::random_token()?;
        let script = ShellScript { body, token: token.clone(), limit };
        #[cfg(test)]
        if let HostSessionMode::Simulated(sim) = &self.end {
            return Ok(HostScriptOutput { finished: sim.send_file(&script, payload, secrets).await?, token });
        }
        let finished = self.locked_writer()?.run_with_payload(&script, payload, secrets).await?;
        Ok(HostScriptOutput { finished, token })
    }

    /// Runs a long step as a transient unit and follows its log until it ends. Reconnects if the connection is lost;
    /// the step continues meanwhile.
    pub async fn run_long_step(
        &mut self,
        unit: &UnitName,
        body: ShellFragment,
        limit: Duration,
        secrets: &SecretStore,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<LongStepReport, TransportError> {
        let token = transport::random_token()?;
        #[cfg(test)]
        if let HostSessionMode::Simulated(sim) = &self.end {
            let finished = sim.run_acting_script(&ShellScript { body, token, limit }, secrets).await?;
            String::from_utf8_lossy(&finished.stdout).lines().for_each(say);
            return Ok(LongStepReport {
                status: finished.status,
                tail: String::from_utf8_lossy(&finished.stdout).into_owned().into(),
            });
        }
        let step = LongStep { unit: unit.clone(), body, token: token.clone(), limit };
        let HostSessionMode::Writing(writer) = &mut self.end else {
            return Err(host_side_error("the host lock is not held".to_owned()));
        };
        writer.start_long_step(&step, secrets).await?;
        let mut log = LogLineBuffer::default();
        let mut sink = |_: u64, bytes: &[u8]| log.push_bytes(bytes, say);
        let end = writer.follow_long_step(unit, 0, secrets, &mut sink).await.map_err(to_relock_error)?;
        writer.forget_long_step(unit, &token, secrets).await?;
        Ok(LongStepReport { status: end.status, tail: log.into_tail() })
    }
}

/// Splits a growing log into lines and keeps the last ones.
#[derive(Default)]
struct LogLineBuffer {
    open: Vec<u8>,
    last: std::collections::VecDeque<String>,
}

impl LogLineBuffer {
    fn push_bytes(&mut self, bytes: &[u8], say: &mut (dyn FnMut(&str) + Send)) {
        self.open.extend_from_slice(bytes);
        while let Some(end) = self.open.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.open.drain(..=end).collect();
            self.push_line(String::from_utf8_lossy(&line[..end]).into_owned(), say);
        }
    }

    fn push_line(&mut self, line: String, say: &mut (dyn FnMut(&str) + Send)) {
        const KEPT: usize = 200;
        say(&line);
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn into_tail(self) -> UntrustedText {
        let open = String::from_utf8_lossy(&self.open).into_owned();
        let lines: Vec<String> = self.last.into_iter().chain((!open.is_empty()).then_some(open)).collect();
        lines.join("\n").into()
    }
}

/// Converts a failure to take the lock again after a lost connection.
fn to_relock_error(error: LockError) -> TransportError {
    match error {
        LockError::Transport(error) => error,
        other => host_side_error(other.to_string()),
    }
}

/// Converts the declared connection into the transport's target.
fn build_target(host: &HostName, connect: &ConnectSettings, options: &RunOptions) -> ConnectionTarget {
    ConnectionTarget {
        kind: match &connect.transport {
            TransportKind::Ssh => ConnectionKind::Ssh,
            TransportKind::Local => ConnectionKind::Local,
            TransportKind::Command(argv) => ConnectionKind::Command(argv.clone()),
            TransportKind::Sandbox => {
                ConnectionKind::Sandbox(transport::sandbox_folder(&options.sandboxes, host), connect.hardware)
            }
        },
        address: if connect.address.is_empty() { host.to_string() } else { connect.address.clone() },
        user: connect.user.clone(),
        port: connect.port,
        identity: connect.identity.clone(),
        config: connect.config.clone(),
        known_hosts: connect.known_hosts.clone(),
        jump: connect.jump.clone(),
        host_key: match connect.host_key {
            HostKeyPolicy::Strict => HostKeyCheck::Strict,
            HostKeyPolicy::AcceptNew => HostKeyCheck::AcceptNew,
        },
        sudo: match &connect.sudo {
            // In a sandbox forge runs as root from the start.
            _ if connect.transport == TransportKind::Sandbox => transport::ConnectionSudo::None,
            SudoMode::None => transport::ConnectionSudo::None,
            SudoMode::NoPassword => transport::ConnectionSudo::NoPassword,
            SudoMode::Password(placeholder) => transport::ConnectionSudo::Password(placeholder.clone()),
        },
        timeout: Duration::from_secs(connect.timeout_s),
        keep: Duration::from_secs(connect.keep_s),
        control_dir: options.control_dir.clone(),
        surroundings: ProgramEnvironment { more: options.ssh_variables.clone(), ..ProgramEnvironment::default() },
        ..ConnectionTarget::default()
    }
}

/// The error of any action on a recording, which supports probes only.
pub(super) fn recording_error() -> TransportError {
    host_side_error("a recording is read-only: it is not a host".to_owned())
}

/// Returns an error caused by the host rather than by the transport.
pub(super) fn host_side_error(message: String) -> TransportError {
    TransportError {
        kind: TransportErrorKind::Shell,
        message,
        hint: None,
        said: None,
        address: None,
        retryable: false,
        sent_anything: true,
    }
}

/// Returns the last lines of a script's stderr as one line, without repetitions.
pub(super) fn summarize_stderr(stderr: &[u8]) -> String {
    const LINES: usize = 3;
    let text = String::from_utf8_lossy(stderr);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lines.retain(|earlier| *earlier != line);
        lines.push(line);
    }
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

/// Returns the reason, with the host's own message.
pub(super) fn describe_transport_error(error: &TransportError) -> UntrustedText {
    match error.said.as_ref().and_then(|said| said.raw().lines().rev().find(|line| !line.trim().is_empty())) {
        Some(line) if !error.message.contains(line.trim()) => format!("{}: {}", error.message, line.trim()).into(),
        _ => error.message.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_summary_omits_repeated_lines() {
        assert_eq!(summarize_stderr(b"mkdir: no\nmkdir: no\n\nmkdir: no\n"), "mkdir: no");
        assert_eq!(summarize_stderr(b"a\nb\nc\nd\n"), "b; c; d");
        assert_eq!(summarize_stderr(b""), "");
    }
}
