//! Sessions over the transport: ssh, this machine, a command, a sandbox.

use super::host_session::{
    HostLockAttempt, HostScriptOutput, HostSession, LeftoverWork, LongStepReport, host_side_error, lock_not_held_error,
};
use super::observation_settings::ObservationSettings;
use super::read_only_session::{ReadOnlySession, SessionClosing, SessionFuture};
use super::run_options::{HostConnector, RunOptions, SessionConnector, SessionRequest};
use crate::config::{ConnectSettings, HostKeyPolicy, Project, SudoMode, TransportKind};
use crate::model::{HostName, SecretStore, UntrustedText};
use crate::probe::{Observation, Probe};
use crate::script::{ScriptLimit, ShellFragment, ShellScript};
use crate::transport::{
    self, ConnectionKind, ConnectionTarget, FilePayload, HostKeyCheck, HostReader, HostWriter, LockError, LockOwner,
    LongStep, ProbeSession, ProgramEnvironment, TransportError, TransportSession, UnitName,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Opens sessions over the transport that the inventory declares.
pub(super) struct TransportConnector;

/// Returns the connector of real runs.
pub fn transport_connector() -> HostConnector {
    HostConnector::new(TransportConnector)
}

impl SessionConnector for TransportConnector {
    fn open_session<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn HostSession>> {
        Box::pin(async move { Ok(wrap_session(open_requested_session(request).await?, request.options)) })
    }

    fn open_read_only<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn ReadOnlySession>> {
        Box::pin(async move { Ok(wrap_read_only(open_requested_session(request).await?, request.options)) })
    }
}

/// Returns an open session as the engine uses it.
pub(super) fn wrap_session(session: TransportSession, options: &RunOptions) -> Box<dyn HostSession> {
    let settings = ObservationSettings::from_options(options);
    Box::new(RemoteSession { reader: HostReader::new(session), writer: None, settings })
}

/// Returns an open session that takes probes only.
pub(super) fn wrap_read_only(session: TransportSession, options: &RunOptions) -> Box<dyn ReadOnlySession> {
    let settings = ObservationSettings::from_options(options);
    Box::new(RemoteProbeSession { session: ProbeSession::new(session), settings })
}

async fn open_requested_session(request: SessionRequest<'_>) -> Result<TransportSession, TransportError> {
    let mut target = build_project_target(request.project, request.options, request.host);
    if request.logs_in {
        target.keep = Duration::ZERO;
    }
    transport::open_session(request.host, &target, request.secrets).await
}

/// Opens a session on a host.
pub(super) async fn open_transport_session(
    project: &Project,
    options: &RunOptions,
    host: &HostName,
    secrets: &SecretStore,
) -> Result<TransportSession, TransportError> {
    transport::open_session(host, &build_project_target(project, options, host), secrets).await
}

fn build_project_target(project: &Project, options: &RunOptions, host: &HostName) -> ConnectionTarget {
    let mut target = build_target(host, &find_declared_connection(project, host), options);
    target.surroundings.withheld = project.secret_variables.clone();
    target
}

/// Returns the connection that the inventory declares for a host.
pub(super) fn find_declared_connection(project: &Project, host: &HostName) -> ConnectSettings {
    project.hosts.get(host).map(|host| host.connect.clone()).unwrap_or_default()
}

/// A session that takes probes only.
struct RemoteProbeSession {
    session: ProbeSession,
    settings: ObservationSettings,
}

impl ReadOnlySession for RemoteProbeSession {
    fn observe<'s>(&'s self, probes: &'s BTreeSet<Probe>, secrets: &'s SecretStore) -> SessionFuture<'s, Observation> {
        Box::pin(async move {
            let compiled = self.settings.compile_probes(probes)?;
            self.settings.observe_and_stamp(self.session.observe_host(&compiled, secrets)).await
        })
    }

    fn close(self: Box<Self>) -> SessionClosing {
        Box::pin(self.session.close())
    }
}

/// A session that may take the host's writer lock.
struct RemoteSession {
    reader: HostReader,
    /// Present while the lock is held.
    writer: Option<HostWriter>,
    settings: ObservationSettings,
}

