//! A started command on a host: three pipes and the handle that keeps them open.

use super::{ProgramEnvironment, TransportError, TransportErrorKind};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;

/// A running command. Dropping it closes its pipes, and for ssh the channel. This does not kill the processes on the
/// host; they only find their pipes closed.
pub(super) struct CommandChannel {
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Input that the shell must read before it starts the wrapper, if the command could not be passed as an argument.
    pub preface: Option<String>,
    owner: ChannelProcess,
    /// Permit for one of the session's few channels, released on drop.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

enum ChannelProcess {
    Ssh(#[allow(dead_code, reason = "keeps the channel open")] openssh::Child<Arc<openssh::Session>>),
    Process(tokio::process::Child),
}

impl CommandChannel {
    /// Starts `command` on the master connection.
    pub(super) async fn open_ssh(master: Arc<openssh::Session>, command: &str) -> Result<Self, openssh::Error> {
        let mut child = master
            .arc_raw_command(command)
            .stdin(openssh::Stdio::piped())
            .stdout(openssh::Stdio::piped())
            .stderr(openssh::Stdio::piped())
            .spawn()
            .await?;
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(openssh::Error::Disconnected);
        };
        Ok(Self {
            stdin: Some(Box::new(stdin)),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            preface: None,
            owner: ChannelProcess::Ssh(child),
            permit: None,
        })
    }

    /// Starts `command` with this machine's `sh` and a minimal environment: forge's own may contain secrets of the
    /// controller.
    pub(super) fn open_local(command: &str) -> Result<Self, TransportError> {
        let mut start = tokio::process::Command::new("/bin/sh");
        start.arg("-c").arg(command).env_clear();
        start.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        for name in ["HOME", "USER", "LOGNAME"] {
            #[expect(clippy::disallowed_methods, reason = "a login sets them; forge does not depend on them")]
            if let Some(value) = std::env::var_os(name) {
                start.env(name, value);
            }
        }
        Self::spawn_process(start, "/bin/sh", None)
    }

    /// Starts a program that runs a shell on its stdin; `command` is the first line it reads.
    pub(super) fn open_program(
        argv: &[String],
        command: &str,
        surroundings: &ProgramEnvironment,
    ) -> Result<Self, TransportError> {
        let [name, arguments @ ..] = argv else {
            return Err(TransportError::new(
                TransportErrorKind::Controller,
                "the command transport does not name a program",
            ));
        };
        let mut start = tokio::process::Command::new(name);
        start.args(arguments);
        surroundings.remove_secrets(&mut start);
        Self::spawn_process(start, name, Some(format!("{command}\n")))
    }

    pub(super) fn spawn_process(
        mut start: tokio::process::Command,
        name: &str,
        preface: Option<String>,
    ) -> Result<Self, TransportError> {
        // Its own process group: Ctrl-C in forge's terminal must not stop a step halfway.
        let spawned =
            start.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let failed = |error: std::io::Error| {
            TransportError::new(TransportErrorKind::Controller, format!("cannot run `{name}`: {error}"))
        };
        let mut child = spawned.map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self {
            stdin: Some(Box::new(stdin)),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            preface,
            owner: ChannelProcess::Process(child),
            permit: None,
        })
    }

    /// Kills the process group of a process on this machine; remote processes cannot be killed from here.
    pub(super) fn kill_process_group(&mut self) {
        let ChannelProcess::Process(child) = &self.owner else { return };
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // The process may be gone already; then nothing is left to kill.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::TERM);
        }
    }

    /// Waits until the process on this machine has exited, so that it leaves no zombie; does nothing for ssh.
    pub(super) async fn wait_for_exit(&mut self) {
        if let ChannelProcess::Process(child) = &mut self.owner {
            let _ = tokio::time::timeout(std::time::Duration::from_millis(500), child.wait()).await;
        }
    }
}
