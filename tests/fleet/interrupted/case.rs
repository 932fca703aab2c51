//! One case: a proof file is applied, interrupted at one boundary by one fault, applied again from another controller,
//! and compared with what it is without any fault.

use super::digest;
use super::gate::{Call, Gate, Placed, Stop};
use super::reader::{FileReader, torn_files};
use crate::distribution::{Distribution, ProofSystem};
use crate::proof::Proof;
use crate::running_forge::RunningForge;
use crate::support::{Fleet, Node, Output, Project};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

/// What interrupts a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// forge gets SIGKILL while a script runs; the next run starts at once, and the script goes on a moment later.
    Kill,
    /// All connections to the host are closed.
    Link,
    /// All processes of the running script get SIGKILL, as from the kernel when memory runs out.
    Crash,
    /// The host loses its power and boots again.
    Power,
    /// The file system of the host is full until the run has ended.
    Full,
    /// Another program holds dpkg's lock for some seconds.
    Lock,
    /// A program hangs: the user gives up with two interrupts, and it ends only while the next run waits for it.
    Hang,
}

impl Fault {
    pub const ALL: [Fault; 7] =
        [Fault::Kill, Fault::Link, Fault::Crash, Fault::Power, Fault::Full, Fault::Lock, Fault::Hang];

    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Link => "link",
            Fault::Crash => "crash",
            Fault::Power => "power",
            Fault::Full => "full",
            Fault::Lock => "lock",
            Fault::Hang => "hang",
        }
    }

    /// Whether a run can meet it.
    pub fn concerns(self, reference: &Reference) -> bool {
        self != Fault::Lock || reference.calls.iter().any(Call::installs_packages)
    }
}

/// Where a run is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boundary {
    /// Before the first script keeps the state before it.
    Start,
    /// After the first change.
    First,
    /// After half of the changes.
    Middle,
    /// After a file was renamed into place, before the folder of its candidate is removed.
    Renamed,
    /// After the last change.
    Last,
    /// Before the last records are in place.
    Unrecorded,
    /// After the last records are in place, before forge knows.
    Unreported,
    /// After this many eighths of the changes, in a run with many of them.
    Eighths(usize),
}

/// A run with at least as many changes is interrupted at each of its eighths too.
const MANY_CHANGES: usize = 80;

impl Boundary {
    pub const ALL: [Boundary; 13] = [
        Boundary::Start,
        Boundary::First,
        Boundary::Middle,
        Boundary::Renamed,
        Boundary::Last,
        Boundary::Unrecorded,
        Boundary::Unreported,
        Boundary::Eighths(1),
        Boundary::Eighths(2),
        Boundary::Eighths(3),
        Boundary::Eighths(5),
        Boundary::Eighths(6),
        Boundary::Eighths(7),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Boundary::Start => "start",
            Boundary::First => "first",
            Boundary::Middle => "middle",
            Boundary::Renamed => "renamed",
            Boundary::Last => "last",
            Boundary::Unrecorded => "unrecorded",
            Boundary::Unreported => "unreported",
            Boundary::Eighths(count) => ["0/8", "1/8", "2/8", "3/8", "4/8", "5/8", "6/8", "7/8", "8/8"][count],
        }
    }

    /// Whether every declared change is made by then.
    fn is_done(self) -> bool {
        matches!(self, Boundary::Last | Boundary::Unrecorded | Boundary::Unreported)
    }
}

/// A run of a proof file without any fault.
pub struct Reference {
    pub calls: Vec<Call>,
    /// Files that the run renamed into place: no reader may see a part of them.
    placed: Placed,
    state: BTreeSet<String>,
}

impl Reference {
    /// Returns the call at which a run is stopped for `boundary`, for people.
    pub fn describe_stop(&self, boundary: Boundary) -> String {
        let Some(stop) = self.stop_at(boundary) else { return String::new() };
        let call = self.calls.iter().find(|call| call.number == stop.call);
        format!("{} {}", if stop.after { "after" } else { "before" }, call.map(Call::to_string).unwrap_or_default())
    }

