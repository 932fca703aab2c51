//! The sandbox: hosts that are copy-on-write views of this machine, each in its own namespaces.
//!
//! A small process keeps a sandbox alive between commands; the sandbox's folder on this machine records it. Data
//! written inside is in memory and is lost when that process ends. A sandbox is for experiments; it is not a security
//! boundary.

mod hardware;
mod host_view;
mod sandbox_file;
mod sandbox_files;

pub(super) use host_view::render_view_start;
pub use host_view::{HostView, VIEW_GUARD_MESSAGE, build_view_report};

use super::carrier::{CarrierFuture, HostCarrier};
use super::channel::CommandChannel;
use super::process_mark::read_start_time;
use super::{ConnectionTarget, TransportError, TransportErrorKind};
use crate::model::{HardwareBoard, HostName};
use camino::{Utf8Path, Utf8PathBuf};
use std::time::Duration;

const START: &str = include_str!("start.sh");
const BUILD_SCRIPT: &str = include_str!("build.sh");

/// Capabilities that root in a sandbox does not have: all of them would affect the real machine's kernel, clock or
/// devices.
const DROPPED_CAPABILITIES: &str = "-sys_module,-sys_rawio,-sys_time,-sys_boot,-mknod,-syslog,-mac_admin,-mac_override,-audit_control,\
                        -wake_alarm,-block_suspend";
/// Timeout of creating a sandbox.
const SANDBOX_START_LIMIT: Duration = Duration::from_secs(180);
/// Checks the sandbox's id, its first argument, and then runs the command that follows. Outside the sandbox, the
/// command would change this machine.
const GUARD: &str = r#"id=; read -r id 2>/dev/null </usr/local/lib/forge-sandbox/id; [ -n "$id" ] && [ "$id" = "$1" ] || {
  echo 'cannot enter the sandbox: its id does not match; run `forge sandbox reset`' >&2; exit 1; }
shift; exec "$@""#;
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The process that keeps a sandbox, and how its namespaces were created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SandboxProcess {
    /// PID as seen from this machine.
    pid: String,
    /// In a user namespace with one user, because forge does not run as root.
    alone: bool,
    /// Identifies the sandbox; a file in the sandbox has the same id.
    id: String,
}

impl SandboxProcess {
    /// Finds the holder of the sandbox in `dir`, or creates the sandbox.
    ///
    /// # Errors
    /// This machine lacks a program or does not allow namespaces, or the sandbox runs with another board; the hint says
    /// what to do.
    pub(super) async fn find_or_start(
        dir: &Utf8Path,
        host: &HostName,
        board: Option<HardwareBoard>,
    ) -> Result<Self, TransportError> {
        let mut start = clean_command("/bin/sh");
        start.args(["-c", START, "forge-sandbox", dir.as_str(), host.as_str(), BUILD_SCRIPT, DROPPED_CAPABILITIES]);
        start.args([board.map_or("", |board| board.name), &sandbox_files::render_write_script(board)]);
        let output = tokio::time::timeout(SANDBOX_START_LIMIT, start.output()).await;
        let output = output.map_err(|_| sandbox_error("timed out after three minutes"))?;
        let output = output.map_err(|error| sandbox_error(&format!("cannot run `/bin/sh`: {error}")))?;
        let said = String::from_utf8_lossy(&output.stderr);
        Self::parse(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| sandbox_error(&said))
    }

    /// Parses `ready PID yes ID`.
    fn parse(said: &str) -> Option<Self> {
        let words: Vec<&str> = said.split_whitespace().collect();
        match words[..] {
            ["ready", pid, alone @ ("yes" | "no"), id] if pid.bytes().all(|b| b.is_ascii_digit()) => {
                Some(Self { pid: pid.to_owned(), alone: alone == "yes", id: id.to_owned() })
            }
            _ => None,
        }
    }

    /// Returns a command that runs the appended arguments in the sandbox, as its root, or fails.
    ///
    /// `--root` is required in a chroot: entering the mount namespace alone sets the root to that of the machine around it.
    fn command_inside(&self) -> tokio::process::Command {
        let mut start = clean_command("nsenter");
        start.args(["--target", &self.pid, "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd"]);
        match self.alone {
            true => start.args(["--user", "--preserve-credentials", "--"]),
            false => start.args(["--", "setpriv", "--bounding-set", DROPPED_CAPABILITIES, "--"]),
        };
        start.args(["env", "-i", PATH, "HOME=/root", "USER=root", "LOGNAME=root"]);
        start.args(["sh", "-c", GUARD, "sh", &self.id]);
        start
    }
}

