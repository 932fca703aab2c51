//! The ssh carrier: one master process per host; channels go through its control socket.

use super::backoff::retry_backoff;
use super::carrier::{CarrierFuture, HostCarrier, describe_missing_login_shell};
use super::channel::CommandChannel;
use super::error::link_lost_error;
use super::ssh_arguments::{self, MasterFiles};
use super::ssh_diagnosis::{SshFailureLogs, connect_timeout_error, diagnose_failure, find_unknown_key_name};
use super::ssh_program::ssh_command;
use super::ssh_user_config::{find_known_hosts_file, find_timeouts};
use super::{ConnectionTarget, TransportError, TransportErrorKind, control_sockets, mux_exit};
use crate::model::HostName;
use backon::Retryable;
use camino::Utf8Path;
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Mutex;

type SshMaster = Arc<openssh::Session>;

/// Idle timeout in seconds of a master without channels, for a run that was killed.
const IDLE_S: u64 = 60;
/// Timeout of a request to the master on its own socket.
const SOCKET_LIMIT: Duration = Duration::from_secs(10);
/// Maximum retries after the host dropped a connection before the login.
const DROP_RETRIES: usize = 3;
/// Maximum bytes read from a log.
const LOG_CAP: u64 = 64 * 1024;

/// A connection that is re-established when it is lost.
pub(super) struct SshConnection {
    master: Mutex<Option<SshMaster>>,
    /// Number of connections made so far.
    generation: AtomicU64,
}

impl SshConnection {
    /// Logs in, or reuses a persistent connection.
    pub(super) async fn connect(host: &HostName, target: &ConnectionTarget) -> Result<Self, TransportError> {
        control_sockets::prepare_control_dir(&target.socket_folder())?;
        control_sockets::clean_leftovers_once(&target.socket_folder());
        let link = Self { master: Mutex::new(None), generation: AtomicU64::new(0) };
        link.ensure_master(host, target).await?;
        Ok(link)
    }

    /// Returns the connection; connects if there is none.
    async fn ensure_master(&self, host: &HostName, target: &ConnectionTarget) -> Result<SshMaster, TransportError> {
        let mut slot = self.master.lock().await;
        if let Some(master) = slot.as_ref() {
            return Ok(master.clone());
        }
        let started = std::time::Instant::now();
        let once = || connect_master(target);
        let dropped = |error: &TransportError| error.kind == TransportErrorKind::Dropped;
        let master = once.retry(retry_backoff(DROP_RETRIES)).when(dropped).await?;
        tracing::debug!(%host, ms = started.elapsed().as_millis(), "connected");
        self.generation.fetch_add(1, Ordering::Relaxed);
        *slot = Some(master.clone());
        Ok(master)
    }

    /// Drops a lost connection, unless another task has replaced it in the meantime.
    async fn forget_master(&self, gone: &SshMaster) {
        let mut slot = self.master.lock().await;
        if slot.as_ref().is_some_and(|master| Arc::ptr_eq(master, gone)) {
            *slot = None;
        }
    }

    /// Starts a command. Reconnects once if the connection is lost: nothing was sent on it yet.
    async fn start_command(
        &self,
        host: &HostName,
        target: &ConnectionTarget,
        command: &str,
    ) -> Result<CommandChannel, TransportError> {
        for _ in 0..2 {
            let master = self.ensure_master(host, target).await?;
            match tokio::time::timeout(
                target.connect_timeout() + SOCKET_LIMIT,
                CommandChannel::open_ssh(master.clone(), command),
            )
            .await
            {
                Ok(Ok(channel)) => return Ok(channel),
                Ok(Err(openssh::Error::Disconnected)) => self.forget_master(&master).await,
                Ok(Err(error)) if is_master_alive(&master).await => return Err(no_channel_error(&error)),
                Ok(Err(_)) => self.forget_master(&master).await,
                Err(_) => return Err(link_lost_error()),
            }
        }
        Err(link_lost_error())
    }

    /// Forwards connections to `here` on this machine through the host to `to`.
    async fn request_forward(
        &self,
        host: &HostName,
        target: &ConnectionTarget,
        here: SocketAddr,
        to: (&str, u16),
    ) -> Result<(), TransportError> {
        let master = self.ensure_master(host, target).await?;
        let there = openssh::Socket::TcpSocket { host: to.0.into(), port: to.1 };
        let asked = master.request_port_forward(openssh::ForwardType::Local, here, there);
        match tokio::time::timeout(SOCKET_LIMIT, asked).await {
            Ok(answer) => answer.map_err(|error| no_forward_error(&error)),
            Err(_) => Err(link_lost_error()),
        }
    }

    /// Reports whether the connection is alive.
    async fn is_alive(&self) -> bool {
        let master = self.master.lock().await.clone();
        match master {
            Some(master) => is_master_alive(&master).await,
            None => false,
        }
    }

