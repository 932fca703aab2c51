//! A project on simulated hosts: written to a folder, planned and applied by the engine itself.

use super::super::simulated_host::SimulatedConnector;
use super::super::{
    CancelSignal, Event, HostConnector, RunOptions, RunReport, StepResult, apply, attribute_changes, detect_drift,
    observe_for_change, observe_for_drift, observe_hosts, plan, verify,
};
use crate::artifact::{ArtifactCache, ArtifactFetcher};
use crate::config::{self, LoadOptions, Project, StepFilter};
use crate::drift::DriftReport;
use crate::model::{HostName, HostOutcome};
use crate::plan::{Plan, PlanPolicy};
use crate::state::StateStore;
use camino::{Utf8Path, Utf8PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Longer than any of these runs: a test that waits longer has a deadlock.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct SimulatedProject {
    pub dir: tempfile::TempDir,
    pub hosts: Vec<String>,
    pub parallel: usize,
    pub skip: Vec<String>,
    pub timeout: Option<Duration>,
    pub policy: PlanPolicy,
    pub evict_busy: Option<String>,
    /// The machine that forge runs on.
    pub controller: String,
    pub clock: fn() -> jiff::Timestamp,
}

/// The results of a run.
pub struct SimulatedRun {
    pub plan: Plan,
    pub report: RunReport,
    pub events: Vec<Event>,
}

impl SimulatedProject {
    /// Creates hosts `n1` to `nN`. Templates read a host's folder from `vars.root`.
    pub fn new(hosts: usize, apply: &str, recipes: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let hosts: Vec<String> = (1..=hosts).map(|n| format!("n{n}")).collect();
        let stage = Self {
            dir,
            hosts,
            parallel: 16,
            skip: Vec::new(),
            timeout: None,
            policy: PlanPolicy::default(),
            evict_busy: None,
            controller: "test".to_owned(),
            clock: next_second,
        };
        // The user who runs these tests may not be permitted to create namespaces.
        let mut text = "cluster: test\ndrift: { unconfined: true }\nhosts:\n".to_owned();
        for host in &stage.hosts {
            let root = stage.host_root(host);
            std::fs::create_dir_all(root.join(".sim")).unwrap();
            text += &format!("  {host}: {{ connect: {{ command: [forge-sim, {root}] }}, vars: {{ root: {root} }} }}\n");
        }
        std::fs::create_dir(stage.path().join("recipes")).unwrap();
        std::fs::write(stage.path().join("inventory.yaml"), text + apply).unwrap();
        recipes.iter().for_each(|(name, steps)| stage.write_recipe(name, steps));
        stage
    }

    /// Writes a recipe; replaces one of the same name.
    pub fn write_recipe(&self, name: &str, steps: &str) {
        let (user, group) = (run_id_program("-un"), run_id_program("-gn"));
        let steps =
            steps.replace("@root", "{{ vars.root }}").replace("@own", &format!("owner: {user}, group: {group}"));
        let text = format!("recipe: {name}\nsummary: Under test\n{steps}");
        std::fs::write(self.path().join(format!("recipes/{name}.yaml")), text).unwrap();
    }

    /// Returns the folder of the store of a run with workers.
    pub fn store_root(&self) -> Utf8PathBuf {
        self.path().join("engine/run")
    }

    fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.dir.path()).unwrap()
    }

    /// Changes the declaration: `apply` replaces the part of the inventory below the hosts.
    pub fn replace_apply(&self, apply: &str) {
        let path = self.path().join("inventory.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        let hosts = text.split("apply:\n").next().unwrap();
        std::fs::write(path, format!("{hosts}{apply}")).unwrap();
    }

    /// Replaces `drift:`.
    pub fn replace_drift(&self, drift: &str) {
        let path = self.path().join("inventory.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| if line.starts_with("drift:") { drift } else { line }).collect();
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }

    /// Renames the cluster.
    pub fn rename_cluster(&self, cluster: &str) {
        let path = self.path().join("inventory.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        std::fs::write(path, format!("cluster: {cluster}\n{rest}")).unwrap();
    }

    pub fn host_root(&self, host: &str) -> Utf8PathBuf {
        self.path().join(host)
    }

    /// Creates a file next to the inventory.
    pub fn write_input_file(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Creates a file on a host, with its folder.
    pub fn create_host_file(&self, host: &str, file: &str) {
        let path = self.host_root(host).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }

    /// Writes an executable file on a host.
    pub fn write_host_file(&self, host: &str, file: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        self.create_host_file(host, file);
        let path = self.host_root(host).join(file);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn has_file(&self, host: &str, file: &str) -> bool {
        self.host_root(host).join(file).exists()
    }

    pub fn read_file(&self, host: &str, file: &str) -> String {
        std::fs::read_to_string(self.host_root(host).join(file)).unwrap_or_default()
    }

    /// Returns the whole content of a host: paths, sizes and modification times.
    pub fn list_host_files(&self, host: &str) -> String {
        let script = "find . -printf '%p %s %m %C@\\n' | sort";
        let out =
            std::process::Command::new("sh").args(["-c", script]).current_dir(self.host_root(host)).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    }

    pub fn has_record(&self, host: &str, step: &str) -> bool {
        self.has_file(host, &format!("state/applied/test@{}.json", step.replace('/', "%2F")))
    }

    pub fn load_project(&self) -> Project {
        let options =
            LoadOptions { trust: true, embedded: &[], env: &|_| None, programs: crate::config::SecretPrograms::Skip };
        let (project, diags, sources) = config::load_project(&self.path().join("inventory.yaml"), &options);
        let said: Vec<String> = diags.0.iter().map(|diag| crate::diag::render_diag(diag, &sources, false)).collect();
        project.unwrap_or_else(|| panic!("{}", said.join("\n")))
    }

    pub fn run_once(&self) -> SimulatedRun {
        self.run_with(|_| (), |_, _| ())
    }

    /// Runs with a callback `between` plan and apply, and one at each event.
    pub fn run_with(&self, between: impl FnOnce(&Self), at: impl FnMut(&Event, &CancelSignal)) -> SimulatedRun {
        self.run_until_killed(between, at).unwrap_or_else(|| panic!("forge is killed"))
    }

    /// Runs and is killed before the acting script of that number, counted from 0, of a host. Returns the run if it
    /// finished before.
    pub fn run_killed_before(&self, host: &str, number: u32) -> Option<SimulatedRun> {
        self.write_host_file(host, ".sim/dies", &number.to_string());
        let ran = self.run_until_killed(|_| (), |_, _| ());
        ["dies", "dead"]
            .iter()
            .for_each(|file| drop(std::fs::remove_file(self.host_root(host).join(".sim").join(file))));
        ran
    }

    /// Waits until a simulated host reports that forge is dead.
    async fn await_death(&self) {
        while !self.hosts.iter().any(|host| self.has_file(host, ".sim/dead")) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn run_until_killed(
        &self,
        between: impl FnOnce(&Self),
        mut at: impl FnMut(&Event, &CancelSignal),
    ) -> Option<SimulatedRun> {
        let (project, cancel) = (self.load_project(), CancelSignal::default());
        let hosts: Vec<HostName> = self.hosts.iter().map(HostName::new).collect();
        let options = self.run_options();
        let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let observed = observe_for_change(&project, &hosts, &options, &events).await;
            let plan = plan(&project, &observed, &options);
            between(self);
            let mut list = Vec::new();
            let work = apply(&project, &plan, observed, &options, &events, &cancel);
            let listen = async {
                while let Some(event) = heard.recv().await {
                    at(&event, &cancel);
                    list.push(event);
                }
            };
            let report = tokio::select! {
                report = work => report,
                () = self.await_death() => return None,
                () = listen => unreachable!("the sender lives"),
                () = tokio::time::sleep(PATIENCE) => panic!("hosts wait for each other"),
            };
            while let Ok(event) = heard.try_recv() {
                list.push(event);
            }
            Some(SimulatedRun { plan, report, events: list })
        })
    }

    /// Detects drift like `forge drift`, without determining its sources.
    pub fn detect_drift(&self) -> DriftReport {
        self.find_drift(false, || ())
    }

    /// Detects drift and determines its sources, with a callback `between`.
    pub fn detect_attributed_drift(&self, between: impl FnOnce()) -> DriftReport {
        self.find_drift(true, between)
    }

    fn find_drift(&self, accused: bool, between: impl FnOnce()) -> DriftReport {
        let project = self.load_project();
        let hosts: Vec<HostName> = self.hosts.iter().map(HostName::new).collect();
        let options = self.run_options();
        let options = RunOptions { filter: options.filter.limit_to_level(crate::model::VerifyLevel::L4), ..options };
        let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let observed = observe_for_drift(&project, &hosts, false, &options, &events).await;
            let log = StateStore::new(&self.path().join(".forge"), "test").drift_log();
            let mut drift = detect_drift(&project, &observed, &options, Some(&log));
            between();
            if accused {
                attribute_changes(&project, &observed, &mut drift, &options).await;
            }
            drift
        })
    }

    /// Evaluates every step and every `verify` of all hosts.
    pub fn verify_hosts(&self) -> RunReport {
        let project = self.load_project();
        let hosts: Vec<HostName> = self.hosts.iter().map(HostName::new).collect();
        let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
        let options = self.run_options();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let observed = observe_hosts(&project, &hosts, &options, &events).await;
            let plan = plan(&project, &observed, &options);
            verify(&project, &plan, &observed, &options, &events)
        })
    }

    pub fn run_options(&self) -> RunOptions {
        RunOptions {
            rehearsal: false,
            worker: None,
            undo: None,
            parallel: self.parallel,
            timeout: self.timeout,
            confined: false,
            filter: StepFilter::new(&[], &self.skip),
            policy: self.policy,
            evict_busy: self.evict_busy.clone(),
            run: "20261121T093015-4f2a".to_owned(),
            boot_id: Some(controller_boot_id()),
            controller: self.controller.clone(),
            user: "test".to_owned(),
            clock: self.clock,
            control_dir: self.path().to_owned(),
            ssh_variables: Default::default(),
            sandboxes: self.path().join("sandbox"),
            depot: Arc::new(ArtifactFetcher::new(ArtifactCache::new(self.path().join("artifacts")), false)),
            connector: HostConnector::new(SimulatedConnector),
            chart_answers: Default::default(),
            replay: Default::default(),
        }
    }
}