impl HostCarrier for SandboxProcess {
    /// Starts `command` with the sandbox's `sh`.
    fn open_channel<'c>(
        &'c self,
        _: &'c HostName,
        _: &'c ConnectionTarget,
        command: &'c str,
    ) -> CarrierFuture<'c, Result<CommandChannel, TransportError>> {
        let mut start = self.command_inside();
        start.args(["sh", "-c", command]);
        Box::pin(async move { CommandChannel::spawn_process(start, "nsenter", None) })
    }

    fn describe_missing_shell(&self, _: &ConnectionTarget) -> (String, &'static str) {
        ("cannot enter the sandbox".to_owned(), "run `forge sandbox reset`; the next run creates it again")
    }
}

/// Runs a program with its arguments in the sandbox of `host`, on the terminal of this process, and returns its exit
/// status, or 128 plus the signal that ended it. Creates the sandbox if it does not exist.
///
/// # Errors
/// The sandbox cannot be created or entered.
pub async fn enter_sandbox(
    root: &Utf8Path,
    host: &HostName,
    board: Option<HardwareBoard>,
    argv: &[String],
) -> Result<i32, TransportError> {
    use std::os::unix::process::ExitStatusExt;
    let holder = SandboxProcess::find_or_start(&sandbox_folder(root, host), host, board).await?;
    let mut start = holder.command_inside();
    start.args(argv).stdin(std::process::Stdio::inherit());
    let status = start.status().await.map_err(|error| sandbox_error(&format!("cannot run `nsenter`: {error}")))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn clean_command(program: &str) -> tokio::process::Command {
    let mut start = tokio::process::Command::new(program);
    // Clears forge's own environment: it may contain secrets of the controller.
    start.env_clear().env("PATH", &PATH["PATH=".len()..]).env("LC_ALL", "C").stdin(std::process::Stdio::null());
    start
}

/// Builds the error from a script's output: the reason, then a line with `hint:`.
fn sandbox_error(said: &str) -> TransportError {
    let (why, hint) = said.split_once("\nhint: ").unwrap_or((said, ""));
    let error = TransportError::new(TransportErrorKind::Controller, format!("cannot make the sandbox: {}", why.trim()));
    match hint.lines().next() {
        Some(hint) if !hint.is_empty() => error.hint(hint),
        _ => error,
    }
}

/// A sandbox that has a folder on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The name of the host in the inventory.
    pub host: String,
    /// The process that keeps it; `None` if the process is gone, and with it the sandbox's content.
    pub pid: Option<u32>,
}

/// Returns the sandboxes below `root`, sorted by name. Does not start any.
///
/// # Errors
/// The folder exists but cannot be read.
pub fn list_sandboxes(root: &Utf8Path) -> std::io::Result<Vec<Sandbox>> {
    let entries = match fs_err::read_dir(root) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let Ok(host) = entry?.file_name().into_string() else { continue };
        let pid = find_running_pid(&root.join(&host))?;
        all.push(Sandbox { host, pid });
    }
    all.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(all)
}

/// Ends the sandbox of `host` with all its processes and removes it. Returns whether it existed.
///
/// # Errors
/// Its process cannot be ended, or its folder cannot be removed.
pub fn reset_sandbox(root: &Utf8Path, host: &str) -> std::io::Result<bool> {
    let dir = root.join(host);
    if !dir.is_dir() {
        return Ok(false);
    }
    let pid = find_running_pid(&dir)?.and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    if let Some(pid) = pid {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(|error| {
            let why = std::io::Error::from(error);
            std::io::Error::new(why.kind(), format!("cannot end process {pid}, which keeps sandbox `{host}`: {why}"))
        })?;
    }
    fs_err::remove_dir_all(&dir)?;
    Ok(true)
}

/// Returns the folder of the sandbox of `host` below `root`.
pub fn sandbox_folder(root: &Utf8Path, host: &HostName) -> Utf8PathBuf {
    root.join(host.as_str())
}