    /// Reconnects if the connection is lost.
    async fn renew_master(&self, host: &HostName, target: &ConnectionTarget) -> Result<(), TransportError> {
        let master = self.ensure_master(host, target).await?;
        if !is_master_alive(&master).await {
            self.forget_master(&master).await;
            self.ensure_master(host, target).await?;
        }
        Ok(())
    }

    /// Closes the connection and everything that hangs on its channels, unless it is to be kept.
    async fn end_master(&self, target: &ConnectionTarget) {
        let Some(master) = self.master.lock().await.take() else { return };
        if target.keep.is_zero() {
            let asked = mux_exit::request_exit(master.control_socket());
            if !matches!(tokio::time::timeout(SOCKET_LIMIT, asked).await, Ok(Ok(()))) {
                tracing::debug!("the connection's master did not confirm that it exits");
            }
        }
    }
}

impl HostCarrier for SshConnection {
    fn open_channel<'c>(
        &'c self,
        host: &'c HostName,
        target: &'c ConnectionTarget,
        command: &'c str,
    ) -> CarrierFuture<'c, Result<CommandChannel, TransportError>> {
        Box::pin(self.start_command(host, target, command))
    }

    fn describe_missing_shell(&self, target: &ConnectionTarget) -> (String, &'static str) {
        describe_missing_login_shell(target)
    }

    fn is_lost(&self) -> CarrierFuture<'_, bool> {
        Box::pin(async move { !self.is_alive().await })
    }

    fn reconnect<'c>(
        &'c self,
        host: &'c HostName,
        target: &'c ConnectionTarget,
    ) -> CarrierFuture<'c, Result<(), TransportError>> {
        Box::pin(self.renew_master(host, target))
    }

    fn forward_port<'c>(
        &'c self,
        host: &'c HostName,
        target: &'c ConnectionTarget,
        to: (&'c str, u16),
    ) -> CarrierFuture<'c, Result<Option<SocketAddr>, TransportError>> {
        Box::pin(async move {
            let here = find_free_port()?;
            self.request_forward(host, target, here, to).await?;
            Ok(Some(here))
        })
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    fn close<'c>(&'c self, target: &'c ConnectionTarget) -> CarrierFuture<'c, ()> {
        Box::pin(self.end_master(target))
    }
}

/// Returns a free port of this machine's loopback address.
fn find_free_port() -> Result<SocketAddr, TransportError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map_err(|error| {
        TransportError::new(TransportErrorKind::Controller, format!("no free port on this machine: {error}"))
    })
}

async fn is_master_alive(master: &SshMaster) -> bool {
    tokio::time::timeout(SOCKET_LIMIT, master.check()).await.is_ok_and(|checked| checked.is_ok())
}

fn no_channel_error(error: &openssh::Error) -> TransportError {
    TransportError::new(TransportErrorKind::Channel, "the host refused to open another channel on the connection")
        .hint("set `MaxSessions` in the host's sshd_config to 5 or more")
        .with_output(format_error_chain(error).as_bytes())
}

fn no_forward_error(error: &openssh::Error) -> TransportError {
    TransportError::new(TransportErrorKind::Channel, "ssh could not forward a port of this machine")
        .with_output(format_error_chain(error).as_bytes())
}

fn format_error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", format_error_chain(source)),
        None => error.to_string(),
    }
}

/// Reuses a persistent connection, or makes one.
async fn connect_master(target: &ConnectionTarget) -> Result<SshMaster, TransportError> {
    if target.keep.is_zero() {
        let folder = launch_master(target, IDLE_S).await?;
        return Ok(Arc::new(openssh::Session::new_native_mux(folder)));
    }
    let kept = control_sockets::kept_socket_path(target);
    let resumed = resume_master(&kept);
    if is_master_alive(&resumed).await {
        return Ok(resumed);
    }
    let folder = launch_master(target, target.keep.as_secs().max(1)).await?;
    // A socket works under a new name too; the folder is removed with the log.
    fs_err::rename(folder.path().join("master"), &kept).map_err(|error| {
        TransportError::new(TransportErrorKind::Controller, format!("cannot keep the connection as `{kept}`: {error}"))
    })?;
    Ok(resume_master(&kept))
}

fn resume_master(socket: &Utf8Path) -> SshMaster {
    Arc::new(openssh::Session::resume_mux(socket.as_std_path().into(), None))
}

