//! Access to the fleet of real Debian hosts (`tests/fleet/fleet`) for the end-to-end tests.
//!
//! ```ignore
//! let Some(nodes) = Fleet::take(2) else { return };          // prints "skipped: why" if FORGE_FLEET=skip
//! let project = Project::new(&nodes)
//!     .recipe("demo", "recipe: demo\nsteps: …")
//!     .inventory("apply:\n  - { recipe: demo, on: all }\n");
//! let out = project.forge(["apply", "inventory.yaml", "--yes"]);
//! assert_eq!(out.code, 0, "{out}");
//! assert_eq!(nodes[0].read("/etc/motd"), b"hello\n");
//! ```
#![allow(dead_code, clippy::disallowed_methods, reason = "the harness runs programs and reads the environment")]

use crate::distribution::{ClaimedDistribution, Distribution};
use crate::running_forge::RunningForge;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/fleet");
/// The sudo password of `admin`. `deploy` needs none, `plain` may not use sudo.
pub const PASSWORD: &str = "correct horse";
const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/snapshot");
/// Seconds after which a program that a test runs counts as hung; it then ends with code 124.
const LIMIT: &str = "600";

/// A program's output and exit code. `code` is 128 + the signal's number if a signal ended it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Output {
    pub fn ok(&self) -> bool {
        self.code == 0
    }

    /// Requires an exit code; the failure shows what the program printed.
    #[track_caller]
    pub fn must_exit(&self, code: i32) {
        assert!(self.code == code, "exit code {code} expected\n{self}");
    }

    /// Returns what follows the lines that name the recordings.
    #[track_caller]
    pub fn after_recordings(&self) -> &str {
        let rest = self.stdout.strip_prefix("from recorded answers; no host was contacted:\n").expect("recordings");
        rest.split_once("\n\n").expect("a result").1
    }

    /// Runs `command` with `input` on stdin.
    pub fn of(command: &mut Command, input: &[u8]) -> Output {
        collect(command, input).into()
    }
}

impl From<std::process::Output> for Output {
    fn from(out: std::process::Output) -> Output {
        Output {
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
            code: out.status.code().unwrap_or_else(|| 128 + out.status.signal().unwrap_or(0)),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

fn collect(command: &mut Command, input: &[u8]) -> std::process::Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    std::thread::scope(|scope| {
        // In parallel with reading, so that a program that prints before it reads cannot block. A program that reads
        // nothing is fine.
        scope.spawn(move || stdin.write_all(input).ok());
        child.wait_with_output().expect("the child is ours to wait for")
    })
}

fn script<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Output {
    Output::of(limited(SCRIPT).args(args), b"")
}

/// Returns a command that runs `program` and ends with code 124 if it hangs: a test that waits forever reports nothing.
/// Its home is a folder of the tests, because programs such as kubectl keep a cache there.
pub fn limited(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.env("HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/home"));
    command.args(["--kill-after=10", LIMIT]).arg(program);
    command
}

/// Runs the script; panics with its output if it fails.
fn must<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> String {
    let out = script(args);
    assert!(out.ok(), "fleet: {out}");
    out.stdout
}

/// The running fleet, one per process. It stays up afterwards; the next process reuses it.
pub struct Fleet {
    pub key: PathBuf,
    pub known_hosts: PathBuf,
    pub ssh_config: PathBuf,
    nodes_dir: PathBuf,
    size: usize,
    free: Mutex<BTreeSet<Node>>,
    given_back: Condvar,
    /// Held for the life of the process: two test runs must not share nodes.
    _alone: File,
}

impl Fleet {
    /// Returns the fleet, started by the first call, or `None` after printing why the test is skipped.
    ///
    /// # Panics
    /// If the fleet cannot run here and `FORGE_FLEET=skip` is not set: without a fleet, no test passes.
    pub fn require() -> Option<&'static Fleet> {
        static FLEET: OnceLock<Fleet> = OnceLock::new();
        if std::env::var_os("FORGE_FLEET").is_some_and(|v| v == "skip") {
            eprintln!("skipped: FORGE_FLEET=skip");
            return None;
        }
        Some(FLEET.get_or_init(Fleet::start))
    }

    /// Takes `count` freshly reset nodes of Debian 12, or of the release that `FORGE_DISTRIBUTION` names, out of the pool,
    /// and waits until that many are free. Dropping them returns them. A test takes all its nodes at once: two tests that
    /// each hold some and want more would wait forever.
    pub fn take(count: usize) -> Option<Nodes> {
        Fleet::take_on(Distribution::wanted().unwrap_or(Distribution::Debian12), count)
    }

