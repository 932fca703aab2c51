//! `--engine kubernetes`: workers in pods. The API and its controllers are real; [`WorkerKubelet`] starts the command of
//! each pod as a process. Files on the hosts are the witness of what was done there, and how often.

use super::support::{Cluster, Helm};
use super::worker_kubelet::{Treatment, WorkerKubelet};
use crate::remove_keys::remove_keys;
use crate::running_forge::RunningForge;
use crate::support::{Fleet, Node, Nodes, Output, limited};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Counts how often its command ran on a host, which waits for the test.
pub const GATED: &str = "recipe: count\nsummary: a counted command\nsteps:\n  - name: command\n    command:\n      \
    check: test -e /srv/done\n      \
    apply: \"echo x >>/srv/count; touch /srv/started; until test -e /srv/go; do sleep 0.1; done; touch /srv/done\"\n";
pub const ENGINE: [&str; 6] = ["--engine", "kubernetes", "--workers", "2", "--shard-size", "1"];

/// A folder that serves as the shared volume: inventory and state are on it.
pub struct SharedVolume {
    folder: tempfile::TempDir,
    sandboxes: bool,
}

impl SharedVolume {
    pub fn new(kubeconfig: &Path, namespace: &str, hosts: &str, recipe: &str, more: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("forge-").tempdir().expect("a temporary directory");
        let volume = Self { folder, sandboxes: hosts.contains("sandbox") };
        for name in ["home", "recipes"] {
            std::fs::create_dir(volume.path(name)).expect("a folder");
        }
        let path = volume.path("");
        let path = path.to_str().expect("a path").trim_end_matches('/');
        volume.write("recipes/count.yaml", recipe);
        volume.write(
            "inventory.yaml",
            &format!(
                "cluster: {namespace}\n{hosts}apply: [{{ recipe: count, on: all }}]\nworker_pods:\n  kubeconfig: {}\n  \
                 context: test\n  namespace: {namespace}\n  image: test.example/forge:1\n  \
                 volume: {{ host_path: {path}, path: {path} }}\n{more}",
                kubeconfig.display()
            ),
        );
        volume
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    fn command(&self, args: &[&str], state: &str) -> Command {
        let mut command = limited(env!("CARGO_BIN_EXE_forge"));
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        command.args(args).current_dir(self.folder.path()).env_clear().env("PATH", path).env("LANG", "C.UTF-8");
        command.env("HOME", self.path("home")).env("FORGE_STATE", self.path(state)).stdin(Stdio::null());
        command
    }

    pub fn forge(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args, "state"), b"")
    }

    /// Starts an apply with workers.
    fn begin(&self) -> RunningForge {
        let args = [&["apply", "inventory.yaml", "--yes", "-q"], &ENGINE[..]].concat();
        // Not by `timeout`: the test kills forge itself.
        let limited = self.command(&args, "state");
        let mut command = Command::new(env!("CARGO_BIN_EXE_forge"));
        command.args(&args).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command.envs(limited.get_envs().filter_map(|(name, value)| Some((name, value?))));
        RunningForge::start_heard(&mut command)
    }

    /// Returns the number of lines that a host's command has written, for a sandbox.
    pub fn count_in_sandbox(&self, inventory: &str, host: &str) -> usize {
        let enter = ["sandbox", "enter", host, "-i", inventory, "--", "cat", "/srv/count"];
        self.forge(&enter).stdout.lines().count()
    }
}

impl Drop for SharedVolume {
    /// Ends the sandboxes, which would outlive their folder.
    fn drop(&mut self) {
        if self.sandboxes {
            for inventory in ["inventory.yaml", "other.yaml"] {
                let _ = self.forge(&["sandbox", "reset", "-i", inventory]);
            }
        }
    }
}

fn fleet_hosts(nodes: &[Node]) -> String {
    let fleet = Fleet::require().expect("nodes come from a fleet");
    let (key, known) = (fleet.key.display(), fleet.known_hosts.display());
    let hosts: String =
        nodes.iter().map(|node| format!("  {}: {{ address: {} }}\n", node.name, node.address)).collect();
    format!("connect: {{ user: root, identity: {key}, known_hosts: {known} }}\nhosts:\n{hosts}")
}