impl ReadOnlySession for RemoteSession {
    fn observe<'s>(&'s self, probes: &'s BTreeSet<Probe>, secrets: &'s SecretStore) -> SessionFuture<'s, Observation> {
        Box::pin(async move {
            let compiled = self.settings.compile_probes(probes)?;
            self.settings.observe_and_stamp(self.reader.observe_host(&compiled, secrets)).await
        })
    }

    fn close(self: Box<Self>) -> SessionClosing {
        Box::pin(async move {
            if let Some(writer) = self.writer {
                writer.release_lock().await;
            }
            self.reader.session().clone().close().await;
        })
    }
}

impl RemoteSession {
    fn locked_writer(&self) -> Result<&HostWriter, TransportError> {
        self.writer.as_ref().ok_or_else(lock_not_held_error)
    }
}

impl HostSession for RemoteSession {
    fn can_be_cut_off(&self) -> bool {
        true
    }

    fn take_lock<'s>(&'s mut self, owner: &'s LockOwner) -> SessionFuture<'s, HostLockAttempt> {
        Box::pin(async move {
            if self.writer.is_some() {
                return Ok(HostLockAttempt::Ours);
            }
            match self.reader.acquire_lock(owner, None).await {
                Ok(writer) => {
                    self.writer = Some(writer);
                    Ok(HostLockAttempt::Ours)
                }
                Err(LockError::Held { owner }) => Ok(HostLockAttempt::Held(owner)),
                Err(LockError::Acting { owner }) => Ok(HostLockAttempt::Busy(LeftoverWork::Script(owner))),
                Err(LockError::Units { units }) => {
                    Ok(HostLockAttempt::Busy(LeftoverWork::Unit(units.into_iter().next().unwrap_or_default())))
                }
                Err(LockError::Transport(error)) => Err(error),
            }
        })
    }

    fn run_script<'s>(
        &'s self,
        body: ShellFragment,
        limit: Duration,
        secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async move {
            let token = transport::random_token()?;
            let script = ShellScript { body, token: token.clone(), limit };
            let finished = self.reader.session().run_script(&script, secrets, None).await?;
            Ok(HostScriptOutput { finished, token })
        })
    }

    fn run_acting_script<'s>(
        &'s self,
        body: ShellFragment,
        limit: ScriptLimit,
        secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async move {
            let token = transport::random_token()?;
            let script = ShellScript { body, token: token.clone(), limit: limit.time };
            let writer = self.locked_writer()?;
            let finished = match limit.stops {
                true => writer.run_stoppable_script(&script, secrets).await?,
                false => writer.run_acting_script(&script, secrets, None).await?,
            };
            Ok(HostScriptOutput { finished, token })
        })
    }

    fn send_file<'s>(
        &'s self,
        body: ShellFragment,
        limit: Duration,
        payload: FilePayload,
        secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async move {
            let token = transport::random_token()?;
            let script = ShellScript { body, token: token.clone(), limit };
            let finished = self.locked_writer()?.run_with_payload(&script, payload, secrets).await?;
            Ok(HostScriptOutput { finished, token })
        })
    }

    fn run_long_step<'s>(
        &'s mut self,
        unit: &'s UnitName,
        body: ShellFragment,
        limit: Duration,
        secrets: &'s SecretStore,
        say: &'s mut (dyn FnMut(&str) + Send),
    ) -> SessionFuture<'s, LongStepReport> {
        Box::pin(async move {
            let token = transport::random_token()?;
            let step = LongStep { unit: unit.clone(), body, token: token.clone(), limit };
            let writer = self.writer.as_mut().ok_or_else(lock_not_held_error)?;
            writer.start_long_step(&step, secrets).await?;
            let mut log = LogLineBuffer::default();
            let mut sink = |_: u64, bytes: &[u8]| log.push_bytes(bytes, say);
            let end = writer.follow_long_step(unit, 0, secrets, &mut sink).await.map_err(to_relock_error)?;
            writer.forget_long_step(unit, &token, secrets).await?;
            Ok(LongStepReport { status: end.status, tail: log.into_tail() })
        })
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
