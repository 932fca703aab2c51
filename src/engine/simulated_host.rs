//! A simulated host for tests: a folder. Scripts run in it with a real shell; files below `.sim` inject faults.
//!
//! Inventories select it with `connect: { command: [forge-sim, FOLDER] }`. A recipe's own commands may inject faults:
//! `refuse`: no session opens; `deaf`: no probe is answered; `held`: another run holds the lock; `lost`: the connection
//! is lost during the acting script that created the file; `busy`: a step of an earlier run still works there; `full`:
//! records cannot be written; `plain`: forge runs as a user of that name; `dies` contains a number, and forge is killed
//! before the acting script of that number: nothing runs afterwards, and `dead` marks that. Otherwise forge runs as root,
//! whoever runs the test. `machine-id` and `hostname` identify the host; `paths` lists machine paths that are redirected
//! below the host's folder; programs in `bin` come first.

use super::host_session::{HostLockAttempt, HostScriptOutput, HostSession, LongStepReport};
use super::observation_settings::ObservationSettings;
use super::read_only_session::{ReadOnlySession, SessionClosing, SessionFuture};
use super::remote_session::{TransportConnector, find_declared_connection};
use super::run_options::{SessionConnector, SessionRequest};
use super::window::{BOOT_ID_PATH, REBOOT_COMMAND};
use crate::config::TransportKind;
use crate::model::{SecretStore, UntrustedText};
use crate::probe::{self, CompiledProbes, Observation, Probe, ProbeReading, RecordsState};
use crate::script::{ScriptLimit, ShellFragment, ShellScript};
use crate::transport::{
    FilePayload, LockOwner, ScriptOutput, TransportError, TransportErrorKind, UnitName, random_token,
};
use camino::Utf8PathBuf;
use secrecy::ExposeSecret;
use std::collections::BTreeSet;
use std::time::Duration;

/// Bytes kept of an acting script's output: fewer than on real hosts.
const KEPT_OUTPUT_BYTES: usize = 64 * 1024;

/// The holder of the lock.
const OTHER_LOCK_OWNER: &str = "run: r2\nby: eve@c2 (pid 7)\nsince: 2026-11-21T09:30:15Z\nwhat: forge apply other.yaml";

/// Opens simulated hosts where the inventory selects them, and real sessions elsewhere.
pub(super) struct SimulatedConnector;

impl SessionConnector for SimulatedConnector {
    fn open_session<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn HostSession>> {
        match SimulatedHost::from_request(request) {
            Some(sim) => Box::pin(async move { Ok(Box::new(sim?) as Box<dyn HostSession>) }),
            None => TransportConnector.open_session(request),
        }
    }

    fn open_read_only<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn ReadOnlySession>> {
        match SimulatedHost::from_request(request) {
            Some(sim) => Box::pin(async move { Ok(Box::new(sim?) as Box<dyn ReadOnlySession>) }),
            None => TransportConnector.open_read_only(request),
        }
    }
}

struct SimulatedHost {
    root: Utf8PathBuf,
    settings: ObservationSettings,
}

impl ReadOnlySession for SimulatedHost {
    fn observe<'s>(&'s self, probes: &'s BTreeSet<Probe>, secrets: &'s SecretStore) -> SessionFuture<'s, Observation> {
        Box::pin(async move {
            let compiled = self.settings.compile_probes(probes)?;
            let _channel = self.take_channel()?;
            self.settings.observe_and_stamp(self.observe_probes(&compiled, secrets)).await
        })
    }

    fn close(self: Box<Self>) -> SessionClosing {
        Box::pin(async {})
    }
}

impl HostSession for SimulatedHost {
    fn take_lock<'s>(&'s mut self, _: &'s LockOwner) -> SessionFuture<'s, HostLockAttempt> {
        let held = self.has_fault("held");
        let attempt = if held { HostLockAttempt::Held(OTHER_LOCK_OWNER.into()) } else { HostLockAttempt::Ours };
        Box::pin(async move { Ok(attempt) })
    }