    /// Like [`Fleet::take`], on another distribution. The first call builds its image.
    pub fn take_on(distribution: Distribution, count: usize) -> Option<Nodes> {
        let fleet = Fleet::require()?;
        assert!(count <= fleet.size, "the fleet has {} nodes; set FORGE_FLEET_SIZE to have {count}", fleet.size);
        let mut free = fleet.free();
        while free.len() < count {
            free = fleet.given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        let nodes = Nodes((0..count).filter_map(|_| free.pop_first()).collect());
        drop(free);
        must(["reset", "--on", distribution.name()].into_iter().chain(nodes.iter().map(|n| n.name.as_str())));
        Some(nodes)
    }

    fn start() -> Fleet {
        assert!(
            rustix::process::geteuid().is_root(),
            "the fleet tests boot machines and need root; run them as root or set FORGE_FLEET=skip"
        );
        let size = std::env::var("FORGE_FLEET_SIZE").map_or(20, |v| v.parse().expect("FORGE_FLEET_SIZE is a number"));
        must(["install"]);
        let alone = lock(Path::new(&variable(&must(["env"]), "FLEET_DIR")));
        must(["up", &size.to_string()]);
        let env = must(["env"]);
        Fleet {
            key: variable(&env, "FLEET_KEY").into(),
            known_hosts: variable(&env, "FLEET_KNOWN_HOSTS").into(),
            ssh_config: variable(&env, "FLEET_SSH_CONFIG").into(),
            nodes_dir: variable(&env, "FLEET_NODES_DIR").into(),
            size,
            free: Mutex::new(nodes(&env).take(size).collect()),
            given_back: Condvar::new(),
            _alone: alone,
        }
    }

    fn free(&self) -> MutexGuard<'_, BTreeSet<Node>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn lock(dir: &Path) -> File {
    let path = dir.join("tests.lock");
    let file = File::create(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file.lock().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file
}

/// Reads one variable from `fleet env` or `cluster env`; only the spaces in lists are quoted there.
pub fn variable(env: &str, name: &str) -> String {
    let line = env.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("fleet env prints no {name}")).replace('\\', "")
}

fn nodes(env: &str) -> impl Iterator<Item = Node> {
    let names: Vec<_> = variable(env, "FLEET_NODES").split(' ').map(str::to_owned).collect();
    let addresses: Vec<_> = variable(env, "FLEET_ADDRESSES").split(' ').map(str::to_owned).collect();
    names.into_iter().zip(addresses).map(|(name, address)| Node { name, address })
}

/// The nodes of one test.
pub struct Nodes(Vec<Node>);

impl Deref for Nodes {
    type Target = [Node];
    fn deref(&self) -> &[Node] {
        &self.0
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some(fleet) = Fleet::require() {
            fleet.free().extend(self.0.drain(..));
            fleet.given_back.notify_all();
        }
    }
}

/// One host. All methods bypass forge: they act directly in the node, not through its sshd.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    pub name: String,
    pub address: String,
}

impl Node {
    /// Runs a shell script as root.
    pub fn sh(&self, script: &str) -> Output {
        Output::of(&mut self.inside(["sh", "-c", script]), b"")
    }