/// Two hosts of the fleet, a volume, and the API with a kubelet in a namespace of its own.
struct Stage {
    api: &'static Cluster,
    nodes: Nodes,
    volume: SharedVolume,
    kubelet: WorkerKubelet,
}

fn stage(namespace: &str, treatment: Treatment) -> Option<Stage> {
    let api = Cluster::require()?;
    stage_with(api, &api.kubeconfig, namespace, treatment)
}

fn stage_with(api: &'static Cluster, kubeconfig: &Path, namespace: &str, treatment: Treatment) -> Option<Stage> {
    let nodes = Fleet::take(2)?;
    let volume = SharedVolume::new(kubeconfig, namespace, &fleet_hosts(&nodes), GATED, "");
    Some(Stage { api, nodes, volume, kubelet: WorkerKubelet::start(api, namespace, treatment) })
}

impl Stage {
    fn open_gates(&self) {
        self.nodes.iter().for_each(|node| drop(node.must("touch /srv/go")));
    }

    fn counts(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.must("wc -l </srv/count")).collect()
    }

    fn wait_for_started(&self) {
        self.nodes.iter().for_each(|node| node.until_exists("/srv/started"));
    }

    fn list_jobs(&self) -> String {
        list_jobs(self.api, self.kubelet.namespace())
    }
}

fn list_jobs(api: &Cluster, namespace: &str) -> String {
    api.kubectl(&["get", "jobs,pods", "-n", namespace, "-o", "name"])
}

/// Pods of deleted Jobs go once their processes have ended.
pub fn nothing_is_left(api: &Cluster, namespace: &str) {
    assert_eq!(api.kubectl(&["get", "jobs", "-n", namespace, "-o", "name"]), "");
    api.wait(|| list_jobs(api, namespace).is_empty());
}

fn has(out: &Output, text: &str) {
    assert!(out.to_string().contains(text), "no `{text}` in: {out}");
}

/// Returns a report without times and names of runs.
fn comparable_report(out: &Output) -> Value {
    let mut report: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|error| panic!("{error}: {out}"));
    remove_keys(&mut report, &["took", "run", "cluster", "plan", "time", "began"]);
    report
}

#[test]
fn worker_pods_report_what_one_process_reports() {
    let Some(api) = Cluster::require() else { return };
    let hosts = "connect: { transport: sandbox }\nhosts: { a: {}, b: {}, c: {}, d: {}, e: {} }\n";
    let recipe = GATED.replace("until test -e /srv/go; do sleep 0.1; done", "true");
    let volume = SharedVolume::new(&api.kubeconfig, "workers-equal", hosts, &recipe, "rollout: { canary: 1 }\n");
    let text = std::fs::read_to_string(volume.path("inventory.yaml")).expect("an inventory");
    volume.write("other.yaml", &text.replacen("cluster: workers-equal", "cluster: other", 1));
    let kubelet = WorkerKubelet::start(api, "workers-equal", Treatment::Start);
    let one = volume.forge(&["apply", "other.yaml", "--yes", "--format", "json"]);
    let engine = ["--engine", "kubernetes", "--workers", "2", "--shard-size", "3"];
    let many = volume.forge(&[&["apply", "inventory.yaml", "--yes", "--format", "json"], &engine[..]].concat());
    assert_eq!((one.code, many.code), (0, 0), "{one}\n{many}");
    assert_eq!(comparable_report(&many), comparable_report(&one));
    for host in ["a", "b", "c", "d", "e"] {
        assert_eq!(volume.count_in_sandbox("inventory.yaml", host), 1, "{host}");
    }
    // Observers of two shards, the canary, and the others of each shard.
    assert_eq!(kubelet.count_started(), 5);
    nothing_is_left(api, "workers-equal");
    let drift = volume.forge(&[&["drift", "inventory.yaml"], &engine[..]].concat());
    assert_eq!(drift.code, 0, "{drift}");
    nothing_is_left(api, "workers-equal");
    assert!(!volume.path("state/workers-equal/engine").join("channels").exists());
}