    /// Returns where to stop a run for `boundary`; `None` if the run has no such moment.
    pub fn stop_at(&self, boundary: Boundary) -> Option<Stop> {
        let changes: Vec<&Call> = self.calls.iter().filter(|call| !call.is_bookkeeping()).collect();
        let records = self.calls.iter().rfind(|call| call.places_records());
        let stop = |call: &Call, after| Stop { call: call.number, after };
        match boundary {
            Boundary::Start => {
                let kept = self.calls.iter().find(|call| call.keeps_former_state() || !call.is_bookkeeping());
                kept.map(|call| stop(call, false))
            }
            Boundary::First => changes.first().map(|call| stop(call, true)),
            Boundary::Middle => (changes.len() > 2).then(|| stop(changes[changes.len() / 2], true)),
            Boundary::Renamed => changes.iter().rfind(|call| call.leaves_a_folder()).map(|call| stop(call, true)),
            Boundary::Last => (changes.len() > 1).then(|| stop(changes[changes.len() - 1], true)),
            Boundary::Unrecorded => records.map(|call| stop(call, false)),
            Boundary::Unreported => records.map(|call| stop(call, true)),
            Boundary::Eighths(count) => {
                (changes.len() >= MANY_CHANGES).then(|| stop(changes[changes.len() * count / 8], true))
            }
        }
    }
}

/// Hosts with a project that is not applied yet.
pub struct Bench<'a> {
    name: &'a str,
    proof: &'a Proof,
    nodes: &'a [Node],
    project: Project,
    gate: Gate<'a>,
}

/// Why a case failed: the expectation and the observation.
#[derive(Debug)]
pub struct Defect(pub String);

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), Defect> {
    if holds { Ok(()) } else { Err(Defect(message())) }
}