    /// Runs a shell script that must succeed and returns its output, without the last newline.
    pub fn must(&self, script: &str) -> String {
        let out = self.sh(script);
        assert!(out.ok(), "{}: `{script}`: {out}", self.name);
        out.stdout.trim_end_matches('\n').to_owned()
    }

    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let out = Output::of(&mut self.inside(["sh", "-c", "cat >\"$1\"", "sh", path]), bytes.as_ref());
        assert!(out.ok(), "{}: {path}: {out}", self.name);
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        let out = collect(&mut self.inside(["cat", path]), b"");
        assert!(out.status.success(), "{}: {path}: {}", self.name, String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    pub fn exists(&self, path: &str) -> bool {
        Output::of(&mut self.inside(["test", "-e", path]), b"").ok()
    }

    /// Waits until a path exists.
    pub fn until_exists(&self, path: &str) {
        self.until(&format!("test -e {path}"), 60);
    }

    /// Waits until a script succeeds, for at most `limit_s` seconds.
    pub fn until(&self, script: &str, limit_s: u64) {
        let end = Instant::now() + Duration::from_secs(limit_s);
        while !self.sh(script).ok() {
            assert!(Instant::now() < end, "still failing after {limit_s} s: `{script}`\n{}", self.describe_state());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Describes the node for a test that waited in vain: whether it runs, its console and its open jobs.
    pub fn describe_state(&self) -> String {
        let fleet = Fleet::require().expect("nodes come from a fleet");
        let console = std::fs::read(fleet.nodes_dir.join(&self.name).join("console.log")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let skipped = console.lines().count().saturating_sub(15);
        let console: Vec<&str> = console.lines().skip(skipped).collect();
        let inside =
            self.sh("uptime; timeout 10 systemctl is-system-running; timeout 10 systemctl list-jobs --no-pager");
        format!("{}: {inside}\nend of its console:\n{}", self.name, console.join("\n"))
    }

    /// Waits until the boot with that ID is over: the node has another boot ID, or does not answer. Requires several
    /// failures in a row, because a single query may fail on a busy node.
    pub fn until_down(&self, boot_id: &str, limit_s: u64) {
        let end = Instant::now() + Duration::from_secs(limit_s);
        let mut silent = 0;
        while silent < 3 {
            assert!(Instant::now() < end, "{}: still up after {limit_s} s", self.name);
            match self.sh("cat /proc/sys/kernel/random/boot_id") {
                out if !out.ok() => silent += 1,
                out if out.stdout.trim() != boot_id => return,
                _ => silent = 0,
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until nothing more starts: services that still start after a boot would affect measurements and results.
    pub fn settled(&self) {
        let out = self.sh("timeout 60 systemctl is-system-running --wait");
        let jobs = || self.sh("systemctl list-jobs --no-pager; systemctl --failed --no-pager");
        assert!(out.ok(), "{}: not settled: {out}\n{}", self.name, jobs());
    }

    pub fn boot_id(&self) -> String {
        self.must("cat /proc/sys/kernel/random/boot_id")
    }

    /// Returns every path written since the last reset, one per line. Two equal snapshots prove that nothing was
    /// written between them.
    pub fn snapshot(&self) -> String {
        let out = Output::of(limited(SNAPSHOT).arg(&self.name), b"");
        assert!(out.ok(), "{out}");
        out.stdout
    }

    /// Returns the root of the node's disk, as this machine sees it: it is readable whatever happens to the node. Memory
    /// file systems such as /run are not part of it.
    pub fn disk(&self) -> PathBuf {
        let fleet = Fleet::require().expect("nodes come from a fleet");
        fleet.nodes_dir.join(&self.name).join("disk/root")
    }

    /// Cuts the power.
    pub fn stop(&self) {
        must(["stop", &self.name]);
    }

    pub fn start(&self) {
        must(["start", &self.name]);
    }

    /// Gives the node a fresh disk of Debian 12 and boots it.
    pub fn reset(&self) {
        must(["reset", &self.name]);
    }

    /// Lets a node of Debian 12 claim to be another distribution, until its next reset.
    pub fn claim(&self, distribution: ClaimedDistribution) {
        must(["distro", &self.name, distribution.name()]);
    }

    /// Installs the simulated hardware of a board of `hardware/boards` in the node, until its next reset.
    pub fn profile(&self, name: &str) {
        must(["profile", &self.name, name]);
    }

    /// Injects (`true`) or clears a fault of that hardware; `tests/fleet/profiles/faults` lists the faults.
    pub fn fault(&self, fault: &str, broken: bool) {
        must(["fault", &self.name, fault, if broken { "on" } else { "off" }]);
    }

    /// Unplugs (`false`) or plugs in (`true`) the network cable. Waits until a running node answers again: the
    /// kernel caches a failed neighbor lookup for about a second.
    pub fn link(&self, up: bool) {
        must(["link", &self.name, if up { "up" } else { "down" }]);
        let address = format!("{}:22", self.address).parse().expect("an address");
        let answers = || std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        let end = Instant::now() + Duration::from_secs(10);
        while up && !answers() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn inside<const N: usize>(&self, argv: [&str; N]) -> Command {
        let mut command = limited(SCRIPT);
        command.args(["exec", &self.name, "--"]).args(argv);
        command
    }
}

/// A temporary directory with an inventory and recipes, in which forge runs.
pub struct Project {
    dir: tempfile::TempDir,
    head: String,
}

impl Project {
    /// Builds a project whose inventory contains `nodes` and connects as root.
    pub fn new(nodes: &[Node]) -> Project {
        Project::connecting_as("root", nodes)
    }

    /// Builds a project that connects as `root`, `admin`, `deploy` or `plain`.
    pub fn connecting_as(user: &str, nodes: &[Node]) -> Project {
        let fleet = Fleet::require().expect("nodes come from a fleet");
        let mut head = format!(
            "cluster: fleet\nconnect: {{ user: {user}, identity: {}, known_hosts: {} }}\nhosts:\n",
            fleet.key.display(),
            fleet.known_hosts.display()
        );
        for node in nodes {
            head += &format!("  {}: {{ address: {} }}\n", node.name, node.address);
        }
        let dir = tempfile::Builder::new().prefix("forge-").tempdir().expect("a temporary directory");
        Project { dir, head }.file("home/.ssh/.keep", "").inventory("")
    }

    /// Sets another cluster name: the API stores the lock and records under it, and tests share one API.
    pub fn called(mut self, cluster: &str) -> Project {
        self.head = self.head.replacen("cluster: fleet\n", &format!("cluster: {cluster}\n"), 1);
        self
    }

    /// Writes `inventory.yaml`: cluster, connect and hosts as in [`Project::new`], then `rest`.
    pub fn inventory(self, rest: &str) -> Project {
        self.rewrite(rest);
        self
    }

    /// Like [`Project::inventory`], for a borrowed project.
    pub fn rewrite(&self, rest: &str) {
        fs_err::write(self.path("inventory.yaml"), format!("{}{rest}", self.head)).expect("a file");
    }

    pub fn recipe(self, name: &str, text: &str) -> Project {
        self.file(&format!("recipes/{name}.yaml"), text)
    }

    pub fn file(self, path: &str, text: &str) -> Project {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().expect("inside the project")).expect("a directory");
        fs_err::write(&path, text).expect("a file");
        self
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// Runs forge in the project until it ends.
    pub fn forge<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Output {
        Output::of(self.hermetic(limited(env!("CARGO_BIN_EXE_forge")).args(args)), b"")
    }

    /// Returns the command that [`Project::forge`] runs, for a test that signals or kills it.
    pub fn command<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forge"));
        self.hermetic(command.args(args));
        command
    }

    /// Runs forge as from another controller: without the state folder of [`Project::forge`].
    pub fn forge_elsewhere<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Output {
        let mut command = limited(env!("CARGO_BIN_EXE_forge"));
        let command = self.hermetic(command.args(args)).env("FORGE_STATE", self.path("elsewhere"));
        Output::of(command, b"")
    }

    /// Starts an apply that the test interrupts or kills; its output is discarded.
    pub fn begin(&self) -> RunningForge {
        let mut command = self.command(["apply", "inventory.yaml", "--yes"]);
        RunningForge::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Like [`Project::begin`], for a test that reads its output.
    pub fn begin_heard(&self) -> RunningForge {
        RunningForge::start_heard(&mut self.command(["apply", "inventory.yaml", "--yes"]))
    }

    /// Clears the environment. `HOME` keeps forge away from the developer's files; ssh itself takes the home directory
    /// from the user database.
    fn hermetic<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.current_dir(self.dir.path()).env_clear().env("PATH", path).env("LANG", "C.UTF-8");
        command.env("HOME", self.path("home")).env("FORGE_STATE", self.path("state"))
    }
}

/// Waits for entries in the journals of runs that begin after the watch: what forge is doing at this moment.
pub struct JournalWatch {
    state: PathBuf,
    earlier: Vec<PathBuf>,
}

impl JournalWatch {
    /// Starts to watch the runs whose journals are below a state folder.
    pub fn new(state: PathBuf) -> JournalWatch {
        let earlier = find_journals(&state);
        JournalWatch { state, earlier }
    }

    /// Waits until an entry contains all `parts`.
    pub fn until(&self, parts: &[&str]) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.has_entry(parts) {
            assert!(Instant::now() < end, "not in the journal within 60 s: {parts:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the last lines of the journals, for a test that waited in vain.
    pub fn last_lines(&self, count: usize) -> String {
        let text = self.read();
        let skipped = text.lines().count().saturating_sub(count);
        text.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }

    /// Returns the size of the journals: it grows with each event of a run.
    pub fn written_bytes(&self) -> usize {
        self.read().len()
    }

    fn has_entry(&self, parts: &[&str]) -> bool {
        self.read().lines().any(|line| parts.iter().all(|part| line.contains(part)))
    }

    fn read(&self) -> String {
        let journals = find_journals(&self.state).into_iter().filter(|path| !self.earlier.contains(path));
        journals.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    }
}

fn find_journals(state: &Path) -> Vec<PathBuf> {
    let list = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let runs = list(state.to_owned()).flat_map(|cluster| list(cluster.join("runs")));
    runs.map(|run| run.join("journal.ndjson")).filter(|path| path.exists()).collect()
}