/// Returns the holder's PID if the process recorded in the folder is still the same one.
fn find_running_pid(dir: &Utf8Path) -> std::io::Result<Option<u32>> {
    let noted = match fs_err::read_to_string(dir.join("holder")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        noted => noted?,
    };
    let mut words = noted.split_whitespace();
    let (Some(pid), Some(since)) = (words.next().and_then(|pid| pid.parse().ok()), words.next()) else {
        return Ok(None);
    };
    Ok(read_start_time(pid).is_some_and(|start| start == since).then_some(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_sandbox_reply_is_rejected() {
        let holder = |alone| Some(SandboxProcess { pid: "41".into(), alone, id: "5f".into() });
        assert_eq!(SandboxProcess::parse("ready 41 yes 5f\n"), holder(true));
        assert_eq!(SandboxProcess::parse("ready 41 no 5f\n"), holder(false));
        for text in ["", "ready 41", "ready 41 no", "ready -1 no 5f", "ready 41 maybe 5f", "noise ready 41 no 5f"] {
            assert_eq!(SandboxProcess::parse(text), None, "{text}");
        }
    }

    /// A command does not run if the sandbox was not entered.
    #[test]
    fn command_does_not_run_outside_the_sandbox() {
        let folder = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test may start programs")]
        let run = |id: &str| {
            let mut start = std::process::Command::new("sh");
            start.args(["-c", GUARD, "sh", id, "touch"]).arg(folder.path().join("witness"));
            start.output().unwrap()
        };
        const REFUSED: &str = "cannot enter the sandbox: its id does not match; run `forge sandbox reset`\n";
        for id in ["", "5f"] {
            let output = run(id);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), &*said), (Some(1), REFUSED));
            assert!(!folder.path().join("witness").exists());
        }
    }

    #[test]
    fn sandbox_error_is_split_into_message_and_hint() {
        let error = sandbox_error("user namespaces are switched off for users\nhint: run forge with sudo\n");
        assert_eq!(error.message, "cannot make the sandbox: user namespaces are switched off for users");
        assert_eq!(error.hint.as_deref(), Some("run forge with sudo"));
        assert_eq!(sandbox_error("no\n").hint, None);
    }

    /// Runs the start script with some programs replaced by shell code.
    fn run_start_script(programs: &[(&str, &str)], path: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for (name, code) in programs {
            fs_err::write(bin.join(name), format!("#!/bin/sh\n{code}\n")).unwrap();
            std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "a test may start programs")]
        let mut start = std::process::Command::new("/bin/sh");
        start.args(["-c", START, "forge-sandbox"]).arg(folder.path().join("state"));
        start.args(["a", BUILD_SCRIPT, DROPPED_CAPABILITIES]);
        let output = start.env("PATH", format!("{}:{path}", bin.display())).output().unwrap();
        assert!(output.stdout.is_empty() && !output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    #[test]
    fn missing_prerequisites_are_reported_with_a_hint() {
        let path = &PATH["PATH=".len()..];
        let refuse = ("unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1");
        let why = "unshare: unshare failed: Operation not permitted";
        assert_eq!(
            run_start_script(&[refuse, ("id", "echo 0")], path),
            format!(
                "root may not make namespaces here: {why}\nhint: in a container, start it with --privileged; in a chroot, first run `mount --bind DIR DIR` on its directory\n"
            )
        );
        assert_eq!(
            run_start_script(&[refuse, ("id", "echo 1000")], path),
            format!("user namespaces do not work here: {why}\nhint: run forge with sudo\n")
        );
        let off = [refuse, ("id", "echo 1000"), ("cat", "case $1 in */max_user_namespaces) echo 0 ;; esac")];
        assert_eq!(
            run_start_script(&off, path),
            "user namespaces are switched off for users\n\
             hint: sudo sysctl -w user.max_user_namespaces=15000, or run forge with sudo\n"
        );
        assert_eq!(
            run_start_script(&[("flock", ""), ("unshare", "")], "/nonexistent"),
            "this machine has no `nsenter`\nhint: install util-linux, tar, findutils and awk\n"
        );
    }

    #[test]
    fn sandbox_with_a_reused_pid_is_not_running() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap();
        let (own, me) = (root.join("own"), std::process::id());
        std::fs::create_dir(&own).unwrap();
        let note = |since: &str| fs_err::write(own.join("holder"), format!("{me} {since} no\n")).unwrap();
        note(&read_start_time(me).unwrap());
        assert_eq!(list_sandboxes(root).unwrap(), [Sandbox { host: "own".into(), pid: Some(me) }]);
        note("1");
        assert_eq!(list_sandboxes(root).unwrap(), [Sandbox { host: "own".into(), pid: None }]);
        assert!(reset_sandbox(root, "own").unwrap());
        assert!(!reset_sandbox(root, "own").unwrap());
        assert_eq!(list_sandboxes(root).unwrap(), []);
    }
}