impl<'a> Bench<'a> {
    pub fn new(name: &'a str, proof: &'a Proof, nodes: &'a [Node]) -> Bench<'a> {
        proof.equip(nodes, ProofSystem::Release(Distribution::Debian12));
        let gate = Gate::install(&nodes[0]);
        Bench { name, proof, nodes, project: proof.build_project(name, nodes), gate }
    }

    /// Applies without any fault.
    pub fn learn(self) -> Result<Reference, Defect> {
        self.gate.arm(None);
        self.gate.learn();
        let out = self.apply();
        require(out.code == 0, || format!("a run without a fault: {out}"))?;
        let (calls, placed) = (self.gate.calls(), self.gate.placed());
        self.gate.disarm();
        self.check_host("without a fault")?;
        Ok(Reference { calls, placed, state: self.state() })
    }

    /// The contents of several hosts name each other, and keys are random.
    fn state(&self) -> BTreeSet<String> {
        final_state(&self.nodes[0], self.nodes.len() == 1)
    }

    fn apply(&self) -> Output {
        self.project.forge(["apply", "inventory.yaml", "--yes"])
    }

    /// Interrupts an apply and checks that it cost nothing.
    pub fn interrupt(self, fault: Fault, boundary: Boundary, reference: &Reference) -> Result<(), Defect> {
        let Some(stop) = reference.stop_at(boundary) else { return Ok(()) };
        let node = &self.nodes[0];
        let contents = || read_files(node, reference.placed.keys());
        let before = contents();
        let reader = FileReader::start(node.disk(), reference.placed.keys().cloned().collect());
        self.gate.arm(Some(stop));
        let mut run = self.project.begin();
        let result = self.gate.await_stop(|| run.has_ended());
        let Some(session) = result else {
            reader.finish();
            return Err(Defect(format!("the run ended before {stop:?}: {:?}", self.gate.calls().last())));
        };
        let next = self.inject(fault, &session, &mut run)?;
        let again = self.recover(fault, boundary, next)?;
        let seen = reader.finish();
        self.check_settled()?;
        self.check_host(&format!("after {again}"))?;
        let torn = torn_files(&seen, &before, &contents(), &reference.placed);
        require(torn.is_empty(), || format!("a reader saw a partial file: {}", torn.join(", ")))?;
        let state = self.state();
        let differs: Vec<&String> = state.symmetric_difference(&reference.state).collect();
        require(differs.is_empty(), || format!("the host differs from one without the fault: {differs:#?}"))
    }

    /// Injects a fault while a script is stopped. Returns the next run, if the fault starts it.
    fn inject(&self, fault: Fault, session: &str, run: &mut RunningForge) -> Result<Option<Output>, Defect> {
        let node = &self.nodes[0];
        match fault {
            Fault::Kill => {
                run.kill();
                return Ok(Some(self.run_while_stopped()));
            }
            Fault::Hang => {
                for _ in 0..2 {
                    run.interrupt();
                    std::thread::sleep(Duration::from_millis(300));
                }
                await_end(run, Duration::from_secs(20))?;
                return Ok(Some(self.run_while_stopped()));
            }
            Fault::Link => {
                node.must("pkill -KILL -f '[s]shd(-session)?: root' || true");
                std::thread::sleep(Duration::from_millis(500));
                self.gate.go();
            }
            Fault::Crash => _ = node.must(&format!("pkill -KILL -s {session}")),
            Fault::Power => {
                node.stop();
                self.gate.disarm();
                node.start();
                // What the proof prepares may be in memory only.
                node.sh(&self.proof.before);
            }
            Fault::Full => {
                node.sh("dd if=/dev/zero of=/fill bs=64k 2>/dev/null; dd if=/dev/zero of=/fill2 bs=512 2>/dev/null");
                self.gate.go();
            }
            Fault::Lock => {
                node.write("/srv/gate/lock.pl", LOCK_HOLDER);
                node.must("systemd-run --quiet --unit=lock-holder perl /srv/gate/lock.pl");
                let end = Instant::now() + Duration::from_secs(2);
                while !node.exists("/run/lock-held") && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(50));
                }
                self.gate.go();
            }
        }
        // A run that goes on installs the rest of a whole server, and reboots it.
        await_end(run, Duration::from_secs(if self.proof.may_reboot() { 600 } else { 240 }))?;
        if fault == Fault::Full {
            node.must("rm -f /fill /fill2");
        }
        if fault == Fault::Lock {
            let code = run.wait().code();
            require(code == Some(0), || format!("a run that waits for dpkg's lock ended with {code:?}"))?;
            node.until("! systemctl -q is-active lock-holder", 20);
            node.must("rm -f /run/lock-held /srv/gate/lock.pl");
        }
        Ok(None)
    }

    /// Starts the next run while the script of the former one is stopped, and lets that go on a moment later.
    fn run_while_stopped(&self) -> Output {
        std::thread::scope(|scope| {
            let next = scope.spawn(|| self.project.forge_elsewhere(["apply", "inventory.yaml", "--yes"]));
            std::thread::sleep(Duration::from_millis(1500));
            self.gate.go();
            next.join().expect("the run ends")
        })
    }

    /// Applies again from another controller. Where everything was done before the fault, nothing may be done again.
    fn recover(&self, fault: Fault, boundary: Boundary, next: Option<Output>) -> Result<Output, Defect> {
        let out = match next {
            Some(out) => out,
            None => {
                let plan = self.project.forge_elsewhere(["plan", "inventory.yaml", "--format", "json"]);
                self.gate.arm(None);
                let out = self.project.forge_elsewhere(["apply", "inventory.yaml", "--yes", "--format", "json"]);
                require_planned(&plan, &out)?;
                let repeated: Vec<String> =
                    self.gate.calls().iter().filter(|call| !call.is_bookkeeping()).map(Call::to_string).collect();
                // A daemon that starts while the disk is full may spoil its own files, which the plan then shows.
                let spoiled = fault == Fault::Full && !list_due(&plan).is_empty();
                require(!boundary.is_done() || fault == Fault::Power || spoiled || repeated.is_empty(), || {
                    format!("everything was done, and the next run did again: {}\n{out}", repeated.join("; "))
                })?;
                out
            }
        };
        self.gate.disarm();
        require(out.code == 0, || format!("the next run: {out}"))?;
        Ok(out)
    }

    /// Requires that a third run has no changes, and a plan neither.
    fn check_settled(&self) -> Result<(), Defect> {
        let third = self.project.forge_elsewhere(["apply", "inventory.yaml", "--yes"]);
        require(third.code == 0 && third.stdout.contains("no changes:"), || format!("the third run: {third}"))?;
        let plan = self.project.forge(["plan", "inventory.yaml", "--detailed-exitcode"]);
        require(plan.code == 0, || format!("the plan after it: {plan}"))
    }

    /// Asks the hosts themselves.
    fn check_host(&self, when: &str) -> Result<(), Defect> {
        for node in self.nodes {
            for (what, script) in [("the proof holds", self.proof.holds.as_str()), ("the host is clean", CLEAN)] {
                let out = node.sh(script);
                require(out.ok() && (script != CLEAN || out.stdout.is_empty()), || {
                    format!("{}: not on {}: {what}: {out}\n{when}", self.name, node.name)
                })?;
            }
        }
        Ok(())
    }
}

