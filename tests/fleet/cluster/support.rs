//! The API that the tests of this folder use, and projects that use it.

use crate::support::{Output, limited, lock, variable};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/cluster");

/// The running API, one per process. Its store is empty at the start.
pub struct Cluster {
    /// The administrator's kubeconfig. Its contexts are `test`, and `closed`, where nothing listens; none is current.
    pub kubeconfig: PathBuf,
    /// The same for a user without permissions.
    pub nobody: PathBuf,
    kubectl: PathBuf,
    helm3: PathBuf,
    helm4: PathBuf,
    /// The socket of a proxy that authenticates as the administrator.
    proxy: PathBuf,
    pub server: String,
    /// Address and port of the API for the nodes of the fleet.
    pub address: String,
    /// The variables of the script for this API.
    variables: Vec<(&'static str, String)>,
    /// Held for the life of the process: two test runs must not share it.
    _alone: std::fs::File,
}

/// An API that ends when it is dropped.
pub struct OwnCluster(Cluster);

impl std::ops::Deref for OwnCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        must_with("down", &self.0.variables);
    }
}

/// The helm on the PATH.
#[derive(Clone, Copy, Debug)]
pub enum Helm {
    No,
    Three,
    Four,
}

fn must(verb: &str) -> String {
    must_with(verb, &[])
}

/// Runs a verb of the script with these variables.
fn must_with(verb: &str, variables: &[(&str, String)]) -> String {
    // Building the programs takes minutes; the test stage has done that before.
    let variables = variables.iter().map(|(name, value)| (name, value));
    let out = Output::of(limited(SCRIPT).arg(verb).envs(variables), b"");
    assert!(out.ok(), "cluster: {out}");
    out.stdout
}

impl Cluster {
    /// Returns the API, started by the first call, or `None` after printing why the test is skipped.
    ///
    /// # Panics
    /// If the API cannot run here and `FORGE_CLUSTER=skip` is not set.
    pub fn require() -> Option<&'static Cluster> {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        if std::env::var_os("FORGE_CLUSTER").is_some_and(|value| value == "skip") {
            eprintln!("skipped: FORGE_CLUSTER=skip");
            return None;
        }
        Some(CLUSTER.get_or_init(Cluster::start))
    }

    fn start() -> Cluster {
        Cluster::start_with(Vec::new())
    }

    /// Starts another API, with the same programs and a port at this distance, that ends when it is dropped: for tests
    /// whose scheduler or kubelets other tests would notice.
    pub fn start_own(name: &str, distance: u16) -> OwnCluster {
        let env = must("env");
        let (dir, port) = (variable(&env, "CLUSTER_DIR"), variable(&env, "CLUSTER_PORT"));
        let port: u16 = port.parse().expect("a port");
        OwnCluster(Cluster::start_with(vec![
            ("FORGE_CLUSTER_CACHE", dir.clone()),
            ("FORGE_CLUSTER_DIR", format!("{dir}/{name}")),
            ("FORGE_CLUSTER_PORT", (port + distance).to_string()),
        ]))
    }

    /// Starts the real scheduler.
    pub fn start_scheduler(&self) {
        must_with("scheduler", &self.variables);
    }

    /// Returns a tar with a kubelet for a node of the fleet, and what it needs.
    pub fn node_files(&self) -> Vec<u8> {
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let out = limited(SCRIPT).arg("node").envs(variables).output().expect("it runs");
        assert!(out.status.success(), "cluster node: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    /// Returns a tar for nodes on which kubeadm makes a cluster: packages, images, and what prepares a node.
    pub fn kubeadm_files() -> Vec<u8> {
        let out = limited(SCRIPT).arg("kubeadm").output().expect("it runs");
        assert!(out.status.success(), "cluster kubeadm: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    fn start_with(variables: Vec<(&'static str, String)>) -> Cluster {
        let env = must_with("env", &variables);
        let alone = lock(Path::new(&variable(&env, "CLUSTER_DIR")));
        must_with("up", &variables);
        let path = |name: &str| PathBuf::from(variable(&env, name));
        Cluster {
            kubeconfig: path("CLUSTER_KUBECONFIG"),
            nobody: path("CLUSTER_NOBODY"),
            kubectl: path("CLUSTER_KUBECTL"),
            helm3: path("CLUSTER_HELM3"),
            helm4: path("CLUSTER_HELM4"),
            proxy: path("CLUSTER_PROXY"),
            server: format!("https://127.0.0.1:{}", variable(&env, "CLUSTER_PORT")),
            address: variable(&env, "CLUSTER_ADDRESS"),
            variables,
            _alone: alone,
        }
    }

    /// Returns the socket of a proxy that authenticates as the administrator.
    pub fn proxy_socket(&self) -> &Path {
        &self.proxy
    }

    /// Runs kubectl as the administrator and returns its output without the last newline.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.kubectl_with(args, "").trim_end().to_owned()
    }

    /// Runs kubectl as the administrator, with `input` on stdin.
    ///
    /// # Panics
    /// If it fails.
    pub fn kubectl_with(&self, args: &[&str], input: &str) -> String {
        let out = self.try_kubectl(args, input);
        assert!(out.ok(), "kubectl {args:?}: {out}");
        out.stdout
    }

    /// Runs kubectl as the administrator, which may fail.
    pub fn try_kubectl(&self, args: &[&str], input: &str) -> Output {
        let mut kubectl = limited(&self.kubectl);
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig).args(["--context", "test"]).args(args);
        Output::of(&mut kubectl, input.as_bytes())
    }

    /// Sends a request to the API as the administrator without starting a program: a simulated kubelet sends several
    /// per second. Returns the answer, or `None` if the API rejects the request.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        // HTTP/1.0 has neither chunks nor persistent connections.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut answer = String::new();
        let mut stream = UnixStream::connect(&self.proxy).expect("the proxy");
        stream.write_all((head + &body).as_bytes()).expect("a request");
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).expect("a status");
        status.starts_with('2').then(|| serde_json::from_str(body).expect("JSON"))
    }

    /// Lists the objects at a path of the API: `/api/v1/pods`.
    pub fn list(&self, path: &str) -> Vec<Value> {
        let list = self.ask("GET", path, &Value::Null).expect("a list");
        list["items"].as_array().expect("a list").clone()
    }

    /// Writes the status of an object, like a kubelet for its node and pods. The object may be gone.
    pub fn tell(&self, path: &str, status: &Value) {
        self.ask("PATCH", &format!("{path}/status?fieldManager=kubelet"), &json!({ "status": status }));
    }

    /// Ends a pod, like a kubelet does with a pod that is being deleted.
    pub fn end_pod(&self, pod: &Value) {
        self.ask("DELETE", &pod_path(pod), &json!({ "gracePeriodSeconds": 0 }));
    }

    /// Assigns a pod to a node, like the scheduler.
    pub fn bind_pod(&self, pod: &Value, node: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod["metadata"]["name"] },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        self.ask("POST", &format!("{}/binding", pod_path(pod)), &binding);
    }

    pub fn pods(&self, namespace: &str) -> Vec<Value> {
        self.list(&format!("/api/v1/namespaces/{namespace}/pods"))
    }

    pub fn nodes(&self) -> Vec<Value> {
        self.list("/api/v1/nodes")
    }

    /// Deletes a node from the cluster, if it exists, and the pods that were on it. Without a kubelet nothing else ends
    /// them, and they would be on the next node of this name.
    pub fn forget(&self, node: &str) {
        self.kubectl(&["delete", "node", node, "--ignore-not-found"]);
        let left = |pod: &&Value| pod["spec"]["nodeName"] == *node;
        self.list("/api/v1/pods").iter().filter(left).for_each(|pod| self.end_pod(pod));
    }

    /// Waits until a kubectl command succeeds.
    pub fn until(&self, args: &[&str]) {
        self.wait(|| self.try_kubectl(args, "").ok());
    }

    /// Waits until a condition is true.
    pub fn wait(&self, holds: impl Fn() -> bool) {
        for _ in 0..300 {
            if holds() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        panic!("the condition is not true after 60 s");
    }

    /// Returns the version of the policy API that the server uses for evictions.
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

    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    /// Returns the program, unless there should be none.
    pub fn helm(&self, which: Helm) -> Option<&Path> {
        match which {
            Helm::No => None,
            Helm::Three => Some(&self.helm3),
            Helm::Four => Some(&self.helm4),
        }
    }
}