/// Returns the boot id of the machine that runs the tests: the engine never reboots a host with this id.
pub fn controller_boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("tests run on Linux");
    text.trim().to_owned()
}

/// A clock that never returns the same time twice.
fn next_second() -> jiff::Timestamp {
    static TICKS: AtomicI64 = AtomicI64::new(0);
    jiff::Timestamp::from_second(TICKS.fetch_add(1, Ordering::Relaxed)).unwrap()
}

fn run_id_program(flag: &str) -> String {
    let output = std::process::Command::new("id").arg(flag).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl SimulatedRun {
    #[track_caller]
    pub fn host_outcome(&self, host: &str) -> HostOutcome {
        self.report.hosts.iter().find(|h| h.host.as_str() == host).unwrap().outcome
    }

    /// Returns a step's result in one line: `changed`, `skipped: needs …`.
    #[track_caller]
    pub fn describe_step(&self, host: &str, step: &str) -> String {
        let host = self.report.hosts.iter().find(|h| h.host.as_str() == host).unwrap();
        let report = host.steps.iter().find(|report| report.id.to_string() == step);
        let report = report.unwrap_or_else(|| panic!("no {step} in {:#?}", host.steps));
        match &report.result {
            StepResult::Changed => "changed".to_owned(),
            StepResult::AlreadyOk { .. } => "ok".to_owned(),
            StepResult::Cancelled => "cancelled".to_owned(),
            StepResult::NotApplicable { .. } => "not applicable".to_owned(),
            StepResult::Pending { reason } => format!("pending: {}", reason.raw()),
            StepResult::Blocked { reason, .. } => format!("blocked: {}", reason.raw()),
            StepResult::Unknown { reason } => format!("unknown: {}", reason.raw()),
            StepResult::Stale { reason } => format!("stale: {}", reason.raw()),
            StepResult::Held { reason } => format!("held: {}", reason.raw()),
            StepResult::Skipped { reason } => format!("skipped: {}", reason.raw()),
            StepResult::Failed { failure } => format!("failed: {}", failure.why.raw()),
        }
    }

    /// Returns a host's reason and hint, in two lines.
    #[track_caller]
    pub fn host_message(&self, host: &str) -> String {
        let host = self.report.hosts.iter().find(|h| h.host.as_str() == host).unwrap();
        format!("{}\n{}", host.reason.raw(), host.hint.as_ref().map_or("", |hint| hint.raw()))
    }

    pub fn exit_code(&self) -> u8 {
        self.report.exit_code().code()
    }

    /// Returns the position of the first event that `test` accepts.
    #[track_caller]
    pub fn find_event(&self, test: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().position(test).unwrap_or_else(|| panic!("not in {:#?}", self.events))
    }

    #[track_caller]
    pub fn find_host_start(&self, name: &str) -> usize {
        self.find_event(|event| matches!(event, Event::HostStarted { host, .. } if host.as_str() == name))
    }

    #[track_caller]
    pub fn find_host_finish(&self, name: &str) -> usize {
        self.find_event(|event| matches!(event, Event::HostFinished { host, .. } if host.as_str() == name))
    }
}
