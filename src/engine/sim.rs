//! A simulated host for tests: a folder. Scripts run in it with a real shell; files below `.sim` inject faults.
//!
//! Inventories select it with `connect: { command: [forge-sim, FOLDER] }`. A recipe's own commands may inject faults:
//! `refuse`: no session opens; `deaf`: no probe is answered; `held`: another run holds the lock; `lost`: the connection
//! is lost during the acting script that created the file; `full`: records cannot be written; `plain`: forge runs as a
//! user of that name; `dies` contains a number, and forge is killed before the acting script of that number: nothing
//! runs afterwards, and `dead` marks that. Otherwise forge runs as root, whoever runs the test. `machine-id` and
//! `hostname` identify the host; `paths` lists machine paths that are redirected below the host's folder; programs in
//! `bin` come first.

use super::link::HostLockAttempt;
use super::window::{BOOT_ID, REBOOT};
use crate::config::{ConnectSettings, TransportKind};
use crate::model::SecretStore;
use crate::probe::{self, CompiledProbes, Observation};
use crate::script::{ShellFragment, ShellScript};
use crate::transport::{FilePayload, ScriptOutput, TransportError, TransportErrorKind};
use camino::Utf8PathBuf;
use secrecy::ExposeSecret;

/// Bytes kept of an acting script's output: fewer than on real hosts.
const TAIL: usize = 64 * 1024;

/// The holder of the lock.
const OTHER: &str = "run: r2\nby: eve@c2 (pid 7)\nsince: 2026-11-21T09:30:15Z\nwhat: forge apply other.yaml";

pub(super) struct SimulatedHost {
    root: Utf8PathBuf,
}

impl SimulatedHost {
    /// Returns the session on a simulated host, if the connection selects one.
    pub fn of(connect: &ConnectSettings) -> Option<Result<Self, TransportError>> {
        let TransportKind::Command(argv) = &connect.transport else { return None };
        let [program, root] = argv.as_slice() else { return None };
        (program == "forge-sim").then(|| {
            let sim = Self { root: root.into() };
            if sim.has("refuse") { Err(error(TransportErrorKind::Refused)) } else { Ok(sim) }
        })
    }

    fn has(&self, fault: &str) -> bool {
        self.root.join(".sim").join(fault).exists()
    }

    pub fn lock(&self) -> HostLockAttempt {
        if self.has("held") { HostLockAttempt::Held(OTHER.into()) } else { HostLockAttempt::Ours }
    }

    pub async fn observe(&self, asked: &CompiledProbes, secrets: &SecretStore) -> Result<Observation, TransportError> {
        if self.has("deaf") {
            return Err(error(TransportErrorKind::LinkLost));
        }
        let first = self.run(&asked.script, secrets).await;
        let device = match &asked.device {
            Some(script) => Some(self.run(script, secrets).await.stdout),
            None => None,
        };
        probe::parse(asked, &first.stdout, device.as_deref()).map_err(|_| error(TransportErrorKind::Garbled))
    }

    pub async fn act(&self, script: &ShellScript, secrets: &SecretStore) -> Result<ScriptOutput, TransportError> {
        if self.dies() {
            std::future::pending::<()>().await;
        }
        let mut done = self.run(script, secrets).await;
        let excess = done.stdout.len().saturating_sub(TAIL);
        done.stdout.drain(..excess);
        done.dropped = excess as u64;
        let lost = self.root.join(".sim/lost");
        match std::fs::remove_file(lost) {
            Ok(()) => Err(error(TransportErrorKind::LinkLost)),
            Err(_) => Ok(done),
        }
    }

    /// Returns whether forge is killed before this acting script.
    fn dies(&self) -> bool {
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
    pub async fn send(
        &self,
        script: &ShellScript,
        payload: FilePayload,
        secrets: &SecretStore,
    ) -> Result<ScriptOutput, TransportError> {
        let behind = self.root.join(".sim/behind");
        std::fs::create_dir_all(self.root.join(".sim")).unwrap();
        std::fs::write(&behind, payload.rest().await).unwrap();
        let open = ShellFragment::new().code("exec 7<").word(behind.as_str()).code("\n").then(script.body.clone());
        self.act(&ShellScript { body: open, ..script.clone() }, secrets).await
    }

    async fn run(&self, script: &ShellScript, secrets: &SecretStore) -> ScriptOutput {
        let state = self.root.join(if self.has("full") { "full" } else { "state" });
        let text = script.text(secrets).unwrap().expose_secret().replace("/var/lib/forge", state.as_str());
        // Paths kept until the next boot belong to the simulated host too.
        let run = |text: String, name: &str| text.replace(name, &format!("{}{name}", self.root));
        let text = run(run(text, "/run/forge/"), "/run/forge-applied");
        let root = if self.has("plain") { "false" } else { "true" };
        let text = text.replace("[ \"$(id -u)\" = 0 ]", root).replace("$(id -un 2>/dev/null)", "plain");
        // Simulated hosts share one machine: their identities differ only where a test sets them.
        let own = |file: &str| self.root.join(".sim").join(file).into_string();
        let text =
            text.replace("/etc/machine-id", &own("machine-id")).replace("/proc/sys/kernel/hostname", &own("hostname"));
        // These commands must not reach the machine that runs the test.
        let text = text.replace(REBOOT, &format!("sh {}", own("reboot")));
        let text = if self.has("boot-id") { text.replace(BOOT_ID, &own("boot-id")) } else { text };
        // Devices are plain files.
        let text = text.replace("/dev/nvidia", self.root.join("dev/nvidia").as_str()).replace("-xtype c", "-xtype f");
        let stand_in = |text: String, tool: &str| match self.has(tool) {
            true => text.replace(&format!("{tool} "), &format!("{} ", own(tool))),
            false => text,
        };
        let text = stand_in(stand_in(text, "systemctl"), "grubby");
        let text = text.replace("ls -1 /boot ", &format!("ls -1 {} ", own("boot")));
        let text = self.moved(moved(&text, "/boot/init", &own("boot/init")));
        let text = if self.has("cmdline") { self.booted(text) } else { text };
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
    fn moved(&self, text: String) -> String {
        let paths = std::fs::read_to_string(self.root.join(".sim/paths")).unwrap_or_default();
        let text = paths.lines().fold(text, |text, path| moved(&text, path, &format!("{}{path}", self.root)));
        if !self.has("bin") {
            return text;
        }
        let bin = self.root.join(".sim/bin");
        let text = text.replace(" PATH=/usr/local/sbin:", &format!(" PATH={bin}:/usr/local/sbin:"));
        assert!(text.contains(bin.as_str()), "the path of programs is set in another way than this knows");
        text
    }

    /// Redirects boot files: `cmdline` is the kernel's command line, and the program `grubby` prints the next kernel's.
    fn booted(&self, text: String) -> String {
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

/// Replaces one path by another, but not inside of itself.
fn moved(text: &str, from: &str, to: &str) -> String {
    text.replace(to, "\0").replace(from, to).replace('\0', to)
}

fn error(kind: TransportErrorKind) -> TransportError {
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