/// Runs kubectl as the administrator and returns its output.
pub fn kubectl(args: &[&str]) -> String {
    Cluster::require().expect("the API").kubectl_with(args, "")
}

/// Returns the path of a pod in the API.
pub fn pod_path(pod: &Value) -> String {
    let meta = |key: &str| pod["metadata"][key].as_str().expect("text");
    format!("/api/v1/namespaces/{}/pods/{}", meta("namespace"), meta("name"))
}

/// A folder with an inventory of one sandbox and this API, in which forge runs.
pub struct Site {
    dir: tempfile::TempDir,
}

impl Drop for Site {
    /// Ends the sandbox, which would outlive its folder.
    fn drop(&mut self) {
        let out = self.forge(&["sandbox", "reset", "-i", "inventory.yaml"]);
        if !std::thread::panicking() {
            assert!(out.ok(), "{out}");
        }
    }
}

impl Site {
    /// Creates a site that uses a context of a kubeconfig.
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

    /// Runs forge until it ends.
    pub fn forge(&self, args: &[&str]) -> Output {
        Output::of(self.hermetic(&mut limited(env!("CARGO_BIN_EXE_forge")), args), b"")
    }

    /// Returns the command that [`Site::forge`] runs, for a test that signals or kills it. `timeout` must not be between
    /// them: it forwards a signal twice, to its child and to its group, and a killed one leaves its child running.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forge"));
        self.hermetic(&mut command, args);
        command
    }

    fn hermetic<'a>(&self, command: &'a mut Command, args: &[&str]) -> &'a mut Command {
        let path =
            format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", self.path("bin").display());
        command.args(args).current_dir(self.dir.path()).env_clear().env("PATH", path).env("LANG", "C.UTF-8");
        command.env("HOME", self.path("home")).env("FORGE_STATE", self.path("state")).stdin(Stdio::null())
    }
}
