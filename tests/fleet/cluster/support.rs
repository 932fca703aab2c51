//! The API that the tests of this folder talk to, and projects that name it.

use crate::support::{Output, limited, lock, variable};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/cluster");

/// The running API, one per process, with an empty store at its start.
pub struct Cluster {
    /// An administrator's. Its contexts are `test`, and `closed` where nobody answers; none is current.
    pub kubeconfig: PathBuf,
    /// The same of somebody with no rights.
    pub nobody: PathBuf,
    helm3: PathBuf,
    helm4: PathBuf,
    pub server: String,
    /// Address and port by which the nodes of the fleet reach it.
    pub address: String,
    /// Held for the life of the process: two test runs must not share it.
    _alone: std::fs::File,
}

/// Which helm is on the path.
#[derive(Clone, Copy, Debug)]
pub enum Helm {
    No,
    Three,
    Four,
}

fn must(verb: &str) -> String {
    // Building the programs takes minutes: the stage has done that before.
    let out = Output::of(limited(SCRIPT).arg(verb), b"");
    assert!(out.ok(), "cluster: {out}");
    out.stdout
}

impl Cluster {
    /// Returns the API, started by the first call, or `None` after printing why the test is skipped.
    ///
    /// # Panics
    /// When it cannot run here and nobody said `FORGE_CLUSTER=skip`.
    pub fn require() -> Option<&'static Cluster> {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        if std::env::var_os("FORGE_CLUSTER").is_some_and(|value| value == "skip") {
            eprintln!("skipped: FORGE_CLUSTER=skip");
            return None;
        }
        Some(CLUSTER.get_or_init(Cluster::start))
    }

    fn start() -> Cluster {
        let env = must("env");
        let alone = lock(Path::new(&variable(&env, "CLUSTER_DIR")));
        must("up");
        let path = |name: &str| PathBuf::from(variable(&env, name));
        Cluster {
            kubeconfig: path("CLUSTER_KUBECONFIG"),
            nobody: path("CLUSTER_NOBODY"),
            helm3: path("CLUSTER_HELM3"),
            helm4: path("CLUSTER_HELM4"),
            server: format!("https://127.0.0.1:{}", variable(&env, "CLUSTER_PORT")),
            address: variable(&env, "CLUSTER_ADDRESS"),
            _alone: alone,
        }
    }

    /// Returns what kubectl says as an administrator, without the line's end.
    pub fn kubectl(&self, args: &[&str]) -> String {
        let out = Output::of(limited(SCRIPT).arg("kubectl").args(args), b"");
        assert!(out.ok(), "kubectl {args:?}: {out}");
        out.stdout.trim_end().to_owned()
    }

    /// Asks as an administrator, with `input` on stdin.
    ///
    /// # Panics
    /// If it fails.
    pub fn kubectl_with(&self, args: &[&str], input: &str) -> String {
        let out = self.try_kubectl(args, input);
        assert!(out.ok(), "kubectl {args:?}: {out}");
        out.stdout
    }

    /// The same, whatever comes of it.
    pub fn try_kubectl(&self, args: &[&str], input: &str) -> Output {
        Output::of(limited(SCRIPT).arg("kubectl").args(args), input.as_bytes())
    }

    /// Lists objects.
    pub fn get(&self, kind: &str, args: &[&str]) -> Vec<serde_json::Value> {
        let text = self.kubectl_with(&[&["get", kind, "-o", "json"], args].concat(), "");
        let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        list["items"].as_array().expect("a list").clone()
    }

    /// Takes a node out of the cluster, where it is one, with all that was said of it.
    pub fn forget(&self, node: &str) {
        self.kubectl(&["delete", "node", node, "--ignore-not-found"]);
    }

    /// Waits until a question is answered without an error.
    pub fn until(&self, args: &[&str]) {
        self.wait(|| self.try_kubectl(args, "").ok());
    }

    /// Waits until something holds.
    pub fn wait(&self, holds: impl Fn() -> bool) {
        for _ in 0..300 {
            if holds() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        panic!("it does not come");
    }

    /// Returns the version of the policy API by which the server evicts.
    pub fn evictions(&self) -> String {
        let core: serde_json::Value =
            serde_json::from_str(&self.kubectl_with(&["get", "--raw", "/api/v1"], "")).expect("JSON");
        let all = core["resources"].as_array().expect("a list");
        let own = all.iter().find(|one| one["name"] == "pods/eviction").expect("evictions");
        format!("{}/{}", own["group"].as_str().expect("a group"), own["version"].as_str().expect("a version"))
    }

    /// Returns the version of the server: `v1.20.2`.
    pub fn version(&self) -> String {
        let version: serde_json::Value =
            serde_json::from_str(&self.kubectl_with(&["get", "--raw", "/version"], "")).expect("JSON");
        version["gitVersion"].as_str().expect("a version").to_owned()
    }

    /// Returns the program, where there is to be one.
    pub fn helm(&self, which: Helm) -> Option<&Path> {
        match which {
            Helm::No => None,
            Helm::Three => Some(&self.helm3),
            Helm::Four => Some(&self.helm4),
        }
    }
}

/// Runs kubectl as an administrator, and returns what it printed.
///
/// # Panics
/// When it fails.
pub fn kubectl(args: &[&str]) -> String {
    let out = Output::of(limited(SCRIPT).arg("kubectl").args(args), b"");
    assert!(out.ok(), "kubectl {args:?}: {out}");
    out.stdout
}

/// A folder with an inventory of one sandbox and this API, and the forge that runs there.
pub struct Site {
    dir: tempfile::TempDir,
}

impl Drop for Site {
    /// The sandbox would outlive its folder.
    fn drop(&mut self) {
        let out = self.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
        if !std::thread::panicking() {
            assert!(out.ok(), "{out}");
        }
    }
}

impl Site {
    /// Names a context of a kubeconfig.
    pub fn new(cluster: &Cluster, kubeconfig: &Path, context: &str, helm: Helm) -> Site {
        let dir = tempfile::Builder::new().prefix("forge-").tempdir().expect("a temporary directory");
        let site = Site { dir };
        for folder in ["home", "bin"] {
            std::fs::create_dir(site.path(folder)).expect("a folder");
        }
        if let Some(program) = cluster.helm(helm) {
            std::os::unix::fs::symlink(program, site.path("bin/helm")).expect("a link");
        }
        site.write(
            "inventory.yaml",
            &format!(
                "cluster: site\nhosts: {{ box: {{ connect: {{ transport: sandbox }} }} }}\n\
                 kubernetes: {{ kubeconfig: {}, context: {context} }}\n",
                kubeconfig.display()
            ),
        );
        site
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).expect("a file");
    }

    /// Runs forge to its end.
    pub fn forge(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args), b"")
    }

    /// Returns the command that [`Site::forge`] runs.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = limited(env!("CARGO_BIN_EXE_forge"));
        let path =
            format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.path("bin").display());
        command.args(args).current_dir(self.dir.path()).env_clear().env("PATH", path).env("LANG", "C.UTF-8");
        command.env("HOME", self.path("home")).env("FORGE_STATE", self.path("state")).stdin(Stdio::null());
        command
    }
}