/// Requires that a run did nothing that the plan before it did not show.
fn require_planned(plan: &Output, applied: &Output) -> Result<(), Defect> {
    let (shown, done) = (list_due(plan), list_steps(applied, "report", |step| step["result"] == "changed"));
    let more: Vec<&String> = done.difference(&shown).collect();
    require(more.is_empty(), || format!("changed, but not shown by the plan before it: {more:?}\n{plan}\n{applied}"))
}

/// Returns the steps that a plan shows as not done.
fn list_due(plan: &Output) -> BTreeSet<String> {
    list_steps(plan, "plan", |step| !matches!(step["verdict"].as_str(), Some("ok" | "not-applicable")))
}

/// Returns the steps of a document that meet a condition, with their hosts.
fn list_steps(out: &Output, root: &str, matches: fn(&serde_json::Value) -> bool) -> BTreeSet<String> {
    let document: serde_json::Value = serde_json::from_str(&out.stdout).unwrap_or_default();
    let hosts = document[root]["hosts"].as_array().cloned().unwrap_or_default();
    let all = hosts.iter().flat_map(|host| {
        let steps = host["steps"].as_array().cloned().unwrap_or_default();
        steps.into_iter().map(|step| (host["host"].to_string(), step)).collect::<Vec<_>>()
    });
    all.filter(|(_, step)| matches(step)).map(|(host, step)| format!("{host} {}", step["id"])).collect()
}

/// Prints everything that a run must not leave: an inconsistent dpkg, a held lock, units and folders of long steps,
/// candidates of files.
pub const CLEAN: &str = r#"
dpkg --audit
for lock in /run/lock/forge /run/lock/forge.act; do flock -n "$lock" true || echo "$lock is held"; done
systemctl list-units --all --plain --no-legend 'forge-2*'
for step in /run/forge/forge-*; do [ ! -e "$step" ] || [ -e "$step/result" ] || echo "$step"; done
ls -d /run/forge-validate.* 2>/dev/null
ls -d /var/lib/forge/window* 2>/dev/null
find / -xdev \( -name '.*.forge-2*' -o -name '*.part' -path '/var/lib/forge/*' \) 2>/dev/null
true
"#;

/// Holds the lock of dpkg's frontends for four seconds, as apt does.
const LOCK_HOLDER: &str = r#"use Fcntl;
open(my $lock, '+>>', '/var/lib/dpkg/lock-frontend') or die;
fcntl($lock, F_SETLKW, pack('s s l! l! l i', F_WRLCK, 0, 0, 0, 0, 0)) or die;
open(my $held, '>', '/run/lock-held');
sleep 4;
"#;

