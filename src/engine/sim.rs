//! A host for tests: a folder. Scripts run in it with a real shell; files below `.sim` say what goes wrong.
//!
//! An inventory names it by `connect: { command: [forge-sim, FOLDER] }`. A recipe's own commands may lay faults:
//! `refuse` no session opens, `deaf` no question is answered, `held` somebody holds the lock, `lost` the link is lost
//! with the acting script that made the file, `full` records cannot be written, `plain` forge acts as a user of that name,
//! `dies` holds a number and forge is killed before the acting script of that number: nothing runs any more, and `dead`
//! says so. Where there is no such fault, forge acts as root, whoever runs the test. `machine-id` and `hostname` say who it
//! is; `paths` lists folders of the machine that are the simulated host's own, below its folder; programs in `bin` come first.

use super::link::Locked;
use super::window::{BOOT_ID, REBOOT};
use crate::config::{Connect, TransportKind};
use crate::model::SecretStore;
use crate::probe::{self, Compiled, Observation};
use crate::script::{Fragment, Script};
use crate::transport::{ErrorKind, Finished, Payload, TransportError};
use camino::Utf8PathBuf;
use secrecy::ExposeSecret;

/// Bytes kept of what an acting script prints: fewer than on real hosts.
const TAIL: usize = 64 * 1024;

/// Who holds the lock.
const OTHER: &str = "run: r2\nby: eve@c2 (pid 7)\nsince: 2026-11-21T09:30:15Z\nwhat: forge apply other.yaml";

pub(super) struct Sim {
    root: Utf8PathBuf,
}

impl Sim {
    /// Returns the session on a simulated host, if the connection says that it is one.
    pub fn of(connect: &Connect) -> Option<Result<Self, TransportError>> {
        let TransportKind::Command(argv) = &connect.transport else { return None };
        let [program, root] = argv.as_slice() else { return None };
        (program == "forge-sim").then(|| {
            let sim = Self { root: root.into() };
            if sim.has("refuse") { Err(error(ErrorKind::Refused)) } else { Ok(sim) }
        })
    }

    fn has(&self, fault: &str) -> bool {
        self.root.join(".sim").join(fault).exists()
    }

    pub fn lock(&self) -> Locked {
        if self.has("held") { Locked::Held(OTHER.into()) } else { Locked::Ours }
    }

    pub async fn observe(&self, asked: &Compiled, secrets: &SecretStore) -> Result<Observation, TransportError> {
        if self.has("deaf") {
            return Err(error(ErrorKind::LinkLost));
        }
        let first = self.run(&asked.script, secrets).await;
        let device = match &asked.device {
            Some(script) => Some(self.run(script, secrets).await.stdout),
            None => None,
        };
        probe::parse(asked, &first.stdout, device.as_deref()).map_err(|_| error(ErrorKind::Garbled))
    }

    pub async fn act(&self, script: &Script, secrets: &SecretStore) -> Result<Finished, TransportError> {
        if self.dies() {
            std::future::pending::<()>().await;
        }
        let mut done = self.run(script, secrets).await;
        let excess = done.stdout.len().saturating_sub(TAIL);
        done.stdout.drain(..excess);
        done.dropped = excess as u64;
        let lost = self.root.join(".sim/lost");
        match std::fs::remove_file(lost) {
            Ok(()) => Err(error(ErrorKind::LinkLost)),
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

    /// What follows the script lies in a file, which is its descriptor 7.
    pub async fn send(
        &self,
        script: &Script,
        payload: Payload,
        secrets: &SecretStore,
    ) -> Result<Finished, TransportError> {
        let behind = self.root.join(".sim/behind");
        std::fs::create_dir_all(self.root.join(".sim")).unwrap();
        std::fs::write(&behind, payload.rest().await).unwrap();
        let open = Fragment::new().code("exec 7<").word(behind.as_str()).code("\n").then(script.body.clone());
        self.act(&Script { body: open, ..script.clone() }, secrets).await
    }

    async fn run(&self, script: &Script, secrets: &SecretStore) -> Finished {
        let state = self.root.join(if self.has("full") { "full" } else { "state" });
        let text = script.text(secrets).unwrap().expose_secret().replace("/var/lib/forge", state.as_str());
        // What forge keeps until the next boot is the host's own too.
        let run = |text: String, name: &str| text.replace(name, &format!("{}{name}", self.root));
        let text = run(run(text, "/run/forge/"), "/run/forge-applied");
        let root = if self.has("plain") { "false" } else { "true" };
        let text = text.replace("[ \"$(id -u)\" = 0 ]", root).replace("$(id -un 2>/dev/null)", "plain");
        // Simulated hosts are one machine: they are told apart only where a test says who they are.
        let own = |file: &str| self.root.join(".sim").join(file).into_string();
        let text =
            text.replace("/etc/machine-id", &own("machine-id")).replace("/proc/sys/kernel/hostname", &own("hostname"));
        // Nothing of this may reach the machine that the test runs on.
        let text = text.replace(REBOOT, &format!("sh {}", own("reboot")));
        let text = if self.has("boot-id") { text.replace(BOOT_ID, &own("boot-id")) } else { text };
        // Its devices are files.
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
        Finished {
            status: output.status.code().unwrap_or(255),
            stdout: output.stdout,
            stderr: output.stderr,
            dropped: 0,
        }
    }

    /// Folders and programs that are the host's own.
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

    /// A machine of its own: `cmdline` is what its kernel was given, and the program `grubby` says what the next one gets.
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

/// Puts one path in the place of another, but not inside of itself.
fn moved(text: &str, from: &str, to: &str) -> String {
    text.replace(to, "\0").replace(from, to).replace('\0', to)
}

fn error(kind: ErrorKind) -> TransportError {
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