#[test]
fn killed_worker_pod_is_replaced_and_no_command_runs_twice() {
    let Some(stage) = stage("workers-killed", Treatment::Start) else { return };
    let run = stage.volume.begin();
    stage.wait_for_started();
    let applying = stage.kubelet.running();
    assert_eq!(applying.len(), 2, "{applying:?}");
    let began = stage.kubelet.count_started();
    stage.kubelet.kill(applying[0].1);
    // The replacement begins only after the pod is gone, and waits for the host's lock.
    stage.api.wait(|| stage.kubelet.count_started() > began);
    stage.open_gates();
    let out = run.finish();
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(stage.counts(), ["1", "1"], "{out}");
    nothing_is_left(stage.api, "workers-killed");
}

#[test]
fn pod_that_starts_twice_does_its_task_once() {
    let Some(stage) = stage("workers-twice", Treatment::StartTwice) else { return };
    let run = stage.volume.begin();
    stage.wait_for_started();
    // Both pods of both Jobs; those of the observers end.
    stage.api.wait(|| stage.kubelet.running().len() == 4);
    stage.open_gates();
    let out = run.finish();
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(stage.counts(), ["1", "1"], "{out}");
    nothing_is_left(stage.api, "workers-twice");
    // The second pods of two observers and of two workers.
    let seconds = stage.kubelet.finish_second_starts();
    assert_eq!(seconds.len(), 4, "{seconds:?}");
    let waited = |(code, printed): &(i32, String)| *code == 130 && printed.contains("another pod does this task");
    assert!(seconds.iter().all(waited), "{seconds:?}");
}

/// The second coordinator has another state folder, as on another machine: only the API knows of the first one.
#[test]
fn resume_on_another_machine_ends_the_workers_of_a_killed_coordinator() {
    let Some(stage) = stage("workers-resume", Treatment::Start) else { return };
    let mut run = stage.volume.begin();
    stage.wait_for_started();
    run.kill();
    assert_eq!(stage.kubelet.running().len(), 2);
    let args = [&["resume", "-i", "inventory.yaml", "--yes", "-q"], &ENGINE[..]].concat();
    let mut resume = stage.volume.command(&args, "elsewhere");
    let resume = RunningForge::start_heard(&mut resume);
    // The earlier workers were told to stop, and finish their step.
    stage.api.wait(|| !stage.list_jobs().contains("job.batch/forge-apply"));
    stage.open_gates();
    let out = resume.finish();
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(stage.counts(), ["1", "1"], "{out}");
    stage.api.wait(|| stage.kubelet.running().is_empty());
    nothing_is_left(stage.api, "workers-resume");
    let again = stage.volume.forge(&["plan", "inventory.yaml", "--detailed-exitcode"]);
    assert_eq!(again.code, 0, "{again}");
}

#[test]
fn second_coordinator_names_the_holder_of_the_lock() {
    let Some(stage) = stage("workers-locked", Treatment::Start) else { return };
    let run = stage.volume.begin();
    stage.wait_for_started();
    let args = [&["apply", "inventory.yaml", "--yes"], &ENGINE[..]].concat();
    let second = Output::of(&mut stage.volume.command(&args, "elsewhere"), b"");
    assert_eq!(second.code, 7, "{second}");
    has(&second, "locked by `forge apply inventory.yaml` by ");
    let lease = ["get", "lease", "-n", "workers-locked", "forge-engine-workers-locked"];
    let holder = stage.api.kubectl(&[&lease[..], &["-o", "jsonpath={.spec.holderIdentity}"]].concat());
    has(&second, holder.split(' ').next().expect("a run"));
    stage.open_gates();
    let out = run.finish();
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(stage.counts(), ["1", "1"], "{second}");
    let holder = stage.api.kubectl(&[&lease[..], &["-o", "jsonpath={.spec.holderIdentity}"]].concat());
    assert_eq!(holder, "", "the lock is released");
    nothing_is_left(stage.api, "workers-locked");
}