/// Waits until an interrupted run ends by itself.
fn await_end(run: &mut RunningForge, limit: Duration) -> Result<(), Defect> {
    let end = Instant::now() + limit;
    while !run.has_ended() {
        require(Instant::now() < end, || format!("the interrupted run did not end within {} s", limit.as_secs()))?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Folders whose files people and programs read.
const FOLDERS: [&str; 6] = ["etc", "home", "root", "opt", "srv", "usr/local"];

/// Paths of the test itself: the gate, packages and simulated hardware.
const OF_TEST: [&str; 3] = ["srv/gate", "srv/forge-", "usr/local/sbin"];

/// Files that differ between hosts, whatever forge does.
const OF_HOST: [&str; 6] =
    ["etc/machine-id", "etc/hostname", "etc/hosts", "etc/ssh/", "etc/systemd/network/10-fleet", "etc/ld.so.cache"];

fn is_foreign(path: &str) -> bool {
    OF_TEST.iter().chain(&OF_HOST).any(|start| path.starts_with(start))
}

/// Calls `each` with every path below [`FOLDERS`] that was written since the node's disk was created.
fn walk_written(node: &Node, each: &mut dyn FnMut(String, &std::path::Path, &std::fs::Metadata)) {
    let upper = node.disk().with_file_name("upper");
    let mut left: Vec<_> = FOLDERS.iter().map(|folder| upper.join(folder)).collect();
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            let path = entry.path();
            let name = path.strip_prefix(&upper).expect("below").to_string_lossy().into_owned();
            if is_foreign(&name) {
                continue;
            }
            if meta.is_dir() {
                left.push(path.clone());
            }
            each(name, &path, &meta);
        }
    }
}

fn read_files<'p>(node: &Node, paths: impl Iterator<Item = &'p String>) -> BTreeMap<String, Vec<u8>> {
    let read = |path: &String| Some((path.clone(), std::fs::read(node.disk().join(path)).ok()?));
    paths.filter_map(read).collect()
}

/// Returns one line per written path: type, mode, owner and, if `with_contents`, digest; then the installed packages and
/// their holds.
fn final_state(node: &Node, with_contents: bool) -> BTreeSet<String> {
    use std::os::unix::fs::MetadataExt;
    let mut state = BTreeSet::new();
    walk_written(node, &mut |name, path, meta| {
        let content = match std::fs::read(path) {
            Ok(bytes) if meta.is_file() && with_contents => digest(&bytes),
            Ok(_) => String::new(),
            Err(_) => std::fs::read_link(path).map(|to| to.display().to_string()).unwrap_or_default(),
        };
        state.insert(format!("{:o} {}:{} {name} {content}", meta.mode(), meta.uid(), meta.gid()));
    });
    let packages = node.must("dpkg-query -W -f '${Status} ${Package} ${Version}\\n'");
    state.extend(packages.lines().map(str::to_owned));
    state
}

/// Starts an apply, and kills the processes of its script at the call at which `gate` stops it.
pub fn crash(project: &Project, node: &Node, gate: &Gate<'_>) {
    let mut run = project.begin();
    let session = gate.await_stop(|| run.has_ended()).expect("the run is stopped");
    node.must(&format!("pkill -KILL -s {session}"));
    gate.disarm();
    await_end(&mut run, Duration::from_secs(60)).expect("the run ends");
}

/// Starts an apply, cuts the power of the node at the call at which `gate` stops it, and boots the node again.
pub fn cut_power(project: &Project, node: &Node, gate: &Gate<'_>) {
    let mut run = project.begin();
    assert!(gate.await_stop(|| run.has_ended()).is_some(), "the run ended before");
    node.stop();
    gate.disarm();
    node.start();
    run.kill();
}

/// Takes the nodes of a proof file, freshly reset.
pub fn take_nodes(proof: &Proof) -> Option<crate::support::Nodes> {
    Fleet::take(proof.hosts)
}