/// Starts a master. When this returns, the master has logged in and runs in the background.
async fn launch_master(target: &ConnectionTarget, idle_s: u64) -> Result<TempDir, TransportError> {
    let folder = control_sockets::create_connection_dir(&target.socket_folder())?;
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let files = MasterFiles { socket: at("master"), log: at("log"), stderr: at("stderr"), jump_log: at("jump") };
    let timeouts = find_timeouts(target).await;
    let mut ssh = ssh_command("ssh", target);
    // Its own process group: Ctrl-C in forge's terminal must not cut connections.
    ssh.args(ssh_arguments::master_arguments(target, &files, &timeouts, idle_s)).process_group(0).kill_on_drop(true);
    let stderr = File::options()
        .append(true)
        .create(true)
        .open(&files.stderr)
        .map_err(|error| unwritable_log_error(&files.stderr, &error))?;
    ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let limit = timeouts.longest_timeout();
    let status = match tokio::time::timeout(limit + Duration::from_secs(1), ssh.status()).await {
        Ok(status) => status.map_err(|error| no_ssh_error(&error))?,
        Err(_) => {
            let said = [read_log(&files.log), read_log(&files.jump_log)].concat();
            return Err(connect_timeout_error(&with_timeout(target, limit)).with_output(said.as_bytes()));
        }
    };
    match status.success() {
        true => Ok(folder),
        false => Err(login_error(status, &files, &with_timeout(target, timeouts.host)).await),
    }
}

/// Returns `target` with the effective timeout, for errors that name it.
fn with_timeout(target: &ConnectionTarget, timeout: Duration) -> ConnectionTarget {
    ConnectionTarget { timeout, ..target.clone() }
}

/// Returns the version that this machine's `ssh` reports: `OpenSSH_9.2p1 Debian-2+deb12u7, OpenSSL 3.0.17 1 Jul 2025`.
///
/// # Errors
/// `ssh` is not installed or does not answer.
pub async fn ssh_version() -> Result<String, TransportError> {
    let mut ssh = ssh_command("ssh", &ConnectionTarget::default());
    ssh.arg("-V").stdin(Stdio::null()).kill_on_drop(true);
    let answer = tokio::time::timeout(SOCKET_LIMIT, ssh.output()).await;
    let silent = |_| TransportError::new(TransportErrorKind::Controller, "`ssh -V` did not answer");
    let output = answer.map_err(silent)?.map_err(|error| no_ssh_error(&error))?;
    let said = [output.stderr, output.stdout].concat();
    Ok(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned())
}

fn unwritable_log_error(path: &str, error: &std::io::Error) -> TransportError {
    TransportError::new(TransportErrorKind::Controller, format!("cannot write `{path}`: {error}"))
}

fn no_ssh_error(error: &std::io::Error) -> TransportError {
    TransportError::new(TransportErrorKind::Controller, format!("cannot run `ssh`: {error}"))
        .hint("install the OpenSSH client")
}

async fn login_error(status: ExitStatus, files: &MasterFiles, target: &ConnectionTarget) -> TransportError {
    let [log, stderr, jumps] = [&files.log, &files.stderr, &files.jump_log].map(|file| read_log(file));
    let known_hosts = match find_unknown_key_name(&log, &jumps) {
        Some(name) if target.known_hosts.is_none() => find_known_hosts_file(target, name).await,
        _ => None,
    };
    let logs = SshFailureLogs { log: &log, stderr: &stderr, jumps: &jumps, known_hosts: known_hosts.as_deref() };
    let error = diagnose_failure(&logs, target);
    match error.kind {
        TransportErrorKind::Auth => find_key_problem(target).await.unwrap_or(error),
        TransportErrorKind::Connect if status.signal().is_some() => {
            TransportError::new(TransportErrorKind::Connect, "`ssh` was killed before it connected")
        }
        _ => error,
    }
}

/// Reads the start of a log; empty if there is no log.
fn read_log(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = fs_err::File::open(path) {
        let _ = file.take(LOG_CAP).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Finds a local reason for a refused login: a key that is missing, unreadable or encrypted.
async fn find_key_problem(target: &ConnectionTarget) -> Option<TransportError> {
    let identity = target.identity.as_ref()?;
    if let Err(error) = std::fs::OpenOptions::new().read(true).open(identity) {
        let words = format!("the key `{identity}` cannot be read: {error}");
        return Some(TransportError::new(TransportErrorKind::Auth, words).hint("check `connect.identity`"));
    }
    let mut test = ssh_command("ssh-keygen", target);
    test.args(["-y", "-P", "", "-f", identity.as_str()]).stdin(Stdio::null());
    let said = tokio::time::timeout(SOCKET_LIMIT, test.output()).await.ok()?.ok()?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let new = |kind, words| Some(TransportError::new(kind, words));
    if said.contains("incorrect passphrase") {
        new(TransportErrorKind::KeyLocked, format!("the key `{identity}` is protected by a passphrase"))
            .map(|error| error.hint(format!("add it to the ssh agent with `ssh-add {identity}`")))
    } else if said.contains("UNPROTECTED PRIVATE KEY FILE") {
        new(TransportErrorKind::Auth, format!("ssh ignores the key `{identity}`: other users can read it"))
            .map(|error| error.hint(format!("run `chmod 600 {identity}`")))
    } else {
        None
    }
}