    fn run_script<'s>(
        &'s self,
        body: ShellFragment,
        limit: Duration,
        secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        self.run_acting_script(body, limit.into(), secrets)
    }

    fn run_acting_script<'s>(
        &'s self,
        body: ShellFragment,
        limit: ScriptLimit,
        secrets: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async move {
            let token = random_token()?;
            let script = ShellScript { body, token: token.clone(), limit: limit.time };
            Ok(HostScriptOutput { finished: self.act(&script, secrets).await?, token })
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
            let token = random_token()?;
            let script = ShellScript { body, token: token.clone(), limit };
            Ok(HostScriptOutput { finished: self.act_on_file(&script, payload, secrets).await?, token })
        })
    }

    fn run_long_step<'s>(
        &'s mut self,
        _: &'s UnitName,
        body: ShellFragment,
        limit: Duration,
        secrets: &'s SecretStore,
        say: &'s mut (dyn FnMut(&str) + Send),
    ) -> SessionFuture<'s, LongStepReport> {
        Box::pin(async move {
            let finished = self.act(&ShellScript { body, token: random_token()?, limit }, secrets).await?;
            let text = String::from_utf8_lossy(&finished.stdout).into_owned();
            text.lines().for_each(say);
            Ok(LongStepReport { status: finished.status, tail: text.into() })
        })
    }

    /// Simulated hosts are back at once.
    fn reconnect_interval(&self) -> Duration {
        Duration::from_millis(20)
    }
}

impl SimulatedHost {
    /// Returns the session on a simulated host, if the connection selects one.
    fn from_request(request: SessionRequest<'_>) -> Option<Result<Self, TransportError>> {
        let connect = find_declared_connection(request.project, request.host);
        let TransportKind::Command(argv) = &connect.transport else { return None };
        let [program, root] = argv.as_slice() else { return None };
        (program == "forge-sim").then(|| {
            let sim = Self { root: root.into(), settings: ObservationSettings::from_options(request.options) };
            if sim.has_fault("refuse") { Err(simulated_error(TransportErrorKind::Refused)) } else { Ok(sim) }
        })
    }

    /// Takes the only channel of a host with that fault; other hosts have as many as needed.
    fn take_channel(&self) -> Result<Option<TakenChannel>, TransportError> {
        let path = self.root.join(".sim/channel-in-use");
        match self.has_fault("one-channel") {
            true if std::fs::File::create_new(&path).is_ok() => Ok(Some(TakenChannel(path))),
            true => Err(simulated_error(TransportErrorKind::Channel)),
            false => Ok(None),
        }
    }

    fn has_fault(&self, fault: &str) -> bool {
        self.root.join(".sim").join(fault).exists()
    }

    async fn observe_probes(
        &self,
        asked: &CompiledProbes,
        secrets: &SecretStore,
    ) -> Result<Observation, TransportError> {
        if self.has_fault("deaf") {
            return Err(simulated_error(TransportErrorKind::LinkLost));
        }
        let first = self.run_script(&asked.script, secrets).await;
        let device = match &asked.device {
            Some(script) => Some(self.run_script(script, secrets).await.stdout),
            None => None,
        };
        let mut seen = probe::parse_output(asked, &first.stdout, device.as_deref())
            .map_err(|_| simulated_error(TransportErrorKind::Garbled))?;
        if self.has_fault("busy")
            && let Ok(ProbeReading::Records(state)) = seen.get(&Probe::Records)
        {
            let running = vec![("forge-r1-1".to_owned(), UntrustedText::default())];
            let state = Box::new(RecordsState { running, ..(**state).clone() });
            seen.insert(Probe::Records, Ok(ProbeReading::Records(state)));
        }
        Ok(seen)
    }

    async fn act(&self, script: &ShellScript, secrets: &SecretStore) -> Result<ScriptOutput, TransportError> {
        if self.is_killed_now() {
            std::future::pending::<()>().await;
        }
        let mut done = self.run_script(script, secrets).await;
        let excess = done.stdout.len().saturating_sub(KEPT_OUTPUT_BYTES);
        done.stdout.drain(..excess);
        done.dropped = excess as u64;
        let lost = self.root.join(".sim/lost");
        match std::fs::remove_file(lost) {
            Ok(()) => Err(simulated_error(TransportErrorKind::LinkLost)),
            Err(_) => Ok(done),
        }
    }

    /// Returns whether forge is killed before this acting script.
    fn is_killed_now(&self) -> bool {
        let (dies, dead) = (self.root.join(".sim/dies"), self.root.join(".sim/dead"));
        let Ok(text) = std::fs::read_to_string(&dies) else { return false };
        let left: u32 = text.trim().parse().unwrap();
        match left {
            0 => std::fs::write(dead, "").unwrap(),
            _ => std::fs::write(dies, (left - 1).to_string()).unwrap(),
        }
        left == 0
    }

    /// Stores the file that follows the script and opens it as the script's descriptor 7.
    async fn act_on_file(
        &self,
        script: &ShellScript,
        payload: FilePayload,
        secrets: &SecretStore,
    ) -> Result<ScriptOutput, TransportError> {
        let behind = self.root.join(".sim/behind");
        std::fs::create_dir_all(self.root.join(".sim")).unwrap();
        std::fs::write(&behind, payload.read_rest().await).unwrap();
        let open =
            ShellFragment::new().code("exec 7<").word(behind.as_str()).code("\n").append_fragment(script.body.clone());
        self.act(&ShellScript { body: open, ..script.clone() }, secrets).await
    }