#[test]
fn image_that_cannot_be_pulled_is_reported_in_time() {
    let Some(api) = Cluster::require() else { return };
    let hosts = "connect: { transport: sandbox }\nhosts: { a: {} }\n";
    let volume = SharedVolume::new(&api.kubeconfig, "workers-image", hosts, GATED, "  start_within: 3s\n");
    let _kubelet = WorkerKubelet::start(api, "workers-image", Treatment::NoImage);
    let out = volume.forge(&[&["apply", "inventory.yaml", "--yes"], &ENGINE[..]].concat());
    assert_eq!(out.code, 4, "{out}");
    has(&out, "it has not started within 3 s: container worker of pod forge-observe-");
    has(&out, "is waiting: ImagePullBackOff: Back-off pulling image \"test.example/forge:1\"");
    nothing_is_left(api, "workers-image");
}

/// Passes connections on to the API, while it is open.
struct ApiGate {
    open: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
    passed: Arc<Mutex<Vec<TcpStream>>>,
    port: u16,
}

impl ApiGate {
    fn start(api: &Cluster) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = api.server.trim_start_matches("https://").to_owned();
        let gate =
            Self { open: Arc::new(AtomicBool::new(true)), refused: Arc::default(), passed: Arc::default(), port };
        let (open, refused, passed) = (gate.open.clone(), gate.refused.clone(), gate.passed.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !open.load(Ordering::Relaxed) {
                    refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let Ok(behind) = TcpStream::connect(&server) else { continue };
                let copies = [(&client, &behind), (&behind, &client)]
                    .map(|(from, to)| (from.try_clone().expect("a stream"), to.try_clone().expect("a stream")));
                for (mut from, mut to) in copies {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
                passed.lock().expect("a lock").extend([client, behind]);
            }
        });
        gate
    }

    fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
        for stream in self.passed.lock().expect("a lock").drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
    }
}

#[test]
fn run_goes_on_while_the_api_is_away() {
    let Some(api) = Cluster::require() else { return };
    let gate = ApiGate::start(api);
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    let own = text.replace(&format!("{}\"", api.server), &format!("https://127.0.0.1:{}\"", gate.port));
    assert_ne!(own, text);
    std::fs::write(&kubeconfig, own).expect("a file");
    let Some(stage) = stage_with(api, &kubeconfig, "workers-away", Treatment::Start) else { return };
    let args = ["apply", "inventory.yaml", "--yes", "--engine", "kubernetes", "--workers", "1", "--shard-size", "1"];
    let mut command = stage.volume.command(&args, "state");
    let run = RunningForge::start_heard(&mut command);
    stage.nodes[0].until_exists("/srv/started");
    gate.close();
    let refused = gate.refused.load(Ordering::Relaxed);
    stage.open_gates();
    // The first host finishes without the API, and the Job for the second one is tried several times.
    stage.nodes[0].until_exists("/srv/done");
    stage.api.wait(|| gate.refused.load(Ordering::Relaxed) > refused + 10);
    assert!(!stage.nodes[1].exists("/srv/started"));
    gate.open();
    let out = run.finish();
    assert_eq!(out.code, 0, "{out}");
    assert_eq!(stage.counts(), ["1", "1"], "{out}");
    nothing_is_left(api, "workers-away");
}

#[test]
fn inventory_that_is_not_on_the_volume_is_refused() {
    let Some(api) = Cluster::require() else { return };
    let site = super::support::Site::new(api, &api.kubeconfig, "test", Helm::No);
    let without = site.forge(&["plan", "inventory.yaml", "--engine", "kubernetes"]);
    assert_eq!(without.code, 64, "{without}");
    has(&without, "`--engine kubernetes` needs `worker_pods` in the inventory");
    let text = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
    site.write(
        "inventory.yaml",
        &format!("{text}worker_pods: {{ image: 'x:1', volume: {{ claim: shared, path: /srv/forge }} }}\n"),
    );
    let outside = site.forge(&["plan", "inventory.yaml", "--engine", "kubernetes"]);
    assert_eq!(outside.code, 64, "{outside}");
    has(&outside, "is not on the volume of the workers, `/srv/forge`");
}