    async fn run_script(&self, script: &ShellScript, secrets: &SecretStore) -> ScriptOutput {
        let state = self.root.join(if self.has_fault("full") { "full" } else { "state" });
        let text = script.render_text(secrets).unwrap().expose_secret().replace("/var/lib/forge", state.as_str());
        // Paths kept until the next boot belong to the simulated host too, except in the text of records.
        let run = |text: String, name: &str| {
            let quoted = format!("\"{name}");
            text.replace(&quoted, "\0").replace(name, &format!("{}{name}", self.root)).replace('\0', &quoted)
        };
        let text = run(run(text, "/run/forge/"), "/run/forge-applied");
        let root = if self.has_fault("plain") { "false" } else { "true" };
        let text = text.replace("[ \"${me:=$(id -u)}\" = 0 ]", root).replace("$(id -un 2>/dev/null)", "plain");
        // Simulated hosts share one machine: their identities differ only where a test sets them.
        let own = |file: &str| self.root.join(".sim").join(file).into_string();
        let text =
            text.replace("/etc/machine-id", &own("machine-id")).replace("/proc/sys/kernel/hostname", &own("hostname"));
        // These commands must not reach the machine that runs the test.
        let text = text.replace(REBOOT_COMMAND, &format!("sh {}", own("reboot")));
        let text = if self.has_fault("boot-id") { text.replace(BOOT_ID_PATH, &own("boot-id")) } else { text };
        // Devices are plain files.
        let text = text.replace("/dev/nvidia", self.root.join("dev/nvidia").as_str()).replace("-xtype c", "-xtype f");
        let stand_in = |text: String, tool: &str| match self.has_fault(tool) {
            true => text.replace(&format!("{tool} "), &format!("{} ", own(tool))),
            false => text,
        };
        let text = stand_in(stand_in(text, "systemctl"), "grubby");
        let text = text.replace("ls -1 /boot ", &format!("ls -1 {} ", own("boot")));
        let text = self.relocate_paths(replace_path(&text, "/boot/init", &own("boot/init")));
        let text = if self.has_fault("cmdline") { self.relocate_boot_files(text) } else { text };
        for word in ["systemctl reboot", "shutdown ", "reboot -", "/sysrq", "kexec"] {
            assert!(!text.contains(word), "this machine would reboot: `{word}` in a script of a simulated host");
        }
        let mut shell = tokio::process::Command::new("sh");
        let output = shell.arg("-c").arg(text).stdin(std::process::Stdio::null()).output().await.unwrap();
        ScriptOutput {
            status: output.status.code().unwrap_or(255),
            stdout: output.stdout,
            stderr: output.stderr,
            dropped: 0,
        }
    }

    /// Redirects paths and programs of the simulated host.
    fn relocate_paths(&self, text: String) -> String {
        let paths = std::fs::read_to_string(self.root.join(".sim/paths")).unwrap_or_default();
        let text = paths.lines().fold(text, |text, path| replace_path(&text, path, &format!("{}{path}", self.root)));
        if !self.has_fault("bin") {
            return text;
        }
        let bin = self.root.join(".sim/bin");
        let text = text.replace(" PATH=/usr/local/sbin:", &format!(" PATH={bin}:/usr/local/sbin:"));
        assert!(text.contains(bin.as_str()), "the path of programs is set in another way than this knows");
        text
    }

    /// Redirects boot files: `cmdline` is the kernel's command line, and the program `grubby` prints the next kernel's.
    fn relocate_boot_files(&self, text: String) -> String {
        let own = [
            ("/proc/cmdline", "cmdline"),
            ("/boot/grub/grub.cfg", "no-grub"),
            ("/run/systemd/container", "container"),
            ("/.dockerenv", "container"),
        ];
        let at = |name: &str| self.root.join(".sim").join(name).into_string();
        own.iter().fold(text, |text, (path, name)| text.replace(path, &at(name)))
    }
}

/// The only channel of a host while it is in use.
struct TakenChannel(Utf8PathBuf);

impl Drop for TakenChannel {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

/// Replaces one path by another, but not inside of itself.
fn replace_path(text: &str, from: &str, to: &str) -> String {
    text.replace(to, "\0").replace(from, to).replace('\0', to)
}

fn simulated_error(kind: TransportErrorKind) -> TransportError {
    TransportError {
        kind,
        message: "simulated".to_owned(),
        hint: None,
        said: None,
        address: None,
        retryable: false,
        sent_anything: true,
    }
}
